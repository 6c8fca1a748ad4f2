"""Frames: whole, byte by byte, split everywhere, damaged anywhere; and the ring of the last ones against a list."""

import random

import pytest

from streamd.replication.frame import Ask, Frame, FrameError, FrameReader, Time, make_ask, make_frame, make_time
from streamd.replication.frame_ring import FrameRing

ID = "0123456789abcdef" * 2 + "01234567"
NOW_MS = 1_700_000_000_000
BODIES = [
    b"*1\r\n$4\r\nPING\r\n",
    b"x",
    b"#streamd note A 0 b\n",
    bytes(range(256)) * 3,
    b"#streamd ship 0 1 1 0\n",
    b"#streamd time 1\n",
]


def frames() -> list[Frame]:
    made, at = [], 7
    for body in BODIES:
        made.append(make_frame(ID, at, at + len(body), body))
        at += len(body)
    return made


def stream() -> bytes:
    first, *others = frames()
    between = make_ask(first.after) + b"\n\n" + make_time(NOW_MS) + make_time(0)
    return b"\n" + first.data + between + b"".join(one.data for one in others) + make_time(NOW_MS + 1_000)


def expected() -> list[Frame | Ask | Time]:
    first, *others = frames()
    return [first, Ask(first.after), Time(NOW_MS), Time(0), *others, Time(NOW_MS + 1_000)]


def test_a_stream_is_read_whole_byte_by_byte_and_split_anywhere():
    data = stream()
    assert list(FrameReader(ID, 7).feed(data)) == expected()
    for size in (1, 2, 3, 50):
        reader = FrameReader(ID, 7)
        found = [one for at in range(0, len(data), size) for one in reader.feed(data[at : at + size])]
        assert found == expected()
    for cut in range(len(data) + 1):
        reader = FrameReader(ID, 7)
        assert [*reader.feed(data[:cut]), *reader.feed(data[cut:])] == expected()
        assert reader.offset == frames()[-1].after
        assert reader.waiting_bytes == 0


def test_bodies_are_what_was_sent():
    assert [one.body for one in frames()] == BODIES


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_stream_never_gives_another_frame(seed):
    chance = random.Random(seed)
    data = bytearray(stream())
    good = expected()
    for _ in range(200):
        place = chance.randrange(len(data))
        bit = 1 << chance.randrange(8)
        data[place] ^= bit
        found = []
        try:
            found.extend(FrameReader(ID, 7).feed(bytes(data)))
        except FrameError:
            pass
        shipped = [one for one in found if isinstance(one, Frame)]
        assert shipped == [one for one in good if isinstance(one, Frame)][: len(shipped)]
        data[place] ^= bit


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "is no frame"),
        (b"#streamd time -5\n", "is no frame"),
        (b"#streamd time 12345678901234567890\n", "is no frame"),
        (b"#streamd time 5 5\n", "is no frame"),
        (b"x" * 200, "too long"),
        (b"#streamd ship 7 8 9999999999 0123456789abcdef\n", "too long"),
        (b"#streamd ship 6 8 1 0123456789abcdef\n", "does not continue 7"),
        (b"#streamd ship 7 7 1 0123456789abcdef\n", "does not continue 7"),
        (b"#streamd ship 7 8 1 0123456789abcdef\nx", "checksum"),
    ],
)
def test_what_is_no_frame_is_refused_before_its_bytes_are_waited_for(data, problem):
    with pytest.raises(FrameError, match=problem):
        list(FrameReader(ID, 7).feed(data))


def test_a_frame_of_another_history_or_place_is_refused():
    frame = make_frame(ID, 7, 9, b"ab")
    with pytest.raises(FrameError, match="checksum"):
        list(FrameReader("f" * 40, 7).feed(frame.data))
    moved = frame.data.replace(b"ship 7 9", b"ship 8 9")
    with pytest.raises(FrameError, match="checksum"):
        list(FrameReader(ID, 8).feed(moved))


def test_the_last_frames_of_the_history_before_may_come_first():
    earlier, later = make_frame("e" * 40, 7, 9, b"ab"), make_frame(ID, 9, 10, b"c")
    assert list(FrameReader(ID, 7, "e" * 40).feed(earlier.data + later.data)) == [earlier, later]


@pytest.mark.parametrize("seed", range(50))
def test_the_ring_has_the_last_frames(seed):
    chance = random.Random(seed)
    bytes_max = chance.choice([0, 100, 500])
    ring, made = FrameRing(5, 0, bytes_max), []
    at = 5
    for _ in range(60):
        body = b"b" * chance.randint(1, 60)
        frame = make_frame(ID, at, at + len(body), body)
        made.append(frame)
        keep = chance.choice([None, None, ring.start, at])
        ring.append(frame, keep)
        at = frame.after
        assert ring.end == at
        kept = [one for one in made if one.before >= ring.start]
        assert ring.size_bytes == sum(len(one.data) for one in kept)
        assert ring.size_bytes <= bytes_max or keep is not None
        hashes = {5: 0} | {one.after: one.hash for one in made}
        for offset in range(5, at + 2):
            is_kept = offset in hashes and offset >= ring.start
            for last in (0, 1, hashes.get(offset, 2)):
                assert ring.has(offset, last) == (is_kept and last == hashes[offset])
            if is_kept and offset < at:
                assert ring.next(offset) == next(one for one in kept if one.before == offset)
            elif offset < ring.start or at > offset:
                with pytest.raises(LookupError):
                    ring.next(offset)
        assert ring.next(at) is None
