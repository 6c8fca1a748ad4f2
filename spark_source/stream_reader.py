"""The streaming reader: plans micro-batches beside the driver, and reads their ranges on executors."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_source import ids
from spark_source.connection import Session
from spark_source.errors import DataLoss, OptionError
from spark_source.loops import place_of, refuse_own_rows
from spark_source.offsets import EARLIEST, GONE, LATE, WHOLE, Mark, Offset, offset_json, parse_offset, ranges
from spark_source.options import Options
from spark_source.planner import (
    PartSizes,
    Splitter,
    StreamInfo,
    added_up_to,
    choose_splitter,
    find_loss,
    share,
    stream_info,
)
from spark_source.progress import ProgressGroup, standing
from spark_source.reader import RangeReader, find_streams, first_position, refuse_unread_streams
from spark_source.topic_log import read_log

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # before Spark 4.2: no admission control, the reader keeps its limits by itself

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands in for Spark's own."""

    ReadLimit = ReadAllAvailable = ReadMaxRows = ReadMaxBytes = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_MAX_ENTRIES = 100_000  # the first batch of an unlimited query would hold the whole stream
SAMPLE_ENTRIES = 50  # read to learn how large entries are, for maxBytesPerTrigger

log = logging.getLogger("spark_source")


class StreamdStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans and reads micro-batches. Lives as long as the query, in one process beside the driver."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        for name, value in (("endingOffsets", options.read.ending), ("endingTimestamp", options.read.ending_ms)):
            if value is not None:
                raise OptionError(f"{name} is for batch reads: leave it out of a streaming query, which has no end")
        self.first: Offset | None = None
        self.target: dict[str, str] | None = None
        self.infos: dict[str, StreamInfo | None] = {}
        self.matched: list[str] = []
        self.matched_at: float | None = None
        self.served_at = time.monotonic()
        self.warned: set[str] = set()
        self.uncounted: set[str] = set()
        self.seen: dict[str, str] = {}  # the last ID of each stream when it was last there
        self.unread: Offset = {}  # marks of streams that are not read any more
        self.splitter: Splitter | None = None
        group = options.read.progress_group
        self.group = ProgressGroup(self.server, group) if group is not None else None
        self.previous: dict[str, Any] | None = None

    # --- Spark's interface -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query starts; asked for several times, so the first answer is kept."""
        if self.first is None:
            options = self.read_options
            names = self._names()
            refuse_unread_streams(options, names)
            infos = self._look(names)
            self.first = {name: self._first_mark(name, infos[name]) for name in names}
        return offset_json(self.first)

    def getDefaultReadLimit(self) -> "ReadLimit":
        """Return the one limit that Spark can be told of; maxBytesPerTrigger beside it is kept in `_cap`."""
        options = self.read_options
        if options.max_bytes is not None and options.max_entries is None:
            return ReadMaxBytes(options.max_bytes)
        return ReadMaxRows(options.max_entries or DEFAULT_MAX_ENTRIES)

    def prepareForTriggerAvailableNow(self) -> None:
        infos = self._look(self._names())
        self.target = {name: info.last for name, info in infos.items() if info is not None}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None) -> dict[str, Any]:
        """Return the end of the next micro-batch, with its split points; `start` itself when nothing is new.

        Raises: DataLoss, StreamdError.
        """
        if start is None:  # before Spark 4.2 nobody says where the query is
            if self.previous is None:
                return self._everything()
            start = self.previous
        begin = {**self.unread, **parse_offset(start)}
        marks, waiting = self._backlog(begin)
        planned = self._plan(marks, waiting, limit) if self._is_worth_it(waiting) else {}
        if not planned:
            self.previous = start
            return start
        self.served_at = time.monotonic()
        end = {name: planned.get(name) or self._at_rest(name, mark) for name, mark in marks.items()}
        end.update((name, mark.at_rest(mark.state)) for name, mark in begin.items() if name not in end)
        self.previous = offset_json(end, place_of(self.options.connection))
        return self.previous

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return how far the streams are, and what the batch just planned leaves unread: for Spark's progress."""
        planned = parse_offset(self.previous) if self.previous is not None else {}
        return {
            name: standing(self.server, name, planned.get(name), info)
            for name, info in self.infos.items()
            if info is not None
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if self.previous is None:
            self.previous = end  # a batch that is run again after a restart, before the next is asked for
        begin, marks = parse_offset(start), parse_offset(end)
        self.unread.update((name, mark) for name, mark in begin.items() if name not in marks)
        for name, mark in marks.items():
            before = begin.get(name, EARLIEST)
            is_late = mark.state == LATE or name in begin  # made by `_everything`, also that of an older version
            if mark.from_id is None and before.id != mark.id and is_late:
                marks[name] = self._cut_late(name, before, mark)
        return [InputPartition(part) for part in ranges(begin, marks)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        query = _query_of_task()
        if query is not None and partition.value is not None:
            refuse_own_rows(self.server, partition.value.stream, query)
        return self.read_part(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Trim what is read and written (trimOnCommit), show it (progressGroup). One batch behind, may come twice."""
        for name, mark in parse_offset(end).items():
            if self.read_options.trim_on_commit:
                self._trim(name, mark.id)
            if self.group is not None:
                self.group.show(name, mark)

    def stop(self) -> None:
        """Nothing: Spark kills this process."""

    def __getstate__(self) -> dict[str, Any]:
        """Executors read only; what was learnt while planning stays here."""
        state = dict(self.__dict__)
        state.update(first=None, infos={}, splitter=None, target=None, group=None)
        return state

    # --- looking -----------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        pattern, log_name = self.read_options.pattern, self.read_options.log
        if pattern is None and log_name is None:
            return list(self.read_options.streams)
        now = time.monotonic()
        if self.matched_at is None or now - self.matched_at >= self.read_options.pattern_interval_s:
            if log_name is not None:
                self.matched = read_log(self.server, log_name).streams()
            elif pattern is not None:
                self.matched = find_streams(self.server, pattern, self.read_options.pattern_is_regex)
            self.matched_at = now
        return self.matched

    def _look(self, names: list[str]) -> dict[str, StreamInfo | None]:
        self.infos = {}
        for name in names:
            info = self.server.patiently(lambda session, name=name: stream_info(session, name), name)  # type: ignore[misc]
            self.infos[name] = info
            if info is not None:
                self.seen[name] = info.last
            if info is None and name not in self.warned:
                log.warning("stream %s does not exist yet: waiting for it", name)
                self.warned.add(name)
        return self.infos

    def _first_mark(self, name: str, info: StreamInfo | None) -> Mark:
        options = self.read_options
        position = first_position(options.starting, options.starting_ms, name, "latest", info)
        if info is None:
            return Mark(position, 0)
        if position == ids.SMALLEST:
            return Mark(position, 0 if info.added is None else info.added - info.length)
        return self._counted(name, Mark(position, info.added if position == info.last else None), info)

    def _counted(self, name: str, mark: Mark, info: StreamInfo) -> Mark:
        """Return a mark with the number of entries up to it: without it nobody could tell what is lost behind it."""
        if mark.n is not None:
            return mark
        count = added_up_to(self.server, self._splitter(), name, mark.id, info)
        if count is None and name not in self.uncounted:
            self.uncounted.add(name)
            why = "no entry has reached it yet" if info.added is not None else "Redis before 7.0 counts none"
            log.warning(
                "stream %s is read from %s on, and nobody knows how many entries were added before (%s): should "
                "some be trimmed before they are read, that cannot be noticed until all are read once",
                name,
                mark.id,
                why,
            )
        return Mark(mark.id, count)

    def _splitter(self) -> Splitter:
        if self.splitter is None:
            self.splitter = choose_splitter(self.server)
        return self.splitter

    # --- planning ----------------------------------------------------------------------------------------------------

    def _backlog(self, begin: Offset) -> tuple[Offset, dict[str, int]]:
        """Return where each stream is read up to, and how many entries wait behind (about)."""
        names = self._names()
        if self.read_options.pattern is not None:
            names = sorted({*names, *begin})
        if self.target is not None:
            names = [name for name in names if name in self.target or name in begin]
        infos = self._look(names)
        marks: Offset = {}
        waiting: dict[str, int] = {}
        for name in names:
            info = infos[name]
            mark = self._after_loss(name, begin.get(name, EARLIEST), info, name in begin)
            if mark.n is None and info is not None and not _is_past(info, mark):
                mark = self._counted(name, mark, info)  # of an older version, or from before there were entries
            marks[name] = mark
            if info is not None and ids.parse(self._end(name, info)) > ids.parse(mark.id):
                known = info.added is not None and mark.n is not None
                backlog = info.added - mark.n if known else info.length  # type: ignore[operator]
                waiting[name] = max(1, min(backlog, info.length))
        return marks, waiting

    def _end(self, name: str, info: StreamInfo) -> str:
        """Return the last ID that may be read: the stream's, or the one that AvailableNow found at its start."""
        return info.last if self.target is None else min(self.target.get(name, ids.SMALLEST), info.last, key=ids.parse)

    def _after_loss(self, name: str, mark: Mark, info: StreamInfo | None, known: bool) -> Mark:
        """Return the mark to go on from: the same, unless entries are lost and that is allowed.

        Raises: DataLoss.
        """
        gone = info.added - info.length if info is not None and info.added is not None else None
        if not known:
            return Mark(ids.SMALLEST, gone)
        loss = find_loss(name, mark, info)
        if loss is None:
            return mark.at_rest("")
        if info is None and self._was_whole(name, mark):
            if mark.state != GONE and name + GONE not in self.warned:
                log.warning("stream %s is gone; all of it had been read when it was last there", name)
                self.warned.add(name + GONE)
            return mark.at_rest(GONE)
        if loss.restart and (mark.state == GONE or name + GONE in self.warned):
            return Mark(ids.SMALLEST, gone)
        if self.read_options.fail_on_data_loss:
            raise DataLoss(f"{loss.text}: restore them, start from another offset, or set failOnDataLoss=false")
        if loss.text not in self.warned:
            log.warning("%s (failOnDataLoss=false)", loss.text)
            self.warned.add(loss.text)
        if loss.restart:
            return Mark(ids.SMALLEST, gone or 0, lost=loss.entries or 0)
        return Mark(mark.id, gone, lost=loss.entries or 0)

    def _was_whole(self, name: str, mark: Mark) -> bool:
        """Return whether all that a stream held was read when it was last looked at."""
        seen = self.seen.get(name)
        return mark.state in (WHOLE, LATE, GONE) if seen is None else seen == mark.id

    def _at_rest(self, name: str, mark: Mark) -> Mark:
        info = self.infos.get(name)
        if info is None:
            return mark
        return mark.at_rest(WHOLE if info.last == mark.id else "")

    def _is_worth_it(self, waiting: dict[str, int]) -> bool:
        options = self.read_options
        if not waiting:
            return False
        if options.min_entries is None or self.target is not None or sum(waiting.values()) >= options.min_entries:
            return True
        return time.monotonic() - self.served_at >= options.max_delay_s

    def _plan(self, marks: Offset, waiting: dict[str, int], limit: "ReadLimit | None") -> Offset:
        cap = self._cap(waiting, marks, limit)
        shares = share(cap, waiting) if cap is not None else {}
        planned: Offset = {}
        for name, backlog in waiting.items():
            planned[name] = self._plan_stream(name, marks[name], backlog, shares.get(name))
        return planned

    def _cap(self, waiting: dict[str, int], marks: Offset, limit: "ReadLimit | None") -> int | None:
        """Return how many entries the batch may hold, None for all."""
        limit_bytes = self.read_options.max_bytes
        most = self.read_options.max_entries
        if ReadLimit is None:
            if most is None and limit_bytes is None:
                most = DEFAULT_MAX_ENTRIES
        elif isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            limit_bytes = limit.max_bytes
        else:
            return None
        if limit_bytes is None:
            return most
        name = max(waiting, key=lambda name: waiting[name])
        fitting = max(1, int(limit_bytes / self._entry_bytes(name, marks[name].id)))
        return fitting if most is None else min(most, fitting)

    def _entry_bytes(self, name: str, position: str) -> float:
        page = self.server.patiently(
            lambda session: session.call("XRANGE", name, "(" + position, "+", "COUNT", SAMPLE_ENTRIES), name
        )
        assert isinstance(page, list)
        held = sum(len(value) for entry in page for value in entry[1])  # type: ignore[index,arg-type,union-attr,misc]
        return max(1.0, held / max(1, len(page)))

    def _plan_stream(self, name: str, mark: Mark, backlog: int, take: int | None) -> Mark:
        info = self.infos[name]
        assert info is not None
        end = self._end(name, info)
        sizes = PartSizes(self.read_options.entries_per_partition, self.read_options.min_partitions)
        head_is_past = info.first is not None and _is_past(info, mark)
        cuts: tuple[tuple[str, int], ...]
        is_all = head_is_past and end == info.last and (take is None or take >= info.length)
        if is_all and sizes.parts(info.length) == 1:
            cuts = ((end, info.length),)  # all that it holds: no need to count
        else:
            cuts = self._splitter().cut(name, mark.id, end, take, backlog, sizes)
        last = cuts[-1][0] if cuts else end
        if last == info.last:
            count = info.added
        else:
            count = None if mark.n is None else mark.n + sum(entries for _, entries in cuts)
        return Mark(last, count, cuts, mark.id, mark.lost, WHOLE if last == info.last else "")

    def _everything(self) -> dict[str, Any]:
        """Return an end without split points: Spark before 4.2 does not say where a query stands when it starts.

        Not even whether it is a new one: a limit cannot be kept in this batch, only in those that follow it. The split
        points are made in `partitions`.
        """
        infos = self._look(self._names())
        there = {name: info for name, info in infos.items() if info is not None}
        end = {name: Mark(self._end(name, info), info.added, state=LATE) for name, info in there.items()}
        self.previous = offset_json(end, place_of(self.options.connection))
        return self.previous

    def _cut_late(self, name: str, before: Mark, mark: Mark) -> Mark:
        info = self.server.patiently(lambda session: stream_info(session, name), name)
        self.infos[name] = info
        after = self._after_loss(name, before, info, known=True)
        sizes = PartSizes(self.read_options.entries_per_partition, self.read_options.min_partitions)
        expected = info.length if info is not None else 0
        cuts = choose_splitter(self.server).cut(name, after.id, mark.id, None, expected, sizes)
        return Mark(mark.id, mark.n, cuts, from_id=after.id)

    def _trim(self, name: str, last: str) -> None:
        ms, seq = ids.parse(last)
        behind = f"{ms}-{seq + 1}" if seq < ids.SEQ_MAX else f"{ms + 1}-0"

        def trim(session: Session) -> object:
            return session.call("XTRIM", name, "MINID", "~", behind)

        self.server.patiently(trim, name)


def _is_past(info: StreamInfo, mark: Mark) -> bool:
    """Return whether the first entry is behind a mark, or there is none."""
    return info.first is None or ids.parse(info.first) > ids.parse(mark.id)


def _query_of_task() -> str | None:
    """Return the ID of the streaming query that a task belongs to; None outside of tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.getLocalProperty("sql.streaming.queryId")
