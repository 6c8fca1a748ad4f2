"""A manifest that says less than it did: refused, with the file that it does not name, and no file is lost for it."""

import pytest

from streamd.durability import check
from streamd.journal.journal import Journal
from streamd.journal.record import CUT_LINE, encode_command
from streamd.journal.recovery import DamagedError
from tests.crash.histories import SMALL, play
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

JOURNAL = f"{DIRECTORY}/appendonlydir"
MANIFEST = f"{JOURNAL}/appendonly.aof.manifest"
BASE, INCREMENT = f"{JOURNAL}/appendonly.aof.2.base.aof", f"{JOURNAL}/appendonly.aof.2.incr.aof"


def rewritten() -> Restartable:
    """A server with a base and an increment, and what was acknowledged in both."""
    server = Restartable()
    play(server, SMALL)
    server.rewrite()
    play(server, ["SET last acknowledged ; XADD s IDMP p1 last * f v"])
    return server


def with_manifest(disk: SimulatedDisk, text: bytes) -> SimulatedDisk:
    after = disk.kill()
    after.names[MANIFEST].data[:] = text
    return after


def contents(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in disk.names.items()}


def older(text: bytes) -> bytes:
    """Return a manifest as earlier versions, and redis-server, write it: without its checksum."""
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))


@pytest.fixture(scope="module")
def server() -> Restartable:
    return rewritten()


@pytest.mark.parametrize("write", [bytes, older], ids=["with its checksum", "without one"])
def test_a_manifest_with_any_other_byte_or_length_is_refused_or_says_the_same(server, write):
    text = write(bytes(server.disk.names[MANIFEST].data))
    files_said = len(older(text))
    spoiled = [(place, text[:place]) for place in range(len(text))]
    for place in range(len(text)):
        others = [byte for byte in range(256) if byte != text[place]]
        spoiled += [(place, text[:place] + bytes([byte]) + text[place + 1 :]) for byte in others]
    for place, other in spoiled:
        disk = with_manifest(server.disk, other)
        before = contents(disk)
        journal = Journal(disk, DIRECTORY)
        try:
            journal.open()
        except DamagedError:
            assert contents(disk) == before
            continue
        assert [part.name for part in journal.manifest.parts()] == [
            path.rpartition("/")[2] for path in (BASE, INCREMENT)
        ]
        assert place >= files_said or write is older
        journal.close()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda lines: lines[:1], INCREMENT),
        (lambda lines: [lines[0], lines[1].replace(b"type i", b"type h")], INCREMENT),
        (lambda lines: lines[1:2], BASE),
        (lambda lines: [lines[0].replace(b"type b", b"type h"), lines[1]], BASE),
        (lambda lines: [lines[0].replace(b"type b", b"type i"), lines[1]], BASE),
    ],
    ids=["cut behind the base", "increment in history", "without the base", "base in history", "base as increment"],
)
def test_what_it_does_not_name_any_more_is_named_by_the_refusal_and_by_check(server, spoil, named):
    lines = older(bytes(server.disk.names[MANIFEST].data)).splitlines(keepends=True)
    disk = with_manifest(server.disk, b"".join(spoil(lines)))
    before = contents(disk)
    for attempt in (
        lambda: Restartable(disk),
        lambda: check.examine(disk, JOURNAL),
        lambda: check.export(disk, JOURNAL, "out"),
    ):
        with pytest.raises(DamagedError) as refusal:
            attempt()
        assert str(refusal.value).startswith(f"{MANIFEST} is damaged")
        assert named.rpartition("/")[2] in str(refusal.value)
        assert contents(disk) == before
        disk.locked.clear()
    # What it says to do helps.
    mended = with_manifest(disk, b"".join(lines))
    assert dump(Restartable(mended).engine) == dump(server.engine)


def test_files_of_a_rewrite_that_a_crash_has_ended_are_moved_aside_and_said():
    server = Restartable()
    play(server, SMALL)
    server.persistence.start_rewrite()
    rewrite = server.persistence.journal.rewrite
    rewrite.step(lambda: True)
    play(server, ["SET k meanwhile"])
    disk = server.disk.kill()
    left = {path: data for path, data in contents(disk).items() if ".aof.2." in path}
    assert len(left) == 2
    again = Restartable(disk)
    assert dump(again.engine) == dump(server.engine)
    assert {f"{path}.unnamed": data for path, data in left.items()}.items() <= contents(disk).items()
    assert not any(path in disk.names for path in left)
    again.rewrite()
    assert dump(again.restart().engine) == dump(again.engine)


def test_what_a_rewrite_has_replaced_and_a_crash_kept_is_moved_aside():
    server = rewritten()
    old = f"{JOURNAL}/appendonly.aof.1.incr.aof"
    server.disk.open(old, create=True).write_at(
        0, b"#streamd journal 1\n" + CUT_LINE + encode_command([b"SET", b"k", b"old"])
    )
    again = server.restart()
    assert dump(again.engine) == dump(server.engine)
    assert old not in again.disk.names
    assert f"{old}.unnamed" in again.disk.names


@pytest.mark.parametrize(
    "lost", [b"file appendonly.aof.9.incr.aof seq 9 type i\n", b"file appendonly.aof.9.incr.aof seq 9 type h\n"]
)
def test_an_increment_of_redis_that_its_manifest_does_not_name_is_refused(lost):
    disk = SimulatedDisk()
    for number in (8, 9):
        disk.open(f"{JOURNAL}/appendonly.aof.{number}.incr.aof", create=True).write_at(
            0, encode_command([b"SET", b"k", b"v"])
        )
    disk.open(f"{JOURNAL}/appendonly.aof.5.base.aof", create=True)
    text = b"file appendonly.aof.5.base.aof seq 5 type b\nfile appendonly.aof.8.incr.aof seq 8 type i\n"
    disk.open(MANIFEST, create=True).write_at(0, text + lost)
    if lost.endswith(b"i\n"):
        assert Restartable(disk.kill()).send("DBSIZE") == b":1\r\n"
        lost = b""
    with pytest.raises(DamagedError, match=r"appendonly\.aof\.9\.incr\.aof"):
        Restartable(with_manifest(disk, text + lost))


def test_history_that_redis_has_still_to_delete_is_moved_aside():
    disk = SimulatedDisk()
    for name in ("1.base", "1.incr", "2.base", "2.incr"):
        disk.open(f"{JOURNAL}/appendonly.aof.{name}.aof", create=True).write_at(
            0, encode_command([b"SET", name.encode(), b"v"])
        )
    disk.open(MANIFEST, create=True).write_at(
        0,
        b"file appendonly.aof.2.base.aof seq 2 type b\nfile appendonly.aof.1.base.aof seq 1 type h\n"
        b"file appendonly.aof.1.incr.aof seq 1 type h\nfile appendonly.aof.2.incr.aof seq 2 type i\n",
    )
    server = Restartable(disk)
    assert server.send("DBSIZE") == b":2\r\n"
    assert f"{JOURNAL}/appendonly.aof.1.base.aof.unnamed" in disk.names
    assert f"{JOURNAL}/appendonly.aof.1.incr.aof.unnamed" in disk.names
