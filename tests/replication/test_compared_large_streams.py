"""`streamd check --compare` of streams that are too large for DUMP, and of streams in segment files."""

import re

import pytest
import redis

from streamd.checking import two_servers
from streamd.rdb.bytes import TooLarge
from tests.cold import cold_directory
from tests.documents.blocks import ROOT
from tests.replication.clusters import nodes
from tests.replication.test_compared_servers import fill, said

CHANGES = {
    "XDEL stream 1-1": "the entries, behind 0-0, length (5 and 4)",
    "XSETID stream 4000000000000-1": "last-generated-id (",
    "XSETID stream 4000000000000-1 ENTRIESADDED 9 MAXDELETEDID 3-1": "max-deleted-entry-id (2-1 and 3-1)",
    "XADD stream IDMP p again * f v": "iids-duplicates (1 and 2)",
    "XCFGSET stream IDMP-DURATION 9": "idmp-duration (100 and 9)",
    "XGROUP SETID stream g 1-1": "its groups, in XINFO GROUPS",
    "XACK stream g 1-1": "the pending entries of group b'g'",
    "XCLAIM stream g ann 0 3-1 RETRYCOUNT 7 TIME 1": "the pending entries of group b'g'",
}


@pytest.fixture
def small_dumps(monkeypatch):
    """Have servers refuse the DUMP of streams, as they refuse large ones."""
    ask_all = two_servers._Server.ask_all

    def refused(server, requests, may_fail=()):
        replies = ask_all(server, requests, may_fail)
        error = redis.ResponseError(TooLarge.line)
        return [
            error if words[:2] == ("DUMP", b"stream") else reply for words, reply in zip(requests, replies, strict=True)
        ]

    monkeypatch.setattr(two_servers._Server, "ask_all", refused)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with nodes(tmp_path_factory.mktemp("large"), 1) as (primary, replica):
        fill(primary.client)
        for number in range(250):
            primary.client.execute_command("XADD", "pages", f"{number + 1}-1", "f", number, "f", "again")
        primary.client.execute_command("WAIT", 1, 5_000)
        yield primary, replica


def test_each_difference_of_a_large_stream_has_its_name(pair, small_dumps, capsys):
    other = pair[1]
    places = [f"redis://127.0.0.1:{node.port}" for node in pair]
    other.client.execute_command("REPLICAOF", "NO", "ONE")
    payload = other.client.dump("stream")
    assert said(capsys, *places)[0] == 0
    for change, text in CHANGES.items():
        other.client.execute_command(*change.split())
        code, out, err = said(capsys, *places)
        assert code == 5, (change, err)
        assert out.startswith("differs       database 0, key b'stream': "), (change, out)
        assert text in out, (change, out)
        other.client.restore("stream", 0, payload, replace=True)
        assert said(capsys, *places)[0] == 0, change


def test_a_stream_that_only_one_server_has_or_that_is_large_on_one_alone_differs(pair, monkeypatch, capsys):
    ask_all = two_servers._Server.ask_all
    places = [f"redis://127.0.0.1:{node.port}" for node in pair]

    def refused(server, requests, may_fail=()):
        replies = ask_all(server, requests, may_fail)
        is_first = server.place == places[0]
        error = redis.ResponseError(TooLarge.line)
        return [
            error if is_first and words[:2] == ("DUMP", b"stream") else reply
            for words, reply in zip(requests, replies, strict=True)
        ]

    monkeypatch.setattr(two_servers._Server, "ask_all", refused)
    code, out, _ = said(capsys, *places)
    assert code == 5
    assert "its size: only that of the first has more than 512 MB in DUMP's form" in out


def test_pages_of_a_large_stream_are_told_by_the_entry_before_them():
    from streamd.checking.large_streams import differences, read_large

    def server(changed):
        entries = [(b"%d-1" % number, [b"f", b"%d" % (number == changed), b"f", b"w"]) for number in range(1, 251)]

        def ask(*words):
            if words[0] == "XINFO STREAM":
                return [b"length", len(entries), b"radix-tree-nodes", changed]
            start = int(words[2][1:].split(b"-")[0]) if words[2] != b"-" else 0
            return [one for one in entries if int(one[0].split(b"-")[0]) > start][:100]

        return read_large(ask, b"s", [])

    assert differences(server(0), server(0)) == []
    assert differences(server(0), server(150)) == ["the entries, behind 100-1"]
    assert len(server(0).pages) == 3


def test_the_rules_of_the_page_are_enough_for_large_streams(pair, small_dumps, capsys, monkeypatch):
    (line,) = re.findall(r"`user compare on #\.\.\. ([^`]*)`", (ROOT / "docs/operations.md").read_text())
    for name, node in zip(("FIRST", "SECOND"), pair, strict=True):
        node.client.execute_command("ACL", "SETUSER", "compare", "on", "nopass", *line.split())
        monkeypatch.setenv(name, f"redis://compare:secret@127.0.0.1:{node.port}")
    code, out, err = said(capsys, "FIRST", "SECOND")
    assert (code, "keys" in out) in ((0, True), (5, True)), err


def test_a_server_with_segment_files_is_equal_to_one_without(tmp_path, capsys):
    with (
        cold_directory.serve(tmp_path / "cold") as cold,
        cold_directory.serve(tmp_path / "plain", stream_memory=0) as plain,
    ):
        client = cold.client()
        cold_directory.fill(client)
        client.execute_command("BGREWRITEAOF")
        while client.info("persistence")["aof_rewrites"] < 1:
            pass
        assert cold_directory.segments(tmp_path / "cold")
        other = plain.client()
        for key in (b"s", b"t", b"string"):
            other.restore(key, 0, client.dump(key))
        assert said(capsys, cold.url, plain.url)[:2] == (0, "3 keys: no difference.\n")
        other.execute_command("XDEL", "s", "77-1")
        assert "the entries (" in said(capsys, cold.url, plain.url)[1]
