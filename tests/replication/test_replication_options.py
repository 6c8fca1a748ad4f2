"""Options of replication: what is refused in one line, and writes that need replicas."""

from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.integration.process import run_cli
from tests.replication.clusters import Node, nodes, wait_until
from tests.spark.deployments import make_certificates


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--replica-read-only", "no"], "--replica-read-only"),
        (["--tls-replication", "yes"], "tls-replication needs tls-ca-cert-file"),
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


def test_a_link_is_encrypted(tmp_path: Path):
    made = make_certificates(tmp_path)
    files = ["--tls-cert-file", str(made.cert), "--tls-key-file", str(made.key), "--tls-ca-cert-file", str(made.ca)]
    ports = [free_port(), free_port()]
    options = [["--tls-port", str(port), "--tls-replication", "yes", *files] for port in ports]
    primary = Node(tmp_path / "primary", *options[0])
    replica = Node(tmp_path / "replica", "--replicaof", "127.0.0.1", str(ports[0]), *options[1])
    try:
        wait_until(replica.is_linked, "the replica is linked")
        pipeline = primary.client.pipeline(transaction=False)
        pipeline.set("k", 1)
        pipeline.execute_command("WAIT", 1, 10_000)
        assert pipeline.execute() == [True, 1]
        assert primary.link()["slave0"]["port"] == ports[1]
    finally:
        primary.kill()
        replica.kill()


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


def test_a_replica_without_its_link_shows_nothing_if_that_is_wanted(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.set("k", 1)
        wait_until(lambda: replica.client.get("k") == b"1", "the replica has it")
        replica.client.config_set("replica-serve-stale-data", "no")
        assert replica.client.get("k") == b"1"
        primary.kill()
        wait_until(lambda: replica.link()["master_link_status"] == "down", "the link is down")

        def answer(*words: object) -> str:
            try:
                return str(replica.client.execute_command(*words))
            except redis.ResponseError as error:
                return str(error)

        down = "Link with MASTER is down and replica-serve-stale-data is set to 'no'."
        wait_until(lambda: answer("GET", "k") == down, "nothing is shown")
        assert answer("PING") == down
        assert replica.client.info("replication")["role"] == "slave"
        replica.client.config_set("replica-serve-stale-data", "yes")
        assert replica.client.get("k") == b"1"


def test_the_journal_stays_on_while_there_are_replicas(tmp_path: Path):
    with nodes(tmp_path, 1) as both:
        for one in both:
            with pytest.raises(redis.ResponseError, match="a primary with replicas, need their journal"):
                one.client.config_set("appendonly", "no")
            assert list(one.client.config_get("appendonly").values()) == ["yes"]
