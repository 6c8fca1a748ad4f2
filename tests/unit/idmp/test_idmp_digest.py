"""IDMPAUTO's name for an entry, against known vectors and the formula written out slowly."""

import random
from itertools import permutations

import pytest
import xxhash

from streamd.idmp.digest import idmpauto_iid, idmpauto_iids


def obvious_iid(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """Compute the formula in the words it is written down in, one step at a time."""
    two_64 = 2**64

    def rotate_left_by_1(lane: int) -> int:
        bits = f"{lane:064b}"
        return int(bits[1:] + bits[0], 2)

    lows, highs = [], []
    for field, value in pairs:
        digest = xxhash.xxh3_128_intdigest(field + len(field).to_bytes(8, "little") + value, seed=0)
        lows.append(digest % two_64)
        highs.append(digest // two_64)
    xor_of_lows = xor_of_highs = 0
    for low, high in zip(lows, highs, strict=True):
        xor_of_lows ^= low
        xor_of_highs ^= high
    low = sum(lows) % two_64 ^ rotate_left_by_1(xor_of_highs)
    high = sum(highs) % two_64 ^ rotate_left_by_1(xor_of_lows)
    return low.to_bytes(8, "little") + high.to_bytes(8, "little")


def flat(pairs: list[tuple[bytes, bytes]]) -> list[bytes]:
    return [word for pair in pairs for word in pair]


VECTORS = [
    ([(b"f", b"v")], "6e95729ee727f0814aedffba55730079"),
    ([(b"amount", b"100"), (b"currency", b"USD")], "e11c9a7017ea4839b25824062c8d8c50"),
    ([(b"f", b"v"), (b"f", b"v")], "9a79073b2d2a35cba229f103f1b26a64"),
    ([(b"", b"")], "1a9f7ebbaea1d61d30b6b8daa3e38da7"),
    ([(b"field", bytes(range(100)))], "efc270f820b17b14d6463ed7866a5f76"),
    ([(b"field", b"x" * 200)], "073d01cef352ee261f62498308a20f90"),
]


@pytest.mark.parametrize(("pairs", "iid"), VECTORS)
def test_known_content_has_its_known_iid(pairs, iid):
    assert idmpauto_iid(flat(pairs)).hex() == iid
    assert obvious_iid(pairs).hex() == iid


@pytest.mark.parametrize("start", [1, 2, 5])
def test_what_stands_before_the_start_does_not_count(start):
    for pairs, iid in VECTORS:
        assert idmpauto_iid([b"XADD"] * start + flat(pairs), start).hex() == iid


LENGTHS = [0, 1, 7, 8, 16, 17, 128, 129, 240, 241, 255, 256, 257, 2047, 2048, 2049, 5000]


@pytest.mark.parametrize("field_length", LENGTHS)
@pytest.mark.parametrize("value_length", LENGTHS)
def test_content_of_every_length_follows_the_formula(field_length, value_length):
    rng = random.Random(field_length * 10_007 + value_length)
    pair = rng.randbytes(field_length), rng.randbytes(value_length)
    assert idmpauto_iid(flat([pair])) == obvious_iid([pair])
    pairs = [pair, (rng.randbytes(3), rng.randbytes(value_length)), pair]
    assert idmpauto_iid(flat(pairs)) == obvious_iid(pairs)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 100])
def test_random_pairs_follow_the_formula(count):
    rng = random.Random(count)
    for _ in range(1000 // count):  # with one pair, each of the four cases of highest bits comes some 250 times
        pairs = [(rng.randbytes(rng.randrange(9)), rng.randbytes(rng.randrange(20))) for _ in range(count)]
        assert idmpauto_iid(flat(pairs)) == obvious_iid(pairs)


def test_the_order_of_pairs_does_not_matter():
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", b"1")]
    assert len({idmpauto_iid(flat(list(order))) for order in permutations(pairs)}) == 1


def test_contents_that_look_alike_have_different_iids():
    contents = [
        [(b"a", b"bc")], [(b"ab", b"c")], [(b"abc", b"")], [(b"", b"abc")],
        [(b"f", b"v")], [(b"v", b"f")], [(b"f", b"v")] * 2, [(b"f", b"v")] * 3,
        [(b"a", b"1"), (b"b", b"2")], [(b"a", b"2"), (b"b", b"1")],
    ]  # fmt: skip
    assert len({idmpauto_iid(flat(content)) for content in contents}) == len(contents)


@pytest.mark.parametrize("count", [*range(1, 20), 127, 128, 129, 300])
def test_the_iids_of_many_entries_are_those_of_each(count):
    rng = random.Random(count)
    for pairs in (1, 2, 3, 8):
        for longest in (0, 9, 3000):
            names = tuple(rng.randbytes(rng.choice((1, 5, 300))) for _ in range(pairs))
            values = [rng.randbytes(rng.randint(0, longest)) for _ in range(count * pairs)]
            entries = [
                flat(list(zip(names, values[at : at + pairs], strict=True))) for at in range(0, len(values), pairs)
            ]
            assert list(idmpauto_iids(names, values)) == [idmpauto_iid(entry) for entry in entries]
