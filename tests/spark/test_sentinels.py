"""redis+sentinel://: the master is found by its name, and found again when it is another one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from bench.ports import free_port
from spark_source.connecting import connection
from spark_source.connecting.connection import Server
from spark_source.errors import StreamdError, Unreachable
from spark_source.settings.options import parse_options
from tests.spark.deployments import Watched, wait_until, watched_redis
from tests.spark.servers import client
from tests.spark.sessions import compare, fill
from tests.spark.test_connections import EXPECTED, round_trip

pytestmark = pytest.mark.redis


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    with watched_redis(tmp_path) as watched:
        yield watched


def test_rows_come_and_go_also_behind_a_sentinel_that_is_away(watched: Watched) -> None:
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{watched.sentinel}/mymaster"

    assert round_trip(url=url, timeout="20s") == EXPECTED


def test_a_name_that_nobody_watches_is_an_error_at_once(watched: Watched) -> None:
    url = f"redis+sentinel://127.0.0.1:{watched.sentinel}/yourmaster"
    with pytest.raises(StreamdError, match=r"Sentinel 127.0.0.1:\d+ knows no master named yourmaster: check the name"):
        Server(parse_options({"url": url}).connection).patiently(lambda session: session.call("PING"))

    nobody = Server(
        parse_options({"url": f"redis+sentinel://127.0.0.1:{free_port()}/m", "timeout": "300ms"}).connection
    )
    with pytest.raises(Unreachable, match=r"master m of Sentinel .* did not answer .*no Sentinel names master m"):
        nobody.patiently(lambda session: session.call("PING"))


@pytest.mark.parametrize("asks", [False, True])
def test_a_server_that_only_was_the_master_is_left(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    """Its connections stay open here, as they do when nobody closes them: READONLY tells who writes, and Sentinels
    tell who only reads."""
    monkeypatch.setattr(connection, "ASK_SENTINELS_S", 0.0 if asks else 3600.0)
    server = Server(parse_options({"url": f"redis+sentinel://127.0.0.1:{watched.sentinel}/mymaster"}).connection)
    assert server.patiently(lambda session: session.call("SET", "k", 1)) == b"OK"
    with redis.Redis(port=watched.master) as old, redis.Redis(port=watched.replica) as new:
        new.replicaof("NO", "ONE")
        old.replicaof("127.0.0.1", watched.replica)
        with redis.Redis(port=watched.sentinel) as sentinel:
            sentinel.sentinel_remove("mymaster")
            sentinel.sentinel_monitor("mymaster", "127.0.0.1", watched.replica, 1)

        new.set("k", 2)
        if asks:
            old.replicaof("NO", "ONE")
            old.set("k", 3)
        else:
            assert server.patiently(lambda session: session.call("SET", "k", 2)) == b"OK"
        assert server.patiently(lambda session: session.call("GET", "k")) == b"2"


@pytest.mark.spark
def test_a_query_goes_on_when_another_server_is_the_master(
    spark: SparkSession, watched: Watched, tmp_path: Path
) -> None:
    url = f"redis+sentinel://127.0.0.1:{watched.sentinel}/mymaster"
    with client(watched.master) as master:
        fill(master, 300)
    reader = spark.readStream.format("streamd").options(url=url, stream="in", startingOffsets="earliest")
    rows = reader.load().selectExpr("id AS source", "fields")
    query = rows.writeStream.format("streamd").options(url=url, stream="out", exactlyOnce="none")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        watched.fail_over()
        with client(watched.master_now()) as master:
            assert watched.master_now() == watched.replica
            fill(master, 200, first=300)

            def all_there() -> bool:
                query.processAllAvailable()
                return master.xlen("out") >= 500

            wait_until(all_there)
            assert compare(master) == (0, 0)
    finally:
        query.stop()
