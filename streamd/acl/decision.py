"""Decides whether a user may run a request."""

from collections.abc import Callable
from typing import Final, NamedTuple

from streamd.acl.user import User

OK: Final = "ok"
COMMAND: Final = "command"
KEY: Final = "key"
CHANNEL: Final = "channel"
_ORDER: Final = (COMMAND, KEY, CHANNEL)


class Named(NamedTuple):
    """The command, keys and channels of a request.

    command, bit: its full name, and its bit in the vocabulary. is_free: allowed before login.
    keys(): each key with its access, READ | WRITE. channels(): each channel, and whether it is a pattern.
    """

    command: str
    bit: int
    is_free: bool
    request: list[bytes]
    keys: Callable[[], list[tuple[bytes, int]]]
    channels: Callable[[], list[tuple[bytes, bool]]]


class Decision(NamedTuple):
    """OK, or the kind of refusal (COMMAND, KEY or CHANNEL) and the refused name."""

    reason: str
    object: bytes = b""


def decide(user: User, named: Named, every_key: int = 0) -> Decision:
    """Return OK if one of the user's selectors allows the whole request, else the refusal of the selector that came
    closest.

    every_key: access that the request needs to all keys, READ | WRITE.
    """
    nearest = (0, -1, named.command.encode())
    keys: list[tuple[bytes, int]] | None = None
    for selector in user.selectors:
        if not named.is_free and not selector.allows_command(named.command, named.bit, named.request):
            continue
        failed: tuple[int, int, bytes] | None = None
        if not selector.all_keys:
            keys = named.keys() if keys is None else keys
            failed = next(
                ((1, at, key) for at, (key, access) in enumerate(keys) if not selector.allows_key(key, access)), None
            )
        if failed is None and not selector.all_channels:
            failed = next(
                (
                    (2, at, name)
                    for at, (name, is_pattern) in enumerate(named.channels())
                    if not selector.allows_channel(name, is_pattern)
                ),
                None,
            )
        if failed is None:
            if not every_key or selector.allows_every_key(every_key):
                return Decision(OK)
            failed = (1, 0, b"*")
        nearest = max(nearest, failed, key=lambda one: one[:2])
    return Decision(_ORDER[nearest[0]], nearest[2])
