"""A journal whose bytes are whole, and in which a command stands that cannot be applied: what is said, what is cut."""

import re

import pytest

from streamd.durability import check, fixing
from streamd.durability.replay import Replay
from streamd.journal.loader import Loader, LoadError
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part, replace
from streamd.journal.record import encode_command, encode_end, encode_first_line, encode_note, encode_select
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.session import Session
from tests.written_journals import SALT, file_of

JOURNAL = f"{DIRECTORY}/appendonlydir"
BASE_PATH = f"{JOURNAL}/appendonly.aof.1.base.aof"
INCREMENT_PATH = f"{JOURNAL}/appendonly.aof.1.incr.aof"


def resp(line: str) -> bytes:
    return encode_command(line.encode().split())


GOOD, AFTER, MULTI, EXEC = map(resp, ("XADD s 5-1 f v", "SET k after", "MULTI", "EXEC"))

# The command, and what is said of it.
REFUSED = [
    ("GEOADD k 1 2 x", "`GEOADD k 1`: this version has no such command"),
    ("XADD s 4-1 f v", "`XADD s 4-1`: its ID is not greater than the last one"),
    ("XADD s IDMP p i 4-1 f v", "`XADD s IDMP`: its ID is not greater than the last one"),
    ("XIDMPRECORD none p i 4-1", "`XIDMPRECORD none p`: there is no stream at its key"),
    ("HSET s f v", "`HSET s f`: WRONGTYPE Operation against a key holding the wrong kind of value"),
    ("XADD", "`XADD`: it has a wrong number of words"),
    ("XADD s", "`XADD s`: it has a wrong number of words"),
    ("GET k", "`GET k`: it writes nothing, so it was never recorded"),
    ("SELECT x", "`SELECT x`: its words make no sense"),
]


def run(*units: bytes) -> bytes:
    return file_of(units)


def mix(*units: bytes) -> bytes:
    return file_of([encode_note(0, (b"DEFAULTS", b"50", b"7")), *units], notes=True)


def runs(*units: bytes) -> bytes:
    return file_of(*([unit] for unit in units))


def foreign(*units: bytes) -> bytes:
    return encode_select(0) + b"# a line of redis-server's\n" + b"".join(units)


WRITERS = [run, mix, runs, foreign]


def disk_of(increment: bytes, base: bytes | None = None) -> SimulatedDisk:
    disk = SimulatedDisk()
    part, base_part = Part("appendonly.aof.1.incr.aof", 1, INCREMENT), Part("appendonly.aof.1.base.aof", 1, BASE)
    replace(disk, JOURNAL, "appendonly.aof.manifest", Manifest(base_part if base is not None else None, [part]))
    for path, data in ((INCREMENT_PATH, increment), (BASE_PATH, base)):
        if data is not None:
            disk.open(path, create=True).write_at(0, data)
    return disk


def refusal(disk: SimulatedDisk, **options) -> str:
    with pytest.raises(LoadError) as error:
        Restartable(disk.kill(), **options)
    return str(error.value)


def trial() -> Loader:
    state = Session().state
    replay = Replay(state)
    replay.borrow()
    return Loader(state.keyspace, replay)


def fix(disk: SimulatedDisk) -> check.Report:
    return fixing.fix(fixing.Place(disk, DIRECTORY, JOURNAL, loaders=trial), lambda known, question: True)


def content(server: Restartable) -> dict[bytes, object]:
    values = server.engine.state.keyspace[0].values
    return {key: value if isinstance(value, bytes) else len(value) for key, value in values.items()}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("in_multi", [False, True], ids=["alone", "in MULTI"])
@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_an_increment_is_refused_with_file_offset_and_what_to_run_and_that_helps(write, in_multi, line, said):
    bad = resp(line)
    unit = MULTI + resp("SET k in-multi") + bad + EXEC if in_multi else bad
    data = write(GOOD, unit, AFTER)
    disk = disk_of(data)
    place = data.index(bad, data.index(GOOD) + len(GOOD))

    assert refusal(disk) == (
        f"{INCREMENT_PATH} cannot be loaded at offset {place}: {said}; "
        f"copy the directory first, then `streamd check {JOURNAL}` reports what is whole; then choose: a backup, "
        f"a replica's data, `streamd check {JOURNAL} --skip`, which leaves out only what is damaged or does not fit; "
        f"`streamd check {JOURNAL} --fix`, which cuts off all from there on"
    )

    report = check.examine(disk, JOURNAL, loader=trial())
    assert not report.would_start
    assert f"{INCREMENT_PATH}: {len(data)} bytes" in report.lines()[0]
    assert f", cannot be loaded at offset {place}: {said}" in report.lines()[0]
    assert "A server refuses it" in report.lines()[-2]
    assert "--fix" in report.lines()[-1]

    check.export(disk, JOURNAL, "out", report=report)
    exported = bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert exported.endswith(GOOD)

    fix(disk)
    assert check.examine(disk, JOURNAL, loader=trial()).is_whole
    server = Restartable(disk)
    assert content(server) == {b"s": 1}
    server.send("SET", "k", "new")
    assert content(server.restart()) == {b"s": 1, b"k": b"new"}


@pytest.mark.parametrize("write", WRITERS)
def test_a_base_is_refused_with_file_offset_and_what_to_run_and_is_not_cut(write):
    bad = resp("GEOADD k 1 2 x")
    data = write(GOOD, bad, AFTER)
    data += encode_end(len(data), SALT) if write is not foreign else b""
    disk = disk_of(encode_first_line(SALT), data)

    said = refusal(disk)
    assert said.startswith(
        f"{BASE_PATH} cannot be loaded at offset {data.index(bad)}: `GEOADD k 1`: this version has no such command; "
    )
    assert f"`streamd check {JOURNAL} --skip`" in said
    assert "--fix" not in said

    report = fix(disk)
    assert f"cannot be loaded at offset {data.index(bad)}" in report.lines()[0]
    assert "is a base and cannot be cut" in report.done[-1]
    assert bytes(disk.names[BASE_PATH].data) == data
    assert "base cannot be cut" in check.examine(disk, JOURNAL, loader=trial()).lines()[-1]

    check.export(disk, JOURNAL, "out", report=report)
    assert bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data).endswith(GOOD)


def test_the_place_is_right_after_many_commands_and_in_the_rest_of_a_run_that_was_cut():
    many, bad = [resp(f"SET k {number}") for number in range(5_000)], resp("NOSUCH k")
    data = file_of(many[:70], [b"".join(many), bad])
    assert f"at offset {data.index(bad)}: `NOSUCH k`" in refusal(disk_of(data))

    cut = file_of([GOOD, bad, AFTER, AFTER])[: -len(AFTER)] + b"#streamd cut\n"
    disk = disk_of(cut)
    assert f"at offset {cut.index(bad)}: `NOSUCH k`" in refusal(disk)
    fix(disk)
    assert content(Restartable(disk)) == {b"s": 1}


def test_a_note_is_named_by_its_own_place():
    note = encode_note(0, (b"XIDMPDUPLICATE", b"none", b"3"))
    data = mix(GOOD, note, AFTER)
    assert f"at offset {data.index(note)}: `#XIDMPDUPLICATE 0 none`: there is no stream at its key" in refusal(
        disk_of(data)
    )


@pytest.mark.parametrize("unit", [encode_select(20) + AFTER, encode_note(20, (b"XIDMPDUPLICATE", b"s", b"3"))])
def test_too_few_databases_are_said_to_be_that_and_nothing_is_cut_for_it(unit):
    data = mix(GOOD, unit)
    disk = disk_of(data)
    said = refusal(disk)
    assert f"{INCREMENT_PATH} cannot be loaded at offset {data.index(unit)}: " in said
    assert said.endswith("there are 16 databases; start with more of them: --databases 21")
    assert check.examine(disk, JOURNAL, loader=trial()).is_whole


def test_a_database_that_no_server_has_is_said_to_be_that():
    disk = disk_of(mix(GOOD, encode_select(5_000) + AFTER))
    assert refusal(disk).endswith("no server has more than 4096: move its keys where it was written")
    assert check.examine(disk, JOURNAL, loader=trial()).is_whole


def test_the_message_is_one_line_whatever_the_key_is():
    bad = encode_command([b"GEOADD", b"a\r\nb\xff`", b"x"])
    said = refusal(disk_of(run(GOOD, bad)))
    assert re.search(r"`GEOADD a\\r\\nb\S+ x`", said)
    assert said.isprintable()


def test_what_comes_behind_in_later_files_is_examined_but_no_longer_applied():
    disk = disk_of(run(GOOD, resp("XADD s 4-1 f v")), run(resp("NOSUCH k")) + b"#")
    base, increment = check.examine(disk, JOURNAL, loader=trial()).files
    assert base.problem == "`NOSUCH k`: this version has no such command"
    assert increment.problem is None
    assert check.examine(disk, JOURNAL).files[0].torn  # without a loader only bytes are looked at


def test_a_reload_that_fails_is_the_end_and_leaves_the_journal_as_it_is():
    server = Restartable()
    server.send("SET", "k", "v")
    file = server.disk.names[INCREMENT_PATH]
    bad = resp("GEOADD k 1 2 x")
    place = len(file.data)
    file.data = bytearray(file_of([bad], salt=server.persistence.journal.writer.salt, begins=bytes(file.data)))
    before = bytes(file.data)
    assert server.send("DEBUG", "LOADAOF") is None
    assert server.dead is not None
    assert (
        f"{INCREMENT_PATH} cannot be loaded at offset {place + file.data[place:].index(bad)}: `GEOADD k 1`"
        in server.dead
    )
    for request in (["SET", "k", "w"], ["BGREWRITEAOF"], ["DEBUG", "RELOAD"], ["SHUTDOWN", "SAVE"]):
        assert server.send(*request) is None
    server.cron()
    assert bytes(server.disk.names[INCREMENT_PATH].data) == before
