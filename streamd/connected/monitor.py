"""Shows a request as a line of MONITOR, without secrets."""

from collections.abc import Iterable
from typing import Final

from streamd.configuration.server_options import SECRET_OPTIONS

_SHORT: Final = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPED: Final = [
    (_SHORT.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")).encode() for byte in range(256)
]


_REDACTED: Final = b"(redacted)"
_SECRET_WORDS: Final = frozenset(name.encode() for name in SECRET_OPTIONS)
_SECRETIVE: Final = frozenset({b"AUTH", b"HELLO", b"ACL", b"COMMAND", b"CONFIG", b"MIGRATE"})

# Where the request stands that a request is about.
_BEHIND: Final = {(b"ACL", b"DRYRUN"): 3, (b"COMMAND", b"GETKEYS"): 2, (b"COMMAND", b"GETKEYSANDFLAGS"): 2}


def monitor_line(now_us: int, db_index: int, address: str, request: list[bytes]) -> bytes:
    """Return the line: Unix time in microseconds, database, client's address and the words, quoted."""
    seconds, microseconds = divmod(now_us, 1_000_000)
    words = b" ".join(b'"%b"' % b"".join([_ESCAPED[byte] for byte in word]) for word in redacted(request))
    return b"%d.%06d [%d %b] %b" % (seconds, microseconds, db_index, address.encode(), words)


def redacted(request: list[bytes]) -> list[bytes]:
    """Return a request without words that are, or may be, names and passwords of users."""
    if request[0].upper() not in _SECRETIVE:
        return request
    shown, start = list(request), 0
    while len(request) > start + 1:  # it may be about another request
        inner = start + _BEHIND.get((request[start].upper(), request[start + 1].upper()), 0)
        if inner == start or inner >= len(request):
            break
        start = inner
    for at in _secret_places(request[start].upper(), request[start:] if start else request):
        shown[start + at] = _REDACTED
    return shown


def _secret_places(name: bytes, request: list[bytes]) -> Iterable[int]:
    if name == b"AUTH":
        return range(1, len(request))
    if name == b"HELLO":
        for at in range(2, len(request)):
            if request[at].upper() == b"AUTH":
                return range(at + 1, min(at + 3, len(request)))
    elif name == b"MIGRATE":
        return _credentials_of_migrate(request)
    elif request[1:2] and request[1].upper() == (b"SETUSER" if name == b"ACL" else b"SET"):
        if name == b"ACL":
            return range(2, len(request))
        return [at for at in range(3, len(request), 2) if request[at - 1].lower() in _SECRET_WORDS]
    return ()


def _credentials_of_migrate(request: list[bytes]) -> list[int]:
    """Return the places behind AUTH and AUTH2, also of a request that is refused for another word."""
    places: list[int] = []
    at = 6
    while at < len(request) and (option := request[at].upper()) != b"KEYS":
        words = {b"AUTH": 1, b"AUTH2": 2}.get(option, 0)
        places += range(at + 1, min(at + 1 + words, len(request)))
        at += 1 + words
    return places
