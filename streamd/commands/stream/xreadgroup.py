"""XREADGROUP: deliver entries to a consumer of a group, or show it its unacknowledged entries again."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from streamd.base.errors import CommandError
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command
from streamd.commands.stream.filter_words import slice_end
from streamd.commands.stream.group_effects import (
    need_consumer,
    need_group,
    record_owned,
    record_position,
    record_seen,
    record_taken,
)
from streamd.commands.stream.options import ReadOptions, parse_read_options, stream_keys
from streamd.connected.blocking import BLOCKED
from streamd.resp.encoder import encode
from streamd.resp.types import NULL_ARRAY, LongArray, Pairs, Parts, Raw, Reply, Sliced
from streamd.stream.entry_id import ID_MAX, format_id, parse_id
from streamd.stream.entry_replies import ReadBudget, entries_now, gathered, pinned_bytes
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import CHUNK_ENTRIES_MAX, Consumer, PendingEntries, again
from streamd.stream.log.entry_log import Log
from streamd.stream.search.patterns import EntryFilter
from streamd.stream.search.searching import search
from streamd.stream.stream import Stream
from streamd.stream.wire.entry_encoder import encode_entry

# As many entries as there may be; and so many at once if their sizes are to be looked at.
_COUNT_MAX: Final = 2**62
_SIZED_MAX: Final = 1_000

# The last two elements that CLAIM adds to a new entry: idle time and delivery count.
_NEW: Final = b":0\r\n:0\r\n"


@command(
    "XREADGROUP",
    arity=-7,
    flags="write blocking movablekeys",
    since="5.0.0",
    complexity="O(M) with M being the number of entries returned; O(log(N)) for each one claimed or read again, N "
    "being the number of pending entries of the group.",
    syntax="GROUP group consumer [COUNT count] [MAXCOUNT count] [MAXSIZE bytes] [BLOCK milliseconds] "
    "[CLAIM min-idle-time] [NOACK] STREAMS key [key ...] id [id ...]",
    find_keys=stream_keys,
    access="RO access",
)
def xreadgroup(context: Context, args: list[bytes]) -> Reply:
    """Return entries that no consumer of the group got yet, for the ID `>`, or pending ones of the consumer.

    Reply: map of key to entries, in RESP2 an array of pairs; null when there is nothing.
    Raises: CommandError; NoGroup; WrongType.
    """
    options = parse_read_options(args, grouped=True)
    assert options.group is not None
    after: list[int] = []
    for key, word in zip(options.keys, options.ids, strict=True):
        need_group(context, key, options.group, _WHERE)
        after.append(_resolve(word))
    attempt = _Attempt(context, options, after)
    reply = attempt.read()
    if reply is not None:
        return reply
    if attempt.is_unfinished:
        return _go_on(context, options, attempt)
    if options.block_ms is None:
        return NULL_ARRAY
    line = options.group if _stands_in_line(options) else None
    parked = context.block(options.keys, options.block_ms, attempt, on_timeout=NULL_ARRAY, line=line)
    if parked is BLOCKED:
        attempt.come_back()
    return parked


def _go_on(context: Context, options: ReadOptions, attempt: "_Attempt") -> Reply:
    """Block the client with a retry at once, so that other clients are served before the search goes on."""
    parked = context.block(options.keys, options.block_ms or 0, attempt, on_timeout=NULL_ARRAY)
    if parked is BLOCKED:
        attempt.come_back()
    return parked


def _stands_in_line(options: ReadOptions) -> bool:
    """Return whether clients of a group that wait with such options are served in line: if one finds nothing, all do.

    They all want the entries of one stream that the group has not read, of any size.
    """
    return len(options.keys) == 1 and options.claim_idle_ms is None and not options.bytes_max


_WHERE: Final = " in XREADGROUP with GROUP option"


def _resolve(word: bytes) -> int:
    """Return the ID to read behind; ID_MAX for `>`, as in Redis."""
    if word in (b"$", b"+"):
        raise CommandError(
            f"ERR The {word.decode()} ID is meaningless in the context of XREADGROUP: you want to read the history of "
            "this consumer by specifying a proper ID, or use the > ID to get new messages. The "
            f"{word.decode()} ID would just return an empty result set."
        )
    return ID_MAX if word == b">" else parse_id(word)


class _Attempt:
    """The read of a request, which is repeated while the client waits.

    is_unfinished: the last read found nothing but ended before the end of a stream, since a filter skips so much.
    """

    __slots__ = ("after", "context", "is_unfinished", "options")

    def __init__(self, context: Context, options: ReadOptions, after: list[int]) -> None:
        self.context = context
        self.options = options
        self.after = after
        self.is_unfinished = False

    def __call__(self) -> Reply:
        was_unfinished = self.is_unfinished
        reply = self.read()
        if reply is None:
            if self.options.block_ms is None and not self.is_unfinished:
                return NULL_ARRAY
            self.come_back()
            return BLOCKED
        if was_unfinished:
            for key in self.options.keys:
                self.context.db.signal(key)  # other clients may have waited for this one to finish
        return reply

    def come_back(self) -> None:
        """Set the time of the next attempt: at once if there is more to search, or when the next pending entry has been
        idle long enough for CLAIM.
        """
        idle_ms, waiter = self.options.claim_idle_ms, self.context.client.waiter
        if waiter is None:
            return
        if self.is_unfinished:
            self.context.state.blocked.set_retry(waiter, 0)
            return
        if idle_ms is None:
            self.context.state.blocked.set_retry(waiter, None)
            return
        times = []
        now_ms = self.context.now_ms
        for key in self.options.keys:
            pending = need_group(self.context, key, self.options.group or b"", _WHERE)[1].pending
            # Those that are idle long enough now were deleted: the read would have taken them.
            next_ms = pending.first_ms_behind(now_ms - idle_ms)
            if next_ms is not None:
                times.append(next_ms + idle_ms)
        self.context.state.blocked.set_retry(waiter, min(times, default=None))

    def read(self) -> Reply:
        """Return the entries, or None. Raises: NoGroup and WrongType when a stream or its group is gone."""
        context, options = self.context, self.options
        assert options.group is not None
        groups = [need_group(context, key, options.group, _WHERE) for key in options.keys]
        limits = options.count, options.count_max, options.bytes_max
        budget = ReadBudget(*limits, context.client.protocol, options.keys[0])
        found: list[tuple[Reply, Reply]] = []
        pinned = 0
        stop = _never if context.in_unit else slice_end(context)
        self.is_unfinished = False
        claims = options.claim_idle_ms is not None
        for key, (stream, group), after_id in zip(options.keys, groups, self.after, strict=True):
            budget.next_stream(key)
            if budget.exhausted:
                break  # the streams behind are not touched, as in Redis
            records = len(context.state.records or ())
            consumer = need_consumer(context, key, options.group, group, options.consumer)
            if after_id != ID_MAX:
                claims = False  # for the streams behind it, too, as in Redis
                found.append((key, _read_again(context, key, options.group, stream, group, consumer, after_id, budget)))
            else:
                reading = _Delivery(context, key, options, stream, group, consumer, stop)
                reply = reading.read_claiming(budget) if claims else reading.read_new(budget)
                self.is_unfinished |= reading.is_unfinished
                if reply is not None:
                    found.append((key, reply))
            record_seen(context, key, options.group, consumer, since=records)
            if found and type(found[-1][1]) is LongArray:
                pinned += pinned_bytes(stream.log, len(stream))
        if not found:
            return None
        return Sliced(Pairs(found), pinned) if pinned else Pairs(found)


def _never() -> bool:
    return False


def _finder(log: Log, ids: list[int]) -> Callable[[int], list[bytes] | None]:
    """Return a function that finds the fields of the entries `ids`; they are read at once if few others lie between."""
    around = log.ids_between(ids[0], ids[-1], 4 * len(ids)) if ids else []
    if around and around[-1] >= ids[-1]:
        return dict(log.iterate(ids[0], ids[-1])).get
    return partial(_fields_of, log)


def _fields_of(log: Log, entry_id: int) -> list[bytes] | None:
    """Return the fields and values of an entry, None if it is not there."""
    found = list(log.iterate(entry_id, entry_id))
    return found[0][1] if found else None


def _read_again(
    context: Context,
    key: bytes,
    group_name: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    after_id: int,
    budget: ReadBudget,
) -> Reply:
    """Return pending entries of a consumer, which counts as a delivery; a deleted entry comes without fields."""
    now_ms = context.now_ms
    log, pending = stream.log, group.pending
    budget.show_stream()
    if context.state.records is None and not budget.sizes_count:
        # (A journal gets a record of each; without one not even a list of them is made.)
        whole = _read_all_again(stream, pending, consumer, after_id, budget, now_ms)
        if whole is not None:
            return whole
    ids = pending.ids_of(consumer, after_id + 1, budget.entries_left)
    shown: Reply
    found: list[int] = []
    parts: list[bytes] = []
    is_long = len(ids) > SLICED_ITEMS_MIN and not budget.sizes_count
    if ids and not is_long and not budget.sizes_count:
        parts = log.encode_parts(ids[0], ids[-1], len(ids), ids=found)[1]
    if is_long:
        budget.spend(len(ids))
        shown = LongArray(len(ids), _shown_in_slices(log.copy(), ids))
        if not stream.has_all_behind(ids[0]):
            around = set(log.ids_between(ids[0], ids[-1]))
            ids = [entry_id for entry_id in ids if entry_id in around]
    elif parts and found == ids:
        # They are all there and stand in the log one behind the other, as mostly.
        budget.spend(len(ids))
        shown = Parts([b"*%d\r\n" % len(ids), *parts])
    else:
        shown, there = [], []
        find = _finder(log, ids)
        for entry_id in ids:
            fields = find(entry_id)
            entry: Reply = [format_id(entry_id), NULL_ARRAY if fields is None else fields]
            if not budget.admit(len(encode(entry, context.client.protocol)) if budget.sizes_count else 0):
                break
            shown.append(entry)
            if fields is not None:
                there.append(entry_id)
        ids = there
    pending.take_over(ids, consumer, now_ms, counts_up=True)
    record_taken(context, key, group_name, group, consumer, ids, now_ms)
    return shown


def _read_all_again(
    stream: Stream, pending: PendingEntries, consumer: Consumer, after_id: int, budget: ReadBudget, now_ms: int
) -> LongArray | None:
    """Return the reply of `_read_again` at once if it is long and its entries follow each other in the log."""
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
    pending.renew(consumer, after_id + 1, now_ms)
    return entries_now(stream.log, first_id, last_id, entries)


def _shown_in_slices(log: Log, ids: list[int]) -> Iterator[bytes | list[Reply]]:
    """Yield the entries `ids`, some at a time; deleted ones come without fields."""
    for at in range(0, len(ids), CHUNK_ENTRIES_MAX):
        some = ids[at : at + CHUNK_ENTRIES_MAX]
        found: list[int] = []
        _, parts = log.encode_parts(some[0], some[-1], len(some), ids=found)
        if found == some:
            yield b"".join(parts)
            continue
        find = _finder(log, some)
        yield [[format_id(one), NULL_ARRAY if (fields := find(one)) is None else fields] for one in some]


class _Delivery:
    """One stream of an XREADGROUP with the ID `>`.

    stop: returns whether the time slice of a search is over; is_unfinished: it ended a search that found nothing.
    """

    __slots__ = ("consumer", "context", "group", "is_unfinished", "key", "options", "stop", "stream")

    def __init__(
        self,
        context: Context,
        key: bytes,
        options: ReadOptions,
        stream: Stream,
        group: Group,
        consumer: Consumer,
        stop: Callable[[], bool],
    ) -> None:
        self.context = context
        self.stop = stop
        self.is_unfinished = False
        self.key = key
        self.options = options
        self.stream = stream
        self.group = group
        self.consumer = consumer

    def read_new(self, budget: ReadBudget) -> Reply:
        """Deliver the entries that the group has not read; None without such entries."""
        log, start = self.stream.log, self.group.last_id + 1
        if start > (log.last_id or 0):
            return None
        ids: list[int] = []
        if self.group.wanted is not None:
            ids, parts, passed_id = self._search(self.group.wanted, budget)
            self._deliver(ids, passed_id)
            return gathered([b"*%d\r\n" % len(ids), *parts]) if ids else None
        entries, shown = budget.take(log, start, ID_MAX, ids)
        if entries:
            self._deliver(ids)
        return shown

    def _search(self, wanted: EntryFilter, budget: ReadBudget) -> tuple[list[int], list[bytes], int]:
        """Return (IDs, RESP, passed ID) of the next entries that the group's filter lets through.

        The passed ID is the last one that was looked at or passed over.
        """
        log = self.stream.log
        index = self.stream.index_of(wanted.field)
        count = budget.entries_left
        count = _COUNT_MAX if count is None else count
        if budget.sizes_count:
            count = min(count, _SIZED_MAX)  # an entry that is too large now must not be passed
        found = search(log, index, wanted, self.group.last_id + 1, ID_MAX, count, self.stop, with_ids=True)
        self.is_unfinished = not found.is_done and not found.ids
        assert found.passed_id is not None
        if not budget.sizes_count:
            budget.spend(len(found.ids))
            return found.ids, found.parts, found.passed_id
        ids: list[int] = []
        parts: list[bytes] = []
        for entry_id in found.ids:
            part = encode_entry(entry_id, _fields_of(log, entry_id) or [])
            if not budget.admit(len(part)):
                return ids, parts, ids[-1] if ids else self.group.last_id
            ids.append(entry_id)
            parts.append(part)
        return ids, parts, found.passed_id

    def _deliver(self, ids: list[int], passed_id: int | None = None) -> None:
        """Note the delivery of the group's next entries, `ids`; passed_id: the last ID that a filtered group has
        passed.
        """
        context, group, consumer = self.context, self.group, self.consumer
        now_ms = context.now_ms
        recorded_ids = ids if context.state.records is None else list(ids)
        if passed_id is None:
            self.stream.advance(group, ids)
        elif passed_id > group.last_id:
            self.stream.pass_to(group, passed_id)
        else:
            return
        assert self.options.group is not None
        if not ids:
            record_position(context, self.key, self.options.group, group, changes=0)
            return
        if not self.options.no_ack:
            consumer.active_ms = now_ms
            group.pending.deliver(ids, consumer, now_ms)
            record_owned(context, self.key, self.options.group, group, consumer, recorded_ids, now_ms, 1)
        # However many entries: one change, as in Redis.
        record_position(context, self.key, self.options.group, group, changes=int(self.options.no_ack))

    def read_claiming(self, budget: ReadBudget) -> Reply:
        """Take over pending entries that are idle long enough, then deliver new ones; None without entries.

        Pending entries that were deleted stay with their owner, as in Redis; XAUTOCLAIM shows them. Every entry comes
        with its idle time and its number of earlier deliveries.
        """
        parts = self._claim(budget)
        log, start = self.stream.log, self.group.last_id + 1
        fresh: list[int] = []
        passed_id = None
        if self.group.wanted is not None:
            if start <= (log.last_id or 0) and not budget.exhausted and budget.entries_left != 0:
                fresh, found, passed_id = self._search(self.group.wanted, budget)
                parts += [_four(part, _NEW) for part in found]
        elif start <= (log.last_id or 0):
            for entry_id, fields in log.iterate(start):
                part = _four(encode_entry(entry_id, fields), _NEW)
                if not budget.admit(len(part)):
                    break
                fresh.append(entry_id)
                parts.append(part)
        if fresh or passed_id is not None:
            self._deliver(fresh, passed_id)
        shows = parts or (budget.sizes_count and budget.shows_stream)
        return Raw(b"*%d\r\n%b" % (len(parts), b"".join(parts))) if shows else None

    def _claim(self, budget: ReadBudget) -> list[bytes]:
        context, stream, group, consumer = self.context, self.stream, self.group, self.consumer
        assert self.options.group is not None
        assert self.options.claim_idle_ms is not None
        now_ms = context.now_ms
        parts: list[bytes] = []
        taken: list[int] = []
        until_ms = now_ms - self.options.claim_idle_ms
        for entry_id, _, time_ms, count in group.pending.oldest(until_ms, budget.entries_left, stream.log.__contains__):
            fields = _fields_of(stream.log, entry_id) or []
            # The time of a released entry is 0: it is idle since 1970, as in Redis.
            part = _four(encode_entry(entry_id, fields), b":%d\r\n:%d\r\n" % (max(0, now_ms - time_ms), count))
            if not budget.admit(len(part)):
                break
            parts.append(part)
            group.pending.set(entry_id, consumer, now_ms, again(count))
            taken.append(entry_id)
        record_taken(context, self.key, self.options.group, group, consumer, taken, now_ms)
        context.state.dirty += len(taken)
        if taken:
            consumer.active_ms = now_ms
        return parts


def _four(entry: bytes, more: bytes) -> bytes:
    """Return the RESP of an entry with two more elements."""
    return b"*4" + entry[2:] + more
