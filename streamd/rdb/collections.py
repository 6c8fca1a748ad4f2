"""Lists, sets, hashes and sorted sets in RDB form: every encoding that Redis 7.0 to 8.10 writes, or reads from before.

They are written in the plain encodings, which all these versions read; a hash with times in the one that has them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import inf, isnan, nan
from typing import Final

from streamd.data.element_list import ElementList
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import times_of, with_times
from streamd.rdb.bytes import BadData, Reader, write_double, write_int64, write_length, write_string
from streamd.rdb.packs import Element, intset, listpack, texts_of, ziplist

# The types that are written.
LIST: Final = 1
SET: Final = 2
HASH: Final = 4
SORTED_SET: Final = 5
TIMED_HASH: Final = 24

# How a node of a list says that it is one element, or a listpack of them.
_PLAIN_NODE: Final = 1
_PACKED_NODE: Final = 2
# The first byte of a score written as text, where it is no length.
_SCORES: Final = {253: nan, 254: inf, 255: -inf}
# Times of fields end here, as in Redis.
_FIELD_TIME_MS_MAX: Final = 2**48 - 2
# So many elements are one piece: a few ten microseconds.
_PIECE_ELEMENTS: Final = 256


def _filled(elements: list[bytes]) -> list[bytes]:
    if not elements:
        raise BadData("a collection is empty")
    return elements


def _list(elements: list[bytes]) -> ElementList:
    return ElementList(_filled(elements))


def _set(members: list[bytes]) -> MemberSet:
    value = MemberSet(_filled(members))
    if len(value) != len(members):
        raise BadData("a set has a member twice")
    return value


def _hash(words: list[bytes]) -> Hash:
    value = Hash()
    if len(_filled(words)) % 2 or value.set_fields(words) * 2 != len(words):
        raise BadData("a hash has a field twice, or without a value")
    return value


def _timed_hash(rows: list[tuple[bytes, bytes, int]]) -> Hash:
    """Return a hash of rows (field, value, Unix ms of its end or 0)."""
    value = _hash([word for row in rows for word in row[:2]])
    for field, _, time_ms in rows:
        if not 0 <= time_ms <= _FIELD_TIME_MS_MAX:
            raise BadData("the time of a field is too far away")
        if time_ms:
            with_times(value).times.set(field, time_ms)
    return value


def _sorted_set(members: Sequence[bytes], scores: Sequence[float]) -> SortedSet:
    rows = dict(zip(members, scores, strict=True))
    if not rows or len(rows) != len(members) or any(map(isnan, scores)):
        raise BadData("a sorted set has a member twice, or a score that is no number")
    return SortedSet(rows)


def _packed_sorted_set(elements: list[Element]) -> SortedSet:
    if len(elements) % 2:
        raise BadData("a member has no score")
    return _sorted_set(texts_of(elements[::2]), [_score(element) for element in elements[1::2]])


def _score(element: Element) -> float:
    """Return a score that stands in a pack, or as text."""
    try:
        return float(element)
    except (ValueError, OverflowError):
        raise BadData("a score is no number")


def _strings(reader: Reader, each: int = 1) -> list[bytes]:
    """Return strings behind their number; each: how many strings are counted as one."""
    string = reader.string
    return [string() for _ in range(reader.count(each) * each)]


def _read_scores(reader: Reader) -> SortedSet:
    members: list[bytes] = []
    scores: list[float] = []
    for _ in range(reader.count(9)):
        members.append(reader.string())
        scores.append(reader.double())
    return _sorted_set(members, scores)


def _read_text_scores(reader: Reader) -> SortedSet:
    members: list[bytes] = []
    scores: list[float] = []
    for _ in range(reader.count(2)):
        members.append(reader.string())
        length = reader.byte()
        scores.append(_SCORES[length] if length in _SCORES else _score(reader.take(length)))
    return _sorted_set(members, scores)


def _read_nodes(reader: Reader) -> ElementList:
    elements: list[bytes] = []
    for _ in range(reader.count(2)):
        container, node = reader.length(), reader.string()
        if container == _PLAIN_NODE:
            elements.append(node)
        elif container == _PACKED_NODE:
            elements += texts_of(listpack(node))
        else:
            raise BadData("a node of a list has no known form")
    return _list(elements)


def _read_old_nodes(reader: Reader) -> ElementList:
    elements: list[bytes] = []
    for node in _strings(reader):
        elements += texts_of(ziplist(node))
    return _list(elements)


def _read_timed_hash(reader: Reader) -> Hash:
    first_ms = reader.int64()
    rows: list[tuple[bytes, bytes, int]] = []
    for _ in range(reader.count(3)):
        behind_ms = reader.length()
        field = reader.string()
        rows.append((field, reader.string(), first_ms + behind_ms - 1 if behind_ms else 0))
    return _timed_hash(rows)


def _read_timed_listpack(reader: Reader) -> Hash:
    reader.int64()  # the first time
    elements = listpack(reader.string())
    if len(elements) % 3:
        raise BadData("a field has no value, or no time")
    times_ms = [element for element in elements[2::3] if isinstance(element, int)]
    if len(times_ms) * 3 != len(elements):
        raise BadData("the time of a field is no number")
    return _timed_hash([*zip(texts_of(elements[::3]), texts_of(elements[1::3]), times_ms, strict=True)])


READERS: Final[dict[int, Callable[[Reader], ElementList | MemberSet | Hash | SortedSet]]] = {
    LIST: lambda reader: _list(_strings(reader)),
    SET: lambda reader: _set(_strings(reader)),
    3: _read_text_scores,
    HASH: lambda reader: _hash(_strings(reader, 2)),
    SORTED_SET: _read_scores,
    10: lambda reader: _list(texts_of(ziplist(reader.string()))),
    11: lambda reader: _set(intset(reader.string())),
    12: lambda reader: _packed_sorted_set(ziplist(reader.string())),
    13: lambda reader: _hash(texts_of(ziplist(reader.string()))),
    14: _read_old_nodes,
    16: lambda reader: _hash(texts_of(listpack(reader.string()))),
    17: lambda reader: _packed_sorted_set(listpack(reader.string())),
    18: _read_nodes,
    20: lambda reader: _set(texts_of(listpack(reader.string()))),
    TIMED_HASH: _read_timed_hash,
    25: _read_timed_listpack,
}


def list_pieces(value: ElementList) -> Iterator[bytes]:
    """Yield a list behind its type's byte."""
    return _string_pieces(len(value), value)


def set_pieces(value: MemberSet) -> Iterator[bytes]:
    """Yield a set behind its type's byte."""
    return _string_pieces(len(value), value)


def hash_pieces(value: Hash) -> Iterator[bytes]:
    """Yield a hash behind its type's byte: TIMED_HASH if a field has a time."""
    times_ms = times_of(value)
    if not times_ms:
        return _string_pieces(len(value), chain.from_iterable(value.items()))
    return _timed_pieces(value, times_ms)


def _string_pieces(count: int, strings: Iterable[bytes]) -> Iterator[bytes]:
    out = bytearray()
    write_length(out, count)
    left = iter(strings)
    while part := list(islice(left, _PIECE_ELEMENTS)):
        for text in part:
            write_string(out, text)
        yield bytes(out)
        out.clear()


def _timed_pieces(value: Hash, times_ms: dict[bytes, int]) -> Iterator[bytes]:
    out = bytearray()
    first_ms = min(times_ms.values())
    write_int64(out, first_ms)
    write_length(out, len(value))
    left = iter(value.items())
    while part := list(islice(left, _PIECE_ELEMENTS)):
        for field, text in part:
            time_ms = times_ms.get(field)
            write_length(out, 0 if time_ms is None else time_ms - first_ms + 1)
            write_string(out, field)
            write_string(out, text)
        yield bytes(out)
        out.clear()


def sorted_set_pieces(value: SortedSet) -> Iterator[bytes]:
    """Yield a sorted set behind its type's byte."""
    out = bytearray()
    write_length(out, len(value))
    left = iter(value.scores.items())
    while part := list(islice(left, _PIECE_ELEMENTS)):
        for member, score in part:
            write_string(out, member)
            write_double(out, score)
        yield bytes(out)
        out.clear()
