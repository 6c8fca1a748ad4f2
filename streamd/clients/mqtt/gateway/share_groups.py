"""A group of a shared subscription: its members that are connected here, and what it reads from each log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.codec.names import share_of
from streamd.clients.mqtt.gateway.share_members import Membership
from streamd.clients.mqtt.gateway.share_parts import Part
from streamd.clients.mqtt.store.share_records import share_name
from streamd.clients.mqtt.store.stored import Stored

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.session import Session
    from streamd.clients.mqtt.gateway.shares import Shares

# So often in a lease a group looks for idle entries; it is the topics library's number, too.
_TICKS_PER_LEASE: Final = 10
_TICK_S_MIN: Final = 0.02


class Group:
    """A group. members: in the order of their turns. parted: those that only finish what they have begun."""

    def __init__(self, shares: Shares, text: str, is_ordered: bool) -> None:
        self.shares, self.text, self.is_ordered = shares, text, is_ordered
        self.filter = share_of(text)[1]
        self.name = share_name(text)
        self.members: dict[Session, Membership] = {}
        self.parted: dict[Membership, None] = {}
        self.parts: dict[str, Part] = {}
        self._ticks_alone = 0
        self._task: asyncio.Task[None] | None = None

    def start(self, parts: dict[str, Part], lease_ms: int) -> None:
        """Begin to hand out the messages of these logs."""
        self.parts = parts
        tick_s = max(_TICK_S_MIN, lease_ms / 1_000 / _TICKS_PER_LEASE)
        self._task = asyncio.get_running_loop().create_task(self._look_after(tick_s))
        self.shares.gateway.delivery.shared.add(self.filter, self, None)

    def close(self) -> None:
        """Hand out no more."""
        self.shares.gateway.delivery.shared.remove(self.filter, self)
        if self._task is not None:
            self._task.cancel()
        for part in self.parts.values():
            part.close()

    async def _look_after(self, tick_s: float) -> None:
        while True:
            await asyncio.sleep(tick_s)
            if not self.members and not self.parted:
                self._ticks_alone += 1
                if self._ticks_alone > 1 and not any(one.is_at_work for one in self.parts.values()):
                    self.shares.forget(self)
                    return
                continue
            self._ticks_alone = 0
            for part in self.parts.values():
                try:
                    await part.tick()
                except Exception as fault:  # the next tick tries again
                    self.shares.warn(self, fault)

    def wake(self, entry: Stored) -> None:
        """Note that there is a message."""
        part = self.parts.get(entry.log)
        if part is not None and self.members:
            part.wake(entry)

    def all_members(self) -> Iterator[Membership]:
        """Yield the members, those too that only finish something."""
        return chain(self.members.values(), self.parted)

    def next_member(self) -> Membership | None:
        """Return the member whose turn it is, of those that have room."""
        return next((one for one in self.members.values() if one.room), None)

    def had_turn(self, member: Membership) -> None:
        """Let a member that was given something be the last."""
        if self.members.pop(member.session, None) is not None:
            self.members[member.session] = member

    def join(self, member: Membership) -> None:
        """Take a member in."""
        self.members[member.session] = member
        for part in self.parts.values():
            part.joined(member)

    def go_on(self, member: Membership) -> None:
        """Give a member what it has room for."""
        while member.waiting:
            part, entry = member.waiting[0]
            if not part.send(member, entry):
                return
            member.waiting.popleft()
        if member.room:
            for part in self.parts.values():
                part.has_room(member)

    def part(self, member: Membership) -> None:
        """End a subscription: what the member has begun is finished with it."""
        self.members.pop(member.session, None)
        member.is_parted = True
        if member.flying:
            self.parted[member] = None
        for part in self.parts.values():
            part.left(member, is_over=False)
        member.waiting.clear()

    def leave(self, member: Membership, is_over: bool) -> None:
        """Let a member go whose client is gone."""
        self.members.pop(member.session, None)
        self.parted.pop(member, None)
        for part in self.parts.values():
            part.left(member, is_over)
        member.waiting.clear()
