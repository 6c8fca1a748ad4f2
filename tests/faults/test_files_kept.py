"""Files that a user may still want: each place that takes a file's name, or its bytes, keeps what is not its own."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from streamd.backup.placing import Place, PlaceError
from streamd.base.clock import ManualClock
from streamd.configuration.server_options import Config
from streamd.durability import check
from streamd.journal.recovery import create_part
from streamd.net import unix_socket
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.integration.process import ServerProcess, run_cli
from tests.session import Session

JOURNAL = f"{DIRECTORY}/appendonlydir"


def write(directory: Path, count: int, *options: str) -> None:
    """Leave a journal with so many entries in a directory."""
    with ServerProcess(directory, "--appendonly", "yes", *options) as server:
        client = redis.Redis(port=server.port)
        for number in range(count):
            client.xadd("s", {"number": str(number)})


def turn_on(client: redis.Redis) -> None:
    client.config_set("appendonly", "yes")
    client.save()


def journals(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def bytes_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.aof"))


def test_faults2_1_4_a_journal_that_was_not_loaded_is_named_and_moved_aside_whole(tmp_path: Path):
    write(tmp_path, 50)
    size = bytes_in(tmp_path / "appendonlydir")
    server = ServerProcess(tmp_path, "--appendonly", "no")
    client = redis.Redis(port=server.port)
    assert client.dbsize() == 0
    client.set("new", 1)
    turn_on(client)
    log = server.stop()[2]
    place = re.escape(f"{tmp_path}/appendonlydir")
    line = rf"data-not-read: {place} is a journal \({size} bytes, last changed \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC\), "
    assert len(re.findall(line + "which is not read: appendonly is no", log)) == 1
    assert "journal-moved" in log

    with ServerProcess(tmp_path, "--appendonly", "yes") as now:
        assert redis.Redis(port=now.port).keys() == [b"new"]
    (old,) = [name for name in journals(tmp_path) if name != "appendonlydir"]
    assert re.fullmatch(r"appendonlydir\.old-\d{8}T\d{6}Z", old)
    assert bytes_in(tmp_path / old) == size
    assert run_cli("check", str(tmp_path / old)).returncode == 0
    with ServerProcess(tmp_path, "--appendonly", "yes", "--appenddirname", old) as before:
        assert redis.Redis(port=before.port).xlen("s") == 50


def test_faults2_1_4_what_the_process_itself_loaded_or_wrote_is_not_kept_twice(tmp_path: Path):
    write(tmp_path, 5)
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        for number in range(3):
            client.config_set("appendonly", "no")
            client.set(f"k{number}", 1)
            turn_on(client)
    assert journals(tmp_path) == ["appendonlydir"]
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        assert redis.Redis(port=server.port).dbsize() == 4


def test_faults2_1_4_files_that_came_into_the_directory_meanwhile_are_kept(tmp_path: Path):
    """Somebody puts a backup back while the journal is off."""
    write(tmp_path / "other", 7)
    with ServerProcess(tmp_path / "data", "--appendonly", "yes") as server:
        client = redis.Redis(port=server.port)
        client.set("k", 1)
        client.config_set("appendonly", "no")
        (tmp_path / "data" / "appendonlydir").rename(tmp_path / "away")
        (tmp_path / "other" / "appendonlydir").rename(tmp_path / "data" / "appendonlydir")
        turn_on(client)
    (old,) = [name for name in journals(tmp_path / "data") if name != "appendonlydir"]
    with ServerProcess(tmp_path / "data", "--appendonly", "yes", "--appenddirname", old) as server:
        assert redis.Redis(port=server.port).xlen("s") == 7


@pytest.mark.parametrize(
    "options", [("--appenddirname", "elsewhere"), ("--appendfilename", "other.aof"), ("--appendonly", "no")]
)
def test_faults2_1_4_a_start_that_does_not_load_a_journal_says_so(tmp_path: Path, options: tuple[str, str]):
    write(tmp_path, 3)
    server = ServerProcess(tmp_path, *options)
    redis.Redis(port=server.port).set("k", 1)
    log = server.stop()[2]
    (line,) = [line for line in log.splitlines() if "data-not-read" in line]
    assert f"{tmp_path}/appendonlydir is a journal (" in line
    words = re.search(r"; (--.*) serves what is in it", line)
    assert words is not None
    with ServerProcess(tmp_path, *words[1].split()) as server:
        assert redis.Redis(port=server.port).xlen("s") == 3


def test_faults2_1_4_a_journal_of_redis_6_is_named(tmp_path: Path):
    (tmp_path / "appendonly.aof").write_bytes(b"*1\r\n$8\r\nFLUSHALL\r\n")
    server = ServerProcess(tmp_path, "--appendonly", "yes")
    log = server.stop()[2]
    assert f"{tmp_path}/appendonly.aof is a journal of Redis 6 (18 bytes, last changed " in log
    assert (tmp_path / "appendonly.aof").stat().st_size == 18


def foreign() -> tuple[Restartable, dict]:
    """Return a server that has not read the journal on its disk, and what that journal says."""
    before = Restartable()
    before.send("XADD", "s", "5-1", "f", "v")
    before.rewrite()
    before.send("SET", "k", "1")
    server = Restartable()
    server.turn_off()
    server.disk.names = before.disk.kill().names
    server.disk.durable_names = dict(server.disk.names)
    server.send("SET", "new", "1")
    return server, dump(before.engine)


def as_journal(disk: SimulatedDisk, directory: str) -> SimulatedDisk:
    """Return a disk on which another directory is the journal's."""
    found = disk.kill()
    for path in [path for path in found.names if path.startswith(f"{JOURNAL}/")]:
        del found.names[path]
    for path in [path for path in found.names if path.startswith(f"{directory}/")]:
        found.names[path.replace(directory, JOURNAL)] = found.names.pop(path)
    return found


@pytest.mark.parametrize("kill", [SimulatedDisk.kill, lambda disk: disk.cut_power(7)], ids=["killed", "power loss"])
def test_faults2_1_4_whenever_the_process_dies_the_old_journal_is_somewhere(kill: Callable):
    """A crash before, while and after the files are moved: in place, in the old directory, or with `.unnamed`."""
    place = 0
    while True:
        place += 1
        server, state = foreign()
        parts = {bytes(inode.data) for path, inode in server.disk.names.items() if path.endswith(".aof")}
        server.disk.fail_at, server.disk.fails_for = server.disk.operations + place, 10**9
        try:
            server.turn_on()
            server.cron()
        except OSError:
            pass
        disk = kill(server.disk)
        there = {bytes(inode.data) for path, inode in disk.names.items() if not path.endswith(".manifest")}
        assert parts <= there, place
        if not server.disk.failed:
            break
    assert place > 20
    (old,) = {path.rpartition("/")[0] for path in disk.names if ".old-" in path}
    assert dump(Restartable(as_journal(disk, old)).engine) == state
    assert set(dump(server.restart().engine)) == {(0, b"new")}


def test_faults2_1_4_what_is_moved_aside_never_takes_the_place_of_what_was():
    disk = SimulatedDisk()
    first = Restartable(disk)
    first.send("SET", "k", "1")
    first.rewrite()
    disk = first.disk.kill()
    for text in (b"one", b"two"):
        file, _ = create_part(disk, JOURNAL, "appendonly.aof.9.incr.aof")
        file.write_at(53, text)
        Restartable(disk.kill())
        disk = Restartable(disk).disk.kill()
    aside = {path: bytes(inode.data)[53:] for path, inode in disk.names.items() if ".unnamed" in path}
    assert sorted(aside.values()) == [b"one", b"two"]


def test_faults2_1_4_an_export_takes_no_files_place():
    server = Restartable()
    server.send("SET", "k", "1")
    disk = server.disk.kill()
    disk.open("out/appendonlydir/appendonly.aof.1.incr.aof", create=True).write_at(0, b"of a user")
    with pytest.raises(FileExistsError, match="there are files already"):
        check.export(disk, JOURNAL, "out")
    assert bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data) == b"of a user"


def test_faults2_1_4_a_backup_leaves_alone_what_another_of_its_number_makes(tmp_path: Path):
    """In containers all have the number 1."""
    other = tmp_path / f".appendonlydir.partial-{os.getpid()}"
    other.mkdir()
    (other / "appendonly.aof.1.base.aof").write_text("of another backup")
    with pytest.raises(PlaceError, match="File exists"), Place(str(tmp_path)):
        pass
    assert (other / "appendonly.aof.1.base.aof").read_text() == "of another backup"


def test_faults2_1_4_a_restore_leaves_alone_what_is_there(tmp_path: Path):
    write(tmp_path / "copy", 3)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "streamd.lock").write_text("")
    (tmp_path / "data" / "appendonlydir").mkdir()
    (tmp_path / "data" / "appendonlydir" / "a").write_text("of a user")
    assert run_cli("restore", str(tmp_path / "copy"), str(tmp_path / "data")).returncode == 4
    assert (tmp_path / "data" / "appendonlydir" / "a").read_text() == "of a user"
    (tmp_path / "data" / "appendonlydir" / "a").unlink()
    (tmp_path / "data" / "appendonlydir").rmdir()
    (tmp_path / "copy" / "appendonlydir" / "appendonly.aof.manifest").write_text("file\n")
    assert run_cli("restore", str(tmp_path / "copy"), str(tmp_path / "data")).returncode == 4
    assert (tmp_path / "data" / "streamd.lock").exists()


@pytest.fixture
def users(clock: ManualClock, tmp_path: Path) -> Session:
    """A session whose users are in the file `users.acl`."""
    (tmp_path / "users.acl").write_text("user default on nopass ~* &* +@all\n\n")
    return Session(clock, Config(aclfile=str(tmp_path / "users.acl")))


def test_faults2_1_4_acl_save_keeps_a_file_that_somebody_edited_since_it_was_read(users: Session, tmp_path: Path):
    path = tmp_path / "users.acl"
    for number, name in enumerate(("", "-2"), 1):
        edited = f"user default on nopass ~* &* +@all\nuser eve{number} on nopass +get ~*\n"
        path.write_text(edited)
        path.chmod(0o640)
        users.do("ACL SETUSER bob on nopass")
        assert users.do("ACL SAVE") == "OK"
        kept = tmp_path / f"users.acl.old-20010909T014640Z{name}"
        assert kept.read_text() == edited
        assert kept.stat().st_mode & 0o777 == path.stat().st_mode & 0o777 == 0o640
        assert b"bob" in path.read_bytes()
        assert b"eve" not in path.read_bytes()


def test_faults2_1_4_acl_save_keeps_no_file_that_the_process_has_read_or_written(users: Session, tmp_path: Path):
    path = tmp_path / "users.acl"
    for name in ("bob", "eve"):
        users.do(f"ACL SETUSER {name} on nopass")
        assert users.do("ACL SAVE") == "OK"
    path.write_text("user default on nopass ~* &* +@all\nuser ann on nopass +get ~*\n")
    assert users.do("ACL LOAD") == "OK"
    assert users.do("ACL SAVE") == "OK"
    assert b"ann" in path.read_bytes()
    assert [one.name for one in tmp_path.iterdir()] == ["users.acl"]


def test_faults2_1_4_acl_save_writes_behind_a_link_and_not_in_its_place(clock: ManualClock, tmp_path: Path):
    real, link = tmp_path / "real.acl", tmp_path / "users.acl"
    real.write_text("user default on nopass ~* &* +@all\n")
    link.symlink_to(real)
    session = Session(clock, Config(aclfile=str(link)))
    session.do("ACL SETUSER bob on nopass")
    assert session.do("ACL SAVE") == "OK"
    assert link.is_symlink()
    assert b"bob" in real.read_bytes()


def test_faults2_1_4_a_unix_socket_takes_no_files_place(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        unix_socket.bind(str(path), 0o700)
    assert path.read_text() == "mine"
