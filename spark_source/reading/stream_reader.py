"""The streaming reader: plans micro-batches beside the driver, and reads their ranges on executors."""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_source import ids
from spark_source.connecting.stream_info import StreamInfo, stream_info, stream_infos
from spark_source.connecting.topic_log import read_log
from spark_source.errors import DataLoss, OptionError
from spark_source.noting.loops import place_of, query_of_task, refuse_own_rows
from spark_source.reading.batch_reader import RangeReader, find_streams, first_position, refuse_unread_streams
from spark_source.reading.offsets import (
    CUT,
    EARLIEST,
    GONE,
    LATE,
    PARTS,
    TOTAL,
    WHOLE,
    Mark,
    Offset,
    offset_json,
    parse_offset,
)
from spark_source.reading.planner import (
    Cuts,
    Loss,
    PartSizes,
    Splitter,
    added_up_to,
    choose_splitter,
    evened,
    find_loss,
    share,
)
from spark_source.reading.progress import ProgressGroup, standing
from spark_source.reading.starts import refuse_empty_server, refuse_other_source, warn_of_limit, warn_of_open_batch
from spark_source.reading.stream_requests import entry_bytes, first_entry, trim
from spark_source.reading.tasks import tasks
from spark_source.settings.options import Options

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
START_ANEW = "nobody can say which were read, so take a new checkpoint, and startingOffsets as you choose"

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
        self.added: dict[str, int] = {}  # to each stream, up to its target
        self.infos: dict[str, StreamInfo | None] = {}
        self.matched: list[str] = []
        self.matched_at: float | None = None
        self.served_at = time.monotonic()
        self.warned: set[str] = set()
        self.has_looked = False  # since the query was started
        self.has_planned = False  # a batch since then
        self.uncounted: set[str] = set()
        self.seen: dict[str, str] = {}  # the last ID of each stream when it was last there
        self.unread: Offset = {}  # marks of streams that are not read any more
        self.splitter: Splitter | None = None
        group = options.read.progress_group
        self.group = ProgressGroup(self.server, group) if group is not None else None
        self.shown: Offset = {}
        self.previous: dict[str, Any] | None = None

    # --- Spark's interface -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a new query starts; Spark asks several times, so the first answer is kept."""
        if self.first is None:
            options = self.read_options
            names = self._names()
            refuse_unread_streams(options, names)
            infos = self._look(names)
            self.first = {name: self._first_mark(name, infos[name]) for name in names}
        return offset_json(self.first)

    def getDefaultReadLimit(self) -> "ReadLimit":
        """Return the only limit that Spark takes; maxBytesPerTrigger beside maxEntriesPerTrigger is kept in `_cap`."""
        options = self.read_options
        if options.max_bytes is not None and options.max_entries is None:
            return ReadMaxBytes(options.max_bytes)
        return ReadMaxRows(options.max_entries or DEFAULT_MAX_ENTRIES)

    def prepareForTriggerAvailableNow(self) -> None:
        infos = self._look(self._names())
        self.target = {name: info.last for name, info in infos.items() if info is not None}
        self.added = {name: info.added for name, info in infos.items() if info and info.added is not None}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: "ReadLimit | None" = None) -> dict[str, Any]:
        """Return the end of the next micro-batch, with its split points; `start` itself when nothing is new.

        Raises: DataLoss, StreamdError.
        """
        if start is None:  # Spark before 4.2 does not give the query's position
            if self.previous is None:
                return self._everything()
            start = self.previous
        begin = {**self.unread, **parse_offset(start)}
        self._refuse_other_source(begin)
        self._show(begin)
        marks, waiting = self._backlog(begin)
        planned = self._plan(marks, waiting, limit) if self._is_worth_it(waiting) else {}
        if not planned and not any(mark.state == CUT for mark in marks.values()):
            self.previous = start
            return start
        self.served_at = time.monotonic()
        end = {name: planned.get(name) or self._at_rest(name, mark) for name, mark in marks.items()}
        end.update((name, mark.at_rest(mark.state)) for name, mark in begin.items() if name not in end)
        self.previous = offset_json(end, place_of(self.options.connection))
        return self.previous

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the streams' ends, and their entries that the planned batch leaves unread, for Spark's progress."""
        planned = parse_offset(self.previous) if self.previous is not None else {}
        return {
            name: standing(self.server, name, planned.get(name), info)
            for name, info in self.infos.items()
            if info is not None
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        if self.previous is None:
            self.previous = end  # where the query stands after a restart, told before the next batch is asked for
            if ReadLimit is None and start != end:
                warn_of_open_batch()
        begin, marks = parse_offset(start), parse_offset(end)
        self._refuse_other_source(begin, marks)
        self.unread.update((name, mark) for name, mark in begin.items() if name not in marks)
        if ReadLimit is None and not self.has_looked:
            self._refuse_empty_server(begin, self._look([*begin]))
        for name, mark in marks.items():
            before = begin.get(name, EARLIEST)
            is_late = mark.state == LATE or name in begin  # made by `_everything`, also that of an older version
            if mark.from_id is None and before.id != mark.id and is_late and mark.state != CUT:
                marks[name] = self._cut_late(name, before, mark)
        return [InputPartition(task) for task in tasks(begin, marks)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        query = query_of_task()
        if query is not None and partition.value is not None:
            for part in partition.value:
                refuse_own_rows(self.server, part.stream, query)
        return self.read_task(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Trim entries that are read and written (trimOnCommit). Spark calls it one batch late, and maybe twice."""
        if self.read_options.trim_on_commit:
            for name, mark in parse_offset(end).items():
                trim(self.server, name, mark.id)

    def stop(self) -> None:
        """Do nothing, since Spark kills this process."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the state of planning: executors only read."""
        state = dict(self.__dict__)
        state.update(first=None, infos={}, splitter=None, target=None, group=None)
        return state

    def _show(self, done: Offset) -> None:
        """Show the end of the last written batch (progressGroup): Spark asks for the next one only after the write."""
        for name, mark in done.items() if self.group is not None else ():
            if mark != self.shown.get(name) and (mark.from_id is not None or mark.state):
                self.group.show(name, mark)  # type: ignore[union-attr]
                self.shown[name] = mark

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
        self.infos = stream_infos(self.server, names)
        for name, info in self.infos.items():
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
        """Return a mark with the number of entries up to it, from which losses behind it are computed."""
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
        return Mark(mark.id, count, state=mark.state, head=mark.head)

    def _splitter(self) -> Splitter:
        if self.splitter is None:
            self.splitter = choose_splitter(self.server)
        return self.splitter

    # --- planning ----------------------------------------------------------------------------------------------------

    def _backlog(self, begin: Offset) -> tuple[Offset, dict[str, int]]:
        """Return each stream's position, and its approximate number of unread entries."""
        names = self._names()
        if self.read_options.pattern is not None:
            names = sorted({*names, *begin})
        if self.target is not None:
            names = [name for name in names if name in self.target or name in begin]
        infos = self._look(names)
        self._refuse_empty_server({name: begin[name] for name in names if name in begin}, infos)
        marks: Offset = {}
        waiting: dict[str, int] = {}
        for name in names:
            info = infos[name]
            mark = self._after_loss(name, begin.get(name, EARLIEST), info, name in begin)
            if mark.n is None and info is not None and not _is_past(info, mark):
                mark = self._counted(name, mark, info)  # of an older version, or from before there were entries
            marks[name] = mark
            if info is not None and ids.parse(self._end(name, info)) > ids.parse(mark.id):
                backlog = info.length
                if info.added is not None and mark.n is not None:
                    backlog = min(info.added, self.added.get(name, info.added)) - mark.n
                if mark.behind is not None:  # an estimate, which must not end as a batch that is far too large
                    backlog = max(backlog, self._splitter().about(name, mark.id, self._end(name, info), info.length))
                waiting[name] = max(1, min(backlog, info.length))
        return marks, waiting

    def _refuse_other_source(self, *offsets: Offset) -> None:
        for offset in offsets if not self.has_looked else ():
            refuse_other_source(offset, self.read_options)

    def _refuse_empty_server(self, begin: Offset, infos: dict[str, StreamInfo | None]) -> None:
        if not self.has_looked and self.read_options.fail_on_data_loss:
            refuse_empty_server(begin, infos, place_of(self.options.connection))
        self.has_looked = True

    def _end(self, name: str, info: StreamInfo) -> str:
        """Return the last ID that may be read: the stream's, or the one at AvailableNow's start."""
        return info.last if self.target is None else min(self.target.get(name, ids.SMALLEST), info.last, key=ids.parse)

    def _after_loss(self, name: str, mark: Mark, info: StreamInfo | None, known: bool) -> Mark:
        """Return the mark to go on from: the same, unless entries are lost and that is allowed.

        Raises: DataLoss.
        """
        gone = info.added - info.length if info is not None and info.added is not None else None
        if not known:
            return Mark(ids.SMALLEST, gone)
        loss = find_loss(
            name, mark, info, lambda entry_id: first_entry(self.server, name, entry_id, entry_id) is not None
        )
        if loss is None:
            return mark.at_rest("")
        if loss.unclear:
            raise DataLoss(f"{loss.text}: {START_ANEW}")
        if loss.cut_at is not None and info is not None:
            return self._after_cut(name, mark, info, loss, loss.cut_at)
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

    def _after_cut(self, name: str, mark: Mark, info: StreamInfo, loss: Loss, position: str) -> Mark:
        """Return the mark to go on from where entries that had been read are gone: nothing is read twice.

        Raises: DataLoss, also with failOnDataLoss=false where unread entries stand among the read ones.
        """
        if mark.from_id is not None and mark.cuts and mark.about == TOTAL:
            raise DataLoss(f"{loss.text}: {START_ANEW}")
        if mark.from_id is not None and mark.cuts:
            planned = sum(count for _, count in mark.cuts)
            sizes = PartSizes(planned + 1, 1)
            cuts = self._splitter().cut(name, mark.from_id, position, None, planned, sizes)
            if sum(count for _, count in cuts) > planned:
                raise DataLoss(
                    f"{loss.text}; up to {position} it holds entries that were not there when that was read: "
                    f"{START_ANEW}"
                )
        if self.read_options.fail_on_data_loss:
            raise DataLoss(
                f"{loss.text}: restore them, or set failOnDataLoss=false to go on behind {position}, which reads "
                "nothing twice"
            )
        if loss.text not in self.warned:
            log.warning("%s; going on behind %s (failOnDataLoss=false)", loss.text, position)
            self.warned.add(loss.text)
        count = info.added if position == info.last else None
        return self._counted(name, Mark(position, count, state=CUT, head=info.first), info)

    def _was_whole(self, name: str, mark: Mark) -> bool:
        """Return whether a stream was read to its end at the last look."""
        seen = self.seen.get(name)
        return mark.state in (WHOLE, LATE, GONE) if seen is None else seen == mark.id

    def _at_rest(self, name: str, mark: Mark) -> Mark:
        info = self.infos.get(name)
        if info is None or mark.state == CUT:
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
        if ReadLimit is None and not self.has_planned and cap is not None and cap < sum(waiting.values()):
            warn_of_limit(cap, sum(waiting.values()))
        self.has_planned = True
        planned: Offset = {}
        for name, backlog in waiting.items():
            planned[name] = self._plan_stream(name, marks[name], backlog, shares.get(name))
        return planned

    def _cap(self, waiting: dict[str, int], marks: Offset, limit: "ReadLimit | None") -> int | None:
        """Return the maximum number of entries in the batch, None for all."""
        limit_bytes = self.read_options.max_bytes
        most = self.read_options.max_entries
        if ReadLimit is None:
            if most is None and limit_bytes is None:
                # Nobody says whether the trigger is AvailableNow, whose one batch is to take all that waits.
                most = DEFAULT_MAX_ENTRIES if self.has_planned else None
        elif isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            limit_bytes = limit.max_bytes
        else:
            return None
        if limit_bytes is None:
            return most
        name = max(waiting, key=lambda name: waiting[name])
        fitting = max(1, int(limit_bytes / entry_bytes(self.server, name, marks[name].id)))
        return fitting if most is None else min(most, fitting)

    def _plan_stream(self, name: str, mark: Mark, backlog: int, take: int | None) -> Mark:
        info = self.infos[name]
        assert info is not None
        end = self._end(name, info)
        sizes = PartSizes(self.read_options.entries_per_partition, self.read_options.min_partitions)
        total = _all_behind(info, mark) if end == info.last else None
        known = total if total is not None and (take is None or take >= total) else None
        cuts: Cuts = ((end, known or 0),)  # where that is all: no need to count, nor to look where to cut
        about = ""
        if not known or sizes.parts(known) > 1:
            is_rest = known is not None or (end == info.last and (take is None or take >= backlog))
            cuts, about = self._parts(name, mark.id, end, None if is_rest else take, known, backlog, sizes)
        last = cuts[-1][0] if cuts else end
        state, behind, count = "", None, mark.n
        if last == info.last:
            state, count = WHOLE, info.added
        elif count is not None:
            count += sum(entries for _, entries in cuts)
            if info.added is not None and (about or mark.behind is not None):
                behind = (first_entry(self.server, name, "(" + last, "+") or last, info.added)
                count = min(count, info.added)
        together = self.read_options.entries_per_partition
        return Mark(last, count, cuts, mark.id, mark.lost, state, info.first, about, behind, together)

    def _parts(
        self, name: str, start: str, end: str, take: int | None, known: int | None, backlog: int, sizes: PartSizes
    ) -> tuple[Cuts, str]:
        """Return the parts of a batch, and which counts are estimates (PARTS or TOTAL); the sum is a given `known`."""
        splitter = self._splitter()
        cuts = splitter.estimate(name, start, end, take, known or backlog, sizes)
        if cuts is None:
            return splitter.cut(name, start, end, take, backlog, sizes), ""
        return (evened(cuts, known), PARTS) if known else (cuts, TOTAL)

    def _everything(self) -> dict[str, Any]:
        """Return an end without split points, because Spark before 4.2 does not give the position of a starting query.

        It does not even tell whether the query is new, so limits hold only from the second batch on. The split points
        are made in `partitions`.
        """
        infos = self._look(self._names())
        there = {name: info for name, info in infos.items() if info is not None}
        entries = self.read_options.entries_per_partition
        end = {
            name: Mark(self._end(name, info), info.added, state=LATE, together=entries) for name, info in there.items()
        }
        self.previous = offset_json(end, place_of(self.options.connection))
        return self.previous

    def _cut_late(self, name: str, before: Mark, mark: Mark) -> Mark:
        info = self.server.patiently(lambda session: stream_info(session, name), name)
        self.infos[name] = info
        after = self._after_loss(name, before, info, known=True)
        options = self.read_options
        is_older = mark.together is None  # planned by a version that is to be followed in this, too
        sizes = PartSizes(options.entries_per_partition, options.min_partitions, is_older)
        expected = info.length if info is not None else 0
        cuts, about = self._parts(name, after.id, mark.id, None, None, expected, sizes)
        head = None if info is None else info.first
        return Mark(mark.id, mark.n, cuts, from_id=after.id, head=head, about=about, together=mark.together)


def _all_behind(info: StreamInfo, mark: Mark) -> int | None:
    """Return the number of entries behind a mark, if the stream's own counters give it exactly."""
    if _is_past(info, mark):
        return info.length
    is_counted = info.added is not None and mark.n is not None and mark.behind is None
    if not is_counted or info.max_deleted is None or ids.parse(info.max_deleted) > ids.parse(mark.id):
        return None
    return info.added - mark.n  # type: ignore[operator]


def _is_past(info: StreamInfo, mark: Mark) -> bool:
    """Return whether the stream is empty, or begins behind a mark."""
    return info.first is None or ids.parse(info.first) > ids.parse(mark.id)
