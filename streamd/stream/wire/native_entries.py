"""The RESP of entries of a segment, written byte by byte in place of the columns of `entry_encoder`.

Compiled, an i64 is C's integer, a byte is read from `bytes` and appended to a BytesWriter without any object, and a
loop over entries is a loop in C. Nobody imports this interpreted: it would take ten times as long as columns do.
"""

from typing import Final

from librt.strings import BytesWriter

from streamd.stream.wire.entry_encoder import KEPT_FIELD_BYTES_MAX, KEPT_FIELDS_MAX
from streamd.stream.wire.native_columns import number_at
from streamd.stream.wire.native_numbers import digits_of, write_number

try:
    from mypy_extensions import i64, u8
except ImportError:
    pass  # compiled code knows them by itself


class _FieldTexts:
    """The RESP in front of each value, in the entries of the segment that was read last.

    Segments of a stream mostly share the tuples of their fields and lengths, so comparing the identity of these tells
    whether the texts are the same again.
    """

    __slots__ = ("fields", "lengths", "texts")

    def __init__(self) -> None:
        self.fields: tuple[bytes, ...] = ()
        self.lengths: tuple[int, ...] | None = None
        self.texts: list[bytes] = []

    def of(self, fields: tuple[bytes, ...], lengths: tuple[int, ...] | None) -> list[bytes]:
        """Return the texts: up to the values' lengths, or, if `lengths` of all entries are given, up to the values."""
        if fields is not self.fields or lengths is not self.lengths:
            texts = [b"\r\n$%d\r\n%b\r\n$" % (len(name), name) for name in fields]
            if lengths is not None:
                texts = [b"%b%d\r\n" % (text, length) for text, length in zip(texts, lengths, strict=True)]
            texts[0] = b"\r\n*%d%b" % (2 * len(fields), texts[0])
            if len(fields) > KEPT_FIELDS_MAX or sum([len(name) for name in fields]) > KEPT_FIELD_BYTES_MAX:
                return texts
            self.fields, self.lengths, self.texts = fields, lengths, texts
        return self.texts


_FIELD_TEXTS: Final = _FieldTexts()
_CRLF: Final = b"\r\n"


def write_entries(
    ms: i64,
    stamps: bytes | None,
    seq: i64,
    seqs: bytes | None,
    count: i64,
    low: i64,
    high: i64,
    fields: tuple[bytes, ...],
    alike: tuple[int, ...] | None,
    lengths: bytes,
    joined: bytes,
) -> bytes:
    """Return the RESP of the entries at positions from `low` to before `high` of a segment of `count` entries.

    stamps, seqs: as in Segment. ms: the number to which stamps are added, a multiple of 1000 if there are stamps. seq:
    that of the entry at position 0. No number has more than 59 bits, no number of a column more than 32.
    fields: the names that all entries have. alike: the lengths of one entry's values if all entries have the same; else
    `lengths` is the packed column of lengths. joined: the values of all entries one behind the other.
    """
    texts = _FIELD_TEXTS.of(fields, alike)
    width: i64 = len(texts)
    stamp_size: i64 = 0 if stamps is None else len(stamps) // count
    seq_size: i64 = 0 if seqs is None else len(seqs) // count
    length_size: i64 = len(lengths) // (count * width)
    writer = BytesWriter()
    head, tail = b"", b"" if stamps is None or seqs is not None else b"-%d" % seq
    known_digits: i64 = -1
    known_thousand: i64 = -1
    thousand: i64 = 0
    last_digits: i64 = 0
    seq_digits: i64 = 0
    at = _offset(alike, lengths, length_size, low * width)
    position = low
    while position < high:
        if stamps is not None:
            last_digits = number_at(stamps, stamp_size, position)
            thousand = last_digits // 1000
            last_digits -= thousand * 1000
        if seqs is not None:
            seq = number_at(seqs, seq_size, position)
            seq_digits = digits_of(seq)
        elif stamps is None:
            seq_digits = digits_of(seq + position)
        if seq_digits != known_digits or thousand != known_thousand:
            known_digits, known_thousand = seq_digits, thousand
            # What all IDs have alike is made once for them.
            front = b"%d-" % ms if stamps is None else b"%d" % (ms // 1000 + thousand)
            id_bytes = len(front) + len(tail) + seq_digits + (0 if stamps is None else 3 if seqs is None else 4)
            head = b"\r\n*2\r\n$%d\r\n%b" % (id_bytes, front)
        writer.write(head if position > low else head[2:])
        if stamps is None:
            write_number(writer, seq + position if seqs is None else seq)
        else:
            writer.append(u8(48 + last_digits // 100))
            writer.append(u8(48 + last_digits // 10 % 10))
            writer.append(u8(48 + last_digits % 10))
            if seqs is None:
                writer.write(tail)
            else:
                writer.append(45)  # a dash
                write_number(writer, seq)
        for place in range(width):
            writer.write(texts[place])
            size: i64 = 0
            if alike is not None:
                size = i64(alike[place])
            else:
                size = number_at(lengths, length_size, position * width + place)
                write_number(writer, size)
                writer.write(_CRLF)
            writer.write(joined[at : at + size])
            at += size
        position += 1
    writer.write(_CRLF)
    return writer.getvalue()


def _offset(alike: tuple[int, ...] | None, lengths: bytes, size: i64, values: i64) -> i64:
    """Return the offset of a value that has so many others in front of it."""
    offset: i64 = 0
    if alike is not None:
        for length in alike:
            offset += i64(length)
        return offset * (values // len(alike))
    for place in range(values):
        offset += number_at(lengths, size, place)
    return offset
