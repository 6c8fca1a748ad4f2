"""A server whose thread reads blocks: real sockets, files and waits."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamd.base.filesystem import File, FileSystem
from streamd.cold.store import ColdStore
from streamd.testing import EmbeddedServer
from tests.cold.cold_server import evict, make_cold
from tests.cold.cold_world import segment_files

redis = pytest.importorskip("redis")
ENTRIES = 10_000
WAIT_S = 30


class SlowFile(File):
    """A file that is never in the system's cache, and is read when the test allows it."""

    gate = threading.Event()

    def read_cached(self, offset: int, length: int) -> bytes | None:
        return None

    def read_at(self, offset: int, length: int) -> bytes:
        assert threading.current_thread().name == "streamd-reading"
        assert SlowFile.gate.wait(WAIT_S)
        return super().read_at(offset, length)


class SlowDisk(FileSystem):
    def wrap(self, descriptor: int, path: str) -> File:
        return SlowFile(descriptor, path)


def on_loop(server: EmbeddedServer, work: Callable[[], Any]) -> Any:
    """Do something on the server's thread, and return what it returns."""
    done, found = threading.Event(), []

    def do() -> None:
        found.append(work())
        done.set()

    server._loop.call_soon_threadsafe(do)
    assert done.wait(WAIT_S)
    return found[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    SlowFile.gate.clear()
    with EmbeddedServer() as server:
        engine = server._server.engine

        def begin() -> None:
            engine.state.cold = ColdStore(segment_files(SlowDisk(), str(tmp_path)), 16 << 20)

        def cool() -> None:
            make_cold(engine, b"s")
            evict(engine)

        on_loop(server, begin)
        pipe = server.client().pipeline(transaction=False)
        for number in range(1, ENTRIES + 1):
            pipe.xadd("s", {"f": b"%d" % number * 20}, id=f"{number}-0")
        pipe.execute()
        on_loop(server, cool)
        yield server
        SlowFile.gate.set()
        assert server.internal_errors == 0


def waiting(server: EmbeddedServer) -> int:
    return on_loop(server, lambda: server._server.engine.state.blocked.reading)


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_others_are_served_while_a_client_waits_for_the_disk(server):
    reader, other = server.client(), server.client()
    thread, found = in_thread(lambda: reader.xrange("s", "5-0", "6-0"))
    while not waiting(server):
        pass
    assert other.xlen("s") == ENTRIES
    assert found == []
    SlowFile.gate.set()
    thread.join(WAIT_S)
    assert [entry for entry, _ in found[0]] == [b"5-0", b"6-0"]


def test_all_entries_are_read_in_slices(server):
    SlowFile.gate.set()
    entries = server.client().xrange("s")
    assert [entry for entry, _ in entries] == [b"%d-0" % number for number in range(1, ENTRIES + 1)]


def test_a_stop_answers_who_waits(server):
    reader = redis.Redis(port=server.port)
    thread, found = in_thread(lambda: reader.xrange("s", "5-0", "6-0"))
    while not waiting(server):
        pass
    server._loop.call_soon_threadsafe(server._server.request_stop)
    SlowFile.gate.set()
    thread.join(WAIT_S)
    server._thread.join(WAIT_S)
    reader.close()
    assert [entry for entry, _ in found[0]] == [b"5-0", b"6-0"]
    assert all(thread.name != "streamd-reading" for thread in threading.enumerate())
