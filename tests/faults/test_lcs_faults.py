"""LCS: all rows of the table are compared as long numbers, and answers are those of the table itself."""

import random
from itertools import count, groupby

import pytest

from tests.session import Session


def lcs(one: bytes, other: bytes) -> tuple[bytes, list[list[list[int]]]]:
    """Return what two strings have in common and its runs, the last one first, by the table that Redis makes."""
    rows = [[0] * (len(other) + 1)]
    for byte in one:
        row = [0]
        for at, second in enumerate(other):
            row.append(rows[-1][at] + 1 if byte == second else max(rows[-1][at + 1], row[at]))
        rows.append(row)
    at, second, met = len(one), len(other), []
    while at and second:
        if one[at - 1] == other[second - 1]:
            at, second = at - 1, second - 1
            met.append((at, second))
        elif rows[at - 1][second] > rows[at][second - 1]:
            at -= 1
        else:
            second -= 1
    # What follows each other in both strings is one run: its places differ from its number by the same.
    runs = [
        [pair for _, pair in run]
        for _, run in groupby(enumerate(met), lambda row: (row[0] + row[1][0], row[0] + row[1][1]))
    ]
    return bytes(one[at] for at, _ in reversed(met)), [
        [[run[-1][0], run[0][0]], [run[-1][1], run[0][1]]] for run in runs
    ]


@pytest.mark.parametrize("seed", range(10))
def test_faults2_3_8_what_strings_have_in_common_is_what_redis_finds(engine, seed):
    choose = random.Random(seed)
    for _ in range(150):
        letters = b"abcdefghijklmnopqrstuvwxyz"[: choose.choice([1, 2, 3, 26])]
        one, other = (bytes(choose.choices(letters, k=choose.randrange(choose.choice([3, 12, 70])))) for _ in range(2))
        engine.execute([b"MSET", b"a", one, b"b", other])
        common, runs = lcs(one, other)
        assert engine.do("LCS a b") == common, (one, other)
        assert engine.do("LCS a b LEN") == len(common)
        assert engine.do("LCS a b IDX") == [b"matches", runs, b"len", len(common)], (one, other)


def test_faults2_3_8_long_strings_are_compared_while_others_are_served():
    session = Session()
    choose = random.Random(5)
    text = choose.randbytes(3_000)
    session.execute([b"MSET", b"a", text, b"b", text[:1_500] + text[1_600:]])
    session.client.resume = lambda: None
    ticks = count(step=10**6)
    session.engine.calls.stopwatch = lambda: next(ticks)  # a slice has one piece
    slices = 0
    session.send(["LCS", "a", "b", "LEN"])
    while session.client.backlog:
        session.engine.make_slices(session.client)
        session.client.flush_wanted = False
        slices += 1
    assert slices > 2_000
    assert session.received() == b":2900\r\n"


def test_faults2_3_8_strings_are_compared_as_long_as_redis_does(engine):
    engine.do("SET a " + "x" * 11_000)
    assert engine.do("LCS a a LEN") == 11_000
    engine.do("SET a " + "x" * 12_000)
    assert engine.do("LCS a a LEN").text.startswith("ERR Insufficient memory")
