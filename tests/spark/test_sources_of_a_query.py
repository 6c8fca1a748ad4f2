"""Two sources in one query: each goes on with its own checkpoint, or the query stops before it reads."""

import json
import logging
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.errors import DataLoss
from spark_source.reading import stream_reader
from spark_source.reading.matching import glob_regex
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from spark_source.values.topic_schema import topic_schema
from streamd.clients.topics import TopicLog
from tests.spark.one_task import port_of
from tests.spark.sessions import copy, fill, finish
from tests.spark.test_stream_reader import numbers, step, through_json

SOURCES = {
    "names": ({"stream": "a-1,a-2"}, {"stream": "b-1"}),
    "patterns": ({"streamPattern": "a-*"}, {"streamPattern": "b-[12]"}),
    "regular expressions": ({"streamRegex": "a-[0-9]"}, {"streamRegex": "b-[0-9]|c"}),
    "logs": ({"log": "a"}, {"log": "b"}),
    "a name and a pattern": ({"stream": "a-1"}, {"streamPattern": "b-*"}),
    "a log and a pattern": ({"log": "a"}, {"streamPattern": "{b/*"}),
}


def made(client: redis.Redis, **options: object) -> StreamdStreamReader:
    given = {"port": port_of(client), "startingOffsets": "earliest", "patternInterval": "0s", "text": True, **options}
    parsed = parse_options({name: str(value) for name, value in given.items()})
    return StreamdStreamReader(parsed, topic_schema(True) if "log" in options else raw_schema(True, "map"))


def add(client: redis.Redis, *names: str) -> None:
    """Add ten entries to each stream, and to the logs of the first letter."""
    for name in names:
        fill(client, 10, name)
        fill(client, 10, f"{{{name[0]}/0}}:g1")


def restart(source: StreamdStreamReader, start: dict, end: dict, moment: str) -> Callable[[], object]:
    """Return what Spark asks of a source that starts again: with an open batch, or with none, also before 4.2."""
    if moment == "open batch":
        return lambda: source.partitions(start, end)
    if moment == "first batch open":
        return lambda: source.partitions(through_json(source.initialOffset()), end)
    if moment == "before Spark 4.2":
        return lambda: source.partitions(end, through_json(source.latestOffset()))
    return lambda: source.latestOffset(end, source.getDefaultReadLimit())


@pytest.mark.parametrize("moment", ["no batch open", "open batch", "first batch open", "before Spark 4.2"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_source_that_gets_the_checkpoint_of_another_one_stops(
    either: redis.Redis, kind: str, moment: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        TopicLog.create(either, name, shards=1, filters=[f"{name}/#"])
    add(either, "a-1", "b-1")
    if moment == "before Spark 4.2":
        monkeypatch.setattr(stream_reader, "ReadLimit", None)
    offsets = []
    for options in SOURCES[kind]:
        source = made(either, **options)
        start = through_json(source.initialOffset())
        if moment == "before Spark 4.2":
            offsets.append((start, through_json(source.latestOffset())))
        else:
            offsets.append((start, through_json(source.latestOffset(start, source.getDefaultReadLimit()))))

    for options, own, others in zip(SOURCES[kind], offsets, offsets[::-1], strict=True):
        restart(made(either, **options), *own, moment)()
        with pytest.raises(DataLoss, match=r"of this source's checkpoint (is|are) not what it reads \((stream|log)"):
            restart(made(either, **options), *others, moment)()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            restart(made(either, failOnDataLoss=False, **options), *others, moment)()
        assert any("reading its streams from their start (failOnDataLoss=false)" in text for text in caplog.messages)


def test_streams_of_every_day_are_followed_when_the_old_ones_are_gone(either: redis.Redis) -> None:
    sources = {name: {"streamPattern": f"{name}-*"} for name in ("a", "b")}
    add(either, "a-1", "b-1")
    ends = {name: step(made(either, **options), {})[0] for name, options in sources.items()}
    either.delete("a-1", "b-1")
    add(either, "a-2", "b-2")

    for name, options in sources.items():
        assert step(made(either, **options), ends[name])[1] == numbers(10)
    for name, other in zip(sources, reversed(sources), strict=True):
        with pytest.raises(DataLoss, match=rf"^stream {other}-1 of this source's checkpoint is not what it reads \(st"):
            step(made(either, **sources[name]), ends[other])


def test_a_source_that_still_reads_one_of_its_streams_goes_on(either: redis.Redis) -> None:
    add(either, "a-1", "a-2", "b-1")
    end, _ = step(made(either, stream="a-1,a-2"), {})
    assert step(made(either, stream="a-2,b-1"), end)[1] == numbers(10), "those of b-1"
    with pytest.raises(DataLoss, match=r"streams a-1, a-2 of this source's checkpoint are not what it reads"):
        step(made(either, stream="b-1"), end)


def test_a_glob_is_understood_as_the_server_does(either: redis.Redis) -> None:
    names = ["", "a", "b", "ab", "ba", "aab", "abab", "a-b", "a]b", "a\nb", "a^b", "[a", "a\\b", "é", "*", "a*b", "-"]
    parts = ["*", "?", "a", "b", "[ab]", "[^a]", "[b-a]", "[a", "[]", "[^]", "\\*", "\\", "[\\]-a]", "[a-", "]", "é"]
    keys = [name for name in names if name]
    either.mset(dict.fromkeys(keys, 1))
    patterns = ["".join(chosen) for count in (1, 2) for chosen in product(parts, repeat=count)]
    patterns += ["*a*b*", "a*a*b", "*?b", "[^a-b]*", "?*?*?", "**b**", "*[ab", "a*]*b"]
    for pattern in patterns:
        found = {name.decode() for name in either.scan_iter(match=pattern, count=100)}
        regex = glob_regex(pattern.encode())
        assert found == {name for name in keys if regex.fullmatch(name.encode())}, pattern


@pytest.mark.spark
def test_a_union_whose_sources_change_places_stops_and_writes_nothing(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    for name in ("a-1", "b-1"):
        fill(streamd, 10, name)

    def run(*patterns: str) -> list[int]:
        read = spark.readStream.format("streamd").options(port=streamd_port, startingOffsets="earliest")
        first, second = (read.option("streamPattern", one).load() for one in patterns)
        return finish(copy(spark, streamd_port, tmp_path, first.union(second).selectExpr("id AS source", "fields")))

    assert sum(run("a-*", "b-*")) == 20
    streamd.delete("a-1")
    fill(streamd, 10, "a-2")
    with pytest.raises(Exception, match=r"stream a-1 of this source's checkpoint is not what it reads"):
        run("b-*", "a-*")
    assert streamd.xlen("out") == 20
    assert sum(run("a-*", "b-*")) == 10
    assert json.loads((tmp_path / "offsets" / "1").read_text().splitlines()[-2]).keys() == {"a-1", "a-2"}
