"""The share of one stream in the reply of an XREADGROUP: what is read, and what is noted as delivered then."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context
from streamd.commands.stream.group_effects import (
    need_consumer,
    record_owned,
    record_position,
    record_seen,
    record_taken,
)
from streamd.commands.stream.options import ReadOptions
from streamd.resp.encoder import encode
from streamd.resp.types import NULL_ARRAY, LongArray, Parts, Pause, Raw, Reply
from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.entry_replies import ReadBudget, entries_ahead, entries_now, gathered, pauses
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import CHUNK_ENTRIES_MAX, RUNS_MIN, Consumer, PendingEntries, again
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.runs import NodeRun, ids_in
from streamd.stream.search.patterns import EntryFilter
from streamd.stream.search.searching import search
from streamd.stream.stream import Stream
from streamd.stream.wire.entry_encoder import encode_entry

# As many entries as there may be; and so many at once if their sizes are to be looked at.
_COUNT_MAX: Final = 2**62
_SIZED_MAX: Final = 1_000

# The last two elements that CLAIM adds to a new entry: idle time and delivery count.
_NEW: Final = b":0\r\n:0\r\n"


def _finder(log: Log, ids: list[int]) -> Callable[[int], list[bytes] | None]:
    """Return a function that finds the fields of the entries `ids`; they are read at once if few others lie between."""
    try:
        around = log.ids_between(ids[0], ids[-1], 4 * len(ids)) if ids else []
    except Absent:
        around = []  # others between them are not in memory
    if around and around[-1] >= ids[-1]:
        return dict(log.iterate(ids[0], ids[-1])).get
    return partial(_fields_of, log)


def _fields_of(log: Log, entry_id: int) -> list[bytes] | None:
    """Return the fields and values of an entry, None if it is not there."""
    found = list(log.iterate(entry_id, entry_id))
    return found[0][1] if found else None


class Share:
    """What one stream gives to an XREADGROUP: `read` finds it, and `apply` changes the group and records that.

    after_id: the ID to read behind, ID_MAX for `>`. stop: returns whether the time slice of a search is over.
    reply: the entries, or None. ids: those that are delivered, pending ones that are claimed aside. passed_id: the last
    ID that a filtered group has passed, or None. is_unfinished: a search found nothing within its time slice.
    """

    __slots__ = (
        "after_id",
        "context",
        "group",
        "ids",
        "is_unfinished",
        "key",
        "options",
        "passed_id",
        "reply",
        "stop",
        "stream",
    )

    def __init__(
        self,
        context: Context,
        key: bytes,
        options: ReadOptions,
        stream: Stream,
        group: Group,
        after_id: int,
        stop: Callable[[], bool],
    ) -> None:
        self.context = context
        self.key = key
        self.options = options
        self.stream = stream
        self.group = group
        self.after_id = after_id
        self.stop = stop
        self.reply: Reply = None
        self.ids: list[int] = []
        self.passed_id: int | None = None
        self.is_unfinished = False

    def read(self, budget: ReadBudget) -> None:
        """Set the reply, within the limits; nothing else is changed. Raises: Absent."""
        raise NotImplementedError

    def apply(self) -> None:
        """Note that the consumer was there, and what was read as delivered to it."""
        context, key, options = self.context, self.key, self.options
        group_name = options.group
        assert group_name is not None
        records = len(context.state.records or ())
        consumer = need_consumer(context, key, group_name, self.group, options.consumer)
        if self.reply is not None or self.passed_id is not None:
            self._deliver_to(consumer, group_name)
        record_seen(context, key, group_name, consumer, since=records)

    def _deliver_to(self, consumer: Consumer, group_name: bytes) -> None:
        raise NotImplementedError


class History(Share):
    """The pending entries of a consumer, which are delivered once more; a deleted entry comes without fields.

    is_whole: all of them are, and `ids` does not list them.
    """

    __slots__ = ("is_whole",)

    is_whole: bool

    def read(self, budget: ReadBudget) -> None:
        self.is_whole = False
        log, pending = self.stream.log, self.group.pending
        budget.show_stream()
        consumer = self.group.consumers.get(self.options.consumer)
        if consumer is None:
            self.reply = []
            return
        if self.context.state.records is None and not budget.sizes_count:
            # (A journal gets a record of each; without one not even a list of them is made.)
            self.reply = _read_all_again(self.stream, pending, consumer, self.after_id, budget)
            if self.reply is not None:
                self.is_whole = True
                return
        ids = pending.ids_of(consumer, self.after_id + 1, budget.entries_left)
        if len(ids) > SLICED_ITEMS_MIN and not budget.sizes_count:
            budget.spend(len(ids))
            self.reply = LongArray(len(ids), _shown_in_slices(log.copy(), ids))
            self.ids = ids if self.stream.has_all_behind(ids[0]) else log.held(ids)
            return
        if ids and not budget.sizes_count:
            found: list[NodeRun] = []
            try:
                parts = log.encode_parts(ids[0], ids[-1], len(ids), found=found)[1]
            except Absent:
                found.clear()  # others between them may not be in memory
            if ids_in(found) == ids:
                # They stand in the log one behind the other, as mostly.
                budget.spend(len(ids))
                self.reply = Parts([b"*%d\r\n" % len(ids), *parts])
                self.ids = ids
                return
        self._read_each(ids, budget)

    def _read_each(self, ids: list[int], budget: ReadBudget) -> None:
        """Find entries one by one."""
        log = self.stream.log
        is_held = log.holding(ids)
        if log.may_wait and not budget.sizes_count:
            log.require_ids(filter(is_held, ids))
        shown: list[Reply] = []
        find = _finder(log, ids)
        for entry_id in ids:
            fields = find(entry_id) if is_held(entry_id) else None
            entry: Reply = [format_id(entry_id), NULL_ARRAY if fields is None else fields]
            if not budget.admit(len(encode(entry, self.context.client.protocol)) if budget.sizes_count else 0):
                break
            shown.append(entry)
            if fields is not None:
                self.ids.append(entry_id)
        self.reply = shown

    def _deliver_to(self, consumer: Consumer, group_name: bytes) -> None:
        now_ms, pending = self.context.now_ms, self.group.pending
        if self.is_whole:
            pending.renew(consumer, self.after_id + 1, now_ms)
            return
        pending.take_over(self.ids, consumer, now_ms, counts_up=True)
        record_taken(self.context, self.key, group_name, self.group, consumer, self.ids, now_ms)


def _read_all_again(
    stream: Stream, pending: PendingEntries, consumer: Consumer, after_id: int, budget: ReadBudget
) -> LongArray | None:
    """Return the reply of a history at once if it is long and its entries follow each other in the log."""
    left = budget.entries_left
    if min(consumer.pending, consumer.pending if left is None else left) <= SLICED_ITEMS_MIN:
        return None  # (To find the span takes a look at each of the consumer's chunks.)
    span = pending.span_of(consumer, after_id + 1)
    if span is None:
        return None
    first_id, last_id, entries = span
    if (
        entries <= SLICED_ITEMS_MIN
        or (left is not None and left < entries)
        or not stream.has_all_behind(first_id)
        or stream.log.count_range(first_id, last_id) != entries
    ):
        return None
    budget.spend(entries)
    return entries_now(stream.log, first_id, last_id, entries)


def _shown_in_slices(log: Log, ids: list[int]) -> Iterator[bytes | list[Reply] | Pause]:
    """Yield the entries `ids`, some at a time; deleted ones come without fields."""
    for at in range(0, len(ids), CHUNK_ENTRIES_MAX):
        yield from pauses(partial(_ask, log, ids, at))
        some = ids[at : at + CHUNK_ENTRIES_MAX]
        with log.at_once():
            shown = _shown(log, some)
        yield shown


def _ask(log: Log, ids: list[int], at: int) -> None:
    """Ask for the entries of a slice. Raises: Absent, for some more if one of these is absent."""
    try:
        log.require_ids(ids[at : at + CHUNK_ENTRIES_MAX])
    except Absent:
        log.require_ids(ids[at : at + max(entries_ahead(log), CHUNK_ENTRIES_MAX)])


def _shown(log: Log, ids: list[int]) -> bytes | list[Reply]:
    found: list[NodeRun] = []
    _, parts = log.encode_parts(ids[0], ids[-1], len(ids), found=found)
    if ids_in(found) == ids:
        return b"".join(parts)
    find = _finder(log, ids)
    return [[format_id(one), NULL_ARRAY if (fields := find(one)) is None else fields] for one in ids]


class Delivery(Share):
    """The entries for the ID `>`: those that the group has not read.

    runs: these entries, where `ids` is empty since no ints need be made of their IDs.
    """

    __slots__ = ("runs",)

    runs: list[NodeRun]

    def read(self, budget: ReadBudget) -> None:
        self.runs = []
        log, start = self.stream.log, self.group.last_id + 1
        if start > self.stream.last_id or start > (log.last_id or 0):
            return
        if self.group.wanted is not None:
            parts = self._search(self.group.wanted, budget, budget.sizes_count)
            self.reply = gathered([b"*%d\r\n" % len(self.ids), *parts]) if self.ids else None
        else:
            entries, self.reply = budget.take(log, start, ID_MAX, self.runs)
            if entries < RUNS_MIN:
                self.ids = ids_in(self.runs)

    def _search(self, wanted: EntryFilter, budget: ReadBudget, one_by_one: bool) -> list[bytes]:
        """Return the RESP of the next entries that the group's filter lets through; one_by_one: of each one apart."""
        log = self.stream.log
        index = self.stream.index_of(wanted.field)
        count = budget.entries_left
        count = _COUNT_MAX if count is None else count
        if budget.sizes_count:
            count = min(count, _SIZED_MAX)  # an entry that is too large now must not be passed
        found = search(log, index, wanted, self.group.last_id + 1, ID_MAX, count, self.stop, with_ids=True)
        self.is_unfinished = not found.is_done and not found.ids
        assert found.passed_id is not None
        self.passed_id = found.passed_id
        if not one_by_one:
            budget.spend(len(found.ids))
            self.ids = found.ids
            return found.parts
        parts: list[bytes] = []
        for entry_id in found.ids:
            part = encode_entry(entry_id, _fields_of(log, entry_id) or [])
            if not budget.admit(len(part)):
                self.passed_id = self.ids[-1] if self.ids else self.group.last_id
                break
            self.ids.append(entry_id)
            parts.append(part)
        return parts

    def _deliver_to(self, consumer: Consumer, group_name: bytes) -> None:
        context, group = self.context, self.group
        ids, passed_id, runs = self.ids, self.passed_id, self.runs
        entries = len(ids)
        if passed_id is not None:
            if passed_id <= group.last_id:
                return
            if self.stream.log.may_wait:
                with self.stream.log.at_once():
                    self.stream.pass_to(group, passed_id)
            else:
                self.stream.pass_to(group, passed_id)
        elif ids or runs:
            if ids:
                ends = ids[0], ids[-1]
            else:
                entries = sum([high - low for _, low, high in runs])
                (first, low, _), (last, _, high) = runs[0], runs[-1]
                ends = first.id_at(low), last.id_at(high - 1)
            try:
                self.stream.advance(group, ends, entries, self._all_ids)
            except Absent:  # what it has done so far is done
                with self.stream.log.at_once():
                    self.stream.advance(group, ends, entries, self._all_ids)
        else:
            return
        if not entries:
            record_position(context, self.key, group_name, group, changes=0)
            return
        if not self.options.no_ack:
            now_ms = context.now_ms
            consumer.active_ms = now_ms
            recorded_ids = [] if context.state.records is None else self._all_ids()
            if ids:
                group.own_pending().deliver(ids, consumer, now_ms)
            else:
                group.own_pending().deliver_runs(runs, ends[0], consumer, now_ms)
            record_owned(context, self.key, group_name, group, consumer, recorded_ids, now_ms, 1)
        # However many entries: one change, as in Redis.
        record_position(context, self.key, group_name, group, changes=int(self.options.no_ack))

    def _all_ids(self) -> list[int]:
        """Return the IDs of what is delivered, a new list."""
        return list(self.ids) or ids_in(self.runs)


class ClaimingDelivery(Delivery):
    """Pending entries that are idle long enough, then those that the group has not read.

    Pending entries that were deleted stay with their owner, as in Redis; XAUTOCLAIM shows them. Every entry comes with
    its idle time and its number of earlier deliveries.

    taken: (ID, number of deliveries) of the pending entries.
    """

    __slots__ = ("taken",)

    taken: list[tuple[int, int]]

    def read(self, budget: ReadBudget) -> None:
        self.runs = []
        parts = self._read_idle(budget)
        log, start = self.stream.log, self.group.last_id + 1
        if self.group.wanted is not None:
            if start <= (log.last_id or 0) and not budget.exhausted and budget.entries_left != 0:
                parts += [_four(part, _NEW) for part in self._search(self.group.wanted, budget, True)]
        elif start <= (log.last_id or 0):
            for entry_id, fields in log.iterate(start):
                part = _four(encode_entry(entry_id, fields), _NEW)
                if not budget.admit(len(part)):
                    break
                self.ids.append(entry_id)
                parts.append(part)
        if parts or (budget.sizes_count and budget.shows_stream):
            self.reply = Raw(b"*%d\r\n%b" % (len(parts), b"".join(parts)))

    def _read_idle(self, budget: ReadBudget) -> list[bytes]:
        """Return the RESP of the pending entries that are to be claimed."""
        context, log = self.context, self.stream.log
        assert self.options.claim_idle_ms is not None
        now_ms = context.now_ms
        parts: list[bytes] = []
        self.taken = []
        until_ms = now_ms - self.options.claim_idle_ms
        is_there = log.holds_pending if log.may_wait else log.__contains__
        first_id, last_id = log.first_id, self.stream.last_id
        oldest = self.group.pending.oldest(
            until_ms, budget.entries_left, is_there, last_id + 1 if first_id is None else first_id, last_id
        )
        if log.may_wait and not budget.sizes_count:
            log.require_ids([row[0] for row in oldest])
        for entry_id, _, time_ms, count in oldest:
            fields = _fields_of(log, entry_id) or []
            # The time of a released entry is 0: it is idle since 1970, as in Redis.
            part = _four(encode_entry(entry_id, fields), b":%d\r\n:%d\r\n" % (max(0, now_ms - time_ms), count))
            if not budget.admit(len(part)):
                break
            parts.append(part)
            self.taken.append((entry_id, count))
        return parts

    def _deliver_to(self, consumer: Consumer, group_name: bytes) -> None:
        context, group = self.context, self.group
        now_ms = context.now_ms
        for entry_id, count in self.taken:
            group.own_pending().set(entry_id, consumer, now_ms, again(count))
        taken = [entry_id for entry_id, _ in self.taken]
        record_taken(context, self.key, group_name, group, consumer, taken, now_ms)
        context.state.dirty += len(taken)
        if taken:
            consumer.active_ms = now_ms
        super()._deliver_to(consumer, group_name)


def _four(entry: bytes, more: bytes) -> bytes:
    """Return the RESP of an entry with two more elements."""
    return b"*4" + entry[2:] + more
