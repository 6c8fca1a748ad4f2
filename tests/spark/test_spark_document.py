"""What the documents on the Spark source say is so: their blocks run, the table of options is that of the code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from spark_source.reading.stream_reader import DEFAULT_MAX_ENTRIES
from spark_source.settings.options import NAMES, parse_options
from tests.documents.blocks import blocks_for
from tests.spark.servers import client, redis_server
from tests.spark.test_connections import EXPECTED, round_trip

ROOT = Path(__file__).resolve().parent.parent.parent
PLACES = (ROOT / "docs" / "spark.md", ROOT / "docs" / "spark-reference.md")
GUIDE, REFERENCE = (place.read_text(encoding="utf-8") for place in PLACES)
GUIDE_WORDS_MAX = 2_000  # ten minutes; the reference has the rest
OPTIONS = re.findall(r"^\| `(\w+)` \| (both|read|write|batch|stream) \| (.*?) \| .*\|$", REFERENCE, re.MULTILINE)


def test_the_guide_stays_short() -> None:
    assert len(GUIDE.split()) <= GUIDE_WORDS_MAX


def test_the_options_of_the_guide_are_options() -> None:
    section = GUIDE.split("## Options that most jobs need")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(names) > 10
    assert [name for name in names if name not in NAMES] == []


def test_the_sections_that_messages_name_are_in_the_document() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "spark_source").rglob("*.py"))
    named = re.findall(r"\(docs/([\w-]+\.md), ([^)]+)\)", sources)
    assert ("spark.md", "Aggregations") in named
    for document, section in named:
        assert re.search(rf"^#+ {section}$", (ROOT / "docs" / document).read_text(encoding="utf-8"), re.MULTILINE)


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
    assert set(words) == {"startingOffsets", "maxEntriesPerTrigger", "entriesPerPartition", "sinkId"}
    assert words["maxEntriesPerTrigger"] == str(DEFAULT_MAX_ENTRIES)
    read = parse_options({}).read
    batch = read.entries_per_batch_partition
    assert words["entriesPerPartition"] == f"{read.entries_per_partition}; of a batch read {batch}"


def test_an_option_that_is_for_streams_or_batches_alone_is_one() -> None:
    kinds = {name: kind for name, kind, _ in OPTIONS}
    assert {name for name, kind in kinds.items() if kind == "batch"} == {
        "endingOffsets", "endingTimestamp", "filterPushdown", "sinkBatch",
    }  # fmt: skip


@pytest.mark.redis
def test_the_rights_of_the_user_are_enough() -> None:
    (rights,) = [one for one in blocks_for(__file__) if one.language == "text"]
    words = [*rights.text.split(), "+xcfgset"]  # which the text names for servers from Redis 8.6 on
    with redis_server() as port, client(port) as admin:
        admin.execute_command("ACL", "SETUSER", "spark", "on", ">secret", *words)
        given = {"port": port, "username": "spark", "password": "secret", "entriesPerPartition": 20}
        assert round_trip("orders", **given) == EXPECTED
        assert admin.execute_command("ACL", "LOG") == []


@pytest.mark.spark
@pytest.mark.long
def test_every_block_runs_as_it_stands(streamd: redis.Redis, streamd_port: int, tmp_path: Path) -> None:
    """The shell's first, then Python's in the session that they prepared; installing is what made this environment."""
    for number in range(5):
        streamd.xadd("orders", {"order": f"o-{number}", "cents": 200 * number})
    streamd.xadd("baskets", {"order": "o-1", "lines": '[{"item":"pen","cents":125}]', "extra": '{"gift":"yes"}'})
    blocks = [one.text for one in blocks_for(__file__) if one.language == "sh"]
    job = f"exec python -m tests.spark.document_job {PLACES[0]} {PLACES[1]}"
    environment = {
        **os.environ,
        "STREAMD_URL": f"redis://127.0.0.1:{streamd_port}",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=2 pyspark-shell",  # 200 of them take a minute
    }
    words = ["sh", "-c", "set -e\n" + "".join(blocks) + job]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["blocks"] == sum(one.language == "python" for one in blocks_for(__file__))
    assert seen["baskets"] == [{"order": "o-1", "lines": [{"item": "pen", "cents": 125}], "extra": {"gift": "yes"}}]
    assert seen["recent"] == 5 + 1000 + 3
    assert seen["lag"] == {"orders": 0}
    assert seen["stats"] == [0, 0, 0, 5]
    assert seen["lake"] == 5
    assert streamd.xlen("orders-in-euros") == streamd.xlen("copy") == 5
    assert streamd.xlen("orders") == 5 + 1000 + 3, "the history, and the records of Kafka"
    assert streamd.xlen("large-orders") == 2 + 499, "of the orders, and of the history"
    assert streamd.xlen("notes") == 3
    assert streamd.xlen("totals") == 3, "of the large ones, of the others, and of the records, which have no cents"
    assert streamd.xlen("changed-totals") == 3


KAFKA = (
    "assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers", "startingTimestamp",
    "startingOffsetsByTimestamp", "startingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets",
    "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "groupIdPrefix", "kafka.group.id", "includeHeaders", "startingOffsetsByTimestampStrategy", "topic",
)  # fmt: skip
"""Source: https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html"""


def test_each_option_of_kafkas_connector_has_its_row() -> None:
    rows = re.search(r"^\| Kafka \| here \|.*?\n\n", REFERENCE, re.MULTILINE | re.DOTALL)
    assert rows is not None
    lines = [line.split(" | ") for line in rows[0].strip().splitlines()[2:]]
    assert [name for name in KAFKA if not any(f"`{name}`" in line[0] for line in lines)] == []
    ours = [name for line in lines for name in re.findall(r"`(\w+)`", line[1])]
    known = {*NAMES, "fields", "id", "ts", "seq", "_stream", "value", "StreamdListener", "lag"}
    assert [name for name in ours if name not in known] == []
