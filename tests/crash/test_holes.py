"""Bytes that are missing from the middle of a journal: the start is refused, and `--skip` keeps all that is whole."""

import re
from collections.abc import Iterator

import pytest

from streamd.base.filesystem import READ_BYTES
from streamd.durability import check, fixing
from streamd.journal.record import encode_missing, encode_run
from streamd.journal.recovery import DamagedError
from tests.crash.histories import SINGLE, play
from tests.crash.restartable import DIRECTORY, INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.unit.durability.test_unloadable_journal import disk_of, resp, trial
from tests.written_journals import SALT, earlier_file_of, file_of

JOURNAL = f"{DIRECTORY}/appendonlydir"
KEYS = 12


def without(disk: SimulatedDisk, path: str, begin: int, end: int) -> SimulatedDisk:
    """Return a disk whose file lacks the bytes between two places."""
    after = disk.kill()
    del after.names[path].data[begin:end]
    return after


def holes(begin: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield holes at every `step`-th place: of the small sizes one in turn, and of every larger `step`-th size."""
    for number, place in enumerate(range(begin, size, step)):
        for end in (place + 1 + number % step, *range(place + step, size, step)):
            yield place, min(end, size)


def written(policy: str, lines: list[str], rewritten: bool = False) -> Restartable:
    """Return a server that has run these turns, and has noted how much of its journal is synced."""
    server = Restartable(appendfsync=policy, auto_aof_rewrite_percentage=0)
    play(server, lines)
    if rewritten:
        server.rewrite()
    server.cron()
    return server


def runs_of(data: bytes) -> list[tuple[int, int]]:
    """Return where the runs of a file begin and end."""
    headers = re.finditer(rb"#streamd (?:run|mix) (\d+) [0-9a-f]{16} \d+[ @0-9a-f]*\n", data)
    return [(header.start(), header.end() + int(header[1])) for header in headers]


def skipped(disk: SimulatedDisk) -> check.Report:
    place = fixing.Place(disk, DIRECTORY, JOURNAL, loaders=trial, now_ms=1_700_000_000_000)
    return fixing.skip(place, lambda known, question: True)


def keys_of(server: Restartable) -> set[bytes]:
    return set(server.engine.state.keyspace[0].values)


def sets(pipelined: bool = False) -> list[str]:
    lines = [f"SET k{number:02} {'v' * (number * 7 % 40 + 1)}" for number in range(KEYS)]
    return [" ; ".join(lines[:4]), *lines[4:8], " ; ".join(lines[8:])] if pipelined else lines


def check_refused(policy: str, lines: list[str], step: int) -> None:
    server = written(policy, lines)
    data = bytes(server.disk.names[INCREMENT].data)
    for begin, end in holes(0, runs_of(data)[-1][0], step):
        with pytest.raises(DamagedError):
            Restartable(without(server.disk, INCREMENT, begin, end), appendfsync=policy)


def check_skipped(server: Restartable, path: str, step: int) -> None:
    """Raise unless `--skip` keeps each key whose run a hole has not touched, and a server writes on behind that."""
    data = bytes(server.disk.names[path].data)
    first = data.index(b"\n") + 1
    runs = [(begin, end, set(re.findall(rb"\r\n(k\d\d)\r\n", data[begin:end]))) for begin, end in runs_of(data)]
    everything = dump(server.engine)
    for begin, end in holes(first, runs[-1][0], step):
        disk = without(server.disk, path, begin, end)
        assert skipped(disk).is_mended, (begin, end)
        after = Restartable(disk, appendfsync="always")
        whole = {key for run_begin, run_end, keys in runs if run_end <= begin or run_begin >= end for key in keys}
        assert keys_of(after) >= whole, (begin, end)
        assert dump(after.engine).items() <= everything.items(), (begin, end)
        after.send("SET", "later", "1")
        assert keys_of(after.restart()) == keys_of(after), (begin, end)


@pytest.mark.parametrize("policy", ["always", "no"])
def test_a_hole_before_a_whole_run_is_refused_whatever_had_been_synced(policy):
    check_refused(policy, SINGLE[:4], 41)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["always", "no"])
def test_each_hole_before_a_whole_run_is_refused(policy):
    check_refused(policy, SINGLE, 3)


def test_a_hole_from_the_first_line_into_the_header_of_the_last_run_is_refused():
    """What is left of both makes one line, which looks like a comment of other software; no mark stands behind it."""
    server = Restartable(appendfsync="always")
    play(server, sets())
    data = bytes(server.disk.kill().names[INCREMENT].data)
    last = runs_of(data)[-1][0]
    for begin in (1, 5, 9, 30):
        for end in range(last, last + 10):
            with pytest.raises(DamagedError):
                Restartable(without(server.disk, INCREMENT, begin, end))


def test_skip_keeps_each_run_that_a_hole_does_not_touch():
    check_skipped(written("always", sets(pipelined=True)), INCREMENT, 101)


@pytest.mark.long
@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("rewritten", [False, True])
def test_skip_keeps_each_run_that_any_hole_does_not_touch(pipelined, rewritten):
    server = written("always", sets(pipelined), rewritten)
    path = next(name for name in server.disk.names if name.endswith(".base.aof" if rewritten else ".incr.aof"))
    check_skipped(server, path, 3)


@pytest.mark.parametrize("step", [83, pytest.param(7, marks=pytest.mark.long)])
def test_a_hole_in_a_base_is_refused_and_skip_mends_it(step):
    server = written("always", sets(), rewritten=True)
    path = next(name for name in server.disk.names if name.endswith(".base.aof"))
    everything = dump(server.engine)
    for begin, end in holes(0, len(server.disk.names[path].data), step):
        disk = without(server.disk, path, begin, end)
        with pytest.raises(DamagedError):
            Restartable(disk.kill())
        assert skipped(disk).is_mended
        assert dump(Restartable(disk).engine).items() <= everything.items()


@pytest.mark.parametrize("what", ["all of it again", "a run again", "its last line again", "zeros"])
def test_what_stands_behind_the_end_of_a_base_is_refused_and_skip_leaves_it_out(what):
    server = written("always", sets(), rewritten=True)
    path = next(name for name in server.disk.names if name.endswith(".base.aof"))
    data = bytes(server.disk.names[path].data)
    begin, end = runs_of(data)[-1]
    more = {
        "all of it again": data,
        "a run again": data[begin:end],
        "its last line again": data[end:],
        "zeros": bytes(9),
    }
    disk = server.disk.kill()
    disk.names[path].data += more[what]
    with pytest.raises(DamagedError):
        Restartable(disk.kill())
    assert skipped(disk).is_mended
    assert bytes(disk.names[path].data) == data
    assert dump(Restartable(disk).engine) == dump(server.engine)


def test_a_whole_run_that_is_missing_is_refused_and_skip_keeps_all_other_runs():
    server = written("no", sets())
    data = bytes(server.disk.names[INCREMENT].data)
    for begin, end in runs_of(data)[:-1]:
        disk = without(server.disk, INCREMENT, begin, end)
        with pytest.raises(DamagedError, match=f"{end - begin} bytes are missing before it"):
            Restartable(disk.kill(), appendfsync="no")
        report = skipped(disk)
        assert report.is_mended
        assert f"{end - begin} more bytes are missing there" in report.done[0]
        lost = set(re.findall(rb"\r\n(k\d\d)\r\n", data[begin:end]))
        assert keys_of(Restartable(disk)) == keys_of(server) - lost


def test_runs_that_are_there_twice_or_in_another_order_are_refused_and_applied_once():
    server = written("no", [f"APPEND k {number}" for number in range(9)])
    data = bytes(server.disk.names[INCREMENT].data)
    (two, end), (three, last) = runs_of(data)[2:4]
    for changed in (data[:last] + data[two:], data[:two] + data[three:last] + data[two:end] + data[last:]):
        disk = server.disk.kill()
        disk.names[INCREMENT].data = bytearray(changed)
        with pytest.raises(DamagedError):
            Restartable(disk.kill(), appendfsync="no")
        assert skipped(disk).is_mended
        value = Restartable(disk).send("GET", "k").split(b"\r\n")[1]
        assert value == b"".join(sorted(bytes([digit]) for digit in set(value)))


@pytest.mark.parametrize("policy", ["always", "no"])
def test_a_journal_whose_line_ends_were_converted_is_refused(policy):
    """Also where the server was killed, so that no line says that all was synced."""
    server = Restartable(appendfsync=policy)
    play(server, [f"XADD s IDMP p {number} * f v" for number in range(20)])
    for _ in range(2):
        for old, new in ((b"\r\n", b"\n"), (b"\n", b"\r\n")):
            disk = server.disk.kill()
            disk.names[INCREMENT].data = bytearray(bytes(disk.names[INCREMENT].data).replace(old, new))
            with pytest.raises(DamagedError):
                Restartable(disk, appendfsync=policy)
        server.cron()


# -- earlier formats -----------------------------------------------------------------------------------------------


def earlier(*lines: str) -> bytes:
    return earlier_file_of(*map(resp, lines))


def test_a_sync_mark_of_an_earlier_format_that_names_more_bytes_than_there_are_is_damage_and_skip_says_what_is_cut():
    """The mark is true where all bytes are, and stays so behind what `--skip` has left out."""
    from streamd.journal.record import encode_synced

    data = earlier(*(f"SET k{number} v" for number in range(9)))
    runs = runs_of(data)
    data += encode_synced(len(data), 7)
    assert len(keys_of(Restartable(disk_of(data)))) == 9
    for begin, end in (runs[3], (runs[3][0] + 10, runs[3][1]), (runs[2][0] + 30, runs[5][0] + 9)):
        disk = disk_of(data[:begin] + data[end:])
        with pytest.raises(DamagedError):
            Restartable(disk.kill())
        assert skipped(disk).is_mended
        after = Restartable(disk)
        touched = sum(begin < run_end and end > run_begin for run_begin, run_end in runs)
        assert len(keys_of(after)) == 9 - touched
        after.send("SET", "later", "1")
        assert len(keys_of(after.restart())) == 10 - touched


def test_a_file_of_an_earlier_format_is_written_on_in_the_present_one_and_holes_in_that_part_are_seen():
    old = earlier("SET k00 v", "SET k01 v")
    server = Restartable(disk_of(old))
    for number in range(2, 6):
        server.send("SET", f"k0{number}", "v")
    data = bytes(server.disk.names[INCREMENT].data)
    assert data[len(old) :].startswith(b"#streamd journal 3 ")
    assert keys_of(server.restart()) == {b"k0%d" % number for number in range(6)}
    for begin, end in holes(len(old), runs_of(data)[-1][0], 31):
        disk = without(server.disk, INCREMENT, begin, end)
        with pytest.raises(DamagedError):
            Restartable(disk.kill())
        assert skipped(disk).is_mended
        assert keys_of(Restartable(disk)) >= {b"k00", b"k01", b"k05"}


def test_a_start_says_once_that_an_earlier_format_hides_holes_until_a_rewrite(caplog):
    caplog.set_level("INFO")
    server = Restartable(disk_of(earlier("SET k v")))
    (line,) = [record.getMessage() for record in caplog.records if "earlier" in record.getMessage()]
    assert INCREMENT in line
    assert "BGREWRITEAOF" in line
    caplog.clear()
    server.rewrite()
    again = server.restart()
    assert not [record for record in caplog.records if "earlier" in record.getMessage()]
    assert all(
        bytes(inode.data).startswith(b"#streamd journal 3 ")
        for path, inode in again.disk.names.items()
        if path.endswith(".aof")
    )


def test_a_damaged_length_of_a_run_keeps_what_is_whole_behind_it_in_a_file():
    """The run looks torn then; nothing says that it was synced, so a start may cut it."""
    data = file_of(*([resp(f"SET k{number} v")] for number in range(5)))
    begin, _ = runs_of(data)[2]
    damaged = data[:begin] + data[begin:].replace(b"run 2", b"run 9", 1)
    assert len(damaged) == len(data)
    disk = disk_of(damaged)
    (line,) = check.examine(disk, JOURNAL, loader=trial()).lines()[-1:]
    assert line.startswith("A server starts on it with the 2 commands before that.")
    assert line.endswith(f", and keeps these {len(data) - begin} bytes in {INCREMENT}.cut-TIME.")
    server = Restartable(disk)
    assert keys_of(server) == {b"k0", b"k1"}
    assert server.persistence.cut.kept == f"{INCREMENT}.cut-20231114T221320Z"
    assert bytes(disk.names[server.persistence.cut.kept].data) == damaged[begin:]


def test_a_line_about_missing_bytes_counts_once_also_where_two_parts_of_the_search_overlap():
    """Behind a fault, `--skip` has noted an earlier hole; nothing says that the rest was synced, so it is cut."""
    data = file_of([resp("SET k0 v")]) + b"damaged\n"
    begin = data.index(b"damaged")
    data = data.ljust(begin + READ_BYTES - 70, b"x") + encode_missing(100, SALT)
    data += encode_run([resp("SET k1 v")], 0, False, SALT, len(data) + 100)
    server = Restartable(disk_of(data))
    assert keys_of(server) == {b"k0"}
    assert server.persistence.cut.offset == begin
