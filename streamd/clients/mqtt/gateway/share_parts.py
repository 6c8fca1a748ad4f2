"""What a group of a shared subscription reads from one log, without order: each of its members in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import redis

from streamd.clients.mqtt.gateway.share_members import PACK, Membership
from streamd.clients.mqtt.store.link import StoreFault, Words
from streamd.clients.mqtt.store.positions import Place
from streamd.clients.mqtt.store.records import Shared
from streamd.clients.mqtt.store.share_records import ANYBODY
from streamd.clients.mqtt.store.stored import Stored, parse_stored
from streamd.clients.topics import layout, shares
from streamd.clients.topics.drivers import run_async
from streamd.clients.topics.entry_ids import format_id, parse_id

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.share_groups import Group
    from streamd.clients.mqtt.store.logs import OpenLog

_FAULTS: Final = (redis.RedisError, StoreFault, ValueError, OSError)
_BEGIN: Final = b"0-0"
# Longer than any lease: an entry that was idle for so long may be claimed at once.
_IDLE_MS: Final = 100 * 86_400_000
# Where the store cannot search, so many entries are read at once, if none of the last ones was for the group.
_SCAN_MAX: Final = 1_000
_PENDING_PAGE: Final = 1_000

TICKS_PER_RENEWAL: Final = 3  # of about ten in a lease

RawEntries = list[tuple[bytes, list[bytes]]]
Shard = tuple[int, int]  # generation, shard


class Part:
    """A group's reading of one log.

    view: the shared replay, as `topics` sees it. lock: held while entries are on their way to a member.
    """

    def __init__(self, group: Group, log: OpenLog, view: shares.Member) -> None:
        self.group, self.log, self.view = group, log, view
        self.shares = group.shares
        self.link = group.shares.link
        self.lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._has_gap = False
        self._is_lost = False  # the store says that there is no such consumer group

    # What happens.

    def wake(self, entry: Stored) -> None:
        """Note that there is an entry for the group."""
        raise NotImplementedError

    def joined(self, member: Membership) -> None:
        """Note a new member, or one that is back."""
        raise NotImplementedError

    def has_room(self, member: Membership) -> None:
        """Note that a member can take entries."""
        raise NotImplementedError

    def finished(self, member: Membership, place: Place) -> None:
        """Note that a member has acknowledged an entry."""

    def left(self, member: Membership, is_over: bool) -> None:
        """Note that a member is gone, for some time or for ever."""
        raise NotImplementedError

    async def tick(self) -> None:
        """Do what is due now and then."""
        raise NotImplementedError

    async def _round(self) -> None:
        """Read entries and hand them out, until there are none left or nobody has room."""
        raise NotImplementedError

    def kick(self) -> None:
        """See to it that `_round` runs."""
        if self._task is None and not self.shares.is_closed:
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        try:
            await self._round()
        except _FAULTS as fault:
            self.shares.warn(self.group, fault)  # a tick tries again
        finally:
            self._task = None

    @property
    def is_at_work(self) -> bool:
        """Whether it reads, or waits for the store."""
        return self._task is not None or self.lock.locked()

    def close(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()

    # Entries to members.

    def stored_of(self, place: Shard, entry_id: bytes, fields: list[bytes] | None) -> Stored | None:
        """Return the message in an entry; None if the group does not want it, or it has expired."""
        stored = None if not fields else parse_stored(self.log.name, *place, parse_id(entry_id), fields)
        if stored is None or not self.view.pattern.matches(stored.topic):
            return None
        if stored.is_expired(self.shares.gateway.now_ms()):
            self.shares.gateway.counters.messages_expired += 1
            return None
        return stored

    def give(self, member: Membership, entries: list[Stored]) -> None:
        """Hand entries to the member that they were read for."""
        if self._has_gap and member.is_here:
            self._has_gap = False
            delivery = self.shares.gateway.delivery
            delivery.missed(member.session, delivery.replays[self.log.name].tailed)
        if entries and member.is_here:
            self.group.had_turn(member)
        for entry in entries:
            if not member.is_here:
                self.release([entry], is_soon=True)
            elif not member.session.rights.may_read(entry.topic):
                self.pass_on(entry)
            else:
                self._offer(member, entry)

    def _offer(self, member: Membership, entry: Stored) -> None:
        if member.waiting or not self.send(member, entry):
            member.waiting.append((self, entry))

    def send(self, member: Membership, entry: Stored) -> bool:
        """Send an entry to a member; return False if it has no room."""
        outgoing = member.session.outgoing
        assert outgoing is not None
        last = outgoing.last_packet_id
        if not self.shares.gateway.delivery.send_shared(member.session, member.target, entry, self.group.name):
            return False
        if outgoing.last_packet_id == last:
            self.shares.acknowledge(Shared(entry.place, self.group.name))  # nothing follows
            self.finished(member, entry.place)
        else:
            member.flying[entry.place] = self
        return True

    def pass_on(self, entry: Stored) -> None:
        """Give an entry that its member may not read to another one that may.

        Where no connected member may, nobody gets it: it would stay pending, and be looked at again and again. A member
        of another gateway may be able to: that one finds it when a lease has passed.
        """
        able = [one for one in self.group.members.values() if one.session.rights.may_read(entry.topic)]
        if not able and self.shares.gateway.ownership.peers:
            self.release([entry], is_soon=False)
            return
        if not able:
            self.shares.acknowledge(Shared(entry.place, self.group.name))
            return
        member = next((one for one in able if one.room), None)
        if member is None:
            self._nobody_has_room(able, entry)
            return
        self._claim_for(member, entry)
        self._offer(member, entry)

    def _claim_for(self, member: Membership, entry: Stored) -> None:
        key = self.view.key((entry.generation, entry.shard))
        words = ("XCLAIM", key, self.group.name, member.consumer, 0, format_id(entry.entry_id), "JUSTID")
        self.shares.tell([words])

    def _nobody_has_room(self, able: list[Membership], entry: Stored) -> None:
        self.release([entry], is_soon=False)

    def release(self, entries: Iterable[Stored], is_soon: bool) -> None:
        """Let others have entries that were read for a member: at once, or after a lease."""
        by_place: dict[Shard, list[str]] = {}
        for one in entries:
            by_place.setdefault((one.generation, one.shard), []).append(format_id(one.entry_id))
        self.shares.tell([self._release_words(place, ids, is_soon) for place, ids in by_place.items()])
        if is_soon:
            self.released(by_place)

    def _release_words(self, place: Shard, ids: list[str], is_soon: bool) -> Words:
        idle_ms = _IDLE_MS if is_soon else 0
        return ("XCLAIM", self.view.key(place), self.group.name, ANYBODY, 0, *ids, "IDLE", idle_ms, "JUSTID")

    def released(self, places: Iterable[Shard]) -> None:
        """Note that there are entries in these places for anybody."""

    # Members that come back, or end.

    def places(self) -> list[Shard]:
        """Return all shards where entries can be pending."""
        return [(one.number, shard) for one in self.log.handle.meta.generations for shard in range(one.shards)]

    async def pending_of(self, consumer: str) -> dict[Shard, list[bytes]]:
        """Return the entry IDs that are pending for a member."""
        found: dict[Shard, list[bytes]] = {}
        places = self.places()
        for place in places:
            start = "-"
            while True:
                words = ("XPENDING", self.view.key(place), self.group.name, start, "+", _PENDING_PAGE, consumer)
                (reply,) = await self.link.ask(words)
                if isinstance(reply, Exception) or not reply:
                    break
                found.setdefault(place, []).extend(one[0] for one in reply)
                if len(reply) < _PENDING_PAGE:
                    break
                start = f"({reply[-1][0].decode()}"
        return found

    async def take_back(self, consumer: str, kept: set[Place]) -> None:
        """Let others have what is pending for a member, but for some entries; renew those. The lock has to be held."""
        for place, ids in (await self.pending_of(consumer)).items():
            mine = [one.decode() for one in ids if Place(self.log.name, *place, parse_id(one)) in kept]
            others = [one.decode() for one in ids if Place(self.log.name, *place, parse_id(one)) not in kept]
            commands: list[Words] = []
            if mine:
                commands.append(("XCLAIM", self.view.key(place), self.group.name, consumer, 0, *mine, "JUSTID"))
            if others:
                commands.append(self._release_words(place, others, is_soon=True))
                self.released([place])
            await self.link.ask(*commands)

    async def end_consumer(self, consumer: str) -> None:
        """Remove a member whose session is over; what is pending for it goes to others."""
        async with self.lock:
            await self.take_back(consumer, set())
            commands = [
                ("XGROUP", "DELCONSUMER", self.view.key(place), self.group.name, consumer) for place in self.places()
            ]
            await self.link.ask(*commands)
        self.kick()

    async def refresh(self) -> shares.News:
        """Read the log's settings and what has happened to the replay. Raises: ValueError, if the log was dropped."""
        while True:
            told = await run_async(self.shares.client, shares.news(self.view))
            if isinstance(told, shares.News):
                return told
            if told == "gap":
                self._has_gap = True
                continue
            # Somebody has dropped the replay: it begins anew.
            self.view = await self.shares.join_log(self.log, self.group)


class UnorderedPart(Part):
    """The entries of a log go to the members in turn, and idle ones to another member after the lease.

    behind: the shards of the generation that is read in which there may be new entries, each with the number that the
    tail has seen since the shard was read to its end, None for an unknown one. coming: how many the tail has seen that
    no member has, about. claims: the shards with entries that may have to be claimed, and from where on to look.
    """

    def __init__(self, group: Group, log: OpenLog, view: shares.Member) -> None:
        super().__init__(group, log, view)
        self._reading: layout.Generation | None = None
        self._unfinished: list[layout.Generation] = []
        self._behind: dict[int, int | None] = {}
        self._claims: dict[Shard, bytes] = {}
        self._coming = 0
        self._is_stale = True
        self._scan = 0
        self._is_filtered = log.handle.abilities.xfilter and not view.pattern.is_all
        self._is_exact = self._is_filtered or view.pattern.is_all
        self._ticks = 0

    def wake(self, entry: Stored) -> None:
        """Note that there is an entry for the group."""
        reading = self._reading
        if reading is None or entry.generation != reading.number:
            self._is_stale = True
        else:
            self._add(entry.shard, 1)
        self._coming += 1
        if self._task is None:
            self.kick()

    def _add(self, shard: int, number: int | None) -> None:
        known = self._behind.get(shard, 0)
        self._behind[shard] = None if number is None or known is None else known + number

    def joined(self, member: Membership) -> None:
        """Read on from where the group is."""
        self._read_all()
        self.kick()

    def _read_all(self) -> None:
        if self._reading is not None:
            self._behind.update(dict.fromkeys(range(self._reading.shards)))

    def has_room(self, member: Membership) -> None:
        """Read for a member, if there is something."""
        if self._task is None and (self._behind or self._claims or self._is_stale):
            self.kick()

    def left(self, member: Membership, is_over: bool) -> None:
        """Let others have what waited for the member."""
        self.release([entry for part, entry in member.waiting if part is self], is_soon=True)

    def released(self, places: Iterable[Shard]) -> None:
        """Look there for what can be claimed."""
        self._claims.update(dict.fromkeys(places, _BEGIN))
        self.kick()

    async def tick(self) -> None:
        """Renew what members have in flight, and look for what is idle or new."""
        self._ticks += 1
        if not self._ticks % TICKS_PER_RENEWAL:
            self._renew()
            self._read_all()
        if not self._is_exact:
            self._read_all()
        self._is_stale = True
        for one in self._unfinished:
            for shard in range(one.shards):
                self._claims.setdefault((one.number, shard), _BEGIN)
        self.kick()

    def _renew(self) -> None:
        commands: list[Words] = []
        for member in self.group.all_members():
            by_place: dict[Shard, list[str]] = {}
            for place, part in member.flying.items():
                if part is self:
                    by_place.setdefault((place.generation, place.shard), []).append(format_id(place.entry_id))
            for part, entry in member.waiting:
                if part is self:
                    by_place.setdefault((entry.generation, entry.shard), []).append(format_id(entry.entry_id))
            for at, ids in by_place.items():
                commands.append(("XCLAIM", self.view.key(at), self.group.name, member.consumer, 0, *ids, "JUSTID"))
        self.shares.tell(commands)

    async def _round(self) -> None:
        while self._is_stale or self._behind or self._claims:
            if self._is_stale or self._is_lost:
                await self._look()
                continue
            async with self.lock:
                member = self.group.next_member()  # now: who had room may have left while another held the lock
                if member is None:
                    return
                if self._claims:
                    self.give(member, self._sorted(member, await self._claim(member)))
                    continue
                has_found = await self._read_for(member)
            if not self._behind:
                self._coming = 0
                await self._go_on(has_found)

    async def _look(self) -> None:
        is_lost, self._is_stale, self._is_lost = self._is_lost, False, False
        async with self.lock:
            told = await self.refresh()
            found = []
            for one in shares.unfinished(self.view, told.meta):
                if not await run_async(self.shares.client, shares.ensure_group(self.view, one)):
                    continue
                if one.number in self.view.delivered:
                    _, is_idle = await run_async(self.shares.client, shares.group_states(self.view, one))
                    if is_idle:
                        self.view.finished.add(one.number)
                        continue
                found.append(one)
            self._unfinished = found
            self._begin_next()
            if is_lost or self._reading != told.meta.current:
                self._read_all()  # to its end

    def _begin_next(self) -> None:
        following = next((one for one in self._unfinished if one.number not in self.view.delivered), None)
        if following != self._reading:
            self._reading = following
            self._behind.clear()
            self._read_all()

    async def _go_on(self, has_found: bool) -> None:
        """Leave a generation that was closed, when all of it is delivered; has_found: the last look found entries."""
        reading = self._reading
        if reading is None or reading.number == self.log.handle.meta.current.number:
            return
        is_delivered, _ = await run_async(self.shares.client, shares.group_states(self.view, reading))
        if is_delivered:
            self.view.delivered.add(reading.number)
            self._is_stale = True
        elif has_found:
            self._read_all()

    def _wanted(self, member: Membership) -> int:
        """Return how many entries a member is to get now: its part of what comes."""
        part = -(-self._coming // len(self.group.members)) if self._coming else PACK
        return max(1, min(member.room, PACK, part))

    async def _claim(self, member: Membership) -> list[tuple[Shard, RawEntries]]:
        n = max(1, min(member.room, PACK))
        chosen = {place: self._claims.pop(place) for place in list(self._claims)[:n]}
        count = max(1, n // len(chosen))
        lease_ms = self.view.agreement.lease_ms
        group = (self.group.name, member.consumer, lease_ms)
        commands: list[Words] = [
            ("XAUTOCLAIM", self.view.key(place), *group, cursor, "COUNT", count) for place, cursor in chosen.items()
        ]
        found: list[tuple[Shard, RawEntries]] = []
        for place, reply in zip(chosen, await self.link.ask(*commands), strict=True):
            if isinstance(reply, Exception):
                self._take_fault(place, reply)
                continue
            if reply[0] != _BEGIN:
                self._claims.setdefault(place, reply[0])
            if reply[1]:
                found.append((place, [(one[0], one[1]) for one in reply[1] if one is not None]))
        return found

    async def _read_for(self, member: Membership) -> bool:
        """Read new entries, and hand them out; return whether there were any."""
        reading = self._reading
        if reading is None:
            self._behind.clear()
            return False
        n = self._wanted(member)
        chosen = {shard: self._behind.pop(shard) for shard in list(self._behind)[:n]}
        count = max(1, n // len(chosen), self._scan)
        keys = {self.view.key((reading.number, shard)).encode(): shard for shard in chosen}
        words = ("XREADGROUP", "GROUP", self.group.name, member.consumer, "COUNT", count)
        (reply,) = await self.link.ask((*words, "STREAMS", *keys, *[">"] * len(keys)))
        if isinstance(reply, Exception):
            self._take_fault((reading.number, 0), reply)
            return False
        found: list[tuple[Shard, RawEntries]] = []
        numbers = dict.fromkeys(chosen, 0)
        for key, entries in reply or ():
            found.append(((reading.number, keys[key]), [(one[0], one[1]) for one in entries]))
            numbers[keys[key]] = len(entries)
        taken = self._sorted(member, found)
        # (Of those that no member gets, such as topics that begin with $, the tail has counted none.)
        is_exact = self._is_exact and len(taken) == sum(numbers.values())
        for shard, number in numbers.items():
            # A server that filters ends a search after some time; only a reply without an entry says that it was done.
            is_at_end = not found or (not self._is_filtered and number < count)
            expected = chosen[shard] if is_exact else None
            if not is_at_end and (expected is None or expected > number):
                self._add(shard, None if expected is None else expected - number)
        self._coming = max(0, self._coming - len(taken))
        if not self._is_exact and found:
            self._scan = 0 if taken else min(_SCAN_MAX, max(PACK, self._scan * 2))
        self.give(member, taken)
        return bool(found)

    def _take_fault(self, place: Shard, fault: Exception) -> None:
        if not str(fault).startswith("NOGROUP"):
            raise StoreFault(str(fault))
        self.view.grouped.discard(place[0])  # a generation, or the replay, was dropped
        self._is_lost = self._is_stale = True

    def _sorted(self, member: Membership, found: list[tuple[Shard, Any]]) -> list[Stored]:
        """Return the messages among entries; more than the member has room for are for anybody."""
        taken: list[Stored] = []
        for place, entries in found:
            for text, fields in entries:
                entry = self.stored_of(place, text, fields)
                if entry is None:
                    self.shares.acknowledge(Shared(Place(self.log.name, *place, parse_id(text)), self.group.name))
                elif entry.place not in member.flying:
                    taken.append(entry)
        room = max(1, member.room)
        if len(taken) > room:
            self.release(taken[room:], is_soon=True)
        return taken[:room]
