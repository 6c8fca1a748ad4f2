"""Commands as RESP, written byte by byte by compiled code, in place of the templates of `streamd.journal.record`.

Compiled, C copies a word to a BytesWriter, and a length or the seq of an ID is written without any object. Interpreted,
it would take ten times as long as a template, and is never imported.
"""

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter

from streamd.data.records import RecordColumn
from streamd.stream.entry_id import SEQ_MAX
from streamd.stream.wire.native_numbers import digits_of, write_number

try:
    from mypy_extensions import i64, u8
except ImportError:
    pass  # compiled code knows them by itself

_CRLF: Final = b"\r\n"
# Numbers below that are C's integers, with room to count up.
_NUMBER_MAX: Final = 10**17
# Longer words are copied less often by a format.
_WORD_BYTES_MAX: Final = 4096


def _write_length(writer: BytesWriter, length: i64) -> None:
    writer.append(u8(36))
    write_number(writer, length)
    writer.write(_CRLF)


def encode_words(words: Sequence[bytes]) -> bytes | None:
    """Return a command, as `encode_command` does; None if a template is faster."""
    listed = words if isinstance(words, list) else list(words)
    writer = BytesWriter()
    writer.append(u8(42))
    write_number(writer, len(listed))
    writer.write(_CRLF)
    for word in listed:
        if len(word) > _WORD_BYTES_MAX:
            return None
        _write_length(writer, len(word))
        writer.write(word)
        writer.write(_CRLF)
    return writer.getvalue()


def encode_units(columns: Sequence[RecordColumn]) -> list[bytes] | None:
    """Return commands that are alike, given by the places of their words, as `encode_columns` does; None if a template
    is faster, or a number is too large.
    """
    writer = BytesWriter()
    writer.append(u8(42))
    write_number(writer, len(columns))
    writer.write(_CRLF)
    heads: list[bytes] = []  # in front of each place that differs: the end of the word before, and shared words
    words: list[tuple[bytes, ...]] = []
    id_place: i64 = -1
    ms_text = b""
    seq: i64 = 0
    count: i64 = 0
    for column in columns:
        if isinstance(column, bytes):
            _write_length(writer, len(column))
            writer.write(column)
            writer.write(_CRLF)
            continue
        heads.append(writer.getvalue())
        writer.truncate(0)
        writer.write(_CRLF)
        if isinstance(column, range):
            first = column.start
            ms, first_seq = first >> 64, first & SEQ_MAX
            if id_place >= 0 or first_seq > _NUMBER_MAX:
                return None
            id_place = len(words)
            seq = first_seq
            count = len(column)
            ms_text = b"%d-" % ms
            words.append(())
        else:
            texts = column if isinstance(column, tuple) else tuple(column)
            count = len(texts)
            if len(texts[0]) > _WORD_BYTES_MAX:
                return None
            words.append(texts)
    tail = writer.getvalue()
    places: i64 = len(words)
    id_head = b""
    bound: i64 = 0  # from which seq on IDs are longer
    units: list[bytes] = []
    at: i64 = 0
    while at < count:
        writer.truncate(0)
        place: i64 = 0
        while place < places:
            if place == id_place:
                if seq >= bound:
                    digits = digits_of(seq)
                    bound = 10**digits
                    id_head = b"%b$%d\r\n%b" % (heads[place], len(ms_text) + digits, ms_text)
                writer.write(id_head)
                write_number(writer, seq)
                seq += 1
            else:
                word = words[place][at]
                writer.write(heads[place])
                _write_length(writer, len(word))
                writer.write(word)
            place += 1
        writer.write(tail)
        units.append(writer.getvalue())
        at += 1
    return units
