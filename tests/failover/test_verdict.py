"""What a run of failovers finds: entries that are lost, there twice, or in another order."""

import pytest

from tests.failover.verdict import Verdict, judge, judge_once


def entries(*numbers: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [(b"%d-0" % place, {b"p": b"svc", b"n": b"%d" % number}) for place, number in enumerate(numbers, 1)]


@pytest.mark.parametrize(
    ("told", "numbers", "counts"),
    [
        ({0: b"1-0", 1: b"2-0"}, (0, 1), (0, 0, 0)),
        ({0: b"1-0"}, (0, 1, 2), (0, 0, 0)),
        ({0: b"1-0", 1: b"2-0"}, (0,), (1, 0, 0)),
        ({0: b"9-0"}, (0,), (1, 0, 0)),
        ({0: b"1-0"}, (0, 1, 0), (1, 1, 0)),
        ({}, (0, 2, 1, 3), (0, 0, 1)),
    ],
)
def test_each_finding_is_counted_as_what_it_is(told, numbers, counts):
    verdict = Verdict()
    judge(verdict, {"svc": told}, entries(*numbers))
    assert (verdict.lost, verdict.doubled, verdict.reordered) == counts
    assert verdict.is_exact == (not any(counts))


def test_a_result_is_there_once():
    verdict = Verdict()
    judge_once(verdict, "results", [b"a", b"b", b"c"], [b"b", b"a", b"b"])
    assert (verdict.lost, verdict.doubled) == (1, 1)
    assert verdict.examples == ["doubled: ('results', b'b')", "lost: ('results', b'c')"]
