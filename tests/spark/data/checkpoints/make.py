"""Makes the checkpoints beside it, with the version that was there before a change: `python make.py` in its checkout.

    git worktree add /tmp/before aa510b6
    PYTHONPATH=/tmp/before python tests/spark/data/checkpoints/make.py

Three queries read a stream, the streams of a pattern, and a topic log that was reconfigured. The first batch of each
is written whole. The second one is planned, and then its tasks fail: its offset is in the checkpoint, its commit is
not. More entries wait behind it. `<query>/checkpoint` is what Spark left; `<query>/server.json` is what the server
held: streams with their entry IDs, and hashes. (Before the client libraries moved, `streamd.clients.topics` was
`streamd.topics`: with such a version the import below has to say that.)
"""

import json
import shutil
import tempfile
from pathlib import Path

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streamd.clients.topics import TopicLog
from tests.spark.servers import client, streamd_server
from tests.spark.sessions import finish, quiet_session

HERE = Path(__file__).resolve().parent
LIMIT = 20
OPTIONS = {
    "stream": {"stream": "in"},
    "pattern": {"streamPattern": "in-*", "patternInterval": "0s"},
    "log": {"log": "telemetry", "patternInterval": "0s"},
}
COLUMNS = {"stream": "fields['n']", "pattern": "fields['n']", "log": "payload"}


def add(server: redis.Redis, query: str, first: int, last: int) -> None:
    """Add what a query reads, numbered."""
    if query == "log":
        TopicLog.open(server, "telemetry").publish_many((f"devices/d{n % 5}", str(n)) for n in range(first, last))
        return
    for n in range(first, last):
        server.xadd("in" if query == "stream" else f"in-{n % 2}", {"n": n})


def run(spark: SparkSession, port: int, query: str, checkpoint: Path, value: str) -> None:
    """Run a query until it has read all, or a batch fails."""
    given = {"port": port, "text": "true", "startingOffsets": "earliest", **OPTIONS[query]}
    limits = {"maxEntriesPerTrigger": LIMIT, "entriesPerPartition": 8}
    rows = spark.readStream.format("streamd").options(**given, **limits).load()
    writing = rows.selectExpr("stream AS source", "id AS source_id", f"{value} AS n").writeStream.format("streamd")
    writing = writing.options(port=port, stream="out", checkpointLocation=str(checkpoint)).trigger(availableNow=True)
    finish(writing.start())


def held(server: redis.Redis) -> dict[str, dict]:
    """Return what the streams and hashes of a server hold."""
    keys = sorted(key.decode() for key in server.scan_iter())
    kinds = {key: server.type(key).decode() for key in keys}
    return {
        "streams": {
            key: [[one.decode(), {name.decode(): value.decode() for name, value in fields.items()}] for one, fields in
                  server.xrange(key)]
            for key in keys if kinds[key] == "stream"
        },
        "hashes": {
            key: {name.decode(): value.decode() for name, value in server.hgetall(key).items()}
            for key in keys if kinds[key] == "hash"
        },
    }  # fmt: skip


def make(spark: SparkSession, server: redis.Redis, port: int, query: str) -> None:
    server.flushall()
    place = HERE / query
    shutil.rmtree(place, ignore_errors=True)
    checkpoint = place / "checkpoint"
    if query == "log":
        TopicLog.create(server, "telemetry", shards=2, filters=["#"])
    add(server, query, 0, LIMIT)
    run(spark, port, query, checkpoint, COLUMNS[query])
    add(server, query, LIMIT, 2 * LIMIT + 10)
    if query == "log":
        TopicLog.open(server, "telemetry").reconfigure(shards=3)
    add(server, query, 2 * LIMIT + 10, 3 * LIMIT)
    with pytest.raises(StreamingQueryException, match="USER_RAISED"):
        run(spark, port, query, checkpoint, f"raise_error({COLUMNS[query]})")
    names = {one.name for one in (checkpoint / "offsets").iterdir() if one.name.isdecimal()}
    done = {one.name for one in (checkpoint / "commits").iterdir() if one.name.isdecimal()}
    assert names - done == {max(names, key=int)}, (names, done)
    for rest in checkpoint.rglob(".*"):
        rest.unlink()
    (place / "server.json").write_text(json.dumps(held(server), indent=1) + "\n")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, streamd_server(Path(directory)) as port, client(port) as server:
        spark = quiet_session()
        try:
            for query in OPTIONS:
                make(spark, server, port, query)
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
