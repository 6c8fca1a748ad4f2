"""Values that are more than a number or a text, through Spark and back: structs, arrays, maps, VARIANT, TIME."""

import json

import pyspark
import pytest
import redis
from pyspark.sql import DataFrame, SparkSession

from tests.spark.sessions import fill

pytestmark = pytest.mark.spark

ORDER = {"order": "o-1", "lines": '[{"item":"pen","cents":125},{"item":"ink"}]', "tags": '{"gift":true,"vip":null}'}
COLUMNS = "order string, lines array<struct<item: string, cents: long>>, tags map<string, boolean>"


def load(spark: SparkSession, port: int, stream: str, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("streamd").options(port=port, stream=stream, **options)
    return (reader.schema(schema) if schema else reader).load()


def test_nested_columns_come_from_json_and_become_json(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    streamd.xadd("in", ORDER)
    streamd.xadd("in", {"order": "o-2", "lines": "none"})
    rows = load(spark, streamd_port, "in", f"{COLUMNS}, _corrupt string", valueFormat="json")

    first, second = rows.orderBy("order").collect()
    assert [tuple(line) for line in first.lines] == [("pen", 125), ("ink", None)]
    assert first.tags == {"gift": True, "vip": None}
    assert second.lines is None
    assert json.loads(second._corrupt) == {"order": "o-2", "lines": "none"}
    rows = rows.where("order = 'o-1'").drop("_corrupt")
    rows.write.format("streamd").options(port=streamd_port, stream="out", valueFormat="json").mode("append").save()
    assert streamd.xrange("out")[0][1] == {name.encode(): text.encode() for name, text in ORDER.items()}


def test_json_agrees_with_sparks_own(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    made = spark.sql(
        """SELECT named_struct('a', array(1, null), 'm', map('k', 1.5D), 'd', 12.30BD, 'n', cast(null AS int),
           's', 'x "y" \\u00e9', 'day', date'2026-01-31', 'raw', X'00FF', 'b', true, 'f', cast('NaN' AS double)) AS v"""
    )
    made.write.format("streamd").options(port=streamd_port, stream="out", valueFormat="json").mode("append").save()
    text = streamd.xrange("out")[0][1][b"v"].decode()
    assert json.loads(text) == json.loads(made.selectExpr("to_json(v) AS v").first().v)

    schema = made.schema.simpleString()[len("struct<v:") : -1]
    ours = load(spark, streamd_port, "out", f"v {schema}", valueFormat="json").first().v
    theirs = spark.createDataFrame([(text,)], "t string").selectExpr(f"from_json(t, 'v {schema}') AS r").first()
    assert theirs.r.v is None, "from_json wants the object around it"
    theirs = spark.createDataFrame([(text,)], "t string").selectExpr(f"from_json(t, '{schema}') AS v").first().v
    assert str(ours) == str(theirs)


def test_without_a_schema_value_is_what_a_kafka_job_expects(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    streamd.xadd("in", {**ORDER, "n": 5})
    raw = load(spark, streamd_port, "in", valueFormat="json")

    assert raw.columns == ["stream", "id", "ts", "seq", "value"]
    row = raw.selectExpr(f"from_json(value, '{COLUMNS}, n int') AS v").select("v.*").first()
    assert (row.order, row.n, row.lines[1].item, row.tags["gift"]) == ("o-1", 5, "ink", True)


@pytest.mark.skipif(pyspark.__version__.startswith("4.0."), reason="TIME came with Spark 4.1")
def test_variant_and_time(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    streamd.xadd("in", {"v": '{"a":[1,{"b":"x"}]}', "t": "01:02:03.5"})
    rows = load(spark, streamd_port, "in", "v variant, t time(6)", valueFormat="json")

    assert tuple(rows.selectExpr("v:a[1].b::string", "cast(t AS string)").first()) == ("x", "01:02:03.5")
    rows.write.format("streamd").options(port=streamd_port, stream="out", valueFormat="json").mode("append").save()
    assert streamd.xrange("out")[0][1] == {b"v": b'{"a":[1,{"b":"x"}]}', b"t": b"01:02:03.500000"}


def test_a_stream_of_structs_is_copied_by_a_query(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path
) -> None:
    fill(streamd, 20)
    reader = spark.readStream.format("streamd").options(port=streamd_port, stream="in", startingOffsets="earliest")
    rows = reader.load().selectExpr("named_struct('id', id, 'all', transform_values(fields, (k, v) -> string(v))) AS e")
    query = rows.writeStream.format("streamd").options(port=streamd_port, stream="out", valueFormat="json")
    query = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)

    wanted = [
        {"id": i.decode(), "all": {k.decode(): v.decode() for k, v in e.items()}} for i, e in streamd.xrange("in")
    ]
    assert [json.loads(entry[b"e"]) for _, entry in streamd.xrange("out")] == wanted


@pytest.mark.parametrize("large", ["false", "true"])
def test_rows_are_written_alike_with_large_arrow_types(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, large: str
) -> None:
    rows = spark.sql(
        """SELECT X'00FF' AS raw, 'é' AS text, map('k', X'FE') AS fields, map('a', array('x', null)) AS m,
           named_struct('t', 'y', 'b', X'01') AS s"""
    )
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        for columns, form in ((["raw", "text", "fields"], "text"), (["raw", "text", "m", "s"], "json")):
            out = rows.select(columns).write.format("streamd").options(port=streamd_port, stream=form, valueFormat=form)
            out.mode("append").save()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")

    text = "é".encode()
    assert [entry for _, entry in streamd.xrange("text")] == [{b"raw": b"\0\xff", b"text": text, b"k": b"\xfe"}]
    nested = {b"m": b'{"a":["x",null]}', b"s": b'{"t":"y","b":"AQ=="}'}
    assert [entry for _, entry in streamd.xrange("json")] == [{b"raw": b"\0\xff", b"text": text, **nested}]
