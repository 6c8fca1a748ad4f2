"""Options of replication: what is refused in one line, and writes that need replicas."""

from pathlib import Path

import pytest
import redis

from tests.integration.process import run_cli
from tests.replication.clusters import nodes, wait_until


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--appendonly", "no", "--replicaof", "127.0.0.1", "1"], "replicaof needs a journal"),
        (["--appendonly", "no", "--min-replicas-to-write", "1"], "min-replicas-to-write needs a journal"),
        (["--replicaof", "127.0.0.1", "x"], "replicaof '127.0.0.1 x': give host and port"),
        (["--replicaof", "127.0.0.1", "0"], "replicaof '127.0.0.1 0': give host and port"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, words: list[str], said: str):
    done = run_cli("serve", "--port", "0", "--dir", str(tmp_path), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_writes_are_refused_without_enough_replicas_and_taken_with_them(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.config_set("min-replicas-to-write", 1)
        primary.client.config_set("min-replicas-max-lag", 2)
        primary.client.set("k", 1)
        assert primary.link()["min_slaves_good_slaves"] == 1
        replica.kill()

        def is_refused() -> bool:
            try:
                primary.client.set("k", 2)
            except redis.ResponseError as error:
                return str(error) == "NOREPLICAS Not enough good replicas to write."
            return False

        wait_until(is_refused, "writes are refused")
        assert primary.client.get("k") is not None
        replica.start()
        wait_until(lambda: not is_refused(), "writes are taken")


def test_the_journal_stays_on_while_there_are_replicas(tmp_path: Path):
    with nodes(tmp_path, 1) as both:
        for one in both:
            with pytest.raises(redis.ResponseError, match="a primary with replicas, need their journal"):
                one.client.config_set("appendonly", "no")
            assert list(one.client.config_get("appendonly").values()) == ["yes"]
