"""The slow log: the recent slow requests of a server."""

from dataclasses import dataclass

from streamd.clients.ui.source import Source

SLOW_MAX = 50


@dataclass(frozen=True)
class SlowRequest:
    """A slow request."""

    unix_s: int
    took_us: int
    words: list[bytes]
    address: bytes
    client_name: bytes


def slowest(source: Source) -> list[SlowRequest]:
    """Return the newest requests of the slow log. Raises: SourceError."""
    return [
        SlowRequest(int(one[1]), int(one[2]), one[3], *(one[4:6] if len(one) > 5 else (b"", b"")))
        for one in source.ask("SLOWLOG GET", SLOW_MAX)
    ]
