"""Records as redis-server 8.6 leaves them in its append-only file: each does what it says, nothing is looked up."""

import pytest

from streamd.durability.old_redis import ForOldRedis
from streamd.idmp.digest import idmpauto_iid
from streamd.journal.loader import LoadError
from streamd.journal.record import encode_command, encode_select
from tests.crash.restartable import Restartable
from tests.unit.durability.test_unloadable_journal import disk_of, resp
from tests.written_journals import file_of

BEFORE = ["XADD k IDMP p i 5-1 f v", "XADD k 5-2 f w"]


def loaded(*lines: str | list[bytes], **options) -> Restartable:
    commands = [encode_command(line) if isinstance(line, list) else resp(line) for line in lines]
    return Restartable(disk_of(encode_select(0) + b"".join(commands)), **options)


def shown(server: Restartable, key: bytes = b"k") -> tuple[list[str], dict, int, int]:
    """Return the entries' IDs, (pid, iid) -> entry ID, iids added and duplicates."""
    stream = server.engine.state.keyspace[0].values[key]
    ids = [f"{entry_id >> 64}-{entry_id % 2**64}" for entry_id, _ in stream.log.iterate()]
    iids = {(pid, iid): f"{entry_id >> 64}-{entry_id % 2**64}" for pid, iid, entry_id in stream.idmp}
    return ids, iids, stream.idmp.iids_added, stream.idmp.iids_duplicates


AUTO = idmpauto_iid([b"f", b"v"])


@pytest.mark.parametrize(
    ("line", "ids", "iids"),
    [
        ("XADD k IDMP p j 6-1 f v", "5-1 5-2 6-1", {(b"p", b"j"): "6-1"}),
        ("xadd k idmp p j 6-1 f v", "5-1 5-2 6-1", {(b"p", b"j"): "6-1"}),
        ("XADD k Idmp p j 6-1 f v", "5-1 5-2 6-1", {(b"p", b"j"): "6-1"}),
        ("XADD k IDMPAUTO q 6-1 f v", "5-1 5-2 6-1", {(b"q", AUTO): "6-1"}),
        ("XADD k idmpauto q 6-1 f v", "5-1 5-2 6-1", {(b"q", AUTO): "6-1"}),
        ("XADD k NOMKSTREAM IDMP p j 6-1 f v", "5-1 5-2 6-1", {(b"p", b"j"): "6-1"}),
        ("XADD k IDMP p j NOMKSTREAM 6-1 f v", "5-1 5-2 6-1", {(b"p", b"j"): "6-1"}),
        ("XADD k IDMP p MAXLEN MAXLEN = 2 6-1 f v", "5-2 6-1", {(b"p", b"MAXLEN"): "6-1"}),
        ("XADD k MAXLEN 2 IDMP p * 6-1 f v", "5-2 6-1", {(b"p", b"*"): "6-1"}),
        ("XADD k MAXLEN = 2 LIMIT 10 6-1 f v", "5-2 6-1", {}),
        ("XADD k IDMPAUTO q MINID = 5-2 KEEPREF 6-1 f v", "5-2 6-1", {(b"q", AUTO): "6-1"}),
        ("XADD k nomkstream 6 f v", "5-1 5-2 6-0", {}),
        ("XADD k IDMP p i 6-1 f v", "5-1 5-2 6-1", {(b"p", b"i"): "6-1"}),  # it was forgotten in between
        ("XTRIM k MAXLEN = 1 LIMIT 100", "5-2", {}),
    ],
)
def test_an_entry_is_added_with_the_id_that_was_decided(line, ids, iids):
    server = loaded(*BEFORE, line)
    found_ids, found_iids, added, duplicates = shown(server)
    assert found_ids == ids.split()
    assert found_iids == {(b"p", b"i"): "5-1", **iids}
    assert (added, duplicates) == (1 + len(iids), 0)
    assert shown(server.restart()) == shown(server)


@pytest.mark.parametrize(
    "line",
    [
        "XADD k IDMP p i * f v",
        "XADD k IDMP p never-seen * f v",
        "xadd k nomkstream idmp p i * f v",
        "XADD k IDMPAUTO q * f v",
        "XADD k IDMPAUTO q MAXLEN = 1 * f v",
        "XADD k MAXLEN ~ 0 LIMIT 5 IDMP p i * f v",
    ],
)
def test_a_star_is_a_duplicate_that_was_answered(line):
    server = loaded(*BEFORE, line, line)
    assert shown(server) == (["5-1", "5-2"], {(b"p", b"i"): "5-1"}, 1, 2)
    assert shown(server.restart()) == shown(server)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("XADD k * f v", "it has no ID"),
        ("XADD none IDMP p i * f v", "there is no stream at its key"),
        ("XADD none NOMKSTREAM 6-1 f v", "there is no stream at its key"),
        ("XADD k IDMP p i 5-2 f v", "its ID is not greater than the last one"),
        ("XADD k IDMP p i 5-* f v", "Invalid stream ID"),
        ("XADD k IDMP p i 6-1 f", "wrong number of arguments"),
        ("XREADGROUP GROUP g c STREAMS k >", "it is never recorded"),
        ("XAUTOCLAIM k g c 0 0", "it is never recorded"),
        ("XACK k g 1-1", "there is no such group"),
        ("XCLAIM k g c 0 5-1 TIME 5 RETRYCOUNT 1 FORCE JUSTID LASTID 5-1", "there is no such group"),
    ],
)
def test_what_cannot_have_been_recorded_refuses_the_start(line, said):
    with pytest.raises(LoadError) as refusal:
        loaded(*BEFORE, line)
    assert said in str(refusal.value)


def test_groups_come_from_what_redis_propagates():
    server = loaded(
        *BEFORE,
        "XGROUP CREATE k g 0",
        "xgroup create k h $ mkstream entriesread 2",
        "XGROUP CREATECONSUMER k g ann",
        "XCLAIM k g ann 0 5-1 TIME 1600000000000 RETRYCOUNT 1 FORCE JUSTID LASTID 5-1",
        "XCLAIM k g ann 0 5-2 TIME 1600000000000 RETRYCOUNT 3 FORCE JUSTID LASTID 5-2",
        "XGROUP SETID k g 5-2 ENTRIESREAD 2",
        "XDEL k 5-1 9-9",
        # An entry that was deleted is taken from its owner by the same command.
        "XCLAIM k g bob 0 5-1 TIME 1600000000001 RETRYCOUNT 2 FORCE JUSTID LASTID 5-2",
        "XSETID k 7-0 ENTRIESADDED 9 MAXDELETEDID 5-1",
    )
    groups = server.engine.state.keyspace[0].values[b"k"].groups
    rows = [(row[0] >> 64, row[0] % 2**64, row[1].name, *row[2:]) for row in groups[b"g"].pending.iterate()]
    assert rows == [(5, 2, b"ann", 1_600_000_000_000, 3)]
    assert (groups[b"g"].entries_read, groups[b"h"].entries_read) == (2, 2)
    assert groups[b"h"].last_id == groups[b"g"].last_id == 5 << 64 | 2
    assert server.send("XINFO", "STREAM", "k").count(b"7-0") == 1


def test_nothing_expires_and_no_limit_of_today_holds_while_it_is_loaded():
    server = loaded(
        "SET k v PXAT 1000",
        "APPEND k w",
        "RENAME k j",
        "XADD s IDMP p i 1-1 f v",
        "XADD s IDMP p j 2-1 f v",
        proto_max_bulk_len=2**20,
        stream_idmp_maxsize=1,
    )
    assert server.send("GET", "j") == b"$-1\r\n"  # expired now
    assert len(list(server.engine.state.keyspace[0].values[b"s"].idmp)) == 1


def test_records_in_a_file_of_streamds_are_no_others():
    data = file_of() + encode_command([b"XADD", b"k", b"IDMPAUTO", b"q", b"6-1", b"f", b"v"])
    assert shown(Restartable(disk_of(data)))[:2] == (["6-1"], {(b"q", AUTO): "6-1"})


@pytest.mark.parametrize(
    ("line", "exported"),
    [
        ("XADD k IDMP p i 6-1 f v", "XADD k 6-1 f v"),
        ("xadd k NOMKSTREAM IDMPAUTO q 6-1 f v", "xadd k NOMKSTREAM 6-1 f v"),
        ("XADD k MAXLEN = 5 idmp p i 6-1 f v", "XADD k MAXLEN = 5 6-1 f v"),
        ("XADD k 6-1 IDMP v", "XADD k 6-1 IDMP v"),
        ("XADD k IDMP p i * f v", None),
        ("XADD k IDMPAUTO q * f v", None),
    ],
)
def test_an_older_redis_gets_entries_without_iids_and_no_notes_of_duplicates(line, exported):
    expected = None if exported is None else exported.encode().split()
    assert ForOldRedis().take(line.encode().split()) == expected
