"""Listpacks, ziplists and intsets: the packed forms in which Redis keeps small collections and the nodes of streams."""

from array import array
from collections.abc import Iterable, Sequence
from sys import byteorder
from typing import Final

from streamd.rdb.bytes import BadData

# Of a listpack: its size in 4 bytes, its number of elements in 2; at last 0xFF.
_LISTPACK_HEADER_BYTES: Final = 6
# Of a ziplist: its size, the place of the last element, their number.
_ZIPLIST_HEADER_BYTES: Final = 10
# So many elements or more are not counted in a header.
_UNCOUNTED: Final = 0xFFFF
_END: Final = 0xFF
_INTSET_CODES: Final = {2: "h", 4: "i", 8: "q"}

# An element that is an integer in its pack stays one: the nodes of streams count with some of them.
Element = bytes | int


def texts_of(elements: Iterable[Element]) -> list[bytes]:
    """Return elements as the strings that they stand for."""
    return [b"%d" % element if isinstance(element, int) else element for element in elements]


def _int(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little", signed=True)


def listpack(data: bytes) -> list[Element]:
    """Return the elements of a listpack. Raises: BadData."""
    end = len(data) - 1
    if end < _LISTPACK_HEADER_BYTES or int.from_bytes(data[:4], "little") != end + 1 or data[end] != _END:
        raise BadData("a listpack has another size than it says")
    elements: list[Element] = []
    at = _LISTPACK_HEADER_BYTES
    while at < end:
        first = data[at]
        if first < 0x80:
            size = 1
            elements.append(first)
        elif first < 0xC0:
            size = 1 + (first & 0x3F)
            elements.append(data[at + 1 : at + size])
        elif first < 0xE0:
            size = 2
            number = (first & 0x1F) << 8 | data[at + 1]
            elements.append(number - 0x2000 if number & 0x1000 else number)
        elif first < 0xF0:
            size = 2 + ((first & 0x0F) << 8 | data[at + 1])
            elements.append(data[at + 2 : at + size])
        elif first == 0xF0:
            size = 5 + int.from_bytes(data[at + 1 : at + 5], "little")
            elements.append(data[at + 5 : at + size])
        elif first < 0xF5:
            size = 9 if first == 0xF4 else first - 0xEE
            elements.append(_int(data, at + 1, size - 1))
            size = len(data[at : at + size])
        else:
            raise BadData("an element of a listpack has no known form")
        at += size
        if at >= end:
            raise BadData("an element of a listpack ends behind it")
        if size < 128:
            if data[at] != size:
                raise BadData("an element of a listpack has another size than it says")
            at += 1
        else:
            length = _backwards(size)
            if data[at : at + len(length)] != length:
                raise BadData("an element of a listpack has another size than it says")
            at += len(length)
    count = int.from_bytes(data[4:6], "little")
    if at != end or count not in (len(elements), _UNCOUNTED):
        raise BadData("a listpack has another number of elements than it says")
    return elements


def _backwards(size: int) -> bytes:
    """Return the size of an element as it stands behind it: 7 bits a byte, to be read from the last byte on."""
    # (The bounds are Redis's own, which leave out the greatest numbers.)
    count = 1 if size <= 127 else 2 if size < 16383 else 3 if size < 2097151 else 4 if size < 268435455 else 5
    groups = [size >> 7 * place & 127 for place in range(count - 1, -1, -1)]
    return bytes([groups[0], *[group | 128 for group in groups[1:]]])


# The elements for integers and short strings are made of these.
_SMALL: Final = [bytes((number, 1)) for number in range(128)]
_HEADS: Final = [bytes((0x80 | length,)) for length in range(64)]
_TAILS: Final = [bytes((length + 1,)) for length in range(64)]


def integer_element(number: int) -> bytes:
    """Return the element of a listpack for a signed 64-bit integer."""
    if 0 <= number < 128:
        return _SMALL[number]
    if -4096 <= number < 4096:
        return bytes((0xC0 | number >> 8 & 0x1F, number & 0xFF, 2))
    for size, first in ((2, 0xF1), (3, 0xF2), (4, 0xF3)):
        if -1 << 8 * size - 1 <= number < 1 << 8 * size - 1:
            return bytes((first,)) + number.to_bytes(size, "little", signed=True) + bytes((size + 1,))
    return b"\xf4" + number.to_bytes(8, "little", signed=True) + b"\x09"


def string_element(text: bytes) -> bytes:
    """Return the element of a listpack for a string."""
    length = len(text)
    if length < 64:
        return _HEADS[length] + text + _TAILS[length]
    if length < 4096:
        head = bytes((0xE0 | length >> 8, length & 0xFF))
    else:
        head = b"\xf0" + length.to_bytes(4, "little")
    return head + text + _backwards(len(head) + length)


def listpack_of(elements: Sequence[bytes]) -> bytes:
    """Return a listpack of elements in their form in a pack."""
    packed = b"".join(elements)
    size, count = _LISTPACK_HEADER_BYTES + len(packed) + 1, min(len(elements), _UNCOUNTED)
    return b"%b%b%b\xff" % (size.to_bytes(4, "little"), count.to_bytes(2, "little"), packed)


def ziplist(data: bytes) -> list[Element]:
    """Return the elements of a ziplist, which Redis wrote before 7.0. Raises: BadData."""
    end = len(data) - 1
    if end < _ZIPLIST_HEADER_BYTES or int.from_bytes(data[:4], "little") != end + 1 or data[end] != _END:
        raise BadData("a ziplist has another size than it says")
    elements: list[Element] = []
    at = last = _ZIPLIST_HEADER_BYTES
    while at < end:
        before, last = at - last, at
        said, at = (int.from_bytes(data[at + 1 : at + 5], "little"), at + 5) if data[at] == 0xFE else (data[at], at + 1)
        if said != before or at >= end:
            raise BadData("an element of a ziplist has another size than it says")
        first = data[at]
        at += 1
        if first < 0xC0:
            if first < 0x40:
                length = first
            elif first < 0x80:
                length = (first & 0x3F) << 8 | data[at]
                at += 1
            elif first == 0x80:
                length = int.from_bytes(data[at : at + 4], "big")
                at += 4
            else:
                raise BadData("an element of a ziplist has no known form")
            elements.append(data[at : at + length])
            at += length
        elif 0xF1 <= first <= 0xFD:
            elements.append(first - 0xF1)
        elif (size := _ZIPLIST_INTS.get(first)) is not None:
            elements.append(_int(data, at, size))
            at += size
        else:
            raise BadData("an element of a ziplist has no known form")
        if at > end:
            raise BadData("an element of a ziplist ends behind it")
    count = int.from_bytes(data[8:10], "little")
    if int.from_bytes(data[4:8], "little") != last or count not in (len(elements), _UNCOUNTED):
        raise BadData("a ziplist has other elements than it says")
    return elements


_ZIPLIST_INTS: Final = {0xC0: 2, 0xD0: 4, 0xE0: 8, 0xF0: 3, 0xFE: 1}


def intset(data: bytes) -> list[bytes]:
    """Return the members of an intset. Raises: BadData."""
    size, count = int.from_bytes(data[:4], "little"), int.from_bytes(data[4:8], "little")
    code = _INTSET_CODES.get(size)
    if code is None or len(data) != 8 + size * count:
        raise BadData("an intset has another size than it says")
    numbers = array(code, data[8:])
    if byteorder == "big":
        numbers.byteswap()
    members = numbers.tolist()
    if any(map(int.__ge__, members, members[1:])):
        raise BadData("the members of an intset are not in order")
    return [b"%d" % member for member in members]
