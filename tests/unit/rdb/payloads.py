"""Payloads: those in payloads.txt, which Redis wrote, with the requests that make their values; and parts of others."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streamd.data.types import KeyValue
from streamd.rdb.bytes import Reader
from streamd.rdb.values import read_value
from streamd.stream.stream import Stream

FILE = Path(__file__).parent / "payloads.txt"
_LONG = re.compile(r"(\w)\^(\d+)")


class Payload(NamedTuple):
    """name: the version of Redis and the type's byte. requests: as words; a word `x^9` is nine letters."""

    name: str
    requests: list[list[str]]
    data: bytes


def payloads() -> Iterator[Payload]:
    """Yield the payloads of the file."""
    for line in FILE.read_text().splitlines():
        if not line.startswith("#"):
            name, requests, data = line.split(" | ")
            lines = _LONG.sub(lambda found: found[1] * int(found[2]), requests).split(" ; ")
            yield Payload(
                name, [one.split() for one in lines], data.encode().decode("unicode_escape").encode("latin-1")
            )


def new_stream() -> Stream:
    """Return an empty stream with the default settings."""
    return Stream(100, 100, 100)


def read(data: bytes) -> KeyValue:
    """Return the value behind its type's byte; all bytes must be its own."""
    reader = Reader(data)
    value = read_value(reader.byte(), reader, new_stream)
    assert reader.left() == 0
    return value


def ziplist_of(elements: list[bytes | int]) -> bytes:
    """Return a ziplist as Redis wrote it before 7.0."""
    body, last, before = b"", 0, 0
    for element in elements:
        if isinstance(element, bytes):
            size = len(element)
            if size < 64:
                head = bytes((size,))
            elif size < 1 << 14:
                head = bytes((0x40 | size >> 8, size & 255))
            else:
                head = b"\x80" + size.to_bytes(4, "big")
            head += element
        elif 0 <= element <= 12:
            head = bytes((0xF1 + element,))
        else:
            forms = [(1, b"\xfe"), (2, b"\xc0"), (3, b"\xf0"), (4, b"\xd0"), (8, b"\xe0")]
            size, first = next(form for form in forms if -1 << 8 * form[0] - 1 <= element < 1 << 8 * form[0] - 1)
            head = first + element.to_bytes(size, "little", signed=True)
        said = bytes((before,)) if before < 254 else b"\xfe" + before.to_bytes(4, "little")
        last = len(body)
        before = len(said + head)
        body += said + head
    return struct.pack("<IIH", 11 + len(body), 10 + last, len(elements)) + body + b"\xff"


def string(data: bytes) -> bytes:
    """Return a string in RDB form."""
    return b"\x80" + len(data).to_bytes(4, "big") + data
