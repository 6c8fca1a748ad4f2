"""One task's write as Spark would have it done, without Spark: chosen rows, attempts, and connections that break."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields

import pyarrow as pa
import redis

from spark_source.connecting.connection import Patience, Server, Session
from spark_source.naming.identity import BatchName
from spark_source.noting.batches import commit_batch
from spark_source.noting.finished import Whole
from spark_source.noting.window import choose_mode, ensure_window
from spark_source.settings.options import parse_options
from spark_source.values.encode import RowEncoder
from spark_source.writing.durable import choose_durability
from spark_source.writing.sink import Outcome, Task, TaskWriter
from spark_source.writing.writer import StreamdStreamWriter, TaskReport
from tests.spark.schemas import schema

COLUMNS = schema("n int, v string")
ROWS = [{"n": n // 2, "v": f"v{n // 2}"} for n in range(20)]  # each row twice: both are wanted
NAME = BatchName("sink", "3", 3, True)


class CutServer(Server):
    """A server whose connections break: at the given exchanges, before or after the server has the bytes.

    In place of `before` or `after` there may be a function, which is called in that moment."""

    def __init__(self, options, cuts: "dict[int, str | Callable[[], object]]") -> None:
        super().__init__(options, Patience())
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "exchanges", 0)

    @contextmanager
    def session(self, key: str | None = None, node: str | None = None) -> Iterator[Session]:
        with super().session(key, node) as session:
            exchange = session.exchange

            def breaking(packed, count):
                number = self.exchanges
                object.__setattr__(self, "exchanges", number + 1)
                how = self.cuts.get(number)
                if callable(how):
                    how()
                if how == "before":
                    raise redis.ConnectionError("cut before the server had the bytes")
                replies = exchange(packed, count)
                if how == "after":
                    raise redis.ConnectionError("cut after the server had the bytes")
                return replies

            session.exchange = breaking  # type: ignore[method-assign]
            yield session

    def pause(self, pause_s: float) -> float:
        return pause_s


def port_of(client: redis.Redis) -> str:
    return str(client.connection_pool.connection_kwargs["port"])


def write(client: redis.Redis, rows: list[dict], cuts: dict[int, str] | None = None, **given) -> Outcome:
    """Write rows as one task; keyword arguments are options, and attempt, run, partition, mode, name, columns."""
    task = {"attempt": 0, "run": "r1", "partition": 0, "name": NAME, "mode": None, "columns": COLUMNS}
    task.update({name: given.pop(name) for name in list(given) if name in task})
    place = {} if "url" in given else {"port": port_of(client)}
    options = parse_options({**place, "stream": "s", "pipeline": "4", **given})
    server = CutServer(options.connection, cuts) if cuts else Server(options.connection, Patience())
    mode = task["mode"] or choose_mode(server, options.write)
    if mode == "idmp" and options.write.stream is not None:
        ensure_window(server, options.write.stream, options.write)
    prepared = frozenset([options.write.stream] if options.write.stream else [])
    durability = choose_durability(server, options.write)
    made = Task(task["name"], task["partition"], task["attempt"], task["run"], mode, durability, prepared)
    encoder = RowEncoder(task["columns"], options.write.key_columns, options.write.stream, options.write.stream_column)
    types = {"n": pa.int32(), "v": pa.string(), "_stream": pa.string()}
    names = task["columns"].fieldNames()
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([(name, types[name]) for name in names]))
    batches = iter([batch.slice(start, 7) for start in range(0, max(len(rows), 1), 7)])
    return TaskWriter(server, options.write, encoder, made).write(batches)


def commit(client: redis.Redis, name: BatchName = NAME) -> None:
    """Note that a batch is committed as earlier versions did, which kept no digest of its rows."""
    given = parse_options({"port": port_of(client)})
    whole = Whole("content", 20, "")
    Server(given.connection).patiently(
        lambda session: commit_batch(session, "s", name, {"rows": 20}, whole, given.write), "s"
    )
    client.delete("{s}:spark:digests")


def commit_reports(client: redis.Redis, outcomes: dict[int, Outcome], name: BatchName = NAME, **given) -> None:
    """Commit a batch of a streaming query as its driver does, with what the attempts that count reported."""
    reports = [
        TaskReport(name, partition, *(getattr(one, what.name) for what in fields(TaskReport)[2:]))
        for partition, one in outcomes.items()
    ]
    options = parse_options({"port": port_of(client), "stream": "s", **given})
    StreamdStreamWriter(options, COLUMNS, False).commit(reports, name.number or 0)


def entries(client: redis.Redis, stream: str = "s") -> Counter:
    return Counter((fields[b"n"], fields[b"v"]) for _, fields in client.xrange(stream))


def wanted(rows: list[dict] = ROWS) -> Counter:
    return Counter((str(row["n"]).encode(), row["v"].encode()) for row in rows)
