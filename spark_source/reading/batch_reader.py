"""The batch reader: one pass over the streams as they are when the query is planned."""

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_source import ids
from spark_source.connecting.connection import Server, Session
from spark_source.connecting.stream_info import StreamInfo, stream_infos
from spark_source.connecting.topic_log import read_log
from spark_source.errors import OptionError, StreamMissing
from spark_source.reading.offsets import Range
from spark_source.reading.planner import PartSizes, choose_splitter
from spark_source.reading.tasks import Task, shared
from spark_source.settings.options import Options, ReadOptions
from spark_source.values.schema import check_user_schema, raw_schema
from spark_source.values.topic_schema import check_topic_schema

if TYPE_CHECKING:
    import pyarrow as pa

PUSHDOWN_WITHDRAWN = (
    "filterPushdown=true is withdrawn, because it could give wrong answers: Spark plans a view or a DataFrame once, so "
    "that its other queries would miss what the filters of one left out; take it out, and narrow the read with stream, "
    "startingTimestamp, endingTimestamp, startingOffsets or endingOffsets"
)

log = logging.getLogger("spark_source")

_told: set[tuple[str, str]] = set()
"""Patterns whose left out streams are logged, by their servers."""

FIRST_CONTACT_S = 5.0  # a batch query says soon that it cannot reach its server; a streaming query waits for `timeout`


class RangeReader:
    """The common part of batch and streaming: reading a planned range on an executor. Pickled; holds options only."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.read_options: ReadOptions = options.read
        self.schema = schema
        self.server = Server(options.connection)
        self.is_raw = is_raw(options.read, schema)
        if options.read.log is not None:
            check_topic_schema(schema)
        elif self.is_raw:
            if options.read.field_columns:
                raise OptionError("fieldColumns needs a schema with such columns: give one, or leave it out")
        else:
            check_user_schema(schema, options.read.value_format, options.read.field_columns)
        if not options.read.streams and options.read.pattern is None and options.read.log is None:
            raise OptionError("stream is missing: name what to read, or give streamPattern, streamRegex or log")

    def read_task(self, task: Task | None) -> "Iterator[pa.RecordBatch]":
        """Return the record batches of planned ranges, one range after the other; for None nothing."""
        from spark_source.reading.several_ranges import read_ranges
        from spark_source.values.arrow import MappedConverter, RawConverter
        from spark_source.values.collector import undisturbed
        from spark_source.values.moments import session_zone

        if task is None:
            return iter(())
        options = self.read_options
        if options.log is not None:
            from spark_source.reading.topic_read import converted

            batches = converted(
                *(self.server, task, self.schema, options.topic_filter, options.page_size, options.fail_on_data_loss)
            )
            return undisturbed(batches)
        converter: RawConverter | MappedConverter
        if self.is_raw:
            converter = RawConverter(self.schema)
        else:
            converter = MappedConverter(self.schema, options.mode == "failfast", session_zone(), options.field_columns)
        return undisturbed(read_ranges(self.server, task, converter, options.page_size, options.fail_on_data_loss))


def is_raw(options: ReadOptions, schema: StructType) -> bool:
    """Return whether a schema is the raw one; nullability is ignored."""
    mine = raw_schema(options.text, options.fields, options.value_format)
    return [(column.name, column.dataType.typeName()) for column in schema.fields] == [
        (column.name, column.dataType.typeName()) for column in mine.fields
    ]


def find_streams(server: Server, pattern: str, is_regex: bool) -> list[str]:
    """Return the names of the streams that match a glob pattern, or a regular expression as a whole.

    Sorted; names without valid UTF-8 are left out, and their number is logged.
    """
    found = server.on_every_node(lambda session: _scan(session, [] if is_regex else ["MATCH", pattern]))
    names = {name.decode(errors="surrogateescape") for name in set().union(*found)}  # bytes that are no text stay apart
    if is_regex:
        names = {name for name in names if re.fullmatch(pattern, name)}
    readable = sorted(name for name in names if _is_text(name))
    place = server.options.endpoint, pattern
    if len(readable) < len(names) and place not in _told:
        _told.add(place)
        log.warning(
            "%d streams that match %s are left out, because their names are not UTF-8",
            len(names) - len(readable),
            pattern,
        )
    return readable


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _scan(session: Session, matching: list[str]) -> set[bytes]:
    cursor, found = b"0", set[bytes]()
    while True:
        reply = session.call("SCAN", cursor, *matching, "COUNT", 1000, "TYPE", "stream")
        assert isinstance(reply, list)
        cursor, names = reply  # type: ignore[assignment]
        found.update(names)  # type: ignore[arg-type]
        if cursor in (b"0", 0):
            return found


class StreamdReader(RangeReader, DataSourceReader):
    """Reads the streams' present entries, between startingOffsets and endingOffsets."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        for name, value in (
            ("maxEntriesPerTrigger", options.read.max_entries),
            ("minEntriesPerTrigger", options.read.min_entries),
            ("maxBytesPerTrigger", options.read.max_bytes),
        ):
            if value is not None:
                raise OptionError(f"{name} is for streaming queries: leave it out of a batch read, which reads all")
        if options.read.starting == "latest":
            raise OptionError("startingOffsets=latest leaves a batch read nothing: give earliest, JSON or leave it out")
        if options.read.ending == "earliest":
            raise OptionError("endingOffsets=earliest leaves a batch read nothing: give latest, JSON or leave it out")
        if options.read.filter_pushdown:
            raise OptionError(PUSHDOWN_WITHDRAWN)

    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read, cut into even parts.

        Raises: StreamMissing; OptionError for offsets of streams that are not read; StreamdError.
        """
        options = self.read_options
        names = list(options.streams)
        contact = self.server.patiently(lambda session: session.call("PING"), patience_s=FIRST_CONTACT_S)
        assert contact is not None
        if options.pattern is not None:
            names = find_streams(self.server, options.pattern, options.pattern_is_regex)
        elif options.log is not None:
            names = read_log(self.server, options.log).streams()
        refuse_unread_streams(options, names)
        infos = stream_infos(self.server, names)
        found = [self._parts(name, infos[name]) for name in names]
        return [InputPartition(task) for task in shared(found, options.entries_per_batch_partition)]

    def _parts(self, stream: str, info: StreamInfo | None) -> list[Range]:
        if info is None:
            where = self.options.connection.endpoint
            raise StreamMissing(f"stream {stream} does not exist on {where}: check option stream")
        start, end = self._bounds(stream, info)
        if ids.parse(start) >= ids.parse(end) or not info.length:
            return []
        sizes = PartSizes(self.read_options.entries_per_batch_partition, self.read_options.min_partitions)
        if start == ids.SMALLEST and end == info.last and sizes.parts(info.length) == 1:
            return [Range(stream, start, end, info.length)]
        splitter = choose_splitter(self.server)
        cuts = splitter.estimate(stream, start, end, None, info.length, sizes)
        head = info.first if cuts is not None else None
        if cuts is None:
            cuts = splitter.cut(stream, start, end, None, info.length, sizes)
        begins = [start, *(last for last, _ in cuts)]
        return [Range(stream, begin, last, count, head) for begin, (last, count) in zip(begins, cuts, strict=False)]

    def _bounds(self, stream: str, info: StreamInfo) -> tuple[str, str]:
        """Return (start, end) of the wanted range, exclusive and inclusive."""
        options = self.read_options
        start = first_position(options.starting, options.starting_ms, stream, "earliest", info)
        return start, last_position(options, stream, info)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return self.read_task(partition.value)


def first_position(
    starting: str | dict[str, str] | None,
    starting_ms: int | dict[str, int] | None,
    stream: str,
    default: str,
    info: StreamInfo | None,
) -> str:
    """Return the ID behind which reading starts; the entry of a given ID is not read, as with every offset."""
    since_ms = starting_ms.get(stream) if isinstance(starting_ms, dict) else starting_ms
    if since_ms is not None:
        return ids.before(f"{since_ms}-0")
    chosen = starting.get(stream, default) if isinstance(starting, dict) else starting or default
    if chosen == "earliest":
        return ids.SMALLEST
    if chosen == "latest":
        return info.last if info else ids.SMALLEST
    return chosen


def last_position(options: ReadOptions, stream: str, info: StreamInfo) -> str:
    """Return the last ID to read."""
    until_ms = options.ending_ms.get(stream) if isinstance(options.ending_ms, dict) else options.ending_ms
    if until_ms is not None:
        return min(ids.before(f"{until_ms}-0"), info.last, key=ids.parse)
    chosen = options.ending.get(stream, "latest") if isinstance(options.ending, dict) else "latest"
    if chosen == "earliest":
        raise OptionError(f"endingOffsets: earliest leaves nothing to read of {stream}, give an entry ID or latest")
    return info.last if chosen == "latest" else min(chosen, info.last, key=ids.parse)


def refuse_unread_streams(options: ReadOptions, streams: list[str]) -> None:
    """Raise OptionError when offsets or times name a stream that is not read."""
    for option, named in (
        ("startingOffsets", options.starting),
        ("startingTimestamp", options.starting_ms),
        ("endingOffsets", options.ending),
        ("endingTimestamp", options.ending_ms),
    ):
        unread = sorted(set(named) - set(streams)) if isinstance(named, dict) else []
        if unread:
            raise OptionError(f"{option} names stream {unread[0]}, which is not read: add it to stream or take it out")
