"""The writers that Spark sees: they name the write, have its rows written by tasks, and commit it."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_source.connecting.connection import Server, Session
from spark_source.connecting.topic_log import read_log
from spark_source.errors import OptionError, StreamdError
from spark_source.naming.identity import BatchName
from spark_source.naming.tally import Short
from spark_source.noting.attempts import changed_rows, judge_batch
from spark_source.noting.batches import commit_batch, finishing
from spark_source.noting.finished import Whole, is_finished, judge_marks, judge_rows, warn_left_out, whole_of
from spark_source.noting.log_version import allow_version
from spark_source.noting.loops import place_of, refuse_source, streams_read
from spark_source.noting.markers import (
    keys_key,
    marker_key,
    part_key,
    replacement_key,
    rows_key,
    tagged,
    transact,
)
from spark_source.noting.window import choose_mode, ensure_window
from spark_source.settings.options import Options
from spark_source.values.encode import RowEncoder, warn_of_names
from spark_source.values.schema import arrow_schema
from spark_source.writing.durable import choose_durability
from spark_source.writing.replace import replacing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # Spark 4.0 hands rows, not batches, to a streaming writer; see `StreamdStreamWriter.write`
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]

EXHAUSTED = "exhausted the last possible ID"  # what the server says behind the entry that ends a log's generation
SWAP_TRIES = 100  # of an overwrite, while others use the stream
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class TaskReport(WriterCommitMessage):
    """A task's report to the driver."""

    name: BatchName
    partition: int
    rows: dict[str, int]
    shorts: dict[str, Short | None]
    duplicates: int = 0
    retries: int = 0
    waited_ms: int = 0
    changed: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


class _Writer:
    """The common part of batch and streaming. Made on the driver, pickled into the tasks; holds options only."""

    def __init__(self, options: Options, schema: StructType, stream: str | None) -> None:
        self.options = options.write
        self.server = Server(options.connection)
        self.schema = schema
        self.stream = stream
        warn_of_names(self._encoder())  # which says what is wrong with the columns
        if stream is not None:
            tagged(stream)
        self.run = uuid.uuid4().hex[:12]
        self.mode = choose_mode(self.server, self.options)
        self.durability = choose_durability(self.server, self.options)
        self.prepared: frozenset[str] = frozenset()
        self.sources: frozenset[str] = frozenset()
        self.overwrite = False

    def _encoder(self) -> RowEncoder:
        options = self.options
        if options.log is not None:
            from spark_source.writing.topic_write import TopicEncoder

            return TopicEncoder(self.schema, options.key_columns, read_log(self.server, options.log))
        return RowEncoder(
            *(self.schema, options.key_columns, self.stream, options.stream_column, options.value_format),
            field_columns=options.field_columns,
        )

    def prepare(self, shown: str | None = None) -> None:
        """Set or check the window of the target stream, if there is one. Raises: StreamdError."""
        if self.mode == "idmp" and self.stream is not None:
            ensure_window(self.server, self.stream, self.options, shown)
            self.prepared = frozenset([self.stream])

    def write_task(
        self, batches: "Iterator[pa.RecordBatch]", name: BatchName, context: "TaskContext", finished: bool = False
    ) -> TaskReport:
        """Write a task's rows; `finished`: only count them, since the write is committed."""
        from spark_source.writing.numbering import Numbering
        from spark_source.writing.sink import Task, TaskWriter
        from spark_source.writing.topic_write import TopicEncoder

        task = Task(
            name=name,
            partition=context.partitionId(),
            attempt=context.attemptNumber() + _stage_attempt(context),
            run=self.run,
            mode=self.mode,
            durability=self.durability,
            prepared=self.prepared,
            sources=self.sources,
            is_finished=finished,
        )
        server = Server(self.server.options)
        encoder = self._encoder()
        numbering = None
        if isinstance(encoder, TopicEncoder):
            allow_version(server, encoder.log, encoder.version)
            if "retain" in encoder.names:
                numbering = Numbering(server, encoder.log)
        try:
            outcome = TaskWriter(server, self.options, encoder, task, numbering).write(batches)
        except StreamdError as error:
            if self.options.log is None or EXHAUSTED not in str(error):
                raise
            raise StreamdError(
                f"log {self.options.log} was reconfigured while this batch was written: run it again; rows that were "
                "written before that are then there twice, once in each generation"
            ) from None
        return TaskReport(
            name,
            task.partition,
            outcome.rows,
            outcome.shorts,
            outcome.duplicates,
            outcome.retries,
            outcome.waited_ms,
            outcome.changed,
            outcome.left_out,
        )

    def commit_named(self, reports: "list[TaskReport]", name: BatchName) -> None:
        """Note on every stream that was written to that the batch is committed.

        Raises: RowsChanged when an earlier attempt may have written rows that none of these brought, or when the batch
            was committed with other rows; OldCheckpoint when a later one was.
        """
        if self.mode == "none":
            return
        totals = {
            "duplicates": sum(report.duplicates for report in reports),
            "retries": sum(report.retries for report in reports),
            "waited_ms": sum(report.waited_ms for report in reports),
        }
        changed = sum(report.changed for report in reports)
        if changed:
            totals["changed"] = changed
        streams = {stream for report in reports for stream in report.rows}
        if self.stream is not None:
            streams.add(self.stream)
        left_out: dict[str, int] = {}
        others = False
        for stream in sorted(streams):
            counted = {"rows": sum(report.rows.get(stream, 0) for report in reports), **totals}
            whole = self.whole(reports, stream)

            def commit(
                session: Session, stream: str = stream, counted: dict[str, int] = counted, whole: Whole = whole
            ) -> bool:
                if not is_finished(session, stream, name):
                    self.check_rows(session, stream, reports, name)
                others = commit_batch(session, stream, name, counted, whole, self.options)
                self.durability.wait(session, stream, self.server.options)  # before Spark notes it for good
                return others

            others = self.server.patiently(commit, stream) or others
            left_out[stream] = sum(report.left_out.get(stream, 0) for report in reports)
        warn_left_out(name, left_out, others)

    def whole(self, reports: "list[TaskReport]", stream: str) -> Whole:
        """Return the summary of all rows for a stream."""
        rows = sum(report.rows.get(stream, 0) + report.left_out.get(stream, 0) for report in reports)
        shorts = (report.shorts.get(stream) for report in reports)
        return whole_of(shorts, rows, self.mode, self.options, self.overwrite)

    def check_rows(self, session: Session, stream: str, reports: "list[TaskReport]", name: BatchName) -> None:
        """Raise RowsChanged when an earlier attempt may have written rows that none of these brought."""
        if self.mode == "none":
            return
        shorts = {report.partition: report.shorts[stream] for report in reports if stream in report.shorts}
        text = changed_rows(session, stream, name, shorts, self.mode == "idmp" and self.options.identity == "key")
        judge_batch(text, self.options)

    def forget_rows(self, stream: str, name: BatchName) -> None:
        """Remove the notes about rows of a write that will not be repeated."""
        notes = rows_key(stream, name), keys_key(stream, name)
        self.server.patiently(lambda session: session.call("DEL", *notes), stream)


def _stage_attempt(context: "TaskContext") -> int:
    """Return the number of earlier starts of the stage, after which its tasks start at attempt 0 again."""
    asked = getattr(context, "stageAttemptNumber", None)
    return int(asked()) if asked is not None else 0


def _context() -> "TaskContext":
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    return context


class StreamdStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Writes micro-batches; the query's own ID, which Spark keeps in the checkpoint, names the sink."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise OptionError(
                "outputMode=complete is not for a sink that adds: use foreachBatch, and in it mode('overwrite') with "
                "sinkId and sinkBatch, which replaces the stream in one step (docs/spark.md, Aggregations)"
            )
        if options.write.sink_batch is not None:
            raise OptionError("sinkBatch is for batch writes: leave it out, a streaming query numbers its batches")
        super().__init__(options, schema, options.write.stream)
        if not options.write.source_as_target:
            self.sources = streams_read(options.write.checkpoint, place_of(options.connection))
            if options.write.stream is not None:
                refuse_source(options.write.stream, self.sources)
        self.prepare()

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise OptionError("this Spark does not say which query and batch a task belongs to: set exactlyOnce=none")
        lasting = self.options.sink_id
        sink = query if lasting is None else f"{lasting}@{query}"
        name = BatchName(sink, batch, int(batch), True, lasting, query=query)
        return self.write_task(_batches(iterator, self.schema), name, context)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:
        reports = [message for message in messages if isinstance(message, TaskReport)]
        if reports:
            self.commit_named(reports, reports[0].name)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:
        """Nothing: the next attempt finds the rows by their names. Deleting them would lose them, since the server
        answers a name that it knows without writing.
        """


def _batches(iterator: "Iterator[pa.RecordBatch]", schema: StructType) -> "Iterator[pa.RecordBatch]":
    """Return record batches; of rows, as Spark 4.0 hands them to a streaming writer, they are made here."""
    if DataSourceStreamArrowWriter.__name__ == "DataSourceStreamArrowWriter":
        return iterator
    return _from_rows(iterator, schema)


def _from_rows(rows: Iterator, schema: StructType) -> "Iterator[pa.RecordBatch]":
    from itertools import islice

    import pyarrow as pa

    from spark_source.values.row_values import arrow_values

    arrow = arrow_schema(schema)
    while chunk := list(islice(rows, 10_000)):
        values = ([row[i] for row in chunk] for i in range(len(arrow)))
        columns = [
            pa.array(arrow_values(column, field.type), field.type) for column, field in zip(values, arrow, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


class StreamdBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes one DataFrame. Task retries add nothing; with sinkId and sinkBatch submitting it again adds nothing."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        write = options.write
        by_rows = write.sink_batch is None and write.scope == "stream"  # each write is one of its own: its rows tell
        named = write.sink_id is not None and not by_rows
        label = write.sink_batch or (uuid.uuid4().hex if by_rows else "0")
        self.name = BatchName(write.sink_id or uuid.uuid4().hex, label, None, named, write.sink_id if by_rows else None)
        self.final = write.stream
        if overwrite and (write.stream is None or write.stream_column is not None):
            raise OptionError("mode overwrite needs one stream: name it in option stream and leave streamColumn out")
        target = replacement_key(write.stream, self.name) if overwrite and write.stream is not None else write.stream
        super().__init__(options, schema, target)
        self.overwrite = overwrite
        self.prepare(self.final)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        context = _context()
        name = self._name_in(context)
        return self.write_task(iterator, name, context, self.overwrite and self._is_finished(name))

    def commit(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        reports = [message for message in messages if isinstance(message, TaskReport)]
        name = reports[0].name if reports else self.name
        if self.overwrite and self._is_finished(name):
            self._leave_out(reports, name)
            return
        remembered = self._remembers(name)
        if self.overwrite or not remembered:
            for stream in {stream for report in reports for stream in report.rows}:
                self.server.patiently(
                    lambda session, stream=stream: self.check_rows(session, stream, reports, name),  # type: ignore[misc]
                    stream,
                )
                if not self.overwrite and self.mode != "none":
                    self.forget_rows(stream, name)
        if self.overwrite:
            self._take_place(reports, name)
        elif remembered:
            self.commit_named(reports, name)
        self._forget_parts(reports)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Leave the rows of an append: see `StreamdStreamWriter.abort`. The half-made stream of an overwrite goes.

        That of an overwrite by name stays, unless it is empty: the next attempt finds its rows there.
        """
        stream = self.stream
        if stream is None:
            return
        if not self.name.named:
            self.forget_rows(stream, self.name)
        if self.overwrite:
            self.server.patiently(lambda session: self._drop(session, stream), stream)

    def _drop(self, session: Session, stream: str) -> None:
        if not self.name.named or session.call("XLEN", stream) == 0:
            session.call("DEL", stream)

    def _name_in(self, context: "TaskContext") -> BatchName:
        """Return the name of this write. Only tasks know whether it belongs to a streaming query, inside foreachBatch.

        There it carries the query's name as well: a new checkpoint numbers its batches from 0 again.

        Raises: OptionError for a name that all writes of a program would share.
        """
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        given, label = self.options.sink_id, self.options.sink_batch
        if given is None:
            return self.name
        if query is None or batch is None:
            if label is None and self._remembers(self.name):
                raise OptionError(
                    f"sinkId={given} without sinkBatch names all batch writes alike, only the first would be written: "
                    "give each write its own sinkBatch, or set idempotencyKey and idempotencyScope=stream, which find "
                    "rows that are written again by their keys"
                )
            return self.name
        sink = f"{given}@{query}"
        if label is None or label == batch:
            return BatchName(sink, batch, int(batch), True, given)
        return BatchName(sink, label, None, True, given, int(batch))

    def _remembers(self, name: BatchName) -> bool:
        """Return whether the write is known again when it is submitted again."""
        return name.named and self.mode != "none"

    def _is_finished(self, name: BatchName) -> bool:
        if not self._remembers(name) or self.final is None:
            return False
        final = self.final

        def finished(session: Session) -> bool:
            done = is_finished(session, final, name)
            if done:
                self.durability.wait(session, final, self.server.options)  # a mark that a failover may take is none
            else:
                judge_marks(session, final, name)
            return done

        return self.server.patiently(finished, final)

    def _leave_out(self, reports: list[TaskReport], name: BatchName) -> None:
        """End an overwrite that has taken place before. Raises: RowsChanged when it had other rows."""
        assert self.stream is not None
        assert self.final is not None
        new, final = self.stream, self.final
        keys = new, marker_key(new), rows_key(new, name), keys_key(new, name)
        self.server.patiently(lambda session: session.call("DEL", *keys), new)
        whole = self.whole(reports, new)
        others = self.server.patiently(lambda session: judge_rows(session, final, name, whole, self.options), final)
        warn_left_out(name, {final: whole.rows}, others)

    def _take_place(self, reports: list[TaskReport], name: BatchName) -> None:
        """Replace the old stream by the new one in one step, which also notes that.

        The old one's groups stay and go on with the new entries; their pending entries are gone. After a lost reply the
        step is tried again, and must then do nothing: the new stream has moved.
        """
        assert self.stream is not None
        assert self.final is not None
        new, final, key = self.stream, self.final, marker_key(self.final)
        remembered, noted, whole = self._remembers(name), f"{self.run}:replaced", self.whole(reports, self.stream)

        def swap(session: Session) -> bool:
            session.call("WATCH", final)
            if is_finished(session, final, name) if remembered else session.call("HGET", key, noted):
                session.call("UNWATCH")
                if remembered and judge_rows(session, final, name, whole, self.options):
                    warn_left_out(name, {final: whole.rows}, True)
                self.durability.wait(session, final, self.server.options)
                return True
            commands: list[list[str | bytes | int]] = [["MULTI"]]
            commands += replacing(session, new, final)
            commands += finishing(session, final, name, whole) if remembered else [["HSET", key, noted, 1]]
            commands.append(["DEL", marker_key(new), rows_key(new, name), keys_key(new, name)])
            done = transact(session, commands)
            if done:
                self.durability.wait(session, final, self.server.options)
            return done

        if not any(self.server.patiently(swap, final) for _ in range(SWAP_TRIES)):
            raise StreamdError(f"stream {final} could not be replaced, others keep writing to it: run the job again")
        if not remembered:
            self.server.patiently(lambda session: session.call("HDEL", key, noted), final)

    def _forget_parts(self, reports: list[TaskReport]) -> None:
        """Remove the notes of a write that will not be repeated."""
        if self.mode != "marker":
            return
        for report in reports:
            for stream in report.rows:
                key = part_key(stream, report.name, report.partition)
                self.server.patiently(lambda session, key=key: session.call("DEL", key), stream)  # type: ignore[misc]
