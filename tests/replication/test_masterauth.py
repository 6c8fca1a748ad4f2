"""The password of a replica at its primary: where it is shown, and where it never is; Redis 8.10.2 is the judge."""

from pathlib import Path

import pytest
import redis

from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.replication.clusters import Node, wait_until
from tests.session import Session, decode

SECRET, OTHER = b"hunter2-of-the-link", b"hunter3-of-the-link"
# The default user may do everything; ann may not use CONFIG.
REQUESTS = [
    [b"CONFIG", b"SET", b"masterauth", SECRET, b"masteruser", b"copy"],
    [b"CONFIG", b"GET", b"masterauth"],
    [b"CONFIG", b"GET", b"MASTERA*"],
    [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"],
    [b"CONFIG", b"SET", b"masterauth", OTHER],
    [b"CONFIG", b"SET", b"slowlog-log-slower-than", b"-1"],
    [b"ACL", b"SETUSER", b"ann", b"on", b">p", b"+info", b"+slowlog"],
    [b"AUTH", b"ann", b"p"],
    [b"CONFIG", b"GET", b"masterauth"],
    [b"CONFIG", b"GET", b"*"],
    [b"CONFIG", b"SET", b"masterauth", SECRET],
]


@needs_redis
def test_commands_show_it_as_those_of_redis(tmp_path: Path):
    with running_redis(tmp_path) as port:
        theirs, ours = RawClient(port), Session()
        assert [ours.raw(words) for words in REQUESTS] == [theirs.ask(words) for words in REQUESTS]
        logged = [
            [entry[3] for entry in reply]
            for reply in (ours.do("SLOWLOG GET"), decode(theirs.ask([b"SLOWLOG", b"GET"]))[0])
        ]
        assert logged[0] == logged[1]
        assert [b"CONFIG", b"SET", b"masterauth", b"(redacted)"] in logged[0]
        theirs.close()
    for section in (b"everything", b"replication"):
        shown = ours.execute([b"INFO", section])
        assert SECRET not in shown
        assert OTHER not in shown


def test_it_is_in_no_line_of_a_log_or_of_monitor(tmp_path: Path):
    configuration = tmp_path / "streamd.conf"
    configuration.write_text(f"masterauth {SECRET.decode()}\n")
    primary = Node(tmp_path / "primary", "--requirepass", OTHER.decode())
    there = redis.Redis(port=primary.port, password=OTHER.decode())
    replica = Node(tmp_path / "replica", str(configuration), "--replicaof", "127.0.0.1", str(primary.port))
    try:
        log = (tmp_path / "replica.log").read_text
        wait_until(lambda: "the primary refuses masteruser and masterauth: WRONGPASS" in log(), "it is refused")
        with there.monitor() as monitor:
            replica.client.config_set("masterauth", OTHER.decode())
            replica.client.config_rewrite()
            wait_until(replica.is_linked, "the link is up")
            there.echo("the end")
            lines = [""]
            while lines[-1] != "ECHO the end":
                lines.append(monitor.next_command()["command"])
        said = [*lines, log(), (tmp_path / "primary.log").read_text(), str(replica.client.info("everything"))]
        assert not [one for one in said for secret in (SECRET, OTHER) if secret.decode() in one]
        assert (
            configuration.read_text() == f"masterauth {OTHER.decode()}\n"
        )  # CONFIG REWRITE keeps it for the next start
    finally:
        replica.kill()
        primary.kill()


@pytest.mark.parametrize("password", [b"\xff\xfe no text", "p\u00e4ss".encode(), b'"quoted" #'])
def test_it_may_be_any_bytes(tmp_path: Path, password: bytes):
    primary = Node(tmp_path / "primary")
    replica = Node(tmp_path / "replica")
    try:
        rules = ["on", b">" + password, "resetchannels", "-@all", "+psync", "+replconf", "+ping"]
        primary.client.execute_command("ACL", "SETUSER", "copy", *rules)
        replica.client.execute_command("CONFIG", "SET", "masteruser", "copy", "masterauth", password)
        replica.client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(replica.is_linked, "the link is up")
        (link,) = [one for one in primary.client.client_list() if one["flags"] == "S"]
        assert link["user"] == "copy"
        primary.client.set("k", "v")
        wait_until(lambda: replica.client.get("k") == b"v", "the replica has it")
        assert primary.client.acl_log() == []
    finally:
        replica.kill()
        primary.kill()
