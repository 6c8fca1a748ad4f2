"""Lists: a place in the middle is found as quickly as one at an end."""

from time import process_time

import pytest

MANY = 300_000


@pytest.fixture
def large(engine):
    elements = [b"element:%d" % number for number in range(MANY)]
    for at in range(0, MANY, 10_000):
        engine.execute([b"RPUSH", b"l", *elements[at : at + 10_000]])
    return engine


@pytest.mark.parametrize("line", [
    "LRANGE l 150000 150009", "LRANGE l -150000 -149991", "LINDEX l 150000", "LSET l 150001 w",
])  # fmt: skip
def test_faults2_3_8_the_middle_of_a_long_list_is_found_at_once(large, line):
    seconds = []
    for _ in range(3):
        start = process_time()
        for _ in range(200):
            large.do(line)
        seconds.append(process_time() - start)
    assert min(seconds) < 0.04  # (LRANGE: 150 ms before, 2 ms now)


def test_faults2_3_8_parts_of_a_long_list_are_its_elements(large):
    for start, stop in [(0, 3), (255, 257), (149_999, 150_600), (-5, -1), (-MANY, -MANY + 1), (MANY - 1, MANY + 7)]:
        found = large.execute(["LRANGE", "l", start, stop])
        places = range(start % MANY, min(stop, MANY - 1) % MANY + 1)
        assert found == [b"element:%d" % place for place in places]
    for start, stop in [(5, 4), (MANY, MANY), (-1, -2), (0, -MANY - 1)]:
        assert large.execute(["LRANGE", "l", start, stop]) == []


def test_faults2_3_8_a_place_in_the_middle_changes_as_in_any_list(large):
    assert large.do("LINSERT l BEFORE element:150000 new") == MANY + 1
    assert large.do("LRANGE l 149999 150001") == [b"element:149999", b"new", b"element:150000"]
    large.do("LSET l -150000 other")
    assert large.do("LINDEX l 150001") == b"other"
    large.do("LTRIM l 149999 150002")
    assert large.do("LRANGE l 0 -1") == [b"element:149999", b"new", b"other", b"element:150001"]
    assert large.do("LLEN l") == 4
