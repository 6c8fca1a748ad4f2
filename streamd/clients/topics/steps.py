"""The requests of a topic log's logic: it is written once, as generators that yield these.

A generator yields a request and is sent the reply; it knows no socket. `drivers` runs it over redis-py's client, or
over the one for asyncio.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Word = bytes | str | int
Command = tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Send these commands at once; the reply is the list of their replies, errors among them as values."""

    commands: list[Command]


@dataclass(frozen=True, slots=True)
class Append:
    """Send XADDs that are already encoded; the reply is the list of their replies, errors among them as values.

    There are many of them, and for a pipeline redis-py spends three quarters of its time on packing and unpacking.
    """

    packed: list[bytes]


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch keys, then run commands one by one; the reply is the list of their replies.

    It begins a transaction, which `Commit` ends; further ones before that watch and read more.
    """

    keys: list[str]
    commands: list[Command]


@dataclass(frozen=True, slots=True)
class Commit:
    """Run these commands as one; the reply is the list of their replies, or None.

    None: a watched key was changed, or the connection was lost, and with it the reply. So a retry must know its own
    changes.
    """

    commands: list[Command]


Step = Pipeline | Append | Watch | Commit
# What the logic is: it yields steps, is sent what they are answered with, and returns a T.
Steps = Generator[Step, Any, T]


def run_all(commands: Iterable[Command]) -> Steps[list[Any]]:
    """Return the replies to commands that are sent at once; none, without a round trip, to no commands.

    Raises: the first error among them.
    """
    wanted = list(commands)
    if not wanted:
        return []
    replies: list[Any] = yield Pipeline(wanted)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
