"""`streamd check`: what it says of a journal, how it cuts, and what it exports."""

import pytest

from streamd.durability import check, fixing
from streamd.durability.moving import commands_for_redis
from tests.crash.histories import SMALL, play, random_turns
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.state_dump import dump

JOURNAL = f"{DIRECTORY}/appendonlydir"


def fix(disk):
    return fixing.fix(fixing.Place(disk, DIRECTORY, JOURNAL), lambda known, question: True)


@pytest.fixture
def server():
    server = Restartable()
    play(server, SMALL)
    server.cron()
    return server


def test_a_whole_journal_is_said_to_be_whole(server):
    report = check.examine(server.disk, JOURNAL)
    assert report.is_whole
    assert report.lines()[-1] == "The journal is whole."
    assert report.files[0].path == INCREMENT


def test_a_torn_end_is_named_and_cut(server):
    disk = server.disk.kill()
    del disk.names[INCREMENT].data[-60:]
    found = check.examine(disk, JOURNAL)
    assert (found.is_whole, found.would_start, found.files[0].torn) == (False, True, True)
    fixed = fix(disk)
    assert "cut to" in fixed.done[-1]
    assert check.examine(disk, JOURNAL).is_whole


def test_damage_is_refused_by_a_server_and_cut_only_when_asked_for(server):
    disk = server.disk.kill()
    disk.names[INCREMENT].data[900] ^= 1
    assert not check.examine(disk, JOURNAL).would_start
    assert "A server refuses it" in check.examine(disk, JOURNAL).lines()[-2]
    fix(disk)
    assert Restartable(disk).persistence.cut is None


def test_a_damaged_base_is_not_cut(server):
    server.rewrite()
    disk = server.disk.kill()
    base = next(path for path in disk.names if path.endswith(".base.aof"))
    disk.names[base].data[100] ^= 1
    assert "cannot be cut" in fix(disk).done[-1]


def test_the_journal_of_a_running_server_is_not_fixed(server):
    with pytest.raises(OSError, match="in use by another server"):
        fix(server.disk)


def started_on_export(server):
    """Return a server whose data directory is the export of another."""
    disk = server.disk.kill()
    for path in [path for path in disk.names if path.startswith(DIRECTORY)]:
        del disk.names[path]
    for path in [path for path in disk.names if path.startswith("out/")]:
        disk.names[DIRECTORY + path.removeprefix("out")] = disk.names.pop(path)
    return Restartable(disk, clock=server.clock)


@pytest.mark.parametrize("seed", range(20))
def test_an_export_for_newer_redis_has_the_windows_too(seed):
    """Names of entries that are gone are recorded with placeholders, of which nothing stays."""
    server = Restartable()
    play(server, [*SMALL, *random_turns(seed, 60)])
    check.write_journal(server.disk, "out", commands_for_redis(server.engine.state.keyspace, server.clock.now_ms()))
    text = bytes(server.disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert b"\n#" not in text
    found, before = dump(started_on_export(server).engine), dump(server.engine)
    assert found.keys() == before.keys()
    for key, (kind, expiry, value) in before.items():
        assert found[key][:2] == (kind, expiry)
        shown = found[key][2]
        if kind == "stream":
            for part in ("entries", "settings"):
                assert shown[part] == value[part]
            # (Redis has no place for the time at which a name was recorded ahead of the clock.)
            assert shown["iids"] == [name[:3] for name in value["iids"]]
            assert numbers(shown["info"]) == numbers(value["info"])
        else:
            assert shown == value


def numbers(info):
    """Return the counters of a stream from its XINFO."""
    pairs = dict(zip(info[0::2], info[1::2], strict=True)) if isinstance(info, list) else info
    wanted = (b"length", b"last-generated-id", b"max-deleted-entry-id", b"entries-added", b"recorded-first-entry-id")
    return {name: pairs[name] for name in wanted}


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_export_has_all_but_the_windows(server, rewritten):
    if rewritten:
        server.rewrite()
    check.export(server.disk, JOURNAL, "out")
    text = bytes(server.disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert b"IDMP" not in text
    assert b"#" not in text
    found, before = dump(started_on_export(server).engine), dump(server.engine)
    assert {key: value[0] for key, value in found.items()} == {key: value[0] for key, value in before.items()}
    for key, (kind, expiry, value) in found.items():
        assert expiry == before[key][1]
        if kind == "stream":
            assert value["entries"] == before[key][2]["entries"]


def test_a_directory_is_found_from_inside_and_from_above(server):
    assert check.journal_directory(server.disk, "elsewhere/") == (".", "elsewhere")
    with pytest.raises(FileNotFoundError, match="there is no journal"):
        check.examine(server.disk, "elsewhere")
