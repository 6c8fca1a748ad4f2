"""The data types of MQTT's packets: numbers, text and binary data, read from a place and written."""

import struct
from typing import Final

from streamd.clients.mqtt.codec.faults import malformed

VARIABLE_MAX = 268_435_455
LENGTH_MAX = 65_535
U16: Final[struct.Struct] = struct.Struct(">H")
U32: Final[struct.Struct] = struct.Struct(">I")


def read_byte(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a byte and the place behind it. Raises: Fault."""
    if at >= end:
        raise malformed("a byte is missing")
    return data[at], at + 1


def read_u16(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of two bytes and the place behind it. Raises: Fault."""
    if at + 2 > end:
        raise malformed("a number of two bytes is cut")
    return data[at] << 8 | data[at + 1], at + 2


def read_u32(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of four bytes and the place behind it. Raises: Fault."""
    if at + 4 > end:
        raise malformed("a number of four bytes is cut")
    return U32.unpack_from(data, at)[0], at + 4


def read_variable(data: bytes, at: int, end: int, *, shortest: bool = True) -> tuple[int, int]:
    """Return a variable byte integer and the place behind it. shortest: longer forms are faults. Raises: Fault."""
    number = 0
    for length in range(4):
        if at + length >= end:
            raise malformed("a variable byte integer is cut")
        byte = data[at + length]
        number |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            if shortest and length and not byte:
                raise malformed("a variable byte integer is longer than needed")
            return number, at + length + 1
    raise malformed("a variable byte integer has more than four bytes")


def read_binary(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    """Return binary data and the place behind it. Raises: Fault."""
    if at + 2 > end:
        raise malformed("the length of a field is cut")
    start = at + 2
    stop = start + (data[at] << 8 | data[at + 1])
    if stop > end:
        raise malformed("a field reaches behind the end of its packet")
    return data[start:stop], stop


def read_text(data: bytes, at: int, end: int) -> tuple[str, int]:
    """Return a UTF-8 string and the place behind it. Raises: Fault."""
    encoded, at = read_binary(data, at, end)
    return text_of(encoded), at


def text_of(encoded: bytes) -> str:
    """Return the text of a UTF-8 string. Raises: Fault."""
    try:
        text = encoded.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"a string is not UTF-8 at byte {error.start}") from None
    if "\0" in text:
        raise malformed("a string has a NUL")
    return text


def variable(number: int) -> bytes:
    """Return a variable byte integer."""
    if number < 0x80:
        return bytes((number,))
    assert number <= VARIABLE_MAX
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def binary(value: bytes) -> bytes:
    """Return binary data with its length before it."""
    assert len(value) <= LENGTH_MAX
    return U16.pack(len(value)) + value


def text(value: str) -> bytes:
    """Return a UTF-8 string with its length before it."""
    return binary(value.encode())
