"""The bytes below RDB values: lengths, strings, the checksum, and the footer of a DUMP payload.

Source: the format as Redis 7.0 to 8.10 write it. Lengths are big endian, all other numbers little endian.
"""

from struct import Struct
from typing import Final

from anycrc import Model

from streamd.base.errors import FixedError

# The newest version of the format that is read: Redis 8.10's.
VERSION_MAX: Final = 15

# The first two bits of a length tell its form; 0xC0 and more begin a string in another form.
_BITS_14: Final = 0x40
_BITS_32: Final = 0x80
_BITS_64: Final = 0x81
_INT_8: Final = 0xC0
_INT_16: Final = 0xC1
_INT_32: Final = 0xC2
_COMPRESSED: Final = 0xC3

# LZF makes at most 264 bytes of 3.
_EXPANSION_MAX: Final = 88
# A longer string is refused before memory is taken for it: Redis's proto-max-bulk-len.
STRING_BYTES_MAX: Final = 512 * 1024 * 1024
# As much as RESTORE takes by default, and Redis's clients expect.
PAYLOAD_BYTES_MAX: Final = 512 * 1024 * 1024

# Of a footer: the version in 2 bytes, the checksum in 8.
_FOOTER: Final = Struct("<HQ")
_VERSION: Final = Struct("<H")

_BE_32: Final = Struct(">I")
_BE_64: Final = Struct(">Q")
_LE_64: Final = Struct("<q")
_DOUBLE: Final = Struct("<d")

# CRC-64/Jones, as Redis computes it.
_CRC: Final = Model("CRC64-REDIS")


class BadData(Exception):
    """Bytes that are no value in RDB form; the message gives the reason, for people."""


class BadFooter(Exception):
    """A DUMP payload of a newer version, or with a wrong checksum."""


class TooLarge(FixedError):
    """A value whose payload nobody could restore."""

    line = "ERR the payload of this value would have more than 512 MB, which RESTORE does not take; read it in parts"


def checksum(data: bytes, before: int = 0) -> int:
    """Return the CRC-64 of some bytes; before: the checksum of the bytes in front of them."""
    return int(_CRC.calc(data, before))


class Reader:
    """A cursor over bytes in RDB form, which never reads behind their end.

    data: all bytes. at: the index of the next one. end: the index behind the last one that may be read.
    All methods raise BadData where the bytes end too early or say something impossible.
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data = data
        self.at = at
        self.end = len(data) if end is None else end

    def left(self) -> int:
        """Return the number of bytes that are not read yet."""
        return self.end - self.at

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        at = self.at
        if count > self.end - at:
            raise BadData("the bytes end too early")
        self.at = at + count
        return self.data[at : at + count]

    def byte(self) -> int:
        """Return the next byte as a number."""
        at = self.at
        if at >= self.end:
            raise BadData("the bytes end too early")
        self.at = at + 1
        return self.data[at]

    def int64(self) -> int:
        """Return a signed number of 8 bytes, little endian."""
        return int(_LE_64.unpack(self.take(8))[0])

    def double(self) -> float:
        """Return a double of 8 bytes, little endian."""
        return float(_DOUBLE.unpack(self.take(8))[0])

    def length(self) -> int:
        """Return a length: 0 .. 2**64-1."""
        first = self.byte()
        if first < _BITS_14:
            return first
        if first < _BITS_32:
            return (first & 0x3F) << 8 | self.byte()
        if first == _BITS_32:
            return int(_BE_32.unpack(self.take(4))[0])
        if first == _BITS_64:
            return int(_BE_64.unpack(self.take(8))[0])
        raise BadData("a length has no known form")

    def count(self, bytes_each: int = 1) -> int:
        """Return a length that counts things which follow; bytes_each: what one of them takes at least.

        So a caller may make room for so many: there are no more of them than bytes.
        """
        count = self.length()
        if count * bytes_each > self.end - self.at:
            raise BadData("a number is greater than the bytes behind it allow")
        return count

    def string(self) -> bytes:
        """Return a string: plain, compressed, or written as an integer."""
        at = self.at
        if at < self.end and self.data[at] < _BITS_14:
            # The hot path: a short plain string.
            self.at = at + 1
            return self.take(self.data[at])
        first = self.data[at] if at < self.end else -1
        if first < _INT_8:
            return self.take(self.length())
        self.at = at + 1
        if first == _INT_8:
            number = self.byte()
            return b"%d" % (number - 256 if number >= 128 else number)
        if first == _INT_16:
            return b"%d" % int.from_bytes(self.take(2), "little", signed=True)
        if first == _INT_32:
            return b"%d" % int.from_bytes(self.take(4), "little", signed=True)
        if first != _COMPRESSED:
            raise BadData("a string has no known form")
        packed_bytes = self.length()
        plain_bytes = self.length()
        if plain_bytes > min(packed_bytes * _EXPANSION_MAX, STRING_BYTES_MAX):
            raise BadData("a compressed string is longer than it can be")
        return decompressed(self.take(packed_bytes), plain_bytes)


def decompressed(packed: bytes, plain_bytes: int) -> bytes:
    """Return the plain bytes of a string compressed with LZF; plain_bytes: their number. Raises: BadData."""
    plain = bytearray()
    at, end = 0, len(packed)
    while at < end:
        token = packed[at]
        at += 1
        if token < 32:
            behind = at + token + 1
            plain += packed[at:behind]
        else:
            # A copy of bytes from before: 3 bits of length, 13 of distance; a length of 7 has a byte more.
            count = (token >> 5) + 2
            behind = at + 1 if count < 9 else at + 2
            if behind > end:
                break
            if count == 9:
                count += packed[at]
            start = len(plain) - ((token & 31) << 8 | packed[behind - 1]) - 1
            if start < 0:
                raise BadData("a compressed string refers to bytes in front of it")
            some = plain[start : start + count]
            if len(some) < count:
                # The copy runs into itself.
                some = (some * (count // len(some) + 1))[:count]
            plain += some
        at = behind
        if len(plain) > plain_bytes:
            break
    if at != end or len(plain) != plain_bytes:
        raise BadData("a compressed string has another length than it says")
    return bytes(plain)


def write_length(out: bytearray, length: int) -> None:
    """Append a length: 0 .. 2**64-1."""
    if length < 64:
        out.append(length)
    elif length < 1 << 14:
        out.append(_BITS_14 | length >> 8)
        out.append(length & 0xFF)
    elif length < 1 << 32:
        out.append(_BITS_32)
        out += _BE_32.pack(length)
    else:
        out.append(_BITS_64)
        out += _BE_64.pack(length)


def write_string(out: bytearray, text: bytes) -> None:
    """Append a plain string."""
    length = len(text)
    if length < 64:
        out.append(length)
    else:
        write_length(out, length)
    out += text


def write_int64(out: bytearray, number: int) -> None:
    """Append a signed number in 8 bytes, little endian."""
    out += _LE_64.pack(number)


def write_double(out: bytearray, number: float) -> None:
    """Append a double in 8 bytes, little endian."""
    out += _DOUBLE.pack(number)


def with_footer(body: bytes, version: int) -> bytes:
    """Return a DUMP payload: a value behind its type's byte, the version of the format, and the checksum."""
    return body + footer(version, checksum(body))


def footer(version: int, of_body: int) -> bytes:
    """Return the end of a DUMP payload. of_body: the checksum of all before it."""
    said = _VERSION.pack(version)
    return said + checksum(said, of_body).to_bytes(8, "little")


def body_of(payload: bytes) -> Reader:
    """Return a cursor at the type's byte of a DUMP payload, which ends where the footer begins.

    A checksum of 0 is not compared, as in Redis. Raises: BadFooter.
    """
    end = len(payload) - _FOOTER.size
    if end < 0:
        raise BadFooter
    version, said = _FOOTER.unpack_from(payload, end)
    if version > VERSION_MAX or (said and said != checksum(payload[:-8])):
        raise BadFooter
    return Reader(payload, 0, end)
