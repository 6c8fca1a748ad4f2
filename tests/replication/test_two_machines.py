"""What docs/two-machines.md shows runs: its servers, its commands, its producer, and the lines of its Sentinel."""

import re
import shlex
from pathlib import Path

import pytest

from tests.documents.blocks import blocks_for
from tests.replication.clusters import Node, nodes, sentinels, wait_until

BLOCKS = blocks_for(__file__)


def blocks_of(language: str) -> list[str]:
    return [one.text for one in BLOCKS if one.language == language]


def test_the_servers_of_the_page_are_linked(tmp_path: Path):
    (text,) = blocks_of("sh")
    primary_line, replica_line, asked = text.splitlines()
    assert shlex.split(asked) == ["redis-cli", "-p", "6380", "INFO", "replication"]
    assert primary_line == "streamd serve --port 6379 --dir a"
    primary = Node(tmp_path / "a")
    words = shlex.split(replica_line.replace("6379", str(primary.port)))
    assert words[:6] == ["streamd", "serve", "--port", "6380", "--dir", "b"]
    replica = Node(tmp_path / "b", *words[6:])
    try:
        wait_until(replica.is_linked, "the link is up")
    finally:
        replica.kill()
        primary.kill()


def test_the_commands_of_the_page(tmp_path: Path):
    stored, failover = blocks_of("redis")
    with nodes(tmp_path, 1) as (primary, replica):
        pipeline = primary.client.pipeline(transaction=False)
        for line in stored.splitlines():
            pipeline.execute_command(*shlex.split(line))
        assert pipeline.execute()[1] == 1
        line = failover.replace("10.0.0.6 6379", f"127.0.0.1 {replica.port}")
        assert primary.client.execute_command(*shlex.split(line))
        wait_until(lambda: replica.link().get("role") == "master", "the roles have changed")


def test_the_producer_of_the_page_is_the_example_that_tests_run_behind_sentinels():
    (text,) = blocks_of("python")
    assert f"\n\n{text}\n\n" in (Path(__file__).parents[2] / "examples" / "failover_producer.py").read_text()


@pytest.mark.redis
def test_a_sentinel_takes_the_lines_of_the_page(newest_redis: Path, tmp_path: Path):
    (text,) = blocks_of("conf")
    with nodes(tmp_path, 2) as (primary, *_):
        lines = re.sub(r"10\.0\.0\.5 6379", f"127.0.0.1 {primary.port}", text).splitlines()
        with sentinels(newest_redis, tmp_path, primary.port, lines[1:]) as ports:
            assert len(ports) == 3
