"""How IDMPAUTO names an entry by its content."""

from collections.abc import Sequence
from struct import Struct

from xxhash import xxh3_128_intdigest

_MASK = (1 << 64) - 1
_length = Struct("<q").pack
_halves = Struct("<QQ").pack


def idmpauto_iid(fields: Sequence[bytes], start: int = 0) -> bytes:
    """Return the 16-byte iid of an entry's content, the same in whatever order its pairs come.

    fields: `[f1, v1, f2, v2, ...]` from index `start` to the end; at least one pair.
    Pairs are a multiset: the same pair given twice makes another iid than given once.
    Source: the formula of Redis 8.6, so both servers give an entry the same iid.
    """
    sum_low = sum_high = xor_low = xor_high = 0
    for i in range(start, len(fields), 2):
        field = fields[i]
        digest = xxh3_128_intdigest(field + _length(len(field)) + fields[i + 1])
        low = digest & _MASK
        high = digest >> 64
        sum_low += low
        sum_high += high
        xor_low ^= low
        xor_high ^= high
    return _halves(
        (sum_low & _MASK) ^ ((xor_high << 1 | xor_high >> 63) & _MASK),
        (sum_high & _MASK) ^ ((xor_low << 1 | xor_low >> 63) & _MASK),
    )
