"""The payload of FUNCTION DUMP: the code of each library as an RDB file has it, and the footer."""

from collections.abc import Iterable
from typing import Final

from streamd.rdb.bytes import VERSION_MAX, BadData, BadFooter, Reader, body_of, with_footer, write_string

LIBRARY: Final = 0xF5
_OLD_LIBRARY: Final = 0xF6  # of a release candidate of Redis 7.0

_COMPRESSED: Final = 0xC3  # begins a compressed string

_OLD_FORMAT: Final = "Pre-GA function format not supported"
_WRONG_FOOTER: Final = "DUMP payload version or checksum are wrong"
_WRONG_LIBRARY: Final = "Failed loading library payload"


def dump_libraries(codes: Iterable[bytes]) -> bytes:
    """Return the payload that holds these libraries."""
    out = bytearray()
    for code in codes:
        out.append(LIBRARY)
        write_string(out, code)
    return with_footer(bytes(out), VERSION_MAX)


def read_libraries(payload: bytes, bytes_max: int) -> list[bytes]:
    """Return the codes of a payload. Raises: BadData, with Redis's text.

    bytes_max: how many bytes the compressed ones may have unpacked, which is checked before memory is taken.
    """
    try:
        reader = body_of(payload)
    except BadFooter:
        raise BadData(_WRONG_FOOTER)
    codes = []
    while reader.left():
        kind = reader.byte()
        if kind != LIBRARY:
            raise BadData(_OLD_FORMAT if kind == _OLD_LIBRARY else "given type is not a function")
        try:
            bytes_max -= _unpacked_bytes(reader)
            if bytes_max < 0:
                raise BadData("the libraries are too long")
            codes.append(reader.string())
        except BadData:
            raise BadData(_WRONG_LIBRARY)
    return codes


def _unpacked_bytes(reader: Reader) -> int:
    """Return how many bytes the string that comes next takes unpacked; 0 if it is not compressed. Raises: BadData."""
    ahead = Reader(reader.data, reader.at, reader.end)
    if ahead.byte() != _COMPRESSED:
        return 0
    ahead.length()
    return ahead.length()
