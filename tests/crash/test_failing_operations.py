"""Each file operation fails once, and for good: all that was acknowledged is there, and what is not was not."""

import errno
from itertools import pairwise

import pytest

from streamd.journal.recovery import DamagedError
from tests.crash.histories import SINGLE, play
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

FAILURES = [errno.EIO, errno.ENOSPC, errno.EINTR, "short"]


def work(disk: SimulatedDisk, policy: str, done: list) -> Restartable:
    """Start, write, rewrite while writing, write; `done` gets (acknowledged, the state behind it) of each turn."""
    server = Restartable(disk, appendfsync=policy.split(",")[0], is_quick="quick" in policy)
    for number, line in enumerate(SINGLE):
        if number == 9:
            server.send("BGREWRITEAOF")
        (acknowledged,) = play(server, [line])
        done.append((acknowledged, dump(server.engine)))
        server.engine.cron()
    server.cron()
    return server


def operations(policy: str) -> int:
    disk = SimulatedDisk()
    work(disk, policy, [])
    return disk.operations


def check(disk: SimulatedDisk, done: list, last: dict) -> None:
    """Start on what is left: the state is one that was reached, and not before the last one that was acknowledged."""
    after = Restartable(disk.kill(), appendfsync="always")
    found = dump(after.engine)
    states = [{}] + [state for _, state in done] + [last]
    changed = [one != other for one, other in pairwise(states)]
    acknowledged = max(
        (number for number, (acked, _) in enumerate(done, 1) if acked and changed[number - 1]), default=0
    )
    kept = [number for number, state in enumerate(states) if state == found]
    assert kept, "a state that never was"
    assert kept[-1] >= acknowledged, (kept, acknowledged)


@pytest.mark.parametrize("fails_for", [1, 10**9], ids=["once", "for good"])
@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("policy", ["always", "always, quick", "everysec"])
def test_what_was_acknowledged_survives_whichever_operation_fails(policy, failure, fails_for):
    for place in range(1, operations(policy) + 1):
        if failure == errno.EINTR and fails_for > 1:
            continue  # a signal that never ends would be repeated for ever
        disk = SimulatedDisk()
        disk.fail_at, disk.fails_for, disk.failure = place, fails_for, failure
        done: list = []
        last: dict = {}
        try:
            server = work(disk, policy, done)
            last = dump(server.engine)
            if failure in (errno.EINTR, "short") and fails_for == 1:
                assert server.dead is None
                assert all(acked for acked, _ in done), place
        except OSError:
            assert not done  # the start itself failed, and said so
        check(disk, done, last)


def test_a_failed_write_under_always_ends_all_acknowledgement():
    server = Restartable()
    assert server.send("SET", "k", "1") == b"+OK\r\n"
    server.disk.fail_at, server.disk.failure = server.disk.operations + 1, errno.ENOSPC
    assert server.send("SET", "k", "2") is None
    assert "ENOSPC" in server.dead
    assert server.send("GET", "k") is None
    assert server.restart().send("GET", "k") == b"$1\r\n1\r\n"


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_failed_sync_under_always_ends_all_acknowledgement(is_quick):
    server = Restartable(is_quick=is_quick)
    server.send("SET", "k", "1")
    server.disk.fail_at = server.disk.operations + 2  # the write, then the sync
    assert server.send("SET", "k", "2") is None
    assert "cannot sync" in server.dead
    assert server.send("PING") is None


def test_under_everysec_writes_are_refused_until_the_disk_works_again_and_reads_go_on():
    server = Restartable(appendfsync="everysec")
    other = server.connect()
    assert server.send("SET", "k", "1") == b"+OK\r\n"
    server.disk.fail_at, server.disk.fails_for, server.disk.failure = server.disk.operations + 1, 10**9, errno.ENOSPC
    refused = b"-MISCONF Errors writing to the AOF file: No space left on device\r\n"
    assert server.send("SET", "k", "2") == refused
    assert server.send("SET", "k", "3") == refused
    assert server.send("GET", "k", client=other) == b"$1\r\n2\r\n"
    assert b"aof_last_write_status:err" in server.send("INFO", "persistence")
    server.cron()
    assert server.send("DEL", "k") == refused

    server.disk.fail_at = 0
    server.clock.advance(1_000)
    server.cron()
    assert server.send("SET", "k", "4") == b"+OK\r\n"
    assert server.restart().send("GET", "k") == b"$1\r\n4\r\n"


def test_a_failed_sync_under_everysec_is_healed_by_a_rewrite():
    server = Restartable(appendfsync="everysec")
    server.send("SET", "k", "1")
    server.clock.advance(1_001)
    server.disk.fail_at = server.disk.operations + 1
    server.cron()
    assert server.disk.failed == ["sync"]
    assert INCREMENT not in server.disk.names  # rewritten
    assert server.send("SET", "k", "2") == b"+OK\r\n"
    assert server.restart().send("GET", "k") == b"$1\r\n2\r\n"


def test_a_directory_that_another_server_uses_is_refused():
    server = Restartable()
    with pytest.raises(OSError, match="in use by another server"):
        Restartable(server.disk)


def test_a_journal_whose_manifest_names_a_missing_file_is_refused():
    disk = Restartable().disk.kill()
    del disk.names[INCREMENT]
    with pytest.raises(DamagedError, match=r"names appendonly\.aof\.1\.incr\.aof, which is not there"):
        Restartable(disk)
