"""A journal whose manifest is gone is not taken for a new one, whose start would remove its files."""

import pytest

from streamd.journal.record import FIRST_LINE_BYTES
from streamd.journal.recovery import DamagedError
from tests.crash.histories import SMALL, play
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable

JOURNAL = f"{DIRECTORY}/appendonlydir"
MANIFEST = f"{JOURNAL}/appendonly.aof.manifest"


@pytest.mark.parametrize("rewritten", [False, True])
def test_files_without_a_manifest_are_refused_and_kept(rewritten):
    server = Restartable()
    play(server, SMALL)
    if rewritten:
        server.rewrite()
    disk = server.disk.kill()
    disk.unlink(MANIFEST)
    left = {path: bytes(inode.data) for path, inode in disk.names.items()}
    with pytest.raises(DamagedError, match="it is not there, and does not name appendonly"):
        Restartable(disk)
    assert {path: bytes(inode.data) for path, inode in disk.names.items()} == left


def test_a_first_start_that_was_killed_before_its_manifest_is_repeated():
    disk = Restartable().disk.kill()
    disk.unlink(MANIFEST)
    del disk.names[INCREMENT].data[FIRST_LINE_BYTES:]
    server = Restartable(disk)
    server.send("SET", "k", "v")
    assert Restartable(server.disk.kill()).send("GET", "k") == b"$1\r\nv\r\n"


def test_a_journal_that_is_begun_while_the_server_runs_has_a_manifest_from_the_start():
    server = Restartable()
    play(server, SMALL)
    server.turn_off()
    for path in [path for path in server.disk.names if path.startswith(JOURNAL)]:
        server.disk.unlink(path)
    server.turn_on()
    play(server, ["SET k v"])
    assert Restartable(server.disk.kill()).send("DBSIZE") == b":0\r\n"  # as in Redis, until the rewrite has ended
    server.cron()
    assert Restartable(server.disk.kill()).send("GET", "k") == b"$1\r\nv\r\n"
