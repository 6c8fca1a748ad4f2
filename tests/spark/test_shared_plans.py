"""A view or DataFrame that is used more than once: Spark plans its partitions once, for all queries that use it.

Whatever a query filters, cuts off or leaves out must not be missing in another one. `make test-spark41` and `make
test-spark42` run this on those versions.
"""

from collections.abc import Iterator

import pyspark
import pytest
import redis
from pyspark.sql import DataFrame, Row, SparkSession

from spark_source.reading.batch_reader import PUSHDOWN_WITHDRAWN
from tests.spark.test_read_and_write import error_of

pytestmark = pytest.mark.spark

FIRST_MS = 1_700_000_000_000
SETTING = "spark.sql.python.filterPushdown.enabled"
MANY = ", ".join(f"'{FIRST_MS + n}-0'" for n in range(0, 4_000, 2))  # 2,000 IDs, of which 30 are there

SHAPES: dict[str, str] = {
    "all": "SELECT * FROM v",
    "union of two filters": "SELECT * FROM v WHERE stream = 'U' UNION ALL SELECT * FROM v WHERE stream = 'u'",
    "filter beside all": "SELECT * FROM v WHERE stream = 'U' UNION ALL SELECT * FROM v",
    "limit beside count": "(SELECT count(*) AS n FROM (SELECT * FROM v LIMIT 10)) UNION ALL SELECT count(*) FROM v",
    "join of itself": "SELECT a.id, b.stream FROM v a JOIN v b ON a.ts = b.ts WHERE a.stream = 'U' AND b.seq = 0",
    "ids in a list": f"SELECT * FROM v WHERE id IN ({MANY})",
    "ids not in a query": "SELECT * FROM v WHERE id NOT IN (SELECT id FROM v WHERE stream = 'U')",
    "ranges of times": f"SELECT * FROM v WHERE ts >= timestamp_millis({FIRST_MS + 50}) OR id = '{FIRST_MS + 3}-0'",
    "columns": "SELECT seq FROM v WHERE seq = 0 UNION ALL SELECT length(stream) FROM v",
    "except": f"SELECT stream, id FROM v EXCEPT SELECT stream, id FROM v WHERE id > '{FIRST_MS + 20}'",
    "aggregates": "SELECT stream, count(*), (SELECT max(id) FROM v WHERE stream = 'U') FROM v GROUP BY stream",
}


@pytest.fixture(scope="module")
def filled(streamd_port: int) -> Iterator[redis.Redis]:
    """A streamd with one entry in `U` and 60 in `u`, for tests that only read."""
    from tests.spark.servers import client

    with client(streamd_port) as connected:
        connected.flushall()
        connected.xadd("U", {"n": "x"}, id=f"{FIRST_MS}-0")
        for n in range(60):
            connected.xadd("u", {"n": n}, id=f"{FIRST_MS + n}-0")
        yield connected


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark as it is set to hand filters to Python sources."""
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.unset(SETTING)


def load(spark: SparkSession, port: int, **options: object) -> DataFrame:
    given = {"port": port, "stream": "U,u", "text": True, "fields": "array", **options}
    return spark.read.format("streamd").options(**given).load()


def test_each_query_on_a_shared_view_gives_what_it_gives_on_rows_of_its_own(
    pushing: SparkSession, filled: redis.Redis, streamd_port: int
) -> None:
    shared = load(pushing, streamd_port)
    own = pushing.createDataFrame(load(pushing, streamd_port).collect(), shared.schema)

    def answer(rows: DataFrame, shape: str) -> list[Row]:
        rows.createOrReplaceTempView("v")
        return sorted(pushing.sql(SHAPES[shape]).collect())

    wanted = {shape: answer(own, shape) for shape in SHAPES}
    assert [len(wanted[shape]) for shape in ("all", "union of two filters", "ids in a list")] == [61, 61, 31]
    assert [shape for shape in [*SHAPES, "all"] if answer(shared, shape) != wanted[shape]] == []


@pytest.mark.parametrize("setting", ["true", "false"])
def test_filters_are_not_pushed_down_and_the_error_says_why(
    pushing: SparkSession, filled: redis.Redis, streamd_port: int, setting: str
) -> None:
    pushing.conf.set(SETTING, setting)
    said = error_of(lambda: load(pushing, streamd_port, filterPushdown=True).where("stream = 'U'").collect())
    assert said == PUSHDOWN_WITHDRAWN
    assert load(pushing, streamd_port, filterPushdown=False).where("stream = 'U'").count() == 1


def test_a_list_of_ids_makes_no_task_for_each(pushing: SparkSession, filled: redis.Redis, streamd_port: int) -> None:
    assert load(pushing, streamd_port, stream="u").where(f"id IN ({MANY})").rdd.getNumPartitions() == 1


def test_a_view_or_dataframe_is_planned_once_and_one_made_again_reads_anew(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    """Spark's plan, of which docs/spark.md warns: should this fail with a newer Spark, the warning can go.

    Spark 4.0 plans for each query.
    """
    words = f"TEMPORARY VIEW notes (text string) USING streamd OPTIONS (port '{streamd_port}', stream 'notes')"
    loaded = spark.read.format("streamd").options(port=streamd_port, stream="notes")

    def counted() -> list[int]:
        return [spark.sql("SELECT count(*) FROM notes").first()[0], frame.count()]

    spark.sql(f"CREATE OR REPLACE {words}")
    spark.sql("INSERT INTO notes VALUES ('a line'), ('another')")
    frame = loaded.load()
    assert counted() == [2, 2]
    spark.sql("INSERT INTO notes VALUES ('a third')")
    spark.sql("REFRESH TABLE notes")
    assert counted() == ([3, 3] if pyspark.__version__.startswith("4.0.") else [2, 2])
    spark.sql(f"CREATE OR REPLACE {words}")
    frame = loaded.load()
    assert counted() == [3, 3]
