"""`streamd check`: what it says of a journal, how it cuts, and what it exports."""

import pytest

from streamd.durability import check
from tests.crash.histories import SMALL, play
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.state_dump import dump

JOURNAL = f"{DIRECTORY}/appendonlydir"


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
    fixed = check.fix(disk, DIRECTORY, JOURNAL)
    assert "cut to" in fixed.lines()[-1]
    assert check.examine(disk, JOURNAL).is_whole


def test_damage_is_refused_by_a_server_and_cut_only_when_asked_for(server):
    disk = server.disk.kill()
    disk.names[INCREMENT].data[900] ^= 1
    assert not check.examine(disk, JOURNAL).would_start
    assert "A server refuses it" in check.examine(disk, JOURNAL).lines()[-1]
    check.fix(disk, DIRECTORY, JOURNAL)
    assert Restartable(disk).persistence.cut is None


def test_a_damaged_base_is_not_cut(server):
    server.rewrite()
    disk = server.disk.kill()
    base = next(path for path in disk.names if path.endswith(".base.aof"))
    disk.names[base].data[100] ^= 1
    assert "cannot be cut" in check.fix(disk, DIRECTORY, JOURNAL).lines()[-1]


def test_the_journal_of_a_running_server_is_not_fixed(server):
    with pytest.raises(OSError, match="in use by another server"):
        check.fix(server.disk, DIRECTORY, JOURNAL)


@pytest.mark.parametrize("rewritten", [False, True])
def test_an_export_has_all_but_the_windows(server, rewritten):
    if rewritten:
        server.rewrite()
    check.export(server.disk, JOURNAL, "out")
    text = bytes(server.disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert b"IDMP" not in text
    assert b"#" not in text
    disk = server.disk.kill()
    for path in [path for path in disk.names if path.startswith(DIRECTORY)]:
        del disk.names[path]
    for path in [path for path in disk.names if path.startswith("out/")]:
        disk.names[DIRECTORY + path.removeprefix("out")] = disk.names.pop(path)
    found, before = dump(Restartable(disk).engine), dump(server.engine)
    assert {key: value[0] for key, value in found.items()} == {key: value[0] for key, value in before.items()}
    for key, (kind, expiry, value) in found.items():
        assert expiry == before[key][1]
        if kind == "Stream":
            assert value["entries"] == before[key][2]["entries"]


def test_a_directory_is_found_from_inside_and_from_above(server):
    assert check.journal_directory(server.disk, "elsewhere/") == (".", "elsewhere")
    with pytest.raises(FileNotFoundError, match="there is no journal"):
        check.examine(server.disk, "elsewhere")
