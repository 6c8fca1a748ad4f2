"""The mover inside a server: with its journal, its options, its start and its end."""

import random
import threading

import pytest

from streamd.base.clock import Clock
from streamd.net.moving import Moving
from streamd.stream.log.entry_log import Log
from streamd.stream.stream import Stream
from streamd.testing import EmbeddedServer
from tests.cold.cold_restartable import MIB, ColdRestartable
from tests.cold.cold_server import list_of

LIMIT = 32 * 1024


class MovingRestartable(ColdRestartable):
    """A server whose mover moves what it has after a second."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.moving = Moving(self.engine.state, lambda: self, self.persistence.rewriting.plan)
        if self.store is not None:
            self.store.set_limit(LIMIT)

    def fill(self, key=b"s", entries=400, since=1):
        chance = random.Random(since)
        for number in range(since, since + entries):
            self.run([b"XADD", key, b"%d-1" % number, b"f", chance.randbytes(100)])
        self.end_turn()

    def close(self):
        """End what stands for the mover's thread."""

    def cron(self):
        while self.cron_once() or (self.at_once and self.jobs):
            while self.at_once and self.jobs:
                self.jobs[0].wait()

    def cron_once(self):
        self.moving.look()
        return self.engine.cron()

    def settle(self):
        for _ in range(10):
            self.clock.advance(1_000)
            self.cron()

    def restart(self, disk=None, **options):
        return MovingRestartable(disk or self.disk.kill(), self.clock, **{**self.options, **options})

    def cold(self, key=b"s"):
        return list_of(self.engine, key).rows.live


def test_entries_are_moved_and_a_start_finds_them():
    server = MovingRestartable()
    server.fill()
    server.settle()
    assert server.cold() > 200
    seen = server.seen()
    assert server.restart().seen() == seen
    server.rewrite()
    server.settle()
    again = server.restart()
    assert again.seen() == seen
    assert again.cold() > 200
    again.fill(since=1_000)
    again.settle()
    assert again.cold() > 500
    seen = again.seen()
    again.rewrite()
    assert again.restart(again.disk.cut_power(1)).seen() == seen


def test_a_rewrite_moves_first_what_can_be_moved():
    server = MovingRestartable()
    server.store.set_limit(16 * MIB)
    for number in range(300):
        server.run([b"XADD", b"s", b"%d-1" % (number + 1), b"f", random.Random(number).randbytes(1_500)])
    server.end_turn()
    server.cron()
    assert server.segments() == []
    server.rewrite()
    server.settle()
    assert len(server.segments()) == 1
    assert len(server.base()) < 50_000
    assert server.restart().seen() == server.seen()


def test_a_rewrite_goes_on_where_moving_fails():
    server = MovingRestartable()
    server.store.set_limit(16 * MIB)
    for number in range(300):
        server.run([b"XADD", b"s", b"%d-1" % (number + 1), b"f", random.Random(number).randbytes(1_500)])
    server.end_turn()
    server.cron()
    failing = server.disk.step

    def step(name, length=0):
        if name == "create":
            raise OSError(28, "No space left on device")
        return failing(name, length)

    server.disk.step = step
    before = server.persistence.rewriting.count
    server.rewrite()
    server.settle()
    assert server.persistence.rewriting.count == before + 1
    assert "No space" in server.store.move_failed
    assert len(server.base()) > 300_000


def test_merged_files_go_with_the_base_that_names_them():
    server = MovingRestartable()
    server.fill(b"s", 200)
    server.fill(b"t", 300, 500)
    server.settle()
    server.rewrite()
    [old] = server.segments()
    server.store.set_limit(16 * MIB)
    server.send("DEL", "t")
    server.settle()
    assert old in server.segments()
    assert len(server.segments()) == 2
    seen = server.seen()
    for seed in range(5):
        assert server.restart(server.disk.cut_power(seed)).seen() == seen
    server.rewrite()
    server.settle()
    [new] = server.segments()
    assert new != old
    assert server.restart(server.disk.cut_power(1)).seen() == seen


def test_flushall_frees_all_files():
    server = MovingRestartable()
    server.fill()
    server.settle()
    server.rewrite()
    server.send("FLUSHALL")
    server.settle()
    server.rewrite()
    server.settle()
    assert server.segments() == []
    assert server.store.hot_bytes == 0


@pytest.mark.parametrize("change", ["rename", "copy", "move", "swapdb", "flushall", "del", "expire"])
@pytest.mark.parametrize("jobs", range(3))
def test_a_key_changes_while_it_is_moved(change, jobs):
    requests = {
        "rename": ["RENAME", "s", "t"],
        "copy": ["COPY", "s", "t"],
        "move": ["MOVE", "s", "1"],
        "swapdb": ["SWAPDB", "0", "1"],
        "flushall": ["FLUSHALL"],
        "del": ["DEL", "s"],
        "expire": ["PEXPIRE", "s", "1"],
    }
    server = MovingRestartable()
    server.fill()
    server.at_once = False
    server.clock.advance(1_000)
    server.cron_once()
    for _ in range(jobs):
        if server.jobs:
            server.jobs[0].wait()
            server.cron_once()
    server.send(*requests[change])
    server.at_once = True
    server.end_turn()
    server.fill(b"u", 10)
    server.settle()
    seen = server.seen()
    assert server.restart().seen() == seen
    server.rewrite()
    server.settle()
    again = server.restart(server.disk.cut_power(3))
    assert again.seen() == seen
    files = {one.path for one in again.store.files._whole.values()} if again.store else set()
    assert set(again.segments()) == files


def test_the_option_is_turned_on_and_off_while_the_server_runs():
    server = MovingRestartable(stream_memory=None)
    server.fill()
    seen = server.seen()
    assert server.engine.state.mover is None
    server.persistence.set_stream_memory(LIMIT)
    server.settle()
    assert server.engine.state.mover is not None
    server.settle()
    assert server.cold() > 200
    assert server.seen() == seen
    server.persistence.set_stream_memory(0)
    server.settle()
    assert server.engine.state.cold is None
    assert server.engine.state.mover is None
    server.settle()
    assert server.segments() == []
    assert server.seen() == seen
    server.persistence.set_stream_memory(LIMIT)
    server.settle()
    assert server.cold() > 200
    assert server.seen() == seen
    assert server.engine.state.stats.internal_errors == 0


@pytest.mark.interpreted(reason="it replaces a method of a compiled class")
def test_a_stream_that_is_renamed_while_the_option_is_turned_on_is_moved_too(monkeypatch):
    server = MovingRestartable(stream_memory=None)
    server.fill()
    server.fill(key=b"t", since=2)
    names = {b"s": b"s2", b"t": b"t2"}
    put_on = Log.put_on

    def renaming(log, shelf):
        for old, new in [*names.items()]:  # the one that is not yet on the shelf gets a key that no list has
            if log is not server.engine.state.keyspace[0].values[old].log:
                server.run([b"RENAME", old, new])
                names.clear()
                break
        return put_on(log, shelf)

    monkeypatch.setattr(Log, "put_on", renaming)
    server.persistence.set_stream_memory(LIMIT)
    server.settle()
    streams = [value for value in server.engine.state.keyspace[0].values.values() if isinstance(value, Stream)]
    assert [stream.log.may_wait for stream in streams] == [True, True]


def test_compression_is_an_option():
    pytest.importorskip("zstandard")
    sizes = []
    for compression in ("none", "zstd"):
        server = MovingRestartable(stream_segment_compression=compression)
        for number in range(400):
            server.run([b"XADD", b"s", b"%d-1" % (number + 1), b"name", b"abcdefgh" * 10 + b"%d" % (number * 7)])
        server.end_turn()
        server.store.set_limit(8 * 1024)
        server.settle()
        seen = server.seen()
        assert server.cold() > 100
        assert server.restart().seen() == seen
        sizes.append(sum(len(server.disk.names[path].data) for path in server.segments()) / server.cold())
    assert sizes[1] < 0.8 * sizes[0]


def test_the_end_of_the_journal_ends_the_mover():
    server = MovingRestartable()
    server.fill()
    server.at_once = False
    server.clock.advance(1_000)
    server.cron_once()
    assert server.jobs
    server.moving.close()
    server.persistence.close()
    assert server.jobs == []
    assert server.engine.state.mover is None
    assert server.segments() == []


def serve(directory, **options):
    return EmbeddedServer(clock=Clock(), appendonly=True, dir=str(directory), stream_memory=16 * MIB, **options)


def wait_for(condition):
    """Wait for threads of the server."""
    for _ in range(3_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it does not happen")


def test_a_real_server_moves_in_a_thread_and_ends_without_one(tmp_path):
    chance = random.Random(1)
    names = {thread.name for thread in threading.enumerate()}
    values = [chance.randbytes(10_000) for _ in range(2_500)]
    with serve(tmp_path) as server:
        client = server.client()
        pipe = client.pipeline(transaction=False)
        for number, value in enumerate(values):
            pipe.xadd("s", {"f": value}, id=f"{number + 1}-1")
            if number % 100 == 99:
                pipe.execute()
        wait_for(lambda: len([*tmp_path.glob("appendonlydir/*.seg")]) >= 2)
        assert client.xlen("s") == 2_500
        found = client.xrange("s", count=2_500)
        assert [row[1][b"f"] for row in found] == values
        assert server.internal_errors == 0
    assert {thread.name for thread in threading.enumerate()} <= names
    files = {*tmp_path.glob("appendonlydir/*.seg")}
    with serve(tmp_path) as server:
        client = server.client()
        assert client.xlen("s") == 2_500
        client.bgrewriteaof()
        wait_for(lambda: client.info("persistence")["aof_rewrites"] == 1)
        wait_for(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    with serve(tmp_path) as server:
        client = server.client()
        assert [row[1][b"f"] for row in client.xrange("s", count=2_500)] == values
        assert server.internal_errors == 0
    assert files
