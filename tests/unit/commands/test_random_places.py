"""XDEL, XPENDING and sealing where IDs, owners and seqs do not follow each other."""

from random import Random

import pytest

from streamd.stream.log.entry_log import Log
from streamd.stream.wire.entry_encoder import split_ids
from tests.session import Session


@pytest.mark.parametrize("odd", [{}, {3: 1}, {98: 7}, {0: 5}, dict.fromkeys(range(100), 5)])
def test_ids_are_split_whichever_of_them_has_a_seq(odd):
    ids = [(10**12 + 3 * n) << 64 | odd.get(n, 0) for n in range(100)]
    ms, stamps, seq, seqs = split_ids(ids)
    assert stamps is not None
    assert [ms + stamp << 64 | one for stamp, one in zip(stamps, seqs or [seq] * 100, strict=True)] == ids
    assert (seqs is None) == (len(set(odd.values())) == len(odd) // 100)


def test_pending_entries_of_two_owners_in_turn_are_listed_with_their_owners():
    session = Session()
    session.execute(["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"])
    for number in range(12):
        session.execute(["XADD", "s", "*", "f", "v"])
        session.execute(["XREADGROUP", "GROUP", "g", f"c{number % 2}", "COUNT", "1", "STREAMS", "s", ">"])
    assert [row[1] for row in session.execute(["XPENDING", "s", "g", "-", "+", "12"])] == [b"c0", b"c1"] * 6


def test_a_segment_that_loses_most_entries_one_by_one_is_rewritten():
    log = Log(100)
    for number in range(300):
        log.append(number << 64, [b"f", b"%d" % number])
    for number in range(60):  # one of each segment at a time
        assert log.delete_many([number << 64, 100 + number << 64]) == [number << 64, 100 + number << 64]
    assert log._sealed is not None
    assert [segment.count < 60 for segment in log._sealed.segments[:2]] == [True, True]


@pytest.mark.parametrize(
    "id_of",
    [
        lambda n: 10**12 + 3 * n << 64,  # a seq that is the same
        lambda n: 10**12 + n << 64 | 5,
        lambda n: 10**12 + n // 7 << 64 | n % 7,  # seqs that count up in a millisecond
        lambda n: 10**12 + n // 7 << 64 | n % 7 * 300,  # others
        lambda n: 10**12 + n // 7 * 2 << 64 | n % 7 + 10**9,
        lambda n: 10**12 << 64 | 3 * n,  # one millisecond
    ],
)
def test_many_ids_are_deleted_as_each_of_them_is(id_of):
    random = Random(5)
    log, left = Log(100), set[int]()
    for number in range(1000):
        log.append(id_of(number), [b"f", b"%d" % number])
        left.add(id_of(number))
    for size in (1, 20, 100, 100, 300):
        # (Among them are IDs that no entry has, and some twice.)
        ids = [id_of(number) for number in random.choices(range(1000), k=size)]
        ids = [one + random.choice([0] * 40 + [1, -1, 1 << 64, -(one % 2**64)]) for one in ids]
        there = sorted(left.intersection(ids))
        assert log.delete_many(ids) == there
        left.difference_update(there)
        assert log.ids_between() == sorted(left)
        assert len(log) == len(left)
    everything = sorted(left)[::3]
    assert log.delete_many(everything) == everything
