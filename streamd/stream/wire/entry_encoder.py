"""The RESP of entries, built a run of entries at a time from the columns they are kept in.

An entry is `*2 $ID *2n $field $value ...`. Its bytes are gathered column by column: one list holds a piece of text of
each entry, say the last three digits of its ID, and the pieces of all columns are woven into one list and joined. So
nothing is formatted per entry where a table or a constant will do, which takes a quarter of the time. In here the CRLF
stands in front of each line, so that the end of one constant meets the start of the next; `join` puts that right at
both ends.

A command that adds an entry, `*n $XADD $key $ID $field $value ...`, has the same columns between other constants.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Final

from streamd.resp.template import Column
from streamd.stream.entry_id import SEQ_MAX, format_id
from streamd.stream.id_parts import have_no_seqs, seqs_of, stamps_of

_LAST_DIGITS: Final = [b"%03d" % number for number in range(1000)]
_LAST_DIGITS_AGAIN: Final = _LAST_DIGITS * 4
_DECIMAL: Final = [b"%d" % number for number in range(1000)]
_DASHED: Final = [b"-%d" % number for number in range(1000)]
_DASHED_SIZES: Final = bytes([len(text) for text in _DASHED])
_BULK: Final = [b"\r\n$%d\r\n" % length for length in range(1024)]
_bulk_of: Final = _BULK.__getitem__
_ID: Final = b"\r\n*2\r\n$%d\r\n%b"
# What stands in front of values is kept of so many lists of fields, unless they are long: then it is a small part.
_KEPT_LISTS_MAX: Final = 256
KEPT_FIELDS_MAX: Final = 256
KEPT_FIELD_BYTES_MAX: Final = 4_096

# Less entries are quicker to encode one by one.
WOVEN_MIN: Final = 4

# A run of entry IDs as their parts, `(ms, stamps, seq, seqs)`. stamps: None when all IDs have the milliseconds `ms`;
# else ascending, and `ms`, a multiple of 1000, is to be added to each. seqs: the seq of each; None when they count up
# from `seq` (stamps None) or all are `seq` (stamps given).
IdParts = tuple[int, Sequence[int] | None, int, Sequence[int] | None]


def split_ids(ids: Sequence[int]) -> IdParts:
    """Return the parts of ascending entry IDs, one at least."""
    first, last, length = ids[0], ids[-1], len(ids)
    ms, seq = first >> 64, first & SEQ_MAX
    if last - first == length - 1 and last >> 64 == ms:
        return ms, None, seq, None
    if last >> 64 == ms:
        return ms, None, seq, seqs_of(ids)
    ms -= ms % 1000
    base = ms << 64
    stamps = stamps_of(base, ids)
    if have_no_seqs(base, ids, stamps):
        return ms, stamps, 0, None
    seqs = seqs_of(ids)
    return ms, stamps, seq, None if seqs.count(seq) == length else seqs


def split_fields(
    texts: list[bytes], width: int, length: int
) -> tuple[tuple[bytes, ...] | None, list[bytes], list[int]]:
    """Return `(fields, values, their lengths)` of `length` entries that have `width` texts each.

    When they do not have the same fields: `(None, texts, their lengths)`.
    """
    fields = texts[:width:2]
    if texts[::2] == fields * length:
        values = texts[1::2]
        return tuple(fields), values, list(map(len, values))
    return None, texts, list(map(len, texts))


def _pick(table: Sequence[bytes], indexes: Sequence[int]) -> Sequence[bytes]:
    # Twice as quick as a comprehension.
    return itemgetter(*indexes)(table) if len(indexes) > 1 else [table[indexes[0]]]


def id_columns(ids: IdParts, length: int, start: bytes = _ID) -> tuple[list[Column], bytes]:
    """Return `(columns, tail)`: the pieces of `*2 $ID` of each entry, and the common end of all IDs.

    start: the format of the pieces in place of `*2 $ID`; its arguments are the ID's length and the ID's beginning.
    """
    ms, stamps, seq, seqs = ids
    if stamps is None:
        return _one_ms(ms, seq, seqs, length, start), b""
    first, last = ms + stamps[0], ms + stamps[-1]
    if first < 1000:
        return [_formatted(ms, stamps, seq, seqs, start)], b""
    # A thousand milliseconds share what stands before the last three digits. When most entries have a thousand of their
    # own, formatting each is quicker.
    thousands = last // 1000 - first // 1000 + 1
    if seqs is None:
        tail = b"-%d" % seq
        if thousands == 1:
            text = b"%d" % (first // 1000)
            return [start % (len(text) + 3 + len(tail), text), _last_digits(stamps)], tail
        if thousands <= 1 + length // 8:
            return _by_thousand(ms, stamps, None, len(tail), start), tail
        size = len(b"%d" % first)
        if size == len(b"%d" % last):
            return [start % (size + len(tail), b""), [b"%d" % (ms + stamp) for stamp in stamps]], tail
    elif thousands <= 1 + length // 8 and (greatest := max(seqs)) < 1000:
        same_size = _DASHED_SIZES[greatest] if _DASHED_SIZES[min(seqs)] == _DASHED_SIZES[greatest] else 0
        return [*_by_thousand(ms, stamps, seqs, same_size, start), _pick(_DASHED, seqs)], b""
    return [_formatted(ms, stamps, seq, seqs, start)], b""


def _one_ms(ms: int, seq: int, seqs: Sequence[int] | None, length: int, start: bytes) -> list[Column]:
    text = b"%d-" % ms
    heads: list[bytes] = []
    digits: list[bytes] = []
    done = 0
    while done < length:
        if seqs is not None:
            seq = seqs[done]
        if seq < 1000:
            bound = 10 if seq < 10 else 100 if seq < 100 else 1000
            head = start % (len(text) + len(_DECIMAL[seq]), text)
            table = _DECIMAL
        else:
            bound = (seq // 1000 + 1) * 1000
            shared = b"%b%d" % (text, seq // 1000)
            head = start % (len(shared) + 3, shared)
            table = _LAST_DIGITS
        if seqs is None:
            entries = min(length - done, bound - seq)
            some = table[seq % 1000 : seq % 1000 + entries]
            seq = bound
        else:
            entries = bisect_left(seqs, bound, done, length) - done
            some = [table[seq % 1000] for seq in seqs[done : done + entries]]
        if entries == length:
            return [head, some]
        heads += [head] * entries
        digits += some
        done += entries
    return [heads, digits]


def _by_thousand(
    ms: int, stamps: Sequence[int], seqs: Sequence[int] | None, seq_bytes: int, start: bytes
) -> list[Column]:
    """Return the columns up to the milliseconds' last digit.

    seq_bytes: the length of `-seq` when all have the same length; else 0, and `seqs` must be given.
    """
    length = len(stamps)
    heads: list[bytes] = []
    done = 0
    while done < length:
        thousand = stamps[done] // 1000
        until = length
        if stamps[-1] >= (thousand + 1) * 1000:
            until = bisect_left(stamps, (thousand + 1) * 1000, done, length)
        text = b"%d" % (ms // 1000 + thousand)
        if seq_bytes:
            heads += [start % (len(text) + 3 + seq_bytes, text)] * (until - done)
        else:
            assert seqs is not None
            by_size = [b"", b"", *[start % (len(text) + 3 + size, text) for size in (2, 3, 4)]]
            heads += [by_size[_DASHED_SIZES[seq]] for seq in seqs[done:until]]
        done = until
    return [heads, _last_digits(stamps)]


def _last_digits(stamps: Sequence[int]) -> Sequence[bytes]:
    if stamps[-1] < len(_LAST_DIGITS_AGAIN):
        return _pick(_LAST_DIGITS_AGAIN, stamps)
    return [_LAST_DIGITS[stamp % 1000] for stamp in stamps]


def _formatted(ms: int, stamps: Sequence[int], seq: int, seqs: Sequence[int] | None, start: bytes) -> Column:
    if seqs is None:
        seqs = [seq] * len(stamps)
    texts = [b"%d-%d" % (ms + stamp, seq) for stamp, seq in zip(stamps, seqs, strict=True)]
    return [start % (len(text), text) for text in texts]


def _field_texts(fields: tuple[bytes, ...], lengths: tuple[int, ...] | None) -> list[bytes]:
    """Return the RESP in front of each value of an entry, with the value's own header if `lengths` are given."""
    texts = [b"\r\n$%d\r\n%b" % (len(name), name) for name in fields]
    texts[0] = b"\r\n*%d%b" % (2 * len(fields), texts[0])
    if lengths is not None:
        texts = [b"%b\r\n$%d\r\n" % (text, length) for text, length in zip(texts, lengths, strict=True)]
    return texts


_kept_field_texts: Final = lru_cache(maxsize=_KEPT_LISTS_MAX)(_field_texts)


def _bulk_headers(lengths: Sequence[int]) -> Sequence[bytes]:
    try:
        return _pick(_BULK, lengths)
    except IndexError:
        return [b"\r\n$%d\r\n" % length for length in lengths]


def weave_same_fields(
    ids: IdParts,
    fields: tuple[bytes, ...],
    values: Sequence[bytes],
    lengths: Sequence[int],
    reverse: bool,
) -> tuple[list[bytes], int]:
    """Return the RESP of entries that have the same fields, as `(pieces for join, number of pieces of an entry)`.

    values: those of the first entry, then those of the second, ... lengths: a tuple with the lengths of one entry's
    values if all entries have the same lengths; else a list (or the like) with the length of each value.
    """
    width = len(fields)
    length = len(values) // width
    columns, tail = id_columns(ids, length)
    alike = type(lengths) is tuple
    is_short = width <= KEPT_FIELDS_MAX and sum(map(len, fields)) <= KEPT_FIELD_BYTES_MAX
    texts_of: Callable[..., list[bytes]] = _kept_field_texts if is_short else _field_texts
    head, digits = columns[0], columns[-1]
    if width == 1 and alike and isinstance(head, bytes) and not isinstance(digits, bytes):
        # The form of many streams: without loops over columns they take a tenth less time.
        pieces = [head, b"", tail + texts_of(fields, lengths)[0], b""] * length
        pieces[1::4] = digits[::-1] if reverse else digits
        pieces[3::4] = values[::-1] if reverse else values
        return pieces, 4
    for place, text in enumerate(texts_of(fields, lengths if alike else None)):
        columns.append(tail + text if tail and not place else text)
        if not alike:
            columns.append(_bulk_headers(lengths[place::width]))
        columns.append(values[place::width])
    if reverse:
        columns = [column if type(column) is bytes else column[::-1] for column in columns]
    return _weave(columns, length), len(columns)


def weave_mixed_fields(
    ids: IdParts, widths: Sequence[int], texts: Sequence[bytes], lengths: Sequence[int], reverse: bool
) -> tuple[list[bytes], list[int]]:
    """Return the RESP of entries of any fields, as `(pieces for join, number of pieces of each entry)`.

    texts: fields and values of the first entry, then those of the second, ... lengths: the length of each text. widths:
    the number of texts of each entry.
    """
    columns, tail = id_columns(ids, len(widths))
    heads = _weave(columns, len(widths))
    pairs = list(chain.from_iterable(zip(_bulk_headers(lengths), texts, strict=True)))
    step = len(columns)
    entries = []
    done = 0
    for index, width in enumerate(widths):
        entry = heads[index * step : (index + 1) * step]
        entry.append(b"%b\r\n*%d" % (tail, width))
        entry += pairs[2 * done : 2 * (done + width)]
        entries.append(entry)
        done += width
    if reverse:
        entries.reverse()
    return list(chain.from_iterable(entries)), list(map(len, entries))


def encode_rows(ids: Sequence[int], head: bytes, rests: Column) -> bytes:
    """Return the RESP of rows that begin with an entry ID as a bulk string; ids: ascending, one at least.

    head: the lines in front of the ID; rests: the lines behind it, of each row or of all rows; each line has its CRLF
    in front.
    """
    if len(ids) < WOVEN_MIN:
        behind = [rests] * len(ids) if isinstance(rests, bytes) else rests
        names = map(format_id, ids)
        return join([b"%b\r\n$%d\r\n%b%b" % (head, len(name), name, rest) for name, rest in zip(names, behind)])  # noqa: B905
    return encode_id_rows(split_ids(ids), len(ids), head, rests)


def encode_id_rows(ids: IdParts, length: int, head: bytes, rests: Column) -> bytes:
    """Return the RESP of so many rows as `encode_rows` does."""
    columns, tail = id_columns(ids, length, head + b"\r\n$%d\r\n%b")
    if isinstance(rests, bytes):
        front, digits = columns[0], columns[-1]
        if len(columns) == 2 and isinstance(front, bytes) and not isinstance(digits, bytes):
            # Only the last digits differ: the text between them is the same everywhere.
            between = tail + rests + front
            return front[2:] + between.join(digits) + tail + rests + b"\r\n"
        columns.append(tail + rests)
    else:
        columns += [tail, rests]
    return join(_weave(columns, length))


def _weave(columns: list[Column], length: int) -> list[bytes]:
    step = len(columns)
    pieces = [column if type(column) is bytes else b"" for column in columns] * length
    for place, column in enumerate(columns):
        if type(column) is not bytes:
            pieces[place::step] = column  # type: ignore[assignment]
    return pieces


def entry_ends(pieces: list[bytes], per_entry: int | Sequence[int]) -> list[int]:
    """Return the offset of each entry's end in the RESP that `join` will make of the pieces."""
    # An entry lacks its last CRLF, which the next one has in front; `join` takes away the one in front of the first.
    ends = list(accumulate(map(len, pieces)))
    if isinstance(per_entry, int):
        return ends[per_entry - 1 :: per_entry]
    return [ends[last - 1] for last in accumulate(per_entry)]


def join(pieces: list[bytes]) -> bytes:
    """Return the RESP of entries whose pieces were woven; the list is used up."""
    pieces[0] = pieces[0][2:]
    pieces.append(b"\r\n")
    return b"".join(pieces)


def encode_entry(entry_id: int, fields: Sequence[bytes]) -> bytes:
    """Return the RESP of one entry; the functions above do the same for many at a time."""
    name = f"{entry_id >> 64}-{entry_id & SEQ_MAX}".encode()  # (`format_id`, without the call)
    woven = [b""] * (2 * len(fields))
    try:
        woven[::2] = map(_bulk_of, map(len, fields))
        woven[1::2] = fields
        return b"".join((b"*2", _BULK[len(name)], name, b"\r\n*", _DECIMAL[len(fields)], *woven, b"\r\n"))
    except IndexError:  # a long text, or many
        texts = b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in fields])
        return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(name), name, len(fields), texts)
