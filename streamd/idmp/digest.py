"""The iid that IDMPAUTO derives from an entry's content."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from xxhash import xxh3_128, xxh3_128_digest

_MASK: Final = (1 << 64) - 1
_MASK_128: Final = (1 << 128) - 1
_LOWEST_BITS: Final = 1 << 64 | 1
_pack_length: Final = Struct("<q").pack
_LENGTHS: Final = tuple(_pack_length(length) for length in range(256))
_unpack_high_low: Final = Struct(">QQ").unpack
_pack_low_high: Final = Struct("<QQ").pack
_int: Final = int.from_bytes

# Up to here joining a pair and hashing it at once is quicker than feeding the hash in two steps.
_JOIN_BYTES_MAX: Final = 2048


def idmpauto_iid(fields: Sequence[bytes], start: int = 0) -> bytes:
    """Return the 16-byte iid of an entry's content, the same for any order of its pairs.

    fields: `[f1, v1, f2, v2, ...]` from index `start` to the end; at least one pair.
    Pairs are a multiset: the same pair given twice makes another iid than given once.
    Each pair is hashed to two halves (XXH3-128 of field, length of the field, value); the iid is, in 64-bit lanes,
    low = sum of lows ^ rotl(xor of highs, 1), high = sum of highs ^ rotl(xor of lows, 1), little endian.
    Source: the formula of Redis 8.6, so both servers give an entry the same iid.
    """
    if len(fields) - start > 2:
        return _iid_of_pairs(fields, start)
    # One pair, the common case, in 128-bit steps, which are quicker than 64-bit lanes. Of the digest
    # written twice, high low high low, bits 63 to 190 are (low, high) rotated left by 1: right in all but the
    # lowest bit of each lane, which holds the other lane's highest; that matters only if those differ.
    field = fields[start]
    value = fields[start + 1]
    length = len(field)
    if length < 256 and len(value) <= _JOIN_BYTES_MAX:
        digest = xxh3_128_digest(field + _LENGTHS[length] + value)
    else:
        digest = _long_pair_digest(field, value)
    twice = _int(digest + digest, "big")
    if digest[0] ^ digest[8] < 128:
        return ((twice ^ twice >> 63) & _MASK_128).to_bytes(16, "little")
    return ((twice ^ twice >> 63 ^ _LOWEST_BITS) & _MASK_128).to_bytes(16, "little")


def idmpauto_iids(names: tuple[bytes, ...], values: Sequence[bytes]) -> Sequence[bytes]:
    """Return the iid of each of several entries with these fields; `values`: one entry's behind the other's.

    A field's digests stand side by side in one long integer. So a few operations mix the pairs of all entries together:
    with one field that takes half the time, with five a quarter.
    """
    width = len(names)
    count = len(values) // width
    if count > _LANES_MAX:
        parts = [values[at : at + width * _LANES_MAX] for at in range(0, len(values), width * _LANES_MAX)]
        return [iid for part in parts for iid in idmpauto_iids(names, part)]
    all_low, all_lowest, all_others, split = _lanes(count)
    if width == 1:
        xor = sums = _digests(names[0], values)
    else:
        # Sums have the lower half of 128 bits, in which those of up to 2**64 pairs do not run over into the next lane.
        sum_low = sum_high = xor = 0
        for place, field in enumerate(names):
            digests = _digests(field, values[place::width])
            sum_low += digests & all_low
            sum_high += digests >> 64 & all_low
            xor ^= digests
        sums = sum_low & all_low | (sum_high & all_low) << 64
    swapped = xor >> 64 & all_low | (xor & all_low) << 64
    mixed = sums ^ (swapped << 1 & all_others | swapped >> 63 & all_lowest)
    return split(mixed.to_bytes(16 * count, "little"))


def _digests(field: bytes, values: Sequence[bytes]) -> int:
    """Return the digests of the pairs of a field and each value side by side, the first one in the lowest bits."""
    length = len(field)
    if length > 255 or len(values[0]) + len(values[-1]) > _JOIN_BYTES_MAX:  # by a look at two
        digests = [_long_pair_digest(field, value) for value in values]
    else:
        head = field + _LENGTHS[length]
        digests = [xxh3_128_digest(head + value) for value in values]
    digests.reverse()
    return _int(b"".join(digests), "big")


# So many entries are mixed together.
_LANES_MAX: Final = 128


@lru_cache(maxsize=_LANES_MAX)
def _lanes(count: int) -> tuple[int, int, int, Callable[[bytes], tuple[bytes, ...]]]:
    """Return masks over `count` digests: the low halves, the lowest bits of both halves, and all other bits; and the
    function that splits bytes into digests.
    """
    low = sum(_MASK << 128 * at for at in range(count))
    lowest = sum(1 << 64 * at for at in range(2 * count))
    return low, lowest, (1 << 128 * count) - 1 ^ lowest, Struct("16s" * count).unpack


def _iid_of_pairs(fields: Sequence[bytes], start: int) -> bytes:
    sum_low = sum_high = xor_low = xor_high = 0
    for i in range(start, len(fields), 2):
        field = fields[i]
        value = fields[i + 1]
        length = len(field)
        if length < 256 and len(value) <= _JOIN_BYTES_MAX:
            high, low = _unpack_high_low(xxh3_128_digest(field + _LENGTHS[length] + value))
        else:
            high, low = _unpack_high_low(_long_pair_digest(field, value))
        sum_low += low
        sum_high += high
        xor_low ^= low
        xor_high ^= high
    return _pack_low_high(
        (sum_low & _MASK) ^ (xor_high << 1 & _MASK | xor_high >> 63),
        (sum_high & _MASK) ^ (xor_low << 1 & _MASK | xor_low >> 63),
    )


def _long_pair_digest(field: bytes, value: bytes) -> bytes:
    hasher = xxh3_128(field)
    hasher.update(_pack_length(len(field)))
    hasher.update(value)
    return hasher.digest()
