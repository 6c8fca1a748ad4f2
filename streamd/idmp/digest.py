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

    With one field, five operations on long integers mix all entries together, which takes half the time.
    """
    width, count = len(names), len(values)
    if width > 1:
        columns = [column for at, name in enumerate(names) for column in ([name] * (count // width), values[at::width])]
        return [_iid_of_pairs(fields, 0) for fields in zip(*columns, strict=True)]
    if count > _LANES_MAX:
        parts = [values[at : at + _LANES_MAX] for at in range(0, count, _LANES_MAX)]
        return [iid for part in parts for iid in idmpauto_iids(names, part)]
    field = names[0]
    if len(field) > 255 or len(values[0]) + len(values[-1]) > _JOIN_BYTES_MAX:  # by a look at two
        return [idmpauto_iid((field, value)) for value in values]
    head = field + _LENGTHS[len(field)]
    digests = [xxh3_128_digest(head + value) for value in values]
    digests.reverse()  # the first one in the lowest bits
    together = _int(b"".join(digests), "big")
    all_low, all_lowest, all_others, split = _lanes(count)
    swapped = together >> 64 & all_low | (together & all_low) << 64
    mixed = together ^ (swapped << 1 & all_others | swapped >> 63 & all_lowest)
    return split(mixed.to_bytes(16 * count, "little"))


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
