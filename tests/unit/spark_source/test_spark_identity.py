"""Identity: a row gets the same name in every attempt, whatever the order, and no two rows share one."""

from collections import Counter
from itertools import permutations, product

import pytest

from spark_source.naming.identity import BatchName, Identity, bucket_count, digests_of, hash_column, rows_max

NAME = BatchName("query", "7", 7, True)


def names(kind: str, rows: list[bytes], keys: list[bytes] | None = None, buckets: int = 1, **other) -> list:
    scope, window = other.get("scope", "batch"), other.get("window", 100)
    identity = Identity(kind, other.get("name", NAME), other.get("partition", 0), scope, window, buckets)
    digests = digests_of(rows if keys is None else keys)
    named = identity.name_rows(len(rows), digests)
    return [(identity.producer_id(bucket), iid) for bucket, iid in zip(*named, strict=True)]


def test_content_names_do_not_depend_on_order() -> None:
    """All orders of all lists of four rows over three contents."""
    for rows in product([b"a", b"b", b"c"], repeat=4):
        expected = sorted(zip(names("content", list(rows)), rows, strict=True))
        assert len({name for name, _ in expected}) == 4
        for order in permutations(rows):
            assert sorted(zip(names("content", list(order)), order, strict=True)) == expected


def test_content_names_do_not_depend_on_chunks() -> None:
    rows = [b"a", b"b", b"a", b"a"]
    identity = Identity("content", NAME, 0, "batch", 100)
    in_chunks = [identity.name_rows(1, digests_of([row]))[1][0] for row in rows]

    assert in_chunks == Identity("content", NAME, 0, "batch", 100).name_rows(4, digests_of(rows))[1]


@pytest.mark.parametrize("rows", list(product([b"a", b"b", b"c"], repeat=4)))
def test_to_know_which_rows_repeat_changes_no_name(rows: tuple[bytes, ...]) -> None:
    knowing = Identity("content", NAME, 0, "batch", 100)
    digests = digests_of(list(rows))
    knowing.repeated = {number for number, count in Counter(hash_column(digests).to_pylist()).items() if count > 1}

    assert knowing.name_rows(4, digests) == Identity("content", NAME, 0, "batch", 100).name_rows(4, digests)


def test_equal_rows_of_other_partitions_batches_and_sinks_are_other_rows() -> None:
    found = {
        names("content", [b"a"], partition=partition, name=BatchName(sink, batch, int(batch), True))[0]
        for partition in (0, 1)
        for sink in ("q1", "q2")
        for batch in ("0", "1", "4", "5")
    }
    assert len(found) == 16


def test_producers_come_back_every_fourth_batch() -> None:
    def producers(batch: int) -> set[bytes]:
        name = BatchName("q", str(batch), batch, True)
        return {producer for producer, _ in names("content", [b"a", b"b", b"c", b"d"], buckets=4, name=name)}

    assert producers(3) == producers(7)
    assert len({frozenset(producers(batch)) for batch in range(20)}) == 4


def test_key_names_do_not_depend_on_content_or_partition() -> None:
    one = names("key", [b"a", b"b"], [b"k1", b"k2"])
    other = names("key", [b"x", b"y"], [b"k2", b"k1"], partition=5)

    assert one == other[::-1]
    assert names("key", [b"a", b"b"], [b"k", b"k"])[0] == names("key", [b"a"], [b"k"])[0]


def test_scope_stream_knows_a_key_in_every_batch() -> None:
    later = BatchName("query", "8", 8, True)

    assert names("key", [b"a"], [b"k"], scope="stream") == names("key", [b"a"], [b"k"], scope="stream", name=later)
    assert names("key", [b"a"], [b"k"]) != names("key", [b"a"], [b"k"], name=later)


def test_position_names_count_rows_and_change_the_producer_before_its_window_is_full() -> None:
    found = names("position", [b"same"] * 250, window=100)

    assert len(set(found)) == 250
    assert [sum(1 for producer, _ in found if producer.endswith(b":%d" % i)) for i in range(3)] == [100, 100, 50]


@pytest.mark.parametrize(
    ("rows", "window", "buckets"),
    [(0, 10_000, 1), (8_000, 10_000, 1), (8_001, 10_000, 2), (12_001, 10_000, 4), (250_000, 10_000, 64), (81, 100, 2)],
)
def test_the_number_of_buckets_goes_by_the_number_of_rows(rows: int, window: int, buckets: int) -> None:
    assert bucket_count(rows, window) == buckets


@pytest.mark.parametrize("window", [1, 2, 5, 10, 30, 100, 1000])
def test_no_bucket_comes_near_the_end_of_its_window(window: int) -> None:
    rows = [b"%d" % i for i in range(min(20_000, rows_max(window)))]
    found = names("content", rows, buckets=bucket_count(len(rows), window), window=window)
    held: dict[bytes, int] = {}
    for producer, _ in found:
        held[producer] = held.get(producer, 0) + 1

    assert max(held.values()) <= window
