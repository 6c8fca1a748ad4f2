"""A rewrite that meets an exception, at whichever step: no key is lost, and whoever has to know is told."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import streamd
from streamd.backup.copying import back_up
from streamd.data.element_list import ElementList
from streamd.data.types import TYPES
from streamd.testing import EmbeddedServer
from tests.accesses import PREPARED
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.session import decode
from tests.unit.engine.test_survey import metrics

LONG = b"0123456789" * 3_000
CHANGES = ("APPEND a y", "SETRANGE a 7 y", "SETBIT a 9 1", "BITFIELD a SET u8 16 77")
MINUTE_MS = 60_000


def info(server: Restartable) -> dict[bytes, bytes]:
    """Return the fields of INFO's section about the journal."""
    text = decode(server.send("INFO", "persistence"))[0]
    return dict(line.split(b":", 1) for line in text.splitlines() if b":" in line)


def spoiled(length: int, at: int) -> ElementList:
    """Return a list that cannot be written: one element is no string."""
    elements: list[Any] = [b"x"] * length
    elements[at] = 5
    return ElementList(elements)


# -- strings that were changed in their place -------------------------------------------------------------------------


@pytest.mark.parametrize("change", CHANGES)
def test_faults2_1_1_a_long_string_that_was_changed_in_place_survives_a_rewrite(change):
    server = Restartable(appendfsync="everysec")
    server.send("SET", "a", LONG)
    server.send(*change.split())
    server.rewrite()

    found = server.restart()

    assert info(server)[b"aof_last_bgrewrite_status"] == b"ok"
    assert found.send("STRLEN", "a") == server.send("STRLEN", "a") != b":0\r\n"
    assert found.send("GET", "a") == server.send("GET", "a")


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("request_", ["RENAME a b", "RENAME other a", "COPY a b", "MOVE a 1", "RENAMENX a b"])
def test_faults2_1_1_it_is_renamed_and_copied_while_a_rewrite_runs(request_, change):
    server = Restartable(appendfsync="everysec", at_once=False)
    server.send("SET", "other", "1")
    server.send("SET", "a", LONG)
    server.send(*change.split())
    server.send("BGREWRITEAOF")
    server.persistence.journal.rewrite.step(lambda: False)  # all are listed, and cut
    server.send(*change.split())
    assert server.send(*request_.split()) in (b"+OK\r\n", b":1\r\n")
    server.at_once = True
    server.cron()

    assert info(server)[b"aof_last_bgrewrite_status"] == b"ok"
    assert server.engine.state.stats.internal_errors == 0
    assert dump(server.restart().engine) == dump(server.engine)


MADE = {
    "bytes": ["SET k 1"],
    "GrowingString": [f"SET k {LONG.decode()}", "APPEND k y"],
    "Hash": ["HSET k f v"],
    "TimedHash": ["HSET k f v g v", "HPEXPIRE k 100000 FIELDS 1 f"],
    "ElementList": ["RPUSH k a b"],
    "MemberSet": ["SADD k a b"],
    "SortedSet": ["ZADD k 1 a 2 b"],
    "Stream": ["XADD k 1-1 f v", "XGROUP CREATE k g 0"],
}
ASKED = ("MEMORY USAGE k", "OBJECT ENCODING k", "TYPE k", "COPY k l", "RENAME l m", "SORT_RO k BY nosort", "DEL k")


def test_faults2_1_1_every_class_of_a_value_is_among_those_that_are_tried():
    assert {one.__name__ for one in TYPES} == MADE.keys()


@pytest.mark.parametrize("name", MADE)
def test_faults2_1_1_a_value_in_any_of_its_forms_is_taken_by_all_that_is_asked_of_its_type(name):
    for asked in ASKED:
        server = Restartable(appendfsync="everysec")
        for line in MADE[name]:
            server.send(*line.split())
        assert type(server.engine.state.keyspace[0].values[b"k"]).__name__ == name
        server.rewrite()
        server.send(*asked.split())
        assert server.engine.state.stats.internal_errors == 0, asked
        assert dump(server.restart().engine) == dump(server.engine)


# -- whatever else goes wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "at"), [(1, 0), (1_000, 999), (2_000, 0), (2_000, 1_999), (20_000, 11_111)])
@pytest.mark.parametrize("others_bytes", [1, 30_000])
def test_faults2_1_1_a_key_that_cannot_be_written_ends_the_rewrite_and_the_old_files_stay(length, at, others_bytes):
    server = Restartable(appendfsync="everysec")
    for number in range(300):
        server.send("SET", f"k{number}", b"v" * others_bytes)
    before = dump(server.engine)
    files = sorted(server.disk.names)
    server.engine.state.keyspace[0].put(b"spoiled", spoiled(length, at))
    server.rewrite()

    assert sorted(server.disk.names) == files
    found = info(server)
    assert found[b"aof_last_bgrewrite_status"] == b"err"
    assert found[b"aof_last_bgrewrite_error"].startswith(b"key b'spoiled' of database 0: TypeError: ")
    assert found[b"aof_rewrite_scheduled"] == b"1"
    assert dump(server.restart().engine) == before

    # What was wrong has gone: the next try succeeds.
    server.send("DEL", "spoiled")
    server.clock.advance(MINUTE_MS - 1)
    server.cron()
    assert info(server)[b"aof_rewrites"] == b"0"
    server.clock.advance(1)
    server.cron()
    found = info(server)
    assert (found[b"aof_rewrites"], found[b"aof_last_bgrewrite_status"]) == (b"1", b"ok")
    assert found[b"aof_last_bgrewrite_error"] == b""
    assert dump(server.restart().engine) == before


def test_faults2_1_1_it_is_tried_again_after_1_2_4_up_to_60_minutes_and_at_once_if_somebody_asks():
    server = Restartable(appendfsync="everysec")
    server.engine.state.keyspace[0].put(b"spoiled", spoiled(1, 0))
    server.rewrite()
    waited = []
    for _ in range(8):
        failures, minutes = server.persistence.rewriting.failures, 0
        while server.persistence.rewriting.failures == failures:
            server.clock.advance(MINUTE_MS)
            server.cron()
            minutes += 1
        waited.append(minutes)
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60]

    failures = server.persistence.rewriting.failures
    assert server.rewrite().startswith(b"+Background")
    assert server.persistence.rewriting.failures == failures + 1

    server.engine.state.keyspace[0].remove(b"spoiled")
    server.rewrite()
    server.engine.state.keyspace[0].put(b"spoiled", spoiled(1, 0))
    server.rewrite()
    failures = server.persistence.rewriting.failures
    server.clock.advance(MINUTE_MS)
    server.cron()
    assert server.persistence.rewriting.failures == failures + 1  # after a success it begins with a minute again


@pytest.mark.parametrize("request_", ["RENAME spoiled other", "RENAME spoiled k299", "COPY spoiled k1 REPLACE"])
def test_faults2_1_1_a_client_that_renames_such_a_key_meanwhile_has_its_reply(request_):
    server = Restartable(appendfsync="everysec", at_once=False)
    server.send("RPUSH", "spoiled", *["x"] * 2_000)
    server.engine.state.keyspace[0].values[b"spoiled"]._blocks[0][5] = 5
    for number in range(300):
        server.send("SET", f"k{number}", "v")
    server.send("BGREWRITEAOF")
    server.persistence.journal.rewrite.step(lambda: True)  # all are listed
    for _ in range(50):
        server.persistence.journal.rewrite.step(lambda: True)
        server.send("SET", "new", "1")
    assert server.send(*request_.split()) in (b"+OK\r\n", b":1\r\n")
    assert server.send("PING") == b"+PONG\r\n"
    server.at_once = True
    server.cron()

    assert info(server)[b"aof_last_bgrewrite_status"] == b"err"
    assert server.restart().send("GET", "k0") == b"$1\r\nv\r\n"


def test_faults2_1_1_save_and_a_backup_are_told_of_which_key_and_why(caplog):
    server = Restartable(appendfsync="everysec")
    server.send("SET", "k", "1")
    server.engine.state.keyspace[0].put(b"spoiled", spoiled(1, 0))

    why = b"-ERR the journal could not be rewritten: key b'spoiled' of database 0: TypeError: "
    assert server.send("SAVE").startswith(why)
    assert server.send("JOURNAL", "BEGIN", "0") is None
    server.cron()
    server.end_turn()
    assert server.replies[server.client][-1].startswith(why)
    lines = [one.getMessage() for one in caplog.records if getattr(one, "event", "") == "journal-rewrite-failed"]
    assert len(lines) == 2
    assert all("key b'spoiled' of database 0: TypeError: " in line for line in lines)
    assert any(one.exc_info for one in caplog.records if getattr(one, "event", "") == "bug")
    ((labels, value),) = metrics(server)["streamd_rewrite_failed"].items()
    assert dict(labels)["error"].startswith("key b'spoiled' of database 0: TypeError: ")
    assert value == 1


def test_faults2_1_1_the_exit_status_of_a_backup_says_which_key_and_why(tmp_path: Path):
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "data")) as server:
        client = server.client()
        client.set("k", "1")
        server._server.engine.state.keyspace[0].put(b"spoiled", spoiled(1, 0))
        done = subprocess.run(
            [sys.executable, "-m", "streamd", "backup", "--url", server.url, str(tmp_path / "copy")],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "key b'spoiled' of database 0: TypeError: " in done.stderr
        assert not (tmp_path / "copy").exists()
        assert client.info("persistence")["aof_last_bgrewrite_status"] == "err"

        client.delete("spoiled")
        done = subprocess.run(
            [sys.executable, "-m", "streamd", "backup", "--url", server.url, str(tmp_path / "copy")],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


class FailingJournal:
    """A server's journal, of which one call fails."""

    def __init__(self, fails_at: int) -> None:
        self.calls, self.fails_at = 0, fails_at

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("a bug")

    def begin(self, on_wait: Callable[[], None]) -> list[tuple[str, int]]:
        self._count()
        on_wait()
        return [("appendonly.aof.1.incr.aof", 4)]

    def mark(self) -> list[int]:
        self._count()
        return [4]

    def read(self, number: int, offset: int, count: int) -> bytes:
        self._count()
        return b"*1\r\n"[offset : offset + 2]

    def end(self) -> None:
        self._count()


@pytest.mark.parametrize("fails_at", range(1, 6))
def test_faults2_1_1_a_backup_that_meets_an_exception_leaves_nothing(tmp_path: Path, fails_at):
    journal = FailingJournal(fails_at)
    with pytest.raises(RuntimeError, match="a bug"):
        back_up(journal, str(tmp_path / "copy"), lambda done, total: None)
    assert journal.calls == fails_at
    assert not (tmp_path / "copy").exists()


# -- an exception at every step ---------------------------------------------------------------------------------------

MEANWHILE = """
SET k1 x ; RENAME k2 k200 ; DEL k3 ; COPY stream copied ; APPEND long z ; XADD stream 9-9 f v ; MOVE k4 1 ; SWAPDB 0 1
MSET k5 1 k6 2 ; RENAME stream renamed ; HSET hash h 3 ; PEXPIRE k7 100000 ; RENAME renamed k1 ; SWAPDB 0 1 ; DEL k8 k9
""".replace("\n", ";")


def filled() -> SimulatedDisk:
    """Return the disk of a server with a key of each type, and some more."""
    server = Restartable(appendfsync="everysec")
    for line in PREPARED:
        server.send(*line.split())
    for number in range(12):
        server.send("SET", f"k{number}", "v" * 400)
    server.send("RPUSH", "elements", *["e"] * 1_500)
    server.send("SET", "long", LONG)
    server.send("APPEND", "long", "y")
    return server.disk.kill()


def rewrite_meanwhile(disk: SimulatedDisk, around: Callable[[Callable[[], Any]], Any]) -> Restartable:
    """Start, and rewrite while clients write; `around` calls what does the rewrite."""
    server = Restartable(disk, appendfsync="everysec", at_once=False)
    lines = iter(filter(None, map(str.strip, MEANWHILE.split(";"))))
    server.send("BGREWRITEAOF")
    for _ in range(200):
        around(server.engine.cron)
        around(lambda: [job.wait() for job in server.jobs[:1]])
        line = next(lines, None)
        if line is not None:
            assert around(lambda line=line: server.send(*line.split())) is not None, line
        elif not server.persistence.is_rewriting and not server.jobs:
            break
    server.at_once = True
    return server


def check_nothing_lost(server: Restartable) -> None:
    """Fail unless the server lives, a start finds what is there, and so it is behind the next try."""
    server.end_turn()
    assert server.send("PING", client=server.connect()) == b"+PONG\r\n"
    assert server.dead is None
    assert dump(server.restart().engine) == dump(server.engine)
    count = server.persistence.rewriting.count
    server.clock.advance(MINUTE_MS)
    server.cron()
    assert count + server.persistence.rewriting.count > 0
    assert info(server)[b"aof_last_bgrewrite_status"] == b"ok"
    assert dump(server.restart().engine) == dump(server.engine)


def test_faults2_1_1_a_bug_at_every_operation_on_a_file_during_a_rewrite_loses_nothing():
    disk = filled()
    counting = rewrite_meanwhile(disk.kill(), lambda work: work())
    begun = Restartable(disk.kill(), appendfsync="everysec").disk.operations
    assert counting.disk.operations > begun + 15
    for at in range(begun + 1, counting.disk.operations + 1):
        failing = disk.kill()
        failing.fail_at, failing.failure = failing.operations + at, "bug"
        check_nothing_lost(rewrite_meanwhile(failing, lambda work: work()))


class Planted(Exception):
    """What is planted."""


WATCHED = tuple(
    f"{Path(streamd.__file__).parent}/{place}"
    for place in ("journal/rewrite.py", "journal/base_writer.py", "journal/dump.py", "durability/rewriting.py")
)


class Plant:
    """An exception at the n-th call that a rewrite makes; with 0 they are only counted."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.calls, self.place = at, 0, ""

    def around(self, work: Callable[[], Any]) -> Any:
        """Call `work` with its calls watched."""
        sys.settrace(self._called)
        try:
            return work()
        finally:
            sys.settrace(None)

    def _called(self, frame: FrameType, event: str, arg: object) -> None:
        caller = frame.f_back
        if caller is None or caller.f_code.co_filename not in WATCHED or "<" in frame.f_code.co_name:
            return
        self.calls += 1
        if self.calls == self.at:
            self.place = f"{frame.f_code.co_qualname} from {caller.f_code.co_qualname}"
            raise Planted(self.place)


def steps() -> Iterator[int]:
    """Yield the numbers of the calls of a rewrite: all of the first and the last ones, every seventh of the others."""
    counting = Plant()
    rewrite_meanwhile(filled(), counting.around)
    assert counting.calls > 300
    yield from (at for at in range(1, counting.calls + 1) if at < 150 or at > counting.calls - 150 or at % 7 == 0)


@pytest.mark.interpreted(reason="it fails at calls, which only Python's frames show")
def test_faults2_1_1_an_exception_at_every_call_of_a_rewrite_loses_nothing():
    disk = filled()
    for at in steps():
        plant = Plant(at)
        server = rewrite_meanwhile(disk.kill(), plant.around)
        try:
            check_nothing_lost(server)
        except AssertionError as error:
            raise AssertionError(f"step {at}: {plant.place}: {error}")
