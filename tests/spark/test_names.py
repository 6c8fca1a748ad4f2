"""Names of streams and columns, against real servers: those that are no text, and those that mean something else."""

import logging

import pytest
import redis

from spark_source.connecting.connection import Server
from spark_source.reading import batch_reader
from spark_source.reading.batch_reader import StreamdReader, find_streams
from spark_source.settings.options import parse_options
from tests.spark.one_task import port_of
from tests.spark.schemas import schema

MIXED = [b"in-a", "in-ü".encode(), b"in-\xff", b"in-\xfe\xff", b"other-\xff"]


@pytest.mark.parametrize("is_regex", [False, True])
def test_streams_whose_names_are_no_text_are_left_out_of_a_pattern_and_counted_once(
    either: redis.Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_regex: bool
) -> None:
    monkeypatch.setattr(batch_reader, "_told", set())
    for name in MIXED:
        either.xadd(name, {"n": 1})
    either.set(b"in-\xfd", "no stream")
    server = Server(parse_options({"port": port_of(either)}).connection)
    pattern = "in-.*" if is_regex else "in-*"

    with caplog.at_level(logging.WARNING, "spark_source"):
        for _ in range(3):
            assert find_streams(server, pattern, is_regex) == ["in-a", "in-ü"]

    assert caplog.messages == [
        f"2 streams that match {pattern} are left out, because their names are not UTF-8",
    ]


def test_a_field_named_as_a_column_of_the_entry_is_read_where_fieldcolumns_names_it(either: redis.Redis) -> None:
    entry_id = either.xadd("s", {"_id": "64f1", "n": "1"}).decode()
    columns = schema("_id string, n int")

    def read(**given: str) -> list[dict]:
        options = parse_options({"port": port_of(either), "stream": "s", **given})
        reader = StreamdReader(options, columns)
        return [row for part in reader.partitions() for page in reader.read(part) for row in page.to_pylist()]

    assert read() == [{"_id": entry_id, "n": 1}]
    assert read(fieldColumns="_id") == [{"_id": "64f1", "n": 1}]
