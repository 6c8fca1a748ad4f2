"""BITCOUNT and BITPOS: what they answer for every range, and that a long string takes no longer than it must."""

import random
from itertools import count
from time import process_time

import pytest

from tests.session import Session

LONG = 32 * 1024 * 1024


def bits_of_range(length: int, words: list[str]) -> tuple[int, int]:
    """Return the bits that `[start end [BYTE | BIT]]` names, the end not included."""
    unit = 1 if words[2:] == ["BIT"] else 8
    total = length * 8 // unit
    start, end = (int(word) for word in words[:2]) if words else (0, -1)
    start = max(0, start + total) if start < 0 else start
    end = min(max(0, end + total) if end < 0 else end, total - 1)
    return (start * unit, (end + 1) * unit) if start <= end else (0, 0)


@pytest.mark.parametrize("seed", range(8))
def test_faults2_3_8_bits_are_counted_and_found_in_every_range(engine, seed):
    choose = random.Random(seed)
    for _ in range(400):
        length = choose.choice([1, 2, 3, 5, 20, 300])
        text = bytes(choose.choice([0, 0, 255, 255, choose.randrange(256)]) for _ in range(length))
        if choose.random() < 0.3:
            text = choose.choice([b"\0", b"\xff"]) * length
        engine.execute([b"SET", b"k", text])
        shown = "".join(f"{byte:08b}" for byte in text)
        words: list[str] = []
        if choose.random() < 0.8:
            words = [str(choose.randrange(-9 * length, 9 * length)) for _ in range(2)]
            words += choose.choice([[], ["BIT"], ["BYTE"]])
        start, end = bits_of_range(length, words)
        is_before = bool(words) and 0 > int(words[0]) > int(words[1])
        assert engine.execute(["BITCOUNT", "k", *words]) == (0 if is_before else shown[start:end].count("1"))
        for bit in "01":
            place = shown.find(bit, start, end)
            if place < 0 and bit == "0" and not words and start < end:
                place = end
            assert engine.execute(["BITPOS", "k", bit, *words]) == (place if start < end else -1), (text, bit, words)


@pytest.mark.parametrize("place", [0, 65_535, 65_536, 65_537, 70_000, 200_000 - 1])
@pytest.mark.parametrize("bit", [0, 1])
def test_faults2_3_8_a_bit_is_found_across_pages(engine, bit, place):
    text = bytearray((b"\xff", b"\0")[bit] * 200_000)
    text[place] ^= 0x10
    engine.execute([b"SET", b"k", bytes(text)])
    assert engine.execute(["BITPOS", "k", bit]) == 8 * place + 3
    assert engine.execute(["BITPOS", "k", bit, place]) == 8 * place + 3
    assert engine.execute(["BITPOS", "k", bit, 0, 8 * place + 2, "BIT"]) == -1
    assert engine.execute(["BITPOS", "k", bit, place + 1, -1]) == -1


def test_faults2_3_8_a_bit_far_away_is_found_at_once(engine):
    engine.execute([b"SETRANGE", b"k", LONG, b"\1"])
    engine.execute(["GET", "k"])
    seconds = []
    for _ in range(3):
        start = process_time()
        assert engine.execute(["BITPOS", "k", 1]) == 8 * LONG + 7
        seconds.append(process_time() - start)
    assert min(seconds) < 0.015  # (it took 30 ms and more)


def test_faults2_3_8_the_bits_of_a_long_string_are_counted_while_others_are_served():
    session = Session()
    text = random.Random(1).randbytes(5 * 1024 * 1024)
    session.execute([b"SET", b"k", text])
    session.client.resume = lambda: None
    ticks = count(step=10**6)
    session.engine.calls.stopwatch = lambda: next(ticks)  # a slice has one piece
    slices = 0
    session.send(["BITCOUNT", "k", 1, -2])
    while session.client.backlog:
        session.engine.make_slices(session.client)
        session.client.flush_wanted = False
        slices += 1
    assert slices > 2
    expected = int.from_bytes(text[1:-1]).bit_count()
    assert session.received() == b":%d\r\n" % expected
    session.do("MULTI")
    session.do("BITCOUNT k")
    assert session.do("EXEC") == [int.from_bytes(text).bit_count()]
