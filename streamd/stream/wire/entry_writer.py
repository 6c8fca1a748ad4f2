"""The RESP of entries of a segment, written byte by byte in the compiled form."""

from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.wire.packed_numbers import IS_NATIVE, NATIVE_BYTES_MAX

try:
    if not IS_NATIVE:
        raise ImportError  # interpreted it would take ten times as long as by columns
    from streamd.stream.wire.native_entries import write_entries
except ImportError:
    WRITES = False
else:  # pragma: no cover - the tests over the wire run compiled
    WRITES = True

# What `write_entries` takes has at most so many bits.
_BITS_MAX = 59


def write(
    ids: tuple[int, bytes | None, bytes | None],
    count: int,
    low: int,
    high: int,
    fields: tuple[bytes, ...],
    lengths: tuple[int, ...] | bytes,
    joined: bytes,
) -> bytes | None:
    """Return the RESP of the entries at positions from `low` to before `high` of a segment of `count` entries; None for
    IDs that are too large, or too small. To be called only if WRITES.

    ids: first_id, stamps and seqs of the segment. fields, lengths: the segment's. joined: the values of all entries one
    behind the other.
    """
    first_id, stamps, seqs = ids
    ms, seq = first_id >> 64, first_id & SEQ_MAX
    if ms >> _BITS_MAX or seq >> _BITS_MAX or (seqs is not None and len(seqs) > NATIVE_BYTES_MAX * count):
        return None
    if stamps is not None:
        if len(stamps) > NATIVE_BYTES_MAX * count or ms < 1000:  # the last three digits are written apart
            return None
        ms -= ms % 1000
    if type(lengths) is tuple:
        return write_entries(ms, stamps, seq, seqs, count, low, high, fields, lengths, b"", joined)
    assert type(lengths) is bytes
    return write_entries(ms, stamps, seq, seqs, count, low, high, fields, None, lengths, joined)
