"""The rules that docs/security.md lists for a replica and for Sentinel are enough for a failover and a return."""

import re
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT
from tests.replication.clusters import Node, evidence, nodes, sentinels, wait_until

SECTION = (
    (ROOT / "docs" / "security.md").read_text(encoding="utf-8").split("### What a replica and Sentinel need")[1]
).split("### ")[0]
RULES = {
    name: rules.replace("\\|", "|") for name, rules in re.findall(r"^\| (.+?) \| `(.+)` \|$", SECTION, re.MULTILINE)
}
COPY, SENTINEL = RULES["a replica, at its primary"], RULES["Redis Sentinel"]


def options(copy: str = COPY, sentinel: str = SENTINEL) -> list[str]:
    return ["--user", f"copy on >q {copy}", "--user", f"sentinel on >p {sentinel}", "--masteruser", "copy"]


def watching(port: int) -> list[str]:
    return [
        f"sentinel monitor mymaster 127.0.0.1 {port} 2",
        "sentinel auth-user mymaster sentinel",
        "sentinel auth-pass mymaster p",
        "sentinel down-after-milliseconds mymaster 1000",
        "sentinel failover-timeout mymaster 2000",
    ]


def users(node: Node, name: str) -> set[str]:
    """Return the users of the connections whose names begin so."""
    return {one["user"] for one in node.client.client_list() if one["name"].startswith(name)}


@pytest.mark.redis
def test_the_rules_of_the_page_are_enough_for_a_failover_and_a_return(
    newest_redis: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STREAMD_MASTERAUTH", "q")
    with nodes(tmp_path, 2, *options()) as all_nodes:
        primary, *replicas = all_nodes
        with sentinels(newest_redis, tmp_path, primary.port, watching(primary.port)):
            assert {one["user"] for one in primary.client.client_list() if one["flags"] == "S"} == {"copy"}
            primary.kill()
            try:
                wait_until(lambda: "master" in [one.link().get("role") for one in replicas], "one is promoted")
                elected = next(one for one in replicas if one.link().get("role") == "master")
                other = next(one for one in replicas if one is not elected)
                wait_until(
                    lambda: other.link().get("master_port") == elected.port and other.is_linked(), "it is followed"
                )
                primary.start(*options())
                wait_until(lambda: primary.link().get("role") == "slave" and primary.is_linked(), "it is demoted")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{evidence(tmp_path)}")
            for one in all_nodes:
                assert users(one, "sentinel-") == {"sentinel"}
                assert one.client.acl_log() == []


def test_a_replica_needs_each_of_its_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STREAMD_MASTERAUTH", "q")
    primary = Node(tmp_path / "primary", *options())
    try:
        for rule in ("+psync", "+replconf"):
            primary.client.execute_command("ACL", "SETUSER", "copy", rule.replace("+", "-"))
            replica = Node(tmp_path / f"replica{rule}", "--replicaof", "127.0.0.1", str(primary.port), *options())
            try:
                log = (tmp_path / f"replica{rule}.log").read_text
                wait_until(lambda log=log: "this user needs +ping +psync +replconf" in log(), f"it needs {rule}")
                assert not replica.is_linked()
                primary.client.execute_command("ACL", "SETUSER", "copy", rule)
                wait_until(replica.is_linked, "with the rule it is linked")
            finally:
                replica.kill()
    finally:
        primary.kill()
