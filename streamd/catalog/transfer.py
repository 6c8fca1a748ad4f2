"""The transfer of keys to another server: its target, and the port behind which streamd.net does it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from streamd.base.errors import CommandError


class Target(NamedTuple):
    """Another server.

    credentials: the words of AUTH behind its name, none to send no AUTH. timeout_ms: of each step.
    """

    host: bytes
    port: int
    credentials: list[bytes]
    database: int
    timeout_ms: int


# Sends requests to a target, which it connects to first, and yields the first line of each reply, without line end.
# Raises: TargetAway, TargetRefused. Requests are taken from the iterator as they are sent.
Transfer = Callable[[Target, Iterator[list[bytes]]], Iterator[bytes]]


class TargetAway(CommandError):
    """A target that cannot be reached, or has not done a step in time; `step` is Redis's wording."""

    def __init__(self, step: str) -> None:
        super().__init__(f"IOERR error or timeout {step}")


class TargetRefused(CommandError):
    """A target that replied with an error; `line` is that error, behind its `-`."""

    def __init__(self, line: bytes) -> None:
        super().__init__(f"ERR Target instance replied with error: {line.decode('utf-8', 'surrogateescape')}")


def no_transfer(target: Target, requests: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Reach no target: an engine without a network. Raises: TargetAway."""
    raise TargetAway("connecting to the client")
