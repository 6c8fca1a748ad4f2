"""How a request is shown: as a line of MONITOR, without what is secret."""

from typing import Final

_SHORT: Final = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPED: Final = [
    (_SHORT.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")).encode() for byte in range(256)
]


def monitor_line(now_us: int, db_index: int, address: str, request: list[bytes]) -> bytes:
    """Return the line: Unix time in microseconds, database, client's address and the words, quoted."""
    seconds, microseconds = divmod(now_us, 1_000_000)
    words = b" ".join(b'"%b"' % b"".join([_ESCAPED[byte] for byte in word]) for word in redacted(request))
    return b"%d.%06d [%d %b] %b" % (seconds, microseconds, db_index, address.encode(), words)


def redacted(request: list[bytes]) -> list[bytes]:
    """Return a request as it may be shown: without names and passwords of AUTH, also within HELLO."""
    name = request[0].upper()
    if name == b"AUTH":
        return [request[0], *([b"(redacted)"] * (len(request) - 1))]
    if name != b"HELLO":
        return request
    shown = list(request)
    for at in range(2, len(shown)):
        if shown[at].upper() == b"AUTH":
            shown[at + 1 : at + 3] = [b"(redacted)"] * len(shown[at + 1 : at + 3])
            break
    return shown
