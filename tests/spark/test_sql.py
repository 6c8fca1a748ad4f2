"""SQL, Spark Connect, and the triggers and threads that Spark does not give a Python source."""

import importlib.util
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
import redis
from pyspark.sql import SparkSession

from tests.spark.sessions import ROOT, copy, fill, read_stream
from tests.spark.test_read_and_write import error_of

pytestmark = pytest.mark.spark

THE_VIEW = (
    "Spark does not hand the options of a catalog's table to a Python data source when the table is used: make a view, "
    "CREATE TEMPORARY VIEW name USING streamd OPTIONS (stream '...'), which takes INSERT INTO, too"
)


@pytest.fixture
def catalog(spark: SparkSession) -> SparkSession:
    """A session whose catalog holds none of the tables made here, before and after."""
    for name in ("with_columns", "saved"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    yield spark
    for name in ("with_columns", "saved"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_view_is_read_and_takes_rows(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    fill(streamd, 100)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v (n int) USING streamd OPTIONS (port '{streamd_port}', stream 'in')")

    spark.sql("INSERT INTO v SELECT 1000 + id FROM range(10)")
    assert tuple(spark.sql("SELECT count(*), max(n) FROM v").first()) == (110, 1009)
    spark.sql("INSERT OVERWRITE v SELECT id FROM range(5)")
    assert sorted(entry[b"n"] for _, entry in streamd.xrange("in")) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_table_of_the_catalog_is_refused_with_the_view_that_does_it(
    catalog: SparkSession, streamd: redis.Redis, streamd_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(streamd, 3)
    options = f"OPTIONS (port '{streamd_port}', stream 'in')"

    assert error_of(lambda: catalog.sql(f"CREATE TABLE bare USING streamd {options}")) == THE_VIEW
    catalog.sql(f"CREATE TABLE with_columns (n int) USING streamd {options}")
    said = f"stream is missing, and so are all options: {THE_VIEW}"
    assert error_of(lambda: catalog.sql("SELECT * FROM with_columns").collect()) == said
    assert error_of(lambda: catalog.sql("INSERT INTO with_columns VALUES (1)")) == said
    given = f"WITH (port '{streamd_port}', stream 'in')"
    assert catalog.sql(f"SELECT sum(n) FROM with_columns {given}").first()[0] == 3, "given with each use they are there"
    writer = catalog.range(3).write.format("streamd").options(port=streamd_port, stream="out").mode("append")
    writer.saveAsTable("saved")
    assert streamd.xlen("out") == 3
    assert error_of(lambda: catalog.table("saved").collect()) == said


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("grpc") is None, reason='Spark Connect: pip install ".[connect]"')
def test_spark_connect(streamd: redis.Redis, streamd_port: int, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.spark.connect_job", str(streamd_port), str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["kind"] == "pyspark.sql.connect.session"
    assert (seen["total"], seen["counted"]) == (4950, 100)
    assert seen["latest"]["in"]["lag"] == 0
    assert streamd.xlen("out") == 100


@pytest.mark.parametrize(("trigger", "said"), [("continuous", "continuous processing"), ("realTime", "Real-[tT]ime")])
def test_spark_gives_a_python_source_no_other_triggers(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path, trigger: str, said: str
) -> None:
    fill(streamd, 3)
    writer = read_stream(spark, streamd_port).writeStream.format("noop").outputMode("update")
    writer = writer.option("checkpointLocation", str(tmp_path))
    if trigger == "realTime":
        if pyspark.__version__.startswith("4.0."):
            pytest.skip("real-time mode came with Spark 4.1")
        spark.conf.set("spark.sql.streaming.realTimeMode.allowlistCheck", "false")
    try:
        with pytest.raises(Exception, match=said):
            writer.trigger(**{trigger: "5 seconds"}).start().awaitTermination(30)
    finally:
        spark.conf.unset("spark.sql.streaming.realTimeMode.allowlistCheck")


def test_a_query_starts_in_a_thread_that_has_a_session_as_docs_spark_says(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    fill(streamd, 30)
    the_way = "spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)"
    assert f"`{the_way}`" in (ROOT / "docs" / "spark-reference.md").read_text()

    def query() -> None:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
        copy(spark, streamd_port, tmp_path / "with").awaitTermination(60)

    with ThreadPoolExecutor(1) as thread:
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            thread.submit(copy, spark, streamd_port, tmp_path / "without").result()
        thread.submit(query).result()
    assert streamd.xlen("out") == 30
