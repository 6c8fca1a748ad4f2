"""Reads a log by iterators: from a position to its end, and then new messages as they come."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from streamd.clients.topics import layout, retention
from streamd.clients.topics.entry_ids import BEGIN, END, Id, before_ms, format_id, parse_id, to_ms
from streamd.clients.topics.filters import TopicFilter, parse_filter
from streamd.clients.topics.handle import Handle, server_ms
from streamd.clients.topics.iterators import Iterator
from streamd.clients.topics.messages import Entry, is_expired, to_entry
from streamd.clients.topics.steps import Command, Steps, run_all

State = Literal["more", "live", "gap", "end"]
Start = Literal["earliest", "latest"] | datetime
RawEntries = list[tuple[bytes, Mapping[bytes, bytes]]]

# The most entries searched in one call: even if none matches, the call returns, with a new iterator.
SCANNED_MAX = 20_000
# Entries of one shard that are fetched at once, when a filter lets few through.
FETCHED_MAX = 2_000
# The entries that a slice of the server's own search counts as: it searches more, but four shards take it 20 ms.
SCANNED_PER_SLICE = 1_000


class Batch(NamedTuple):
    """The result of `next`.

    state: `more`: entries can be read at once; `live`: the end was reached; `gap`: the next entries were removed before
    they were read, the next call goes on behind them; `end`: the log was dropped.
    """

    entries: list[Entry]
    iterator: Iterator
    state: State


def start_iterator(handle: Handle, pattern: str, start: Start) -> Steps[Iterator]:
    """Return an iterator over the messages that match a filter, from a start on. Raises: ValueError; LogDropped."""
    text = parse_filter(pattern).text
    start_ms = check_start(start)
    yield from retention.retain(handle)
    generation, at, floor_ms = yield from first_place(handle, start, start_ms)
    return Iterator(handle.name, handle.meta.uid, text, generation, at, floor_ms)


def check_start(start: Start) -> int | None:
    """Return the Unix milliseconds of a start that is a time, else None. Raises: ValueError."""
    if isinstance(start, datetime):
        return to_ms(start)
    if start not in ("earliest", "latest"):
        raise ValueError(f"start {start!r}: give 'earliest', 'latest', or a datetime with its time zone")
    return None


def first_place(handle: Handle, start: Start, start_ms: int | None) -> Steps[tuple[int, tuple[Id, ...], int | None]]:
    """Return the generation of a start, the last ID before it in each shard, and the floor of later generations."""
    meta = handle.meta
    if start == "latest":
        keys = layout.stream_keys(meta.name, meta.current)
        infos = yield from run_all([("XINFO STREAM", key) for key in keys])
        return meta.current.number, tuple(parse_id(info["last-generated-id"]) for info in infos), None
    oldest = meta.generations[0]
    if start_ms is not None:
        return oldest.number, (before_ms(start_ms),) * oldest.shards, start_ms
    trimmed = yield from run_all([_trimmed_command(meta.name, oldest, shard) for shard in range(oldest.shards)])
    return oldest.number, tuple(BEGIN if one is None else parse_id(one) for one in trimmed), None


def read_next(handle: Handle, iterator: Iterator, n: int, block_ms: int) -> Steps[Batch]:
    """Return up to n entries, and the iterator that follows; wait up to that time for the first.

    Raises: ValueError, if the iterator is another log's.
    """
    check_numbers(n, block_ms)
    cursor = _cursor(handle, iterator, n)
    deadline_s = handle.monotonic_s() + block_ms / 1_000
    while True:
        page = yield from _fetch(handle, cursor)
        if page.meta is None or page.meta.uid != iterator.uid:
            return Batch(cursor.taken, cursor.iterator(), "end")
        handle.take(page.meta, page.now_ms)
        if cursor.has_gap(page):
            if cursor.taken:  # they came before it
                return Batch(cursor.taken, cursor.iterator(), "more")
            cursor.pass_gap(page)
            return Batch([], cursor.iterator(), "gap")
        more = cursor.take(page)
        if cursor.is_closed:
            if not cursor.advance(page.meta):
                return Batch([], cursor.iterator(), "gap") if not cursor.taken else cursor.before_gap()
            more = True
        if len(cursor.taken) == n or cursor.scanned >= SCANNED_MAX:
            return Batch(cursor.taken, cursor.iterator(), "more")
        if more:
            continue
        left_ms = int((deadline_s - handle.monotonic_s()) * 1_000)
        if cursor.taken or left_ms <= 0:
            return Batch(cursor.taken, cursor.iterator(), "live")
        yield from run_all([cursor.wait_command(min(left_ms, handle.block_ms_max), handle.abilities.xfilter)])


def check_numbers(n: int, block_ms: int) -> None:
    """Refuse numbers out of range. Raises: ValueError."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n {n!r}: ask for 1 entry or more")
    if isinstance(block_ms, bool) or not isinstance(block_ms, int) or block_ms < 0:
        raise ValueError(f"block_ms {block_ms!r}: give whole milliseconds; 0 does not wait")


@dataclass(slots=True)
class _Page:
    """The result of one round trip: entries and the last trimmed ID by shard, the log's meta hash, the server's time.

    scanned_to: where the server filters, the ID up to which it has searched each shard; else None.
    """

    entries: dict[int, RawEntries]
    scanned_to: dict[int, Id] | None
    trimmed: dict[int, Id]
    meta: layout.Meta | None
    now_ms: int
    count: int


@dataclass(slots=True)
class _Cursor:
    """An iterator while it moves."""

    start: Iterator
    pattern: TopicFilter
    wanted: int
    generation: int
    at: list[Id]
    floor_ms: int | None
    taken: list[Entry] = field(default_factory=list)
    scanned: int = 0
    count: int = 1
    began_ms: int = 0
    behind_gap: Iterator | None = None

    def iterator(self) -> Iterator:
        """Return the position that was reached."""
        one = self.start
        return Iterator(one.log, one.uid, one.filter, self.generation, tuple(self.at), self.floor_ms)

    def open_shards(self) -> list[int]:
        """Return the shards whose end entry is not reached yet."""
        return [shard for shard, at in enumerate(self.at) if at != END]

    @property
    def is_closed(self) -> bool:
        """Whether the generation was read to the end entries of all its shards."""
        return not self.open_shards()

    def has_gap(self, page: _Page) -> bool:
        """Return whether the next entries were removed."""
        assert page.meta is not None
        return page.meta.generation(self.generation) is None or any(self._is_cut(page, one) for one in page.entries)

    def _is_cut(self, page: _Page, shard: int) -> bool:
        trimmed, entries = page.trimmed.get(shard), page.entries[shard]
        if trimmed is None or trimmed <= self.at[shard]:
            return False
        # The trim may have come behind the read, in the same pipeline: then the read is complete. (A reply of the
        # server's own search is only taken if no trim came meanwhile.)
        return page.scanned_to is not None or not entries or parse_id(entries[0][0]) > trimmed

    def pass_gap(self, page: _Page) -> None:
        """Skip removed entries."""
        assert page.meta is not None
        if page.meta.generation(self.generation) is None:
            self._enter(page.meta)
            return
        for shard in page.entries:
            if self._is_cut(page, shard):
                self.at[shard] = page.trimmed[shard]

    def advance(self, meta: layout.Meta) -> bool:
        """Go on in the following generation; return False if one in between was dropped."""
        before = self.generation
        self.behind_gap = None
        stopped = self.iterator()
        following = self._enter(meta)
        if following.after != before and self.taken:
            self.behind_gap = stopped
        return following.after == before

    def before_gap(self) -> Batch:
        """Return the entries before a gap, and an iterator that meets the gap at the next call."""
        assert self.behind_gap is not None
        return Batch(self.taken, self.behind_gap, "more")

    def _enter(self, meta: layout.Meta) -> layout.Generation:
        following = meta.after(self.generation)
        assert following is not None, "the current generation is never dropped"
        self.generation = following.number
        begin = BEGIN if self.floor_ms is None else before_ms(self.floor_ms)
        self.at = [begin] * following.shards
        return following

    def take(self, page: _Page) -> bool:
        """Take matching entries, in the order of IDs, up to the wanted number; return whether there were more."""
        candidates: list[list[tuple[Id, Id, int, Mapping[bytes, bytes]]]] = []
        more = False
        ends = {}
        for shard, entries in page.entries.items():
            mine = []
            before = self.at[shard]
            for text, fields in entries:
                entry_id = parse_id(text)
                if entry_id != END:
                    self.floor_ms = None  # the reader has come to its start: what follows is read from its beginning
                topic = fields.get(b"t")
                if topic is not None and self.pattern.matches(topic) and not is_expired(entry_id, fields, page.now_ms):
                    mine.append((entry_id, before, shard, fields))
                before = entry_id
            if page.scanned_to is None:
                self.scanned += len(entries)
                more |= before != END and len(entries) >= page.count
            else:
                if before < page.scanned_to[shard]:
                    before = page.scanned_to[shard]
                    self.scanned += SCANNED_PER_SLICE
                # A search has come to its end when it passes nothing more; with its time up it may stop at any entry, a
                # matching one too. Entries that came after this call began do not count: under a steady load there are
                # always more.
                passed_any = before > self.at[shard] and before[0] <= self.began_ms
                more |= before != END and (passed_any or len(entries) >= page.count)
            candidates.append(mine)
            ends[shard] = before
        passed = 0
        for entry_id, before, shard, fields in heapq.merge(*candidates, key=lambda one: one[0]):
            if len(self.taken) < self.wanted:
                self.taken.append(to_entry(entry_id, fields, self.generation, shard))
                passed += 1
            elif before < ends[shard]:
                ends[shard] = before
        for shard, end in ends.items():
            self.at[shard] = end
        if passed * 4 < page.count and page.scanned_to is None:  # the filter lets few through
            self.count = min(FETCHED_MAX, page.count * 4)
        return more

    def wait_command(self, block_ms: int, by_server: bool) -> Command:
        """Return the command that waits for an entry in one of the shards."""
        shards = self.open_shards()
        keys = [layout.stream_key(self.start.log, shard, self.generation) for shard in shards]
        ids = [format_id(self.at[shard]) for shard in shards]
        if by_server and not self.pattern.is_all and self.floor_ms is None:
            return wait_for_match(keys, ids, self.pattern, block_ms)
        return ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *keys, *ids)


def wait_for_match(keys: list[str], ids: list[str], pattern: TopicFilter, block_ms: int) -> Command:
    """Return the command that waits for a matching entry in one of these streams behind these IDs."""
    others: list[str] = [word for key, one in zip(keys[1:], ids[1:], strict=True) for word in (key, f"({one}")]
    words: list[str | int] = ["BLOCK", block_ms, "FIELD", "t", "MQTT", pattern.text]
    if others:
        words += ["ALSO", *others]
    return ("XFILTER", keys[0], f"({ids[0]}", "+", "COUNT", 1, *words)


def _cursor(handle: Handle, iterator: Iterator, n: int) -> _Cursor:
    if (iterator.log, iterator.uid) != (handle.name, handle.meta.uid):
        other = f"log {iterator.log!r}" if iterator.log != handle.name else "an earlier log of this name, now dropped"
        raise ValueError(f"an iterator of {other}, given to log {handle.name!r}: begin with this log's iterator()")
    pattern = parse_filter(iterator.filter)
    cursor = _Cursor(iterator, pattern, n, iterator.generation, list(iterator.at), iterator.floor_ms)
    cursor.count = min(FETCHED_MAX, -(-n // max(1, len(cursor.open_shards()))))
    return cursor


def _fetch(handle: Handle, cursor: _Cursor) -> Steps[_Page]:
    """Read each shard from the cursor on.

    While the start is a time that was not reached yet (`floor_ms`), the reader itself has to see the first entries.
    """
    name, count = handle.name, cursor.count
    shards = cursor.open_shards()
    news: list[Command] = [
        *[("HGET", layout.shard_meta_key(name, one), layout.trimmed_field(cursor.generation)) for one in shards],
        ("HGETALL", layout.meta_key(name)),
        ("TIME",),
    ]
    keys = [layout.stream_key(name, shard, cursor.generation) for shard in shards]
    starts = [f"({format_id(cursor.at[shard])}" for shard in shards]
    entries: dict[int, RawEntries] = {}
    scanned_to: dict[int, Id] | None = None
    if handle.abilities.xfilter and not cursor.pattern.is_all and cursor.floor_ms is None:
        asked = [
            ("XFILTER", key, start, "+", "COUNT", count, "FIELD", "t", "MQTT", cursor.pattern.text)
            for key, start in zip(keys, starts, strict=True)
        ]
        read, told = yield from _read_between(asked, news, len(shards))
        scanned_to = {}
        for shard, reply in zip(shards, read, strict=True):
            entries[shard], scanned_to[shard] = _filtered(reply)
    else:
        commands = [("XRANGE", key, start, "+", "COUNT", count) for key, start in zip(keys, starts, strict=True)]
        replies = yield from run_all([*commands, *news])  # the trims are asked for behind it: see `_Cursor._is_cut`
        entries = dict(zip(shards, replies, strict=False))
        told = replies[len(shards) :]
    *trimmed, fields, now = told
    last = {shard: parse_id(one) for shard, one in zip(shards, trimmed, strict=True) if one is not None}
    now_ms = server_ms(now)
    cursor.began_ms = cursor.began_ms or now_ms
    return _Page(entries, scanned_to, last, layout.parse_meta(name, fields), now_ms, count)


def _read_between(reads: Sequence[Command], news: list[Command], trims: int) -> Steps[tuple[list[Any], list[Any]]]:
    """Return the replies to `reads` and to `news`, whose first `trims` ask for trims; repeat if one comes between.

    A filtered reply may lack the first entry that is left. So only these replies tell a trim before the reading from
    one after it.
    """
    while True:
        replies = yield from run_all([*news[:trims], *reads, *news])
        before, told = replies[:trims], replies[trims + len(reads) :]
        if before == told[:trims]:
            return replies[trims : trims + len(reads)], told


def _filtered(reply: list[object]) -> tuple[RawEntries, Id]:
    """Return the entries of an XFILTER reply, and the last ID that the server searched."""
    last, entries = reply
    assert isinstance(last, bytes)
    assert isinstance(entries, list)
    found: RawEntries = [(one[0], dict(zip(one[1][::2], one[1][1::2], strict=True))) for one in entries]
    return found, parse_id(last)


def _trimmed_command(name: str, generation: layout.Generation, shard: int) -> Command:
    return ("HGET", layout.shard_meta_key(name, shard), layout.trimmed_field(generation.number))
