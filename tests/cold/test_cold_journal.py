"""Entries in segment files survive rewrites and starts, which read none of their blocks."""

import pytest

from streamd.base.errors import CommandError
from streamd.cold.files import BASE, STREAM
from streamd.journal.loader import LoadError
from streamd.journal.recovery import DamagedError, NewerError
from tests.cold.cold_restartable import MIB, PLACE, ColdRestartable
from tests.cold.cold_server import evict, list_of, make_cold
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.written_journals import file_of


def commands(base: bytes) -> list[list[bytes]]:
    """Return the commands of a base."""
    from streamd.journal.parsing import parse_command

    found, at = [], base.find(b"\n*") + 1
    while at:
        words, end = parse_command(base, at)
        found.append(words)
        at = end if base[end : end + 1] == b"*" else base.find(b"\n*", end - 1) + 1
    return found


@pytest.fixture
def server() -> ColdRestartable:
    return ColdRestartable()


def test_a_base_names_the_files_and_has_only_the_entries_that_are_in_none(server):
    server.cool()
    before = server.seen()

    server.rewrite()

    words = commands(server.base())
    assert words[0] == [b"STREAMCOLD", b"FORMAT", b"1", b"%d" % (16 * MIB), b"1"]
    assert [one[:2] for one in words[2:4]] == [[b"STREAMCOLD", b"FILE"], [b"STREAMCOLD", b"RANGE"]]
    added = [one[2] for one in words if one[0] == b"XADD"]
    assert added == [b"%d-1" % number for number in range(181, 201)]
    assert server.restart().seen() == before


def test_neither_a_rewrite_nor_a_start_reads_a_block(server):
    server.fill()
    server.send("XGROUP", "CREATE", "s", "g", "0")
    server.send("XREADGROUP", "GROUP", "g", "ann", "COUNT", "150", "STREAMS", "s", ">")
    for number in range(201, 301):
        server.send("XADD", "s", "IDMP", "p", f"iid-{number}", f"{number}-1", "f", "v")
    make_cold(server.engine, b"s")
    evict(server.engine)
    server.send("XACK", "s", "g", "7-1")
    reads = server.count_reads()

    server.rewrite()
    assert reads == []
    again = server.restart()
    assert again.count_reads() == []
    assert len(again.store.cache._blocks) == 0

    assert again.seen() == server.seen()
    assert server.base().count(b"XADD") == 20


def test_deletions_are_kept_as_ids(server):
    server.cool()
    server.send("XDEL", "s", "30-1", "31-1", "32-1", "77-1")
    server.rewrite()
    server.send("XDEL", "s", "33-1", "90-1", "199-1")
    server.send("XTRIM", "s", "MAXLEN", "185")

    again = server.restart()

    assert len(again.store.cache._blocks) == 0
    assert [one for one in commands(server.base()) if one[1] == b"GONE"] == [
        [b"STREAMCOLD", b"GONE", b"s", b"30-1 1-1 1-1 45-1"]
    ]
    assert again.seen() == server.seen()


def test_what_was_trimmed_of_the_first_block_is_kept_as_a_length(server):
    server.cool()
    server.send("XTRIM", "s", "MAXLEN", "193")
    server.send("XDEL", "s", "9-1")
    server.rewrite()

    assert [b"XTRIM", b"s", b"MAXLEN", b"=", b"172"] in commands(server.base())
    again = server.restart()
    assert again.seen() == server.seen()
    again.rewrite()
    assert again.restart().seen() == server.seen()


def test_a_file_that_only_the_last_base_needs_goes_with_it(server):
    server.cool()
    server.rewrite()
    assert len(server.segments()) == 1
    server.send("DEL", "s")
    server.cron()
    assert len(server.segments()) == 1

    server.rewrite()
    server.cron()

    assert server.segments() == []
    again = server.restart()
    assert again.seen() == {}
    again.cool()
    assert again.segments() == [PLACE + "appendonly.aof.2.seg"]


def test_a_file_that_no_base_names_goes_at_once(server):
    server.cool()
    server.send("DEL", "s")
    server.cron()
    assert server.segments() == []
    assert server.restart().seen() == {}


def test_a_file_is_held_by_the_rewrite_and_then_by_the_base(server):
    server.cool()
    file = list_of(server.engine, b"s").rows.stretches[0].file
    server.at_once = False
    server.send("BGREWRITEAOF")
    server.engine.cron()
    while server.jobs:
        server.jobs[0].wait()
        server.engine.cron()
        assert file.holders["rewrite"] + file.holders[BASE] == 1, file.holders
    assert (file.holders["rewrite"], file.holders[BASE], file.holders[STREAM]) == (0, 1, 1)


def test_an_abandoned_rewrite_lets_go(server):
    server.cool()
    file = list_of(server.engine, b"s").rows.stretches[0].file
    server.disk.fail_at, server.disk.fails_for = server.disk.operations + 4, 1
    server.rewrite()
    server.cron()
    assert server.disk.failed
    assert file.holders.total() == 1


def test_a_limit_survives_without_the_option(server):
    server.rewrite()
    again = server.restart(stream_memory=None)
    assert again.engine.state.config["stream-memory"] == 16 * MIB
    assert again.store.limit_bytes == 16 * MIB
    assert again.send("CONFIG", "GET", "stream-memory") == b"*2\r\n$13\r\nstream-memory\r\n$8\r\n16777216\r\n"


def test_a_start_with_zero_brings_all_back(server):
    server.cool()
    server.cool(b"t", 57)
    server.send("XDEL", "s", "30-1", "31-1")
    server.send("XTRIM", "s", "MAXLEN", "193")
    server.rewrite()
    server.send("XDEL", "s", "50-1")
    before = server.seen()

    again = server.restart(stream_memory=0)

    assert again.store is None
    assert again.seen() == before
    again.cron()
    assert b"STREAMCOLD" not in again.base()
    assert again.segments() == []
    assert again.restart(stream_memory=None).seen() == before


def test_zero_is_refused_where_memory_is_short(server):
    server.cool()
    server.rewrite()
    with pytest.raises(Exception, match=r"stream-memory 0 would bring \d+ bytes .* maxmemory allows 1000"):
        server.restart(stream_memory=0, maxmemory=1000)


@pytest.mark.parametrize("name", ["s", "another"])
def test_config_set_brings_all_back(server, name):
    server.cool()
    server.rewrite()
    server.cool(name.encode(), 150, 1000)
    before = server.seen()

    server.persistence.set_stream_memory(0)
    server.cron()
    server.cron()

    assert server.store is None
    assert server.seen() == before
    assert server.segments() == []
    assert b"STREAMCOLD" not in server.base()
    again = server.restart(stream_memory=0)
    assert again.store is None
    assert again.seen() == before


def test_a_damaged_block_stays_on_the_disk_and_is_tried_again(server, caplog):
    server.cool()
    server.rewrite()
    before = server.seen()
    (path,) = server.segments()
    server.disk.names[path].data[100] ^= 1
    server.persistence.set_stream_memory(0)
    server.cron()
    assert server.store is not None
    assert [record.event for record in caplog.records] == ["segments-not-returned"]
    assert f"into memory: {path} is damaged at offset " in caplog.text
    server.disk.names[path].data[100] ^= 1
    server.cron()
    assert server.store is not None
    server.clock.advance(60_000)
    server.cron()
    server.cron()
    assert server.store is None
    assert server.seen() == before
    assert server.segments() == []


def test_what_still_reads_a_removed_stream_does_not_keep_the_store(server):
    server.cool()
    server.rewrite()
    kept = server.engine.state.keyspace[0].values[b"s"].snapshot()
    before = server.seen()
    server.persistence.set_stream_memory(0)
    server.cron()
    server.cron()
    assert server.store is None
    assert server.seen() == before
    assert b"STREAMCOLD" not in server.base()
    assert len(server.segments()) == 1
    del kept
    server.cron()
    assert server.segments() == []


def test_config_set_takes_all_streams(server):
    server = ColdRestartable(stream_memory=0)
    server.fill()
    before = server.seen()
    server.persistence.set_stream_memory(16 * MIB)
    server.cron()

    make_cold(server.engine, b"s")
    server.rewrite()

    assert server.base().count(b"XADD") == 20
    assert server.restart(stream_memory=None).seen() == before


def test_a_missing_file_stops_the_start(server):
    server.cool()
    server.rewrite()
    disk = server.disk.kill()
    del disk.names[PLACE + "appendonly.aof.1.seg"]
    with pytest.raises(DamagedError, match=r"appendonly\.aof\.1\.seg is not there"):
        server.restart(disk)


@pytest.mark.parametrize("end", [["DEL", "s"], ["XTRIM", "s", "MAXLEN", "15"], ["XTRIM", "s", "MINID", "185-1"]])
def test_a_missing_file_is_not_missed_if_its_entries_are_gone(server, end):
    server.cool()
    server.rewrite()
    server.send(*end)
    before = server.seen()
    disk = server.disk.kill()
    del disk.names[PLACE + "appendonly.aof.1.seg"]
    again = server.restart(disk)
    assert again.seen() == before
    again.rewrite()
    again.cron()
    assert again.restart().seen() == before


@pytest.mark.parametrize("at", [0, 20, -1, -40])
def test_a_damaged_file_stops_the_start(server, at):
    server.cool()
    server.rewrite()
    disk = server.disk.kill()
    data = disk.names[PLACE + "appendonly.aof.1.seg"].data
    data[at] ^= 1
    with pytest.raises(DamagedError, match=r"appendonly\.aof\.1\.seg is damaged at offset \d+"):
        server.restart(disk)


def test_another_servers_file_of_the_same_name_stops_the_start(server):
    server.cool()
    server.rewrite()
    disk = server.disk.kill()
    other = ColdRestartable(SimulatedDisk())
    other.disk.next_salt += 77
    other.cool()
    name = PLACE + "appendonly.aof.1.seg"
    disk.names[name] = other.disk.names[name]
    with pytest.raises(DamagedError, match="another file"):
        server.restart(disk)


def test_a_newer_format_stops_the_start(server, monkeypatch):
    server.cool()
    monkeypatch.setattr("streamd.journal.cold_records.FORMAT", 2)
    server.rewrite()
    monkeypatch.undo()
    with pytest.raises(NewerError, match=r"was written by a newer streamd \(it has format 2 of STREAMCOLD"):
        server.restart()


def test_clients_cannot_send_the_records(server):
    assert server.send("STREAMCOLD", "FORMAT", "1", "0", "0") == (
        b"-ERR unknown command 'STREAMCOLD', with args beginning with: 'FORMAT' '1' '0' '0' \r\n"
    )


def test_records_of_segments_in_a_base_without_format_stop_the_start(server):
    with pytest.raises(LoadError, match="only a base that begins with"):
        applied(server, [b"STREAMCOLD", b"RANGE", b"s", b"1", b"0", b"1", b"10", b"1-1", b"9-1"])


def applied(server: ColdRestartable, words: list[bytes]) -> None:
    from streamd.journal.record import encode_command

    journal = server.persistence.journal
    path = PLACE + journal.manifest.parts()[-1].name
    disk = server.disk.kill()
    inode = disk.names[path]
    writer = journal.writer
    assert writer is not None
    inode.data = bytearray(file_of([encode_command(words)], salt=writer.salt, begins=bytes(inode.data)))
    server.restart(disk)


def test_orphans_are_removed_and_their_numbers_not_used_again(server):
    server.rewrite()
    server.cool()
    disk = server.disk.kill()
    again = server.restart(disk)
    assert again.segments() == []
    make_cold(again.engine, b"s")
    assert again.segments() == [PLACE + "appendonly.aof.2.seg"]


def test_orphans_are_removed_without_the_option():
    server = ColdRestartable(stream_memory=0)
    server.disk.names[PLACE + "appendonly.aof.7.seg"] = next(iter(server.disk.names.values()))
    assert server.restart().segments() == []


def test_debug_reload_loads_in_place(server):
    server.cool()
    server.send("XDEL", "s", "30-1")
    before = server.seen()
    assert server.send("DEBUG", "RELOAD") == b"+OK\r\n"
    assert server.seen() == before
    assert server.send("DEBUG", "LOADAOF") == b"+OK\r\n"
    server.cron()
    assert server.seen() == before
    assert len(server.segments()) == 1
    assert server.restart().seen() == before


@pytest.mark.parametrize(
    "command", [["RENAME", "s", "z"], ["COPY", "s", "z"], ["MOVE", "s", "3"], ["SWAPDB", "0", "1"]]
)
@pytest.mark.parametrize("steps", range(6))
def test_keys_that_move_during_a_rewrite(server, command, steps):
    for key in (b"a", b"s", b"t"):
        server.cool(key, 60)
    server.at_once = False
    server.send("BGREWRITEAOF")
    rewrite = server.persistence.journal.rewrite
    assert rewrite is not None
    for _ in range(steps):
        rewrite.step(lambda: True)
    server.at_once = True
    server.send(*command)
    server.cron()
    assert server.persistence.rewriting.count == 1
    assert server.restart().seen() == server.seen()
    increments = [inode.data for path, inode in server.disk.names.items() if ".incr." in path]
    assert not any(b"STREAMCOLD" in data for data in increments)


def test_a_rewrite_that_would_begin_again_for_ever_writes_all_entries(server):
    for key in (b"a", b"s"):
        server.cool(key, 60)
    server.at_once = False
    journal, restarts = server.persistence.journal, 0
    server.send("BGREWRITEAOF")
    for _ in range(5):
        rewrite = journal.rewrite
        assert rewrite is not None
        for _ in range(20):
            if not rewrite.keys_done:
                rewrite.step(lambda: True)
        ours, theirs = (b"a", b"s") if b"a" in rewrite._waiting[0] else (b"s", b"a")
        server.send("RENAME", theirs, ours)  # from one that is written to one that waits
        server.send("COPY", ours, theirs)
        if not rewrite.must_restart:
            break
        server.engine.cron()
        assert journal.rewrite is None
        restarts += 1
        server.persistence.rewriting.begin_or_plan()
    assert restarts == 3
    server.at_once = True
    server.end_turn()
    server.cron()
    assert server.persistence.rewriting.count == 1
    assert server.restart().seen() == server.seen()
    increments = [inode.data for path, inode in server.disk.names.items() if ".incr." in path]
    assert not any(b"STREAMCOLD" in data for data in increments)
    assert sum(data.count(b"XADD") for data in increments) >= 60


def test_records_of_groups_need_no_block_at_a_start(server):
    server.fill()
    server.send("XGROUP", "CREATE", "s", "g", "0")
    server.send("XREADGROUP", "GROUP", "g", "ann", "COUNT", "60", "STREAMS", "s", ">")
    make_cold(server.engine, b"s")
    server.rewrite()
    server.send("XCLAIM", "s", "g", "bob", "0", "3-1", "4-1", "9-1")
    server.send("XAUTOCLAIM", "s", "g", "eve", "0", "20-1", "COUNT", "5")
    server.send("XDEL", "s", "40-1")
    server.send("XDELEX", "s", "DELREF", "IDS", "3", "40-1", "41-1", "42-1")
    server.send("XACKDEL", "s", "g", "DELREF", "IDS", "2", "50-1", "51-1")
    server.send("XNACK", "s", "g", "FAIL", "IDS", "1", "10-1")
    server.send("XIDMPRECORD", "s", "p", "iid", "12-1")

    again = server.restart()

    assert len(again.store.cache._blocks) == 0
    assert again.seen() == server.seen()


def test_appendonly_yes_moves_the_segments_of_another_journal_with_it():
    server = ColdRestartable()
    server.cool()
    server.rewrite()
    before = server.seen()
    third = Restartable(SimulatedDisk())
    third.turn_off()
    third.disk.names.update(server.disk.kill().names)
    third.turn_on()
    third.cron()
    moved = [path for path in third.disk.names if ".old-" in path]
    assert sum(path.endswith(".seg") for path in moved) == 1
    disk = SimulatedDisk()
    for path in moved:
        disk.names[PLACE + path.rpartition("/")[2]] = third.disk.names[path]
    assert server.restart(disk).seen() == before


def test_a_backup_between_the_return_of_all_entries_and_the_next_rewrite_is_refused(server):
    server.cool()
    server.rewrite()
    server.persistence.rewriting.start = lambda: None
    server.persistence.set_stream_memory(0)
    backups, persistence = server.persistence.backups, server.persistence
    while server.store is not None:
        persistence.cold.tick()
    assert persistence.journal.holds
    with pytest.raises(CommandError, match="all entries are in memory again"):
        backups._pin(server.client)
