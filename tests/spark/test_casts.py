"""Casts of a user's schema against Spark's own, on a table of values and in several zones."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyspark
import pytest
import redis
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TYPES = (
    "timestamp", "timestamp_ntz", "date", "tinyint", "smallint", "int", "bigint", "float", "double", "boolean",
    "decimal(10,2)",
)  # fmt: skip
DATES = (
    "2024-01-02", "2024-1-2", "2024-1", "2024", " 2024-01-02\t", "2024-02-29", "2023-02-29", "2024-02-30", "2024-13-01",
    "2024-00-01", "2024-01-00", "0001-01-01", "0000-02-29", "-0001-12-31", "-2024-01-02", "+2024-01-02", "10000-01-01",
    "12345-06-07", "123456-01-01", "294248-01-01", "999999-12-31", "1234567-01-01", "024-01-02", "20240102",
    "2024/01/02", "2024-01-02x", "2024-01-02T", "2024-01-02 x", "2024-01-02-", "2024--01-02", "2024-01-002",
    "2024-001-02", "2024-1 x", "2024-01-02Z", "1582-10-10", "1900-01-01", "1969-12-31", "epoch", "now", "today",
)  # fmt: skip
TIMES = (
    "2024-01-02 3", "2024-01-02 3:4", "2024-01-02T03:04", "2024-01-02 3:4:5", "2024-01-02 03:04:05",
    "2024-01-02T03:04:05.", "2024-01-02 03:04:05.1", "2024-01-02 03:04:05.123456", "2024-01-02 03:04:05.123456789",
    "2024-01-02 24:00:00", "2024-01-02 23:60:00", "2024-01-02 23:59:60", "2024-03-31 02:30:00", "2024-10-27 02:30:00",
    "2024-03-10 02:30:00", "2024-11-03 01:30:00", "1883-11-18 12:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59",
    "12345-07-02 03:04:05", "-0044-03-15 12:00:00", "294247-01-10 04:00:54.775807", "294247-01-10 04:00:54.775808",
    "1969-12-31 23:59:59.999999", "2024-01-02  03:04:05", "2024-01-02 003:04:05", "2024-01-02 -3:04:05",
    "2024-01-02 3:04 PM", "2024-01-02 03:04:05x", "2024-1-2 3:4:5.6", "T25:00", "25:00",
)  # fmt: skip
ZONES = (
    "Z", " Z", "z", "+01:00", "+0100", "+01", "+1", "+1:30", "-8:00", "+1:0", " +01:00", "+01:00:30", "+18:00",
    "+18:01", "+19:00", "+01:60", " UTC", "UTC", "UT", " GMT+1", "GMT+01:00", "UTC+2", "UT-3", "UTCx", "Europe/Berlin",
    " America/New_York", " europe/berlin", " Mars/Base", "[Europe/Berlin]", "../UTC", " CET", " PST", " EST", " JST",
    " Etc/GMT+5", "-00:00", "+", ":",
)  # fmt: skip
NUMBERS = (
    "0", "-1", "+1", "  7 ", "007", "-0", "127", "128", "-129", "32768", "2147483648", "-2147483649", "99999999999",
    "9223372036854775807", "9223372036854775808", "1.0", "1.5", ".5", "5.", ".", "1e3", "1E-3", "1e400", "-1e400",
    "1e", "1_000", "1,000", "0x1F", "NaN", "nan", "Infinity", "inf", "+inf", "-inf", "infinit", "1d", "1.5D", "1f",
    "1L", "12345678.995", "123456789.01", "99999999.994", "99999999.995", "1.005", "-0.005", "0.1", "3.4e39", "--1",
    "+-1", "+", "1 2", "\u0663", "1\u00a0", "true", "TRUE", " t", "yes", "y", "false", "f", "No", "n", "on", "off", "",
    " ", "abc", "2024-01-02\x00",
)  # fmt: skip
VALUES = [*DATES, *TIMES, *(f"2024-07-02 03:04:05{zone}" for zone in ZONES), "2024-07-02T03:04:05.25+05:30",
          "2024-01-02 03:04Z", "2024-01-02 03+01:00", *NUMBERS]  # fmt: skip
SHOWN = {"timestamp": "unix_micros({})", "boolean": "{}"}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "+05:30"])
@pytest.mark.parametrize("together", [False, True])
def test_values_are_cast_as_spark_casts_them(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, zone: str, together: bool
) -> None:
    """Each value in a page of its own, where Arrow may cast a whole column; and all in one."""
    pipe = streamd.pipeline(transaction=False)
    for i, value in enumerate(VALUES):
        pipe.xadd("in", {"i": i, **{f"c{k}": value for k in range(len(TYPES))}})
    pipe.execute()
    shown = [SHOWN.get(kind, "cast({} AS string)") for kind in TYPES]
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        table = spark.createDataFrame(list(enumerate(VALUES)), "i int, v string")
        casts = [text.format(f"try_cast(v AS {kind})") for text, kind in zip(shown, TYPES, strict=True)]
        wanted = {row[0]: tuple(row)[1:] for row in table.selectExpr("i", *casts).collect()}
        reader = spark.read.format("streamd").options(port=streamd_port, stream="in", pageSize=5000 if together else 1)
        rows = reader.schema("i int, " + ", ".join(f"c{k} {kind}" for k, kind in enumerate(TYPES))).load()
        read = rows.selectExpr("i", *(text.format(f"c{k}") for k, text in enumerate(shown)))
        found = {row[0]: tuple(row)[1:] for row in read.collect()}
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    differing = {
        VALUES[i]: [(kind, mine, theirs) for kind, mine, theirs in zip(TYPES, found[i], wanted[i], strict=True)
                    if mine != theirs]
        for i in wanted if found[i] != wanted[i]
    }  # fmt: skip
    assert differing == {}


CLOCKS = (
    "3:04", "03:04", "3:4", "03:04:05", "3:4:5", "03:04:05.", "03:04:05.1", "03:04:05.123", "03:04:05.123456",
    "03:04:05.999999", "03:04:05.1234567", "03:04:05.999999999", "03:04:05.1234567890", "23:59:59.999999", "0:0:0",
    "00:00:00", "24:00:00", "23:60:00", "23:59:60", "003:04:05", "03:004:05", "3", "03", "T03:04:05", "T3:04", "T03",
    " 03:04:05", "03:04:05\t", "03 :04", "03:04:05Z", "03:04:05+01:00", "03:04:05 UTC", "-03:04:05", "+03:04:05",
    "2024-01-02 03:04:05", "3:04 PM", "03:04 PM", "3:04:05 am", "03:04:05.5 AM", "12:00 AM", "12:00:00 PM", "13:00 PM",
    "0:30 AM", "3:04PM", "3:04 pM", "3:04  PM", "3 PM", "AM", "030405", "03.04.05", "03:04,05", "03:04:05,5", ":", "3:",
    ":4", "3:4:", "", " ", "abc", "noon", "\u0663:04", "03:04:05x", "3:04:05.1x", "1e1:00", "0x3:04",
    "12:30 AM", "11:59:59.999 PM", "1:2:3.4 PM", "1:2PM", "12:00 pm", "00:00 PM", "01:00AM", " 3:04 PM ", "3:04\tPM",
    "3:04:05.1234567 PM", "3:04 P", "3:04:05. AM", "T3:04 PM", "T3 PM", "t03:04", "3:04\x7fam", "3:04 A M", "3:04 PMx",
)  # fmt: skip
CLOCK_TYPES = ("time", "time(0)", "time(3)", "time(6)")

has_time = pytest.mark.skipif(pyspark.__version__.startswith("4.0."), reason="TIME came with Spark 4.1")


@pytest.fixture
def with_time(spark: SparkSession) -> Iterator[None]:
    """Spark's own casts to TIME, which it keeps behind a setting."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@has_time
@pytest.mark.usefixtures("with_time")
@pytest.mark.parametrize("together", [False, True])
def test_times_of_day_are_cast_as_spark_casts_them(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, together: bool
) -> None:
    """Alone in a page, where Arrow may cast a whole column; and in one with values that it refuses."""
    for i, value in enumerate(CLOCKS):
        streamd.xadd("in", {"i": i, **{f"c{k}": value for k in range(len(CLOCK_TYPES))}})
    table = spark.createDataFrame(list(enumerate(CLOCKS)), "i int, v string")
    casts = [f"cast(try_cast(v AS {kind}) AS string)" for kind in CLOCK_TYPES]
    wanted = {row[0]: tuple(row)[1:] for row in table.selectExpr("i", *casts).collect()}
    reader = spark.read.format("streamd").options(port=streamd_port, stream="in", pageSize=5000 if together else 1)
    rows = reader.schema("i int, " + ", ".join(f"c{k} {kind}" for k, kind in enumerate(CLOCK_TYPES))).load()
    # Shown to its last digit, also one that the type says is not there.
    read = rows.selectExpr("i", *(f"cast(c{k} AS string)" for k in range(len(CLOCK_TYPES))))
    found = {row[0]: tuple(row)[1:] for row in read.collect()}

    assert {CLOCKS[i]: (found[i], wanted[i]) for i in wanted if found[i] != wanted[i]} == {}
    assert sum(values[0] is not None for values in wanted.values()) > 20, "Spark casts none of them: nothing was shown"


@has_time
@pytest.mark.usefixtures("with_time")
def test_times_of_day_are_written_so_that_spark_casts_them_back(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    table = spark.createDataFrame([(value,) for value in CLOCKS], "v string")
    casts = [f"try_cast(v AS {kind}) AS c{k}" for k, kind in enumerate(CLOCK_TYPES)]
    rows = table.selectExpr("v", *casts).where("c0 IS NOT NULL").coalesce(1)
    rows.write.format("streamd").options(port=streamd_port, stream="out").mode("append").save()
    back = (
        spark.read.format("streamd")
        .options(port=streamd_port, stream="out")
        .schema("v string, " + ", ".join(f"c{k} string" for k in range(len(CLOCK_TYPES))))
        .load()
    )
    shown = [f"cast(cast(c{k} AS {kind}) AS string)" for k, kind in enumerate(CLOCK_TYPES)]

    wanted = rows.selectExpr("v", *(f"cast(c{k} AS string)" for k in range(len(CLOCK_TYPES)))).collect()
    assert sorted(map(tuple, back.selectExpr("v", *shown).collect())) == sorted(map(tuple, wanted))
    assert len(wanted) > 20


def test_a_time_without_a_date_is_today(spark: SparkSession, streamd: redis.Redis, streamd_port: int) -> None:
    streamd.xadd("in", {"at": "3:04"})
    before = datetime.now(UTC).date()
    rows = spark.read.format("streamd").options(port=streamd_port, stream="in").schema("at timestamp").load()
    found = datetime.fromtimestamp(rows.selectExpr("unix_seconds(at)").first()[0], UTC)

    assert before <= found.date() <= datetime.now(UTC).date()
    assert (found.hour, found.minute) == (3, 4)


def test_a_streaming_query_reads_times_in_the_zone_of_its_session(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int
) -> None:
    streamd.xadd("in", {"at": "2024-07-02 12:00:00"})
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        reader = spark.readStream.format("streamd").options(port=streamd_port, stream="in", startingOffsets="earliest")
        rows = reader.schema("at timestamp").load().selectExpr("unix_seconds(at) AS s")
        query = rows.writeStream.format("memory").queryName("zones").trigger(availableNow=True).start()
        query.awaitTermination(120)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert spark.sql("SELECT s FROM zones").first()[0] == datetime(2024, 7, 2, 6, 30, tzinfo=UTC).timestamp()
