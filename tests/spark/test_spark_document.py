"""What docs/spark.md says is so: its blocks run, its table of options is that of the code."""

import re
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.options import NAMES, parse_options
from spark_source.stream_reader import DEFAULT_MAX_ENTRIES
from tests.spark.servers import client, redis_server
from tests.spark.test_connections import EXPECTED, round_trip

DOCUMENT = (Path(__file__).resolve().parent.parent.parent / "docs" / "spark.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
OPTIONS = re.findall(r"^\| `(\w+)` \| (both|read|write|batch|stream) \| (.*?) \| .*\|$", DOCUMENT, re.MULTILINE)
CANNOT_RUN = 'format("kafka")'  # wants a jar and a broker


def test_the_table_has_every_option_in_the_order_of_the_code() -> None:
    assert [name for name, _, _ in OPTIONS] == list(NAMES)


@pytest.mark.parametrize(("name", "default"), [(n, d.strip("`")) for n, _, d in OPTIONS if d.startswith("`")])
def test_to_give_a_default_changes_nothing(name: str, default: str) -> None:
    others = {"minEntriesPerTrigger": "5"} if name == "maxTriggerDelay" else {}
    given = parse_options({**others, name: default})
    if name == "endingOffsets":
        assert given.read.ending == default
    else:
        assert given == parse_options(others)


def test_options_without_a_default_in_code_are_said_in_words() -> None:
    words = {name: default for name, _, default in OPTIONS if not default.startswith("`") and default != "none"}
    assert set(words) == {"startingOffsets", "maxEntriesPerTrigger", "sinkId"}
    assert words["maxEntriesPerTrigger"] == str(DEFAULT_MAX_ENTRIES)


def test_an_option_that_is_for_streams_or_batches_alone_is_one() -> None:
    kinds = {name: kind for name, kind, _ in OPTIONS}
    assert {name for name, kind in kinds.items() if kind == "batch"} == {
        "endingOffsets", "endingTimestamp", "filterPushdown", "sinkBatch",
    }  # fmt: skip


@pytest.mark.redis
def test_the_rights_of_the_user_are_enough() -> None:
    rights = re.search(r"^```\n(~orders .*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert rights is not None
    words = [word for word in rights[1].split() if word != "+waitaof"]  # came with Redis 7.2
    with redis_server() as port, client(port) as admin:
        admin.execute_command("ACL", "SETUSER", "spark", "on", ">secret", *words)
        given = {"port": port, "username": "spark", "password": "secret", "entriesPerPartition": 20}
        assert round_trip("orders", **given) == EXPECTED
        assert admin.execute_command("ACL", "LOG") == []


@pytest.mark.spark
def test_the_blocks_run_one_after_another(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    for number in range(5):
        streamd.xadd("orders", {"order": f"o-{number}", "cents": 200 * number})
    names = {"spark": spark, "client": streamd}
    for block in PYTHON:
        for said, meant in (
            (r'\s*\.option\("url", .*?\)', ""),
            (r'\.option\("stream"', f'.option("port", {streamd_port}).option("stream"'),
            (r'"stream": "large', f'"port": {streamd_port}, "stream": "large'),
            (r"OPTIONS \(", f"OPTIONS (port '{streamd_port}', "),
            (r'"(checkpoints|lake)/', rf'"{tmp_path}/\1/'),
        ):
            block = re.sub(said, meant, block)
        code = compile(block, "docs/spark.md", "exec")
        if CANNOT_RUN not in block:
            exec(code, names)

    assert streamd.xlen("orders-in-euros") == streamd.xlen("copy") == 5
    assert streamd.xlen("orders") == 1005
    assert streamd.xlen("large-orders") == 2 + 499, "of the orders, and of the history"
    assert spark.read.parquet(str(tmp_path / "lake" / "orders")).count() == 5
    assert names["lag"](names["query"].lastProgress) == {"orders": 0}
    assert sorted(int(value) for value in names["stats"].values()) == [0, 0, 0, 5]
