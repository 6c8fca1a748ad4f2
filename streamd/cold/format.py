"""The bytes of a segment file around its blocks: header, footer, trailer, and the head of a block.

All numbers are little-endian, and a file consists of
* a header of 64 bytes: `STRMSEG1`, version u16, flags u16 (1: the columns of the blocks are big-endian), 0 u32, number
  u64, salt u64, time of creation in ms u64, 16 zeros, xxh3-64 of the 56 bytes before;
* blocks, each at a multiple of 8, with zeros in between: see `streamd/cold/block.py`;
* a footer with columns over the blocks: see `streamd/cold/index.py`;
* a trailer of 32 bytes: rows u32, bytes of the footer u32, end of the blocks u64, xxh3-64 of the footer and of these
  16 bytes u64, seeded with the salt, `STRMSEGE`.

The salt is random. It is part of each checksum's seed, so bytes of another file are not valid in this one.
"""

import struct
import sys
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

HEADER_BYTES: Final = 64
TRAILER_BYTES: Final = 32
ALIGNMENT: Final = 8
VERSION: Final = 1
BIG_ENDIAN: Final = 1
# The flags of the files that this machine writes, and can read.
FLAGS: Final[int] = BIG_ENDIAN if sys.byteorder == "big" else 0

_MAGIC: Final = b"STRMSEG1"
_END_MAGIC: Final = b"STRMSEGE"
_HEADER: Final = struct.Struct("<8sHHIQQQ16s")
_TRAILER: Final = struct.Struct("<IIQ")
_CHECKSUM: Final = struct.Struct("<Q")


class Damaged(Exception):
    """Bytes of a segment file that are not what was written; the message says which file, where, and what is wrong."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at offset {offset}: {reason}")
        self.path = path
        self.offset = offset
        self.reason = reason


class Unreadable(Exception):
    """A segment file that this version or this machine cannot read; the message names it and says why."""


class Header(NamedTuple):
    """The header of a segment file."""

    number: int
    salt: int
    created_ms: int


class Trailer(NamedTuple):
    """The end of a segment file; checksum: that of the footer, by which a base knows the file."""

    rows: int
    footer_bytes: int
    blocks_end: int
    checksum: int


def encode_header(header: Header) -> bytes:
    """Return the first 64 bytes of a file."""
    head = _HEADER.pack(_MAGIC, VERSION, FLAGS, 0, header.number, header.salt, header.created_ms, bytes(16))
    return head + _CHECKSUM.pack(xxh3_64_intdigest(head))


def decode_header(data: bytes, path: str) -> Header:
    """Return the header of a file from its first 64 bytes. Raises: Damaged, Unreadable."""
    if len(data) < HEADER_BYTES:
        raise Damaged(path, 0, f"the file ends after {len(data)} of the {HEADER_BYTES} bytes of its header")
    magic, version, flags, _, number, salt, created_ms, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise Damaged(path, 0, "it does not begin as a segment file does")
    if _CHECKSUM.unpack_from(data, _HEADER.size)[0] != xxh3_64_intdigest(data[: _HEADER.size]):
        raise Damaged(path, 0, "the header's checksum is wrong")
    if version != VERSION:
        raise Unreadable(
            f"{path} was written by a newer streamd: it has format {version}, and this one knows {VERSION}"
        )
    if flags != FLAGS:
        raise Unreadable(f"{path} was written on a machine that stores numbers in another order of bytes")
    return Header(number, salt, created_ms)


def encode_trailer(footer: bytes, rows: int, blocks_end: int, salt: int) -> tuple[bytes, int]:
    """Return `(the last 32 bytes of a file, the checksum of its footer)`."""
    head = _TRAILER.pack(rows, len(footer), blocks_end)
    checksum = xxh3_64_intdigest(footer + head, salt)
    return head + _CHECKSUM.pack(checksum) + _END_MAGIC, checksum


def decode_trailer(data: bytes, path: str, size: int) -> Trailer:
    """Return the trailer of a file of `size` bytes from its last 32 bytes. Raises: Damaged."""
    offset = size - TRAILER_BYTES
    if len(data) < TRAILER_BYTES or data[-8:] != _END_MAGIC:
        raise Damaged(path, max(offset, 0), "the file does not end as a segment file does: its end is missing")
    rows, footer_bytes, blocks_end = _TRAILER.unpack_from(data)
    if blocks_end < HEADER_BYTES or blocks_end + footer_bytes != offset:
        raise Damaged(path, offset, "the lengths that the trailer says do not add up to the file's size")
    return Trailer(rows, footer_bytes, blocks_end, _CHECKSUM.unpack_from(data, _TRAILER.size)[0])


def check_footer(footer: bytes, trailer_bytes: bytes, trailer: Trailer, salt: int, path: str) -> None:
    """Return if a footer is whole. Raises: Damaged."""
    if xxh3_64_intdigest(footer + trailer_bytes[: _TRAILER.size], salt) != trailer.checksum:
        raise Damaged(path, trailer.blocks_end, "the footer's checksum is wrong")
