"""HSCAN: the walk over a hash in pages."""

import pytest

MANY = 5_000


def walk(engine, key, *options):
    cursor, pages = b"0", []
    while True:
        cursor, page = engine.execute(["HSCAN", key, cursor, *options])
        pages.append(dict(zip(page[::2], page[1::2], strict=True)))
        if cursor == b"0":
            return pages


def fill(engine, count, key="h", start=0):
    words = [word for number in range(start, start + count) for word in (f"f{number}", f"v{number}")]
    engine.execute(["HSET", key, *words])


def test_a_large_hash_comes_in_pages_of_count(engine):
    fill(engine, MANY)

    pages = walk(engine, "h", "COUNT", "100")

    assert max(map(len, pages)) <= 100
    assert sum(map(len, pages)) == MANY
    merged = {field: value for page in pages for field, value in page.items()}
    assert merged == {b"f%d" % number: b"v%d" % number for number in range(MANY)}


def test_without_count_a_page_has_ten_fields(engine):
    fill(engine, 1_300)
    assert max(map(len, walk(engine, "h"))) == 10


@pytest.mark.parametrize(("words", "pages"), [([f"f{n}" for n in range(1024)], 1), (["f" * 65, "v"] * 1, 1)])
def test_a_hash_that_redis_keeps_in_a_list_comes_whole(engine, words, pages):
    engine.execute(["HSET", "h", *words])
    found = walk(engine, "h", "COUNT", "1")
    assert len(found) == pages
    assert len(found[0]) == len(words) // 2


def test_a_few_long_values_come_in_pages(engine):
    engine.execute(["HSET", "h", *[word for n in range(30) for word in (f"f{n}", "v" * 65)]])
    assert len(walk(engine, "h", "COUNT", "5")) >= 6


def test_match_filters_a_page_and_does_not_lengthen_it(engine):
    fill(engine, 1_000)
    pages = walk(engine, "h", "MATCH", "f1*", "COUNT", "50")
    assert len(pages) >= 20
    assert sum(map(len, pages)) == 111


def test_fields_that_stay_are_met_whatever_else_comes_and_goes(engine):
    fill(engine, 2_000)
    cursor, found = b"0", []
    step = 0
    while True:
        cursor, page = engine.execute(["HSCAN", "h", cursor, "COUNT", "20"])
        found += page[::2]
        if cursor == b"0":
            break
        engine.execute(["HDEL", "h", *(f"f{number}" for number in range(1_000 + 10 * step, 1_010 + 10 * step))])
        fill(engine, 30, start=10_000 + 30 * step)
        step += 1
    assert {b"f%d" % number for number in range(1_000)} <= set(found)


@pytest.mark.parametrize("line", ["RENAME h other", "COPY h other"])
def test_a_hash_that_moved_is_walked_in_the_same_order(engine, line):
    fill(engine, 500)
    walk(engine, "h", "COUNT", "7")
    engine.do(line)
    fill(engine, 10, key="other", start=900)
    engine.do("HDEL other f1 f2")

    pages = walk(engine, "other", "COUNT", "50")

    assert sum(map(len, pages)) == 508
    if line.startswith("COPY"):
        assert sum(map(len, walk(engine, "h", "COUNT", "50"))) == 500


def test_counts_and_cursors_are_checked(engine):
    fill(engine, 500)
    assert engine.do("HSCAN h x").text == "ERR invalid cursor"
    assert engine.do("HSCAN h 0 COUNT 0").text == "ERR syntax error"
    assert engine.do("HSCAN none 0 COUNT 0") == [b"0", []]


def test_a_cursor_of_thousands_of_digits_is_invalid(engine):
    assert engine.do("SCAN " + "1" * 5000).text == "ERR invalid cursor"
    assert engine.do("SCAN " + "0" * 5000) == [b"0", []]
