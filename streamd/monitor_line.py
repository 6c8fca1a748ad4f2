"""The line that MONITOR shows for a request."""

from typing import Final

_SHORT: Final = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPED: Final = [
    (_SHORT.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")).encode() for byte in range(256)
]


def monitor_line(now_us: int, db_index: int, address: str, request: list[bytes]) -> bytes:
    """Return the line: Unix time in microseconds, database, client's address and the words, quoted."""
    seconds, microseconds = divmod(now_us, 1_000_000)
    words = b" ".join(b'"%b"' % b"".join([_ESCAPED[byte] for byte in word]) for word in request)
    return b"%d.%06d [%d %b] %b" % (seconds, microseconds, db_index, address.encode(), words)
