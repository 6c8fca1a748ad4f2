"""A rewrite has the mover write what can be in segment files, and begins when that has ended."""

from collections.abc import Callable

from tests.cold.cold_restartable import ColdRestartable
from tests.cold.cold_server import make_cold


class SlowMover:
    """A mover that is at work until the test says so. asked: how often it was asked for all."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.asked = 0

    def tick(self, stop: Callable[[], bool]) -> bool:
        return False

    def move_all(self, then: Callable[[], None]) -> None:
        self.asked += 1
        self.waiting.append(then)


def waiting() -> tuple[ColdRestartable, SlowMover]:
    """Return a server that was asked for a rewrite, and its mover, which is at work."""
    server, mover = ColdRestartable(), SlowMover()
    server.fill()
    server.engine.state.mover = mover
    assert server.send("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    for _ in range(3):
        server.cron()
    assert (server.persistence.rewriting.count, mover.asked) == (0, 1)
    assert server.persistence.fields()["aof_rewrite_scheduled"] == 1
    return server, mover


def test_the_rewrite_begins_when_the_mover_has_ended():
    server, mover = waiting()
    make_cold(server.engine, b"s")
    mover.waiting.pop()()
    server.cron()
    assert server.persistence.rewriting.count == 1
    assert server.base().count(b"XADD") == 20
    server.cron()
    assert (server.persistence.rewriting.count, mover.asked) == (1, 1)


def test_the_rewrite_does_not_wait_for_a_mover_that_is_gone():
    server, _ = waiting()
    server.engine.state.mover = None
    server.cron()
    assert server.persistence.rewriting.count == 1


def test_the_next_mover_is_asked_instead():
    server, _ = waiting()
    other = server.engine.state.mover = SlowMover()
    server.cron()
    assert (server.persistence.rewriting.count, other.asked) == (0, 1)
    other.waiting.pop()()
    server.cron()
    assert server.persistence.rewriting.count == 1


def test_save_waits_for_no_mover():
    server, mover = waiting()
    assert server.send("SAVE") == b"+OK\r\n"
    assert (server.persistence.rewriting.count, mover.asked) == (1, 1)


def test_a_rewrite_after_a_failed_sync_waits_for_no_mover():
    server = ColdRestartable(appendfsync="everysec")
    server.engine.state.mover = mover = SlowMover()
    server.send("XADD", "s", "*", "f", "v")
    server.persistence.barrier.sync_failed = OSError(5, "EIO")
    server.cron()
    assert mover.asked == 0
    assert server.persistence.rewriting.count == 1
