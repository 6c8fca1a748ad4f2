"""What a group of a shared subscription reads from one log in order: each shard is leased to one member at a time."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from streamd.clients.mqtt.gateway.share_members import Membership
from streamd.clients.mqtt.gateway.share_parts import TICKS_PER_RENEWAL, Part, Shard
from streamd.clients.mqtt.store.positions import Place
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.topics import leasing, shares
from streamd.clients.topics.drivers import run_async
from streamd.clients.topics.entry_ids import format_id, parse_id
from streamd.clients.topics.steps import Command, Steps, run_all

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.share_groups import Group
    from streamd.clients.mqtt.store.logs import OpenLog


class LeasedPart(Part):
    """The shards of a log are divided among the members.

    due: members that have to look at their shards. holders: who has a shard's lease. starved: members without room.
    """

    def __init__(self, group: Group, log: OpenLog, view: shares.Member) -> None:
        super().__init__(group, log, view)
        self._due: deque[Membership] = deque()
        self._holders: dict[Shard, Membership] = {}
        self._starved: dict[Membership, None] = {}
        self._given: dict[Membership, None] = {}  # leases that are to be given back
        self._ticks = 0

    def wake(self, entry: Stored) -> None:
        """Note that there is an entry for the group."""
        holder = self._holders.get((entry.generation, entry.shard))
        for member in (holder,) if holder is not None else self.group.members.values():
            self._look(member)

    def joined(self, member: Membership) -> None:
        """Let a new member be seen, the others give back what is above their share, and the new one take it."""
        self._due.append(member)
        self._due.extend(self.group.members.values())
        self._due.append(member)
        self.kick()

    def has_room(self, member: Membership) -> None:
        """Read for a member that had no room."""
        if member in self._starved:
            del self._starved[member]
            self._look(member)

    def _look(self, member: Membership) -> None:
        if member not in self._due:
            self._due.append(member)
        self.kick()

    def finished(self, member: Membership, place: Place) -> None:
        """Note that a member has acknowledged an entry."""
        view = member.views.get(self.log.name)
        if view is not None:
            view.unacknowledged.get((place.generation, place.shard), set()).discard(format_id(place.entry_id))
        if place.generation != self.log.handle.meta.current.number:
            self._look(member)  # the next generation is begun when all of this one is acknowledged
        if member.is_parted and not any(part is self for part in member.flying.values()):
            self._give_back(member)

    def left(self, member: Membership, is_over: bool) -> None:
        """Give a member's leases back; while it has something in flight it keeps them, until they run out."""
        self._starved.pop(member, None)
        self._holders = {place: one for place, one in self._holders.items() if one is not member}
        if is_over or not any(part is self for part in member.flying.values()):
            self._give_back(member)

    def _give_back(self, member: Membership) -> None:
        self._given[member] = None
        self.kick()

    async def end_consumer(self, consumer: str) -> None:
        """Remove a member whose session is over, with the leases that a killed gateway has left it."""
        await super().end_consumer(consumer)
        view = self._view_of(consumer)
        view.holdings = {place: shares.Holding() for place in self.places()}
        async with self.lock:
            await run_async(self.shares.client, leasing.leave(view))
        self._due.extend(self.group.members.values())
        self.kick()

    async def tick(self) -> None:
        """Renew the leases, and let every member look for free ones."""
        self._ticks += 1
        if self._ticks % TICKS_PER_RENEWAL:
            return
        for member in list(self.group.all_members()):
            view = member.views.get(self.log.name)
            if view is not None:
                async with self.lock:
                    await run_async(self.shares.client, leasing.renew(view))
        for member in self.group.members.values():
            self._look(member)

    async def _round(self) -> None:
        while self._due or self._given:
            while self._given:
                member = next(iter(self._given))
                del self._given[member]
                await self._end_leases(member)
            if not self._due:
                return
            member = self._due.popleft()
            if not member.is_here:
                continue
            if not member.room:
                self._starved[member] = None
                continue
            async with self.lock:
                await self._read_for(member)

    async def _end_leases(self, member: Membership) -> None:
        view = member.views.pop(self.log.name, None)
        if view is None:
            return
        async with self.lock:
            await run_async(self.shares.client, leasing.leave(view))
        for one in self.group.members.values():
            self._due.append(one)

    async def _read_for(self, member: Membership) -> None:
        view = member.views.get(self.log.name)
        if view is None:
            view = member.views[self.log.name] = self._view_of(member.consumer)
        looks = 1
        while looks and (n := member.room):
            entries, state = await run_async(self.shares.client, leasing.sorted_next(view, n, 0, self._sort))
            if state == "end":
                await self.refresh()
                view = member.views[self.log.name] = self._view_of(member.consumer)
                continue
            self._has_gap |= state == "gap"
            self._note_holder(member, view)
            self.give(member, [one for one in entries if one.place not in member.flying])
            # With less room than shards, a look sees only some of them.
            looks = looks - 1 if state == "live" else max(1, -(-len(view.holdings) // n))
        if not member.room:
            self._starved[member] = None

    def _view_of(self, consumer: str) -> shares.Member:
        return dataclasses.replace(
            self.view,
            name=consumer,
            grouped=set(self.view.grouped),
            delivered=set(),
            finished=set(self.view.finished),
            unacknowledged={},
            holdings={},
        )

    def _note_holder(self, member: Membership, view: shares.Member) -> None:
        self._holders = {place: one for place, one in self._holders.items() if one is not member}
        if member.is_here:
            self._holders.update(dict.fromkeys(view.holdings, member))

    def _sort(
        self,
        view: shares.Member,
        found: Iterable[tuple[Shard, list[tuple[bytes, Mapping[bytes, bytes]]]]],
        now_ms: int,
    ) -> Steps[list[Stored]]:
        """Return the messages for the group, and acknowledge other entries."""
        taken: list[Stored] = []
        others: list[Command] = []
        for place, entries in found:
            for text, fields in entries:
                flat = [word for pair in fields.items() for word in pair] if fields else None
                entry = self.stored_of(place, text, flat)
                if entry is None:
                    others.append(("XACK", view.key(place), view.share, text))
                else:
                    view.unacknowledged.setdefault(place, set()).add(format_id(parse_id(text)))
                    taken.append(entry)
        yield from run_all(others)
        return taken

    def _nobody_has_room(self, able: list[Membership], entry: Stored) -> None:
        # Nobody looks for it while its shard has an owner.
        self._claim_for(able[0], entry)
        able[0].waiting.append((self, entry))
