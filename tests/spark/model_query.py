"""A streaming query as Spark runs it, without Spark: its checkpoint can be copied, cut, and put back."""

import copy
from dataclasses import dataclass, field

import redis

from spark_source.settings.options import parse_options
from spark_source.writing.writer import BATCH_ID, QUERY_ID, StreamdBatchWriter, StreamdStreamWriter
from tests.spark.one_task import COLUMNS, port_of
from tests.spark.whole_writes import Context, batch


@dataclass
class Checkpoint:
    """The end of each batch that was planned, and the number of those that Spark has noted as done."""

    ends: list[int] = field(default_factory=list)
    commits: int = 0

    def copy(self) -> "Checkpoint":
        return copy.deepcopy(self)

    def cut(self, batches: int) -> None:
        """Remove the newest files of offsets and commits."""
        del self.ends[max(len(self.ends) - batches, 0) :]
        self.commits = min(self.commits, len(self.ends))


class Query:
    """Copies numbered rows to stream s. foreach: the label of its writes inside foreachBatch; None without it."""

    def __init__(
        self, client: redis.Redis, task: Context, options: dict[str, str], foreach: str | None, checkpoint: Checkpoint
    ) -> None:
        self.client, self.task, self.foreach = client, task, foreach
        self.options = options
        self.checkpoint = checkpoint

    def run_batch(self, rows: int, limit: int, crash: str = "") -> bool:
        """Run the next batch, of at most `limit` of the source's rows; False if there are none.

        crash: planned, written or committed, the moment at which the driver dies.
        """
        ends = self.checkpoint.ends
        if self.checkpoint.commits == len(ends):
            start = ends[-1] if ends else 0
            if start == rows:
                return False
            ends.append(min(rows, start + limit))
        number = len(ends) - 1
        start = ends[-2] if number else 0
        if crash != "planned":
            self._write(number, [{"n": n, "v": f"v{n}"} for n in range(start, ends[-1])], crash)
        if not crash:
            self.checkpoint.commits = len(ends)
        return True

    def run(self, rows: int, limit: int) -> None:
        """Run until all rows of the source are processed."""
        while self.run_batch(rows, limit):
            pass

    def _write(self, number: int, rows: list[dict], crash: str) -> None:
        given = {"port": port_of(self.client), "stream": "s", **self.options}
        self.task.properties = {QUERY_ID: "q", BATCH_ID: str(number)}
        if self.foreach is not None:
            named = {"sinkId": "me", "sinkBatch": self.foreach.format(number), **given}
            writer = StreamdBatchWriter(parse_options(named), COLUMNS, False)
            report = writer.write(batch(rows))
            if crash != "written":
                writer.commit([report])
            return
        report = StreamdStreamWriter(parse_options(given), COLUMNS, False).write(batch(rows))
        if crash != "written":
            StreamdStreamWriter(parse_options(given), COLUMNS, False).commit([report], number)
