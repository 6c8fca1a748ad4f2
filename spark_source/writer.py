"""The writers that Spark sees: they name the write, have its rows written by tasks, and commit it."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from spark_source.connection import Server, Session
from spark_source.encode import RowEncoder
from spark_source.errors import OptionError, StreamdError
from spark_source.identity import BatchName
from spark_source.markers import (
    commit_batch,
    done_field,
    is_done,
    marker_key,
    open_field,
    part_key,
    replacement_key,
    tagged,
    transact,
)
from spark_source.options import Options
from spark_source.schema import arrow_schema
from spark_source.window import check_durability, choose_mode, ensure_window

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import TaskContext

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # Spark 4.0 hands rows, not batches, to a streaming writer; see `StreamdStreamWriter.write`
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@dataclass
class TaskReport(WriterCommitMessage):
    """What a task tells the driver."""

    name: BatchName
    partition: int
    rows: dict[str, int]
    duplicates: int
    retries: int
    waited_ms: int


class _Writer:
    """What batch and streaming share. Made on the driver, pickled into the tasks; holds options only."""

    def __init__(self, options: Options, schema: StructType, stream: str | None) -> None:
        self.options = options.write
        self.server = Server(options.connection)
        self.schema = schema
        self.stream = stream
        self.encoder(stream)  # says what is wrong with the columns
        if stream is not None:
            tagged(stream)
        self.run = uuid.uuid4().hex[:12]
        self.mode = choose_mode(self.server, self.options)
        self.wait_for = check_durability(self.server, self.options)
        self.prepared: frozenset[str] = frozenset()

    def encoder(self, stream: str | None) -> RowEncoder:
        return RowEncoder(self.schema, self.options.key_columns, stream, self.options.value_format)

    def prepare(self, shown: str | None = None) -> None:
        """Set or check the window of the one stream that is written to. Raises: StreamdError."""
        if self.mode == "idmp" and self.stream is not None:
            ensure_window(self.server, self.stream, self.options, shown)
            self.prepared = frozenset([self.stream])

    def write_task(self, batches: "Iterator[pa.RecordBatch]", name: BatchName, context: "TaskContext") -> TaskReport:
        from spark_source.sink import Task, TaskWriter

        task = Task(
            name=name,
            partition=context.partitionId(),
            attempt=context.attemptNumber() + _stage_attempt(context),
            run=self.run,
            mode=self.mode,
            wait_for=self.wait_for,
            prepared=self.prepared,
        )
        encoder = self.encoder(self.stream)
        server = Server(self.server.options)
        outcome = TaskWriter(server, self.options, encoder, task).write(batches)
        return TaskReport(name, task.partition, outcome.rows, outcome.duplicates, outcome.retries, outcome.waited_ms)

    def commit_named(self, reports: "list[TaskReport]", name: BatchName) -> None:
        """Note on every stream that was written to that the batch is committed."""
        if self.mode == "none":
            return
        totals = {
            "duplicates": sum(report.duplicates for report in reports),
            "retries": sum(report.retries for report in reports),
            "waited_ms": sum(report.waited_ms for report in reports),
        }
        now = str(time.time_ns() // 1_000_000)
        streams = {stream for report in reports for stream in report.rows}
        if self.stream is not None:
            streams.add(self.stream)
        for stream in sorted(streams):
            counted = {"rows": sum(report.rows.get(stream, 0) for report in reports), **totals}
            self.server.patiently(
                lambda session, stream=stream, counted=counted: commit_batch(session, stream, name, now, counted),  # type: ignore[misc]
                stream,
            )


def _stage_attempt(context: "TaskContext") -> int:
    """Return how often the stage was started before: its tasks then start at attempt 0 again."""
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
            raise OptionError("outputMode=complete would write the whole result again each time: use append or update")
        if options.write.sink_batch is not None:
            raise OptionError("sinkBatch is for batch writes: leave it out, a streaming query numbers its batches")
        super().__init__(options, schema, options.write.stream)
        self.prepare()

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise OptionError("this Spark does not say which query and batch a task belongs to: set exactlyOnce=none")
        lasting = self.options.sink_id
        sink = query if lasting is None else f"{lasting}@{query}"
        name = BatchName(sink, batch, int(batch), True, lasting)
        return self.write_task(_batches(iterator, self.schema), name, context)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:
        reports = [message for message in messages if isinstance(message, TaskReport)]
        if reports:
            self.commit_named(reports, reports[0].name)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]", batchId: int) -> None:
        """Nothing: the next attempt finds the rows by their names. Deleting them would lose them, since the server
        answers a name it knows without writing anything."""


def _batches(iterator: "Iterator[pa.RecordBatch]", schema: StructType) -> "Iterator[pa.RecordBatch]":
    """Return record batches; of rows, as Spark 4.0 hands them to a streaming writer, they are made here."""
    if DataSourceStreamArrowWriter.__name__ == "DataSourceStreamArrowWriter":
        return iterator
    return _from_rows(iterator, schema)


def _from_rows(rows: Iterator, schema: StructType) -> "Iterator[pa.RecordBatch]":
    from itertools import islice

    import pyarrow as pa

    from spark_source.row_values import arrow_values

    arrow = arrow_schema(schema)
    while chunk := list(islice(rows, 10_000)):
        values = ([row[i] for row in chunk] for i in range(len(arrow)))
        columns = [
            pa.array(arrow_values(column, field.type), field.type) for column, field in zip(values, arrow, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow)


class StreamdBatchWriter(_Writer, DataSourceArrowWriter):
    """Writes one DataFrame. Task retries add nothing; with sinkId (and sinkBatch) submitting it again adds nothing."""

    def __init__(self, options: Options, schema: StructType, overwrite: bool) -> None:
        write = options.write
        self.named = write.sink_id is not None
        self.name = BatchName(write.sink_id or uuid.uuid4().hex, write.sink_batch or "0", None, self.named)
        self.final = write.stream
        self.overwrite = overwrite
        if overwrite and (write.stream is None or "_stream" in schema.fieldNames()):
            raise OptionError("mode overwrite needs one stream: name it in option stream and leave column _stream out")
        target = replacement_key(write.stream, self.name) if overwrite and write.stream is not None else write.stream
        super().__init__(options, schema, target)
        self.remembered = self.named and self.mode != "none"
        # Without sinkBatch only the tasks know the batch: it is Spark's, inside foreachBatch.
        self.finished = write.sink_batch is not None and self._is_finished(self.name)
        if not self.finished:
            self.prepare(self.final)

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> TaskReport:
        context = _context()
        name = self.name
        batch = context.getLocalProperty(BATCH_ID)
        if self.named and self.options.sink_batch is None and batch is not None:  # inside foreachBatch
            name = BatchName(name.sink, batch, None, True)
        if self.finished or (self.overwrite and self._is_finished(name)):
            for _ in iterator:
                pass
            return TaskReport(name, context.partitionId(), {}, 0, 0, 0)
        return self.write_task(iterator, name, context)

    def commit(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        reports = [message for message in messages if isinstance(message, TaskReport)]
        name = reports[0].name if reports else self.name
        if self.finished or self._is_finished(name):
            return
        if self.overwrite:
            self._take_place(name)
        elif self.remembered:
            self.commit_named(reports, name)
        self._forget_parts(reports)

    def abort(self, messages: "Sequence[WriterCommitMessage | None]") -> None:
        """Leave the rows of an append: see `StreamdStreamWriter.abort`. The half-made stream of an overwrite goes."""
        if self.overwrite and not self.named and self.stream is not None:
            stream = self.stream
            self.server.patiently(lambda session: session.call("DEL", stream), stream)

    def _is_finished(self, name: BatchName) -> bool:
        if not self.remembered or self.final is None:
            return False
        final = self.final
        done = self.server.patiently(lambda session: session.call("HGET", marker_key(final), done_field(name)), final)
        return is_done(name, done)

    def _take_place(self, name: BatchName) -> None:
        """Put the new stream in the place of the old, in one step, which notes that it was done.

        When the reply is lost the step is tried again, and must then do nothing: the new stream has moved.
        """
        assert self.stream is not None
        assert self.final is not None
        new, final, key = self.stream, self.final, marker_key(self.final)
        noted = done_field(name) if self.remembered else f"{self.run}:replaced"

        def swap(session: Session) -> None:
            if session.call("HEXISTS", key, noted):
                return
            commands: list[list[str | bytes | int]] = [["MULTI"]]
            commands.append(["RENAME", new, final] if session.call("EXISTS", new) else ["DEL", final])
            commands.append(["HSET", key, noted, str(time.time_ns() // 1_000_000)])
            commands.append(["HDEL", key, open_field(name)])
            commands.append(["DEL", marker_key(new)])
            if not transact(session, commands):
                raise StreamdError(f"stream {final} could not be replaced: run the job again")

        self.server.patiently(swap, final)
        if not self.remembered:
            self.server.patiently(lambda session: session.call("HDEL", key, noted), final)

    def _forget_parts(self, reports: list[TaskReport]) -> None:
        """Remove the notes of a write that nobody can ask for again."""
        if self.mode != "marker":
            return
        for report in reports:
            for stream in report.rows:
                key = part_key(stream, report.name, report.partition)
                self.server.patiently(lambda session, key=key: session.call("DEL", key), stream)  # type: ignore[misc]
