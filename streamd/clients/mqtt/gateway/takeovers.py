"""Clients that share a client identifier by mistake: they take it from each other at most once a second."""

import asyncio
from collections.abc import Callable
from typing import Final

_SPACING_S: Final = 1.0
_FORGOTTEN_S: Final = 60.0


class Takeovers:
    """When each client was taken over last, here or by another gateway."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._say = say
        self._last: dict[str, tuple[float, bool]] = {}  # when, and whether a line has told it; the oldest first

    async def wait(self, client_id: str) -> None:
        """Wait until a client may be taken over again."""
        last = self._last.get(client_id)
        if last is not None and (left_s := last[0] + _SPACING_S - self._loop.time()) > 0:
            await asyncio.sleep(left_s)

    def has_told(self, client_id: str) -> bool:
        """Return whether a line has told of a client, here or at another gateway."""
        last = self._last.get(client_id)
        return last is not None and last[1]

    def note(self, client_id: str, is_told: bool = False) -> bool:
        """Note that a client is taken over; the second time within a minute a line tells it, and then no more.

        is_told: another gateway has written the line. Returns whether it is written now.
        """
        now_s = self._loop.time()
        last = self._last.pop(client_id, None)
        is_told = is_told or (last is not None and last[1])
        if last is not None and not is_told:
            self._say(
                f"client {client_id[:100]!r} connects again and again, and takes its connection over: "
                "do two devices have this client identifier?"
            )
            is_told = True
        self._last[client_id] = now_s, is_told
        for one, (then_s, _) in list(self._last.items())[:2]:
            if then_s < now_s - _FORGOTTEN_S:
                del self._last[one]
        return is_told
