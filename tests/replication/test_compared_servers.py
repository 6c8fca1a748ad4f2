"""`streamd check --compare` of a primary and its replica: equal under writes, each difference named, its refusals."""

import re
import subprocess
import threading

import pytest
import redis

from bench.ports import free_port
from streamd.checking import two_servers
from streamd.cli import main
from tests.documents.blocks import ROOT
from tests.integration.process import run_cli
from tests.replication.clusters import Node, nodes, wait_until
from tests.unit.commands.test_dump import requests

# What a replica takes from nobody: so a difference is made by a server of its own, with the same data before.
CHANGES = {
    "SET string w": "key b'string': the value",
    "PEXPIREAT string 4000000000000": "key b'string': when its time ends",
    "DEL string": "key b'string': only the first has it",
    "SET new v": "key b'new': only the second has it",
    "DEL set": "key b'set': only the first has it",
    "RPUSH list 2": "key b'list': the value",
    "SADD a-set x": "key b'a-set': the value",
    "ZADD zset 2 a": "key b'zset': the value",
    "HSET hash g v": "key b'hash': the fields",
    "HPEXPIREAT hash 4000000000000 FIELDS 1 g": "key b'hash': the times of fields",
    "XDEL stream 1-1": "the entries (5 and 4)",
    "XSETID stream 4000000000000-1": "the last generated ID",
    "XSETID stream 4000000000000-1 ENTRIESADDED 9 MAXDELETEDID 3-1": "the greatest deleted ID (2-1 and 3-1)",
    "XADD stream IDMP p again * f v": "the number of duplicates (1 and 2)",
    "XIDMPRECORD stream p k LAST": "the names that the window remembers",
    "XCFGSET stream IDMP-DURATION 9": "the duration of the window (100 and 9)",
    "XGROUP SETID stream g 1-1": "how far group b'g' is",
    "XGROUP CREATE stream h 0": "group b'h', which only the second has",
    "XGROUP CREATECONSUMER stream g eve": "the consumers of group b'g'",
    "XACK stream g 1-1": "the pending entries of group b'g'",
    "XCLAIM stream g ann 0 3-1 RETRYCOUNT 7 TIME 1": "the pending entries of group b'g'",
}
FUNCTION = "#!lua name=one\nredis.register_function('one', function() return 1 end)"


def compare(first: Node, second: Node) -> subprocess.CompletedProcess[str]:
    return run_cli("check", "--compare", *(f"redis://127.0.0.1:{node.port}" for node in (first, second)))


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["check", "--compare", *words])
    out, err = capsys.readouterr()
    return code, out, err


def fill(client: redis.Redis) -> None:
    for words in requests():
        client.execute_command(*words)
    client.execute_command("SADD", "a-set", "b")
    client.execute_command("XADD", "stream", "IDMP", "p", "again", "*", "f", "v")
    client.execute_command("FUNCTION", "LOAD", FUNCTION)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A primary and a server that was its replica until they were equal."""
    with nodes(tmp_path_factory.mktemp("compared"), 1) as (primary, replica):
        fill(primary.client)
        primary.client.execute_command("WAIT", 1, 5_000)
        yield primary, replica


def test_a_replica_is_equal_while_clients_write(pair):
    primary, replica = pair
    ended = threading.Event()

    def write() -> None:
        client, number = redis.Redis(port=primary.port), 0
        while not ended.is_set():
            number += 1
            client.execute_command("XADD", f"busy-{number % 5}", "IDMP", "p", number, "MAXLEN", 50, "*", "f", "v")
            client.set(f"key-{number % 3_000}", number, px=1 + number % 700)
            client.execute_command("WAIT", 1, 1_000)  # no faster than the replica

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for one, other in ((primary, replica), (replica, primary)):
            ran = compare(one, other)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            replid = primary.client.info("replication")["master_replid"]
            assert "no difference, up to offset " in ran.stdout
            assert ran.stdout.endswith(f"of the history {replid}.\n")
    finally:
        ended.set()
        writer.join()


def test_each_difference_has_its_name(pair, capsys):
    primary, other = pair
    places = [f"redis://127.0.0.1:{node.port}" for node in pair]
    primary.client.flushall()
    primary.client.execute_command("FUNCTION", "FLUSH")
    fill(primary.client)
    primary.client.execute_command("WAIT", 1, 5_000)
    other.client.execute_command("REPLICAOF", "NO", "ONE")
    last = other.client.xrevrange("stream", count=1)[0][0].decode()
    before = {key: other.client.dump(key) for key in other.client.scan_iter()}
    assert said(capsys, *places)[0] == 0
    for change, text in CHANGES.items():
        other.client.execute_command(*change.replace("LAST", last).split())

        code, out, err = said(capsys, *places)

        assert code == 5, (change, err)
        assert out.startswith("differs       database 0, key "), (change, out)
        assert text in out, (change, out)
        assert out.endswith(": 1 difference.\n"), out
        for key in other.client.scan_iter():
            if key not in before:
                other.client.delete(key)
        for key, payload in before.items():
            other.client.restore(key, 0, payload, replace=True)
        assert said(capsys, *places)[0] == 0, change
    other.client.execute_command("FUNCTION", "DELETE", "one")
    assert "differs       library one of functions" in said(capsys, *places)[1]


def test_a_key_that_is_written_at_each_look_is_not_called_equal(pair, capsys, monkeypatch, tmp_path):
    primary, _ = pair
    look = two_servers._Server.look

    def busy(server, database, names):
        if b"busy" in names and server.place != f"redis://127.0.0.1:{primary.port}":
            primary.client.incr("busy")
            primary.client.execute_command("WAIT", 1, 5_000)
        return look(server, database, names)

    monkeypatch.setattr(two_servers._Server, "look", busy)
    with nodes(tmp_path, 0) as (other,):
        other.client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(other.is_linked, "it is linked")
        primary.client.set("busy", 1)

        code, out, _ = said(capsys, *(f"redis://127.0.0.1:{node.port}" for node in (primary, other)))

    assert code == 5
    assert out.splitlines()[0] == (
        "not compared  database 0, key b'busy': it was written each time that it was looked at"
    )
    assert out.endswith("0 differences, and 1 could not be compared.\n")


def test_a_replica_is_looked_at_when_it_has_what_the_primary_had_shown(pair, capsys, monkeypatch, tmp_path):
    primary, _ = pair
    events: list[tuple[str, str, int]] = []
    look, history = two_servers._Server.look, two_servers._history

    def noted_look(server, database, names):
        events.append(("look", server.place, 0))
        return look(server, database, names)

    def noted_history(server):
        found = history(server)
        events.append(("history", server.place, found[1]))
        return found

    monkeypatch.setattr(two_servers._Server, "look", noted_look)
    monkeypatch.setattr(two_servers, "_history", noted_history)
    with nodes(tmp_path, 0) as (other,):
        other.client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(other.is_linked, "it is linked")
        here, there = (f"redis://127.0.0.1:{node.port}" for node in (primary, other))
        said(capsys, here, there)

    at = events.index(("look", there, 0))
    assert events[at - 3][:2] == ("look", here)
    (_, first, offset), (_, second, reached) = events[at - 2 : at]
    assert (first, second) == (here, there)
    assert reached >= offset


def test_a_replica_that_stays_behind_is_not_compared(pair, capsys, monkeypatch, tmp_path):
    primary, _ = pair
    monkeypatch.setattr(two_servers, "_WAIT_S", 0.3)
    with nodes(tmp_path, 0) as (other,):
        other.client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        wait_until(other.is_linked, "it is linked")
        primary.client.execute_command("WAIT", 1, 5_000)
        history = two_servers._history
        place = f"redis://127.0.0.1:{other.port}"
        monkeypatch.setattr(
            two_servers,
            "_history",
            lambda server: (history(server)[0], history(server)[1] - 7 * (server.place == place)),
        )

        code, _, err = said(capsys, f"redis://127.0.0.1:{primary.port}", place)

    assert code == 3
    assert err.startswith(f"streamd: check: {place}: still 7 bytes behind redis://127.0.0.1:{primary.port} after")
    assert err.count("\n") == 1


def test_what_cannot_be_compared_is_said_in_one_line(pair, capsys):
    primary, other = pair
    place = f"redis://127.0.0.1:{primary.port}"
    primary.client.execute_command("ACL", "SETUSER", "few", "on", "nopass", "~*", "-@all", "+info", "+hello", "+client")
    free = free_port()
    for words, code, text in (
        ((place, place.replace("127.0.0.1", "localhost")), 2, "check: --compare: both URLs name the same server"),
        ((place, "http://127.0.0.1"), 2, "check: --compare: "),
        ((place, f"{place}/x"), 2, "check: --compare: database 'x' is no number"),
        ((place, f"redis://127.0.0.1:{free}"), 3, f"check: redis://127.0.0.1:{free}: "),
        ((f"redis://few:secret@127.0.0.1:{other.port}", place), 3, f"check: redis://127.0.0.1:{other.port}: "),
        (("data", place, place), 2, "--compare takes two URLs, and no DIR beside them"),
        ((place.replace("//", "//few:x@"), f"redis://127.0.0.1:{other.port}"), 3, f"check: {place}: "),
    ):
        words = words if len(words) == 2 else (*words[1:], words[0])
        given = said(capsys, *words)
        assert (given[0], given[1]) == (code, ""), (words, given)
        assert given[2].startswith(f"streamd: {text}"), given[2]
        assert given[2].count("\n") == 1
        assert "secret" not in given[2]
    assert main(["check"]) == 2
    assert "DIR" in capsys.readouterr().err


def test_the_rules_of_the_page_are_enough(pair, capsys, monkeypatch):
    (line,) = re.findall(r"`user compare on #\.\.\. ([^`]*)`", (ROOT / "docs/operations.md").read_text())
    for node in pair:
        rules = ["nopass", *line.split()]
        node.client.execute_command("ACL", "SETUSER", "compare", "on", *rules)

    for name, node in zip(("FIRST", "SECOND"), pair, strict=True):
        monkeypatch.setenv(name, f"redis://compare:secret@127.0.0.1:{node.port}")
    code, out, err = said(capsys, "FIRST", "SECOND")

    assert (code, "keys" in out) in ((0, True), (5, True)), err
