"""The entries of one stream, in the order of their IDs."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.runs import NodeRun, Passed, first_runs
from streamd.stream.log.segment import Segment
from streamd.stream.log.segment_list import SegmentList
from streamd.stream.log.shelf import Shelf
from streamd.stream.log.tail import Tail
from streamd.stream.wire.entry_columns import EntryColumns
from streamd.stream.wire.entry_encoder import encode_entry

# A node is sealed by one XADD and read by one XRANGE, so it has a limit of our own.
_NODE_ENTRIES_MAX = 10_000
# A Log, its two lists and their first places.
_EMPTY_BYTES = 350
# The context of logs in memory, for which there is nothing to wait.
_IN_MEMORY: Final = nullcontext()


class Log(Tail):
    """The entries of one stream, in the order of their IDs.

    An entry is its ID and a flat list of fields and values. Entries are appended at the tail; a tail that is full is
    sealed into a segment when the next entry comes. Segments and the tail are what Redis calls nodes: they take
    `node_max_entries` entries each, deleted ones included, and approximate trimming removes whole ones.

    Shape: the log itself is its tail, as a Tail. _sealed: None until a tail was sealed.
    _emptied: (number of entries, last ID) of the first node if trimming has emptied it but left it, as in Redis. The
    node takes entries again if all nodes behind it are deleted and nodes take more by then.
    may_wait: whether entries may be elsewhere than in memory; if not, no access raises Absent, and nothing is required.
    """

    __slots__ = ("_emptied", "_node_max", "_sealed", "_shelf", "may_wait")

    def __init__(self, node_max_entries: int = 100, shelf: Shelf | None = None) -> None:
        """shelf: where sealed nodes are kept; None: in memory."""
        super().__init__()
        self._shelf = shelf
        self.may_wait = shelf is not None
        self._node_max = node_max_entries
        self._sealed: SegmentList | None = None
        self._emptied: tuple[int, int] | None = None

    @property
    def node_max_entries(self) -> int:
        """How many entries a node takes (0: as many as possible); a change applies from the next entry appended on."""
        return self._node_max

    @node_max_entries.setter
    def node_max_entries(self, entries: int) -> None:
        self._node_max = entries
        if self._ids or self._gone:
            self._room = self._capacity - self._gone

    @property
    def _capacity(self) -> int:
        return min(self._node_max or _NODE_ENTRIES_MAX, _NODE_ENTRIES_MAX)

    # Writing.

    def append(self, entry_id: int, fields: Sequence[bytes]) -> None:
        """Add an entry; its ID must be greater than all IDs before it."""
        ids = self._ids
        if len(ids) >= self._room:
            ids = self._roll()
        # Two lists take the parts, and nothing is looked at before the tail is sealed.
        if len(fields) != self._width:
            self._differ(len(fields), 1)
        ids.append(entry_id)
        texts = self._texts
        texts += fields

    def append_columns(self, ids: Sequence[int], columns: EntryColumns) -> None:
        """Add entries; their IDs, ascending, must be greater than all IDs before them."""
        done, count = 0, len(ids)
        while done < count:
            if len(self._ids) >= self._room:
                self._roll()
            capacity = self._capacity
            is_whole = count - done >= capacity and not (self._ids or self._gone)
            upto = min(count, done + (capacity if is_whole else self._room - len(self._ids)))
            is_all = upto - done == count
            some, some_columns = (ids, columns) if is_all else (ids[done:upto], columns.part(done, upto))
            if is_whole:
                sealed = self._sealed_for_writing()
                sealed.append(Segment(some, some_columns, 0, None, sealed.newest()))
                self._room = 0
            else:
                self._extend(some, some_columns)
            done = upto

    def _roll(self) -> list[int]:
        """Make room for an entry: seal a full tail and begin a new one; return the new tail's list of IDs."""
        ids = self._ids
        if ids:
            sealed = self._sealed_for_writing()
            texts = self._texts if self._columns is None else self._columns
            segment = Segment(ids, texts, self._width, self._widths, sealed.newest())
            segment.used += self._gone
            segment.last_id = max(segment.last_id, self._gone_id)
            sealed.append(segment)
            self._ids = ids = []
            self._texts = []
        elif not self._gone and self._sealed is not None and self._sealed.last_used() < self._capacity:
            return self._reopen()
        self._gone = self._gone_id = 0
        if self._emptied is not None and not self._sealed and self._emptied[0] < self._capacity:
            (self._gone, self._gone_id), self._emptied = self._emptied, None
        self._room = self._capacity - self._gone
        return ids

    def _reopen(self) -> list[int]:
        """Make the last segment the tail again, since the tail was deleted and nodes take more entries now."""
        assert self._sealed is not None
        segment = self._sealed.take_last()
        entries: list[tuple[int, list[bytes]]] = []
        for low, high in segment.runs(0, segment.count):
            entries += zip(segment.ids(low, high), segment.entries(low, high), strict=True)
        self._gone = segment.used - len(entries)
        self._gone_id = segment.last_id
        self._room = self._capacity - self._gone
        for entry_id, fields in entries:
            self.append(entry_id, fields)
        return self._ids

    def _sealed_for_writing(self) -> SegmentList:
        if self._sealed is None:
            self._sealed = SegmentList() if self._shelf is None else self._shelf.new_list()
        return self._sealed

    @property
    def sealed(self) -> SegmentList | None:
        """The sealed nodes, None before the first; not for commands."""
        return self._sealed

    def put_on(self, shelf: Shelf) -> SegmentList:
        """Keep the sealed nodes as a shelf does, from now on; return them."""
        self._shelf, self.may_wait = shelf, True
        self._sealed = shelf.new_list() if self._sealed is None else shelf.list_of(self._sealed)
        return self._sealed

    def take_off(self) -> None:
        """Keep the sealed nodes in memory, from now on; all of them must be there."""
        self._shelf, self.may_wait = None, False
        if self._sealed is not None:
            self._sealed = self._sealed.in_memory()

    # Deleting.

    def delete(self, entry_id: int) -> bool:
        """Delete an entry; return whether it was there."""
        ids = self._ids
        if ids and entry_id >= ids[0]:
            position = bisect_left(ids, entry_id)
            if position == len(ids) or ids[position] != entry_id:
                return False
            self._cut_tail(position, position + 1)
            if not ids:
                self._drop_tail()
                if self._sealed is not None:
                    self._sealed.note_gap()
            return True
        return self._sealed is not None and self._sealed.delete_id(entry_id)

    def delete_each(self, ids: Sequence[int]) -> list[bool]:
        """Delete entries one after the other; return for each whether it was there."""
        tail, sealed = self._ids, self._sealed
        return [
            self.delete(one) if sealed is None or (tail and one >= tail[0]) else sealed.delete_id(one) for one in ids
        ]

    def delete_many(self, ids: Sequence[int]) -> list[int]:
        """Delete entries; return which of `ids` were there, ascending. Raises: Absent, before any is deleted."""
        ascending = sorted(ids)
        tail, sealed = self._ids, self._sealed
        sealed_ids = bisect_left(ascending, tail[0]) if tail else len(ascending)
        deleted = [] if sealed is None else sealed.delete_ids(ascending[:sealed_ids])
        return deleted + [entry_id for entry_id in ascending[sealed_ids:] if self.delete(entry_id)]

    def delete_recorded(self, ids: Sequence[int]) -> None:
        """Delete entries that are known to be there."""
        ascending = sorted(ids)
        tail, sealed = self._ids, self._sealed
        sealed_ids = bisect_left(ascending, tail[0]) if tail else len(ascending)
        if sealed is not None:
            sealed.delete_recorded(ascending[:sealed_ids])
        for entry_id in ascending[sealed_ids:]:
            self.delete(entry_id)

    def trim_to_length(self, maxlen: int, approximate: bool = False, limit: int = 0) -> int:
        """Delete the first entries until `maxlen` are left; return how many were deleted.

        With `approximate` only whole nodes are deleted, and `maxlen` entries or more are left. `limit` (0: no limit) is
        the most entries to delete: the first node that would exceed it stays, and all nodes behind it.
        """
        before = length = len(self)
        sealed, self._emptied = self._sealed, self._emptied if length <= maxlen else None
        if sealed is not None and length > maxlen:
            removed = sealed.trim_first(length - maxlen, approximate, limit)
            if removed < 0:
                return ~removed
            length -= removed
        entries = len(self._ids)
        if length <= maxlen or (limit and before - length + entries > limit):
            return before - length
        if length - entries >= maxlen:
            self._drop_tail()
            length -= entries
        elif not approximate:
            self._cut_tail(0, length - maxlen)
            length = maxlen
        return before - length

    def trim_before(self, min_id: int, approximate: bool = False, limit: int = 0) -> int:
        """Delete the entries whose ID is less than `min_id`; return how many were deleted.

        `approximate` and `limit` are as in `trim_to_length`.
        """
        removed = 0
        ids, sealed = self._ids, self._sealed
        if self._emptied is not None and self._emptied[1] < min_id:
            self._emptied = None
        if sealed is not None:
            removed = sealed.trim_before(min_id, approximate, limit)
            if sealed.emptied is not None:
                self._emptied = sealed.emptied
            if removed < 0:
                return ~removed
        if not (ids or self._gone) or (limit and removed + len(ids) > limit):
            return removed
        if max(ids[-1] if ids else 0, self._gone_id) < min_id:
            removed += len(ids)
            self._drop_tail()
        elif not approximate and (position := bisect_left(ids, min_id)):
            removed += position
            self._cut_tail(0, position)
        return removed

    # Reading.

    def __len__(self) -> int:
        return len(self._ids) if self._sealed is None else self._sealed.live_count + len(self._ids)

    @property
    def first_id(self) -> int | None:
        """The ID of the first entry, or None."""
        first_id = None if self._sealed is None else self._sealed.first_id()
        if first_id is None and self._ids:
            return self._ids[0]
        return first_id

    def begins_behind(self, entry_id: int) -> bool:
        """Return whether there are entries, all of them behind an ID."""
        sealed = self._sealed
        if sealed is not None and sealed.live_count:
            return sealed.begins_behind(entry_id)
        return bool(self._ids) and self._ids[0] > entry_id

    @property
    def last_id(self) -> int | None:
        """The ID of the last entry, or None."""
        if self._ids:
            return self._ids[-1]
        return next((source.ids(high - 1, high)[0] for source, _, high in self.runs(0, ID_MAX, 1, True)), None)

    @property
    def segments(self) -> int:
        """How many nodes there are."""
        nodes = 0 if self._sealed is None else len(self._sealed)
        return nodes + bool(self._ids or self._gone) + (self._emptied is not None)

    def node_from(self, start: int) -> tuple[int, int] | None:
        """Return (number of entries, last ID) of the first node that reaches beyond ID `start`; None without one."""
        ids = self._ids
        if self._sealed is not None and (node := self._sealed.node_from(start)) is not None:
            return node
        return (len(ids), ids[-1]) if ids and ids[-1] >= start else None

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the log takes, in bytes; O(1)."""
        return self._tail_bytes + (0 if self._sealed is None else self._sealed.memory_bytes)

    @property
    def content_bytes(self) -> int:
        """About the memory that all entries would take, those included that are not in memory."""
        return self._tail_bytes + (0 if self._sealed is None else self._sealed.content_bytes)

    @property
    def average_bytes(self) -> int:
        """About the memory that an entry takes, those included that are not in memory."""
        average = self._tail_bytes // max(1, len(self._ids))
        return average if self._sealed is None else max(average, self._sealed.average_bytes)

    @property
    def _tail_bytes(self) -> int:
        size = _EMPTY_BYTES
        texts = self._texts
        if texts:
            some = texts[:16]
            size += (48 + 9) * len(self._ids) + (40 + 9 + sum(map(len, some)) // len(some)) * len(texts)
        return size

    def __contains__(self, entry_id: int) -> bool:
        ids, sealed = self._ids, self._sealed
        if sealed is None or (ids and entry_id >= ids[0]):
            position = bisect_left(ids, entry_id)
            return position < len(ids) and ids[position] == entry_id
        return sealed.has(entry_id)

    def holds_pending(self, entry_id: int) -> bool:
        """Return whether an entry that was once there still is."""
        ids, sealed = self._ids, self._sealed
        if sealed is None or (ids and entry_id >= ids[0]):
            return entry_id in self
        return sealed.holds_pending(entry_id)

    def held(self, ids: list[int]) -> list[int]:
        """Return which of some entries that were once there still are; `ids` ascending. Raises: Absent."""
        if ids and self._shelf is None and self.ids_between(ids[0], ids[-1], len(ids) + 1) == ids:
            return ids  # they follow each other, as mostly
        sealed_ids = bisect_left(ids, self._ids[0]) if self._ids else len(ids)
        found = [] if self._sealed is None else self._sealed.held(ids[:sealed_ids])
        return found + [entry_id for entry_id in ids[sealed_ids:] if entry_id in self]

    def holding(self, ids: Iterable[int]) -> Callable[[int], bool]:
        """Return a function that says which of some entries, which were once there, still are. Raises: Absent."""
        return self.__contains__ if self._shelf is None else {*self.held(sorted(ids))}.__contains__

    def note_missing(self, entry_id: int) -> None:
        """Note an ID that no entry has, though `holds_pending` may be asked for it: up to it, if it is behind all."""
        if self._shelf is not None:
            self._sealed_for_writing().note_missing(entry_id)

    # Waiting. What a command needs may not be in memory: each access raises Absent then, and the command is executed
    # again. So a command that changes something asks for all that it needs before, if the log `may_wait`.

    def require(self, start: int, end: int, count: int | None = None, reverse: bool = False, of: object = None) -> None:
        """Return if the first `count` entries of a range, or of `runs_for`, need no wait. Raises: Absent."""
        sealed, ids = self._sealed, self._ids
        if sealed is None or start > end or (ids and start >= ids[0]):
            return
        if reverse and count is not None and ids:
            count -= max(bisect_right(ids, end) - bisect_left(ids, start), 0)
        if count is None or count > 0:
            sealed.require(start, end, count, reverse, of)

    def require_ids(self, ids: Iterable[int]) -> None:
        """Return if these entries can be looked up and read without waiting. Raises: Absent."""
        if self._sealed is not None:
            self._sealed.require_ids(ids)

    def require_trim(self, by: str, threshold: int) -> None:
        """Return if trimming to a length (`maxlen`), or before an ID (`minid`), needs not wait. Raises: Absent."""
        if self._sealed is None:
            return
        if by == "maxlen":
            threshold = max(threshold - len(self._ids), 0)
        self._sealed.require_trim(by, threshold)

    def at_once(self) -> AbstractContextManager[None]:
        """Return a context in which no access raises Absent: the caller waits for the disk where it has to."""
        return _IN_MEMORY if self._shelf is None else self._shelf.at_once()

    def iterate(self, start: int = 0, end: int = ID_MAX) -> Iterator[tuple[int, list[bytes]]]:
        """Yield `(ID, fields)` of the entries from `start` to `end`, both included, while the log does not change.

        `fields` is a new list.
        """
        for source, low, high in self.runs(start, end):
            yield from zip(source.ids(low, high), source.entries(low, high), strict=True)

    def encode_parts(
        self, start: int, end: int, count: int | None = None, reverse: bool = False, found: list[NodeRun] | None = None
    ) -> tuple[int, list[bytes]]:
        """Return `(the number, the RESP)` of the first `count` entries from `start` to `end`, both included.

        The RESP is `*2 $ID *2n $field $value ...` of each entry, one behind the other, without an array header around
        them, in parts still to be joined. With `reverse` the entries come last one first.
        found: gets the runs of these entries (a consumer group needs their IDs), not if `reverse`.
        """
        entries = 0
        parts: list[bytes] = []
        sealed, tail = self._sealed, self._ids
        left = sys.maxsize if count is None else count
        if sealed is not None and sealed.live_count and start <= end and not (reverse or (tail and start >= tail[0])):
            entries = sealed.read_first(start, end, left, parts, found)
            if entries >= left or not tail or end < tail[0]:
                return entries, parts
            start = tail[0]
        if reverse and self.may_wait:
            self.require(start, end, count, True)
        for source, low, high in self.runs(start, end, left - entries, reverse):
            parts.append(source.read(low, high, reverse))
            if found is not None:
                found.append((source, low, high))
            entries += high - low
        return entries, parts

    def newest(self, start: int, count: int) -> list[bytes] | None:
        """Return the RESP of the first `count` entries (0: all) from ID `start` on, an array in parts, empty for no
        entry; None if entries may be among them that are sealed, or too many to be sent at once.
        """
        ids = self._ids
        if not ids or start < ids[0]:
            return None
        end = len(ids)
        low = end - 1 if end > 1 and ids[-2] < start <= ids[-1] else bisect_left(ids, start)
        high = min(low + count, end) if count else end
        if high - low == 1 and self._width:
            # (One entry, mostly: what `read` does.)
            width = self._width
            return [b"*1\r\n", encode_entry(ids[low], self._texts[low * width : high * width])]
        if high - low > SLICED_ITEMS_MIN:
            return None
        return [b"*%d\r\n" % (high - low), self.read(low, high)] if high > low else []

    def ids_between(self, start: int = 0, end: int = ID_MAX, count: int | None = None) -> list[int]:
        """Return the IDs of the entries that `encode_parts` encodes."""
        found: list[int] = []
        for source, low, high in self.runs(start, end, count):
            found += source.ids(low, high)
        return found

    def runs(
        self, start: int, end: int, count: int | None = None, reverse: bool = False
    ) -> Iterator[tuple[Segment | Tail, int, int]]:
        """Yield `(node, from, to)` for each run of the first `count` undeleted entries; from, to are positions."""
        every = self._all_runs(start, end, reverse)
        return every if count is None else first_runs(every, count, reverse)

    def runs_for(self, start: int, end: int, wanted: object) -> Iterator[tuple[Segment | Tail | Passed, int, int]]:
        """Yield the runs in which a filter may match, and what is passed over; see SegmentList. Raises: Absent."""
        ids, sealed = self._ids, self._sealed
        if sealed is not None and sealed.live_count and start <= end and not (ids and start >= ids[0]):
            yield from sealed.runs_for(start, end, wanted)
        if ids and end >= ids[0] and start <= ids[-1]:
            yield from self._tail_run(start, end)

    def _all_runs(self, start: int, end: int, reverse: bool) -> Iterator[tuple[Segment | Tail, int, int]]:
        if start > end:
            return
        ids = self._ids
        in_tail = bool(ids) and end >= ids[0] and start <= ids[-1]
        if in_tail and reverse:
            yield from self._tail_run(start, end)
        sealed = self._sealed
        if sealed is not None and sealed.live_count and not (ids and start >= ids[0]):
            yield from sealed.runs(start, end, reverse)
        if in_tail and not reverse:
            yield from self._tail_run(start, end)

    def _tail_run(self, start: int, end: int) -> Iterator[tuple[Segment | Tail, int, int]]:
        ids = self._ids
        low = 0 if start <= ids[0] else bisect_left(ids, start)
        high = len(ids) if end >= ids[-1] else bisect_right(ids, end, low)
        if low < high:
            yield self, low, high

    # Counting.

    def count_range(self, start: int, end: int) -> int:
        """Return how many entries there are from `start` to `end`, both included."""
        in_tail = max(bisect_right(self._ids, end) - bisect_left(self._ids, start), 0)
        return in_tail if self._sealed is None else in_tail + self._sealed.count_range(start, end)

    def split(self, start: int, end: int, count: int) -> list[int]:
        """Return the IDs at which to cut the range from `start` to `end` into parts of `count` entries (1 or more).

        They are the first IDs of the second, third, ... part; a range of `count` entries or less has none.
        """
        first = self.count_range(0, start - 1)
        ranks = range(first + count, self.count_range(0, end), count)
        sealed = self._sealed
        if sealed is None:
            return [self._ids[rank] for rank in ranks]
        in_tail = max(-(-(sealed.live_count - ranks.start) // count), 0)
        found = sealed.ids_at(ranks[:in_tail]) if in_tail else []
        return found + [self._ids[rank - sealed.live_count] for rank in ranks[in_tail:]]

    def own(self, segment: Segment) -> Segment:
        """Return a sealed segment for changing: itself, or a copy in its place if a copy of this log shares it."""
        assert self._sealed is not None
        return self._sealed.own(segment)

    def copy(self) -> "Log":
        """Return a log with the same entries that can be changed apart from this one."""
        other = Log(self._node_max, self._shelf)
        other._copy_tail(self)
        other._emptied, other._sealed = self._emptied, None if self._sealed is None else self._sealed.copy()
        return other
