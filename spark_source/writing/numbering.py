"""Numbers for the retained messages among rows that are published: they order those of a topic, as a gateway reads it.

A number is drawn before its row is written, and is no part of the row's name or digest: a task that runs again may draw
another one.
"""

import re

from spark_source import ids
from spark_source.connecting.connection import Server, Session
from spark_source.connecting.topic_log import TopicLog, cleared_key, numbers_key
from spark_source.errors import StreamdError
from spark_source.noting.log_version import allow_version

NUMBERED_VERSION = 3  # of a log whose retained messages have numbers: see docs/topics.md
_CRLF = b"\r\n"
_NUMBER = re.compile(rb"(\d{1,15})-(\d{1,18})-(\d{1,18})")

Number = tuple[int, int, int]


class Numbering:
    """Draws numbers for the retained messages of one log."""

    def __init__(self, server: Server, log: TopicLog) -> None:
        self.server = server
        self.log = log
        self.is_allowed = False
        self.highest: Number = (0, 0, 0)

    def fields(self, payloads: list[bytes]) -> list[bytes]:
        """Return the field to add to each encoded row, empty for one that is not retained. Raises: StreamdError."""
        flags = [is_retained(payload) for payload in payloads]
        count = sum(flags)
        if not count:
            return [b""] * len(payloads)
        if not self.is_allowed:
            allow_version(self.server, self.log, NUMBERED_VERSION)
            self.is_allowed = True
        key = numbers_key(self.log.name)
        ms, seq = self.server.patiently(lambda session: self._draw(session, count), key)
        self.highest = (ms, seq, count - 1)
        places = iter(range(count))
        return [_field(b"%d-%d-%d" % (ms, seq, next(places))) if flag else b"" for flag in flags]

    def _draw(self, session: Session, count: int) -> tuple[int, int]:
        key = numbers_key(self.log.name)
        draw = ("XADD", key, "MAXLEN", 1, "*", "n", count)
        reply, noted = session.pipeline([draw, ("HGET", cleared_key(self.log.name), "")])
        known = max(self.highest, parse_number(noted))
        while True:
            if isinstance(reply, Exception):
                raise reply
            if not isinstance(reply, bytes):
                raise StreamdError(f"the server answered XADD with {reply!r}")
            if ids.parse(reply) > known[:2]:
                return ids.parse(reply)
            # The stream was removed, and the server's clock is behind; what gave these numbers is lost.
            above = f"{known[0]}-{known[1] + 1}"
            _, reply = session.pipeline([("XADD", key, "MAXLEN", 1, above, "n", 0), draw])


def parse_number(text: object) -> Number:
    """Return a number; zeros for anything else."""
    found = _NUMBER.fullmatch(text) if isinstance(text, bytes) else None
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def is_retained(payload: bytes) -> bool:
    """Return whether an encoded row has the retain flag. Each name and value says its length in front of it."""
    at, end = 0, len(payload)
    while at < end:
        name, at = _next(payload, at)
        value, at = _next(payload, at)
        if name == b"r":
            return value == b"1"
    return False


def _next(payload: bytes, at: int) -> tuple[bytes, int]:
    """Return the name or value at a place, and the place behind it."""
    begin = payload.index(_CRLF, at) + 2
    end = begin + int(payload[at + 1 : begin - 2])
    return payload[begin:end], end + 2


def _field(number: bytes) -> bytes:
    return b"$1\r\nn\r\n$%d\r\n%b\r\n" % (len(number), number)
