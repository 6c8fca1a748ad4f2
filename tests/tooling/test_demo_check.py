"""The comparison that decides the demo finds what it is there to find."""

import itertools

import pytest
from rich.console import Console

from demo import feed
from demo.__main__ import report
from demo.check import compare
from demo.show import StreamResult

EXPECTED = {"a": {"f": "1"}, "b": {"f": "2"}, "c": {"f": "3"}}
EXACT = list(EXPECTED.items())


def test_the_same_entries_in_any_order_are_exact():
    for order in itertools.permutations(EXACT):
        result = compare(EXPECTED, order)
        assert result.exact
        assert result.first_differences() == []


@pytest.mark.parametrize("index", range(3))
def test_a_lost_entry_is_found(index):
    result = compare(EXPECTED, EXACT[:index] + EXACT[index + 1 :])

    assert result.lost == [EXACT[index][0]]
    assert not result.exact


@pytest.mark.parametrize("index", range(3))
def test_a_duplicated_entry_is_found(index):
    result = compare(EXPECTED, [*EXACT, EXACT[index]])

    assert result.duplicated == [EXACT[index][0]]
    assert not result.exact


@pytest.mark.parametrize("fields", [{"f": "9"}, {}, {"f": "1", "g": ""}, {"g": "1"}])
def test_an_altered_entry_is_found(fields):
    result = compare(EXPECTED, [("a", fields), *EXACT[1:]])

    assert result.altered == ["a"]
    assert not result.exact


def test_an_entry_that_nobody_expected_is_found():
    result = compare(EXPECTED, [*EXACT, ("d", {})])

    assert result.altered == ["d"]
    assert not result.exact


def test_one_lost_and_one_duplicated_entry_do_not_make_up_for_each_other():
    result = compare(EXPECTED, [EXACT[0], EXACT[0], EXACT[2]])

    assert (result.found, result.lost, result.duplicated) == (3, ["b"], ["a"])
    assert result.first_differences() == ["lost: b", "duplicated: a"]


def test_the_feed_is_the_same_at_every_run_and_survives_its_file(tmp_path):
    feed.write(tmp_path / "feed.jsonl", 500)

    read = list(feed.read(tmp_path / "feed.jsonl"))

    assert read == list(feed.orders(500))
    assert len({order["order"] for order in read}) == 500
    assert {order["shop"] for order in read} == set(feed.SHOPS)


@pytest.mark.parametrize(
    ("currency", "quantity", "cents", "eur_cents", "size"),
    [
        ("EUR", 2, 4_999, "9998", "small"),
        ("EUR", 2, 5_000, "10000", "large"),
        ("USD", 1, 2_771, "2390", "small"),  # 2,389.99 rounds up
        ("SEK", 1, 5, "0", "small"),  # 0.456 rounds down
    ],
)
def test_an_order_is_enriched_to_the_cent(currency, quantity, cents, eur_cents, size):
    order: feed.Order = {"order": "o-1", "shop": "Basel", "item": "mug"}
    order |= {"quantity": quantity, "cents": cents, "currency": currency}

    row = feed.enriched(feed.as_fields(order))

    assert row["country"] == "Switzerland"
    assert (row["eur_cents"], row["size"]) == (eur_cents, size)


def result(duplicates: int = 5, found: list[tuple[str, dict[str, str]]] | None = None) -> StreamResult:
    return StreamResult("orders", "producers", 8, duplicates, compare(EXPECTED, EXACT if found is None else found))


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result(), result()], 0),
        ([result(), result(duplicates=0)], 1),
        ([result(duplicates=0), result()], 1),
        ([result(found=EXACT[1:]), result()], 1),
        ([result(), result(found=[*EXACT, EXACT[0]])], 1),
        ([result(), result(found=[("a", {}), *EXACT[1:]])], 1),
    ],
)
def test_the_demo_fails_when_an_entry_is_wrong_or_when_no_duplicate_was_suppressed(results, code):
    rows = [feed.enriched(feed.as_fields(order)) for order in feed.orders(50)]

    assert report(Console(quiet=True), results, rows) == code
