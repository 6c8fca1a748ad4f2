"""`streamd check`: nothing is cut without a question, what is cut is kept, and only what is damaged has to go."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from streamd.durability import check, fixing
from streamd.journal.loader import LoadError
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part
from streamd.journal.record import FIRST_LINE_BYTES, encode_command, encode_first_line
from streamd.journal.recovery import DamagedError
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.restartable import INCREMENT as PATH
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump
from tests.integration.process import ServerProcess, run_cli
from tests.unit.durability.test_unloadable_journal import disk_of, resp, trial
from tests.written_journals import earlier_file_of, file_of

JOURNAL = f"{DIRECTORY}/appendonlydir"
ENTRIES = 200


def yes(known, question) -> bool:
    return True


def place_of(disk: SimulatedDisk) -> fixing.Place:
    return fixing.Place(disk, DIRECTORY, JOURNAL, loaders=trial, now_ms=1_700_000_000_000)


def runs_of(data: bytes) -> list[tuple[int, int]]:
    """Return where the runs of a file begin and end."""
    headers = re.finditer(rb"#streamd (?:run|mix) (\d+) [0-9a-f]{16} \d+[ @0-9a-f]*\n", data)
    return [(header.start(), header.end() + int(header[1])) for header in headers]


def flipped(disk: SimulatedDisk, path: str, place: int, mask: int = 1) -> SimulatedDisk:
    after = disk.kill()
    after.names[path].data[place] ^= mask
    return after


def ids(server: Restartable, key: bytes = b"s", db: int = 0) -> set[int]:
    stream = server.engine.state.keyspace[db].values.get(key)
    return set() if stream is None else {entry_id for entry_id, _ in stream.log.iterate()}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A data directory that a killed server has left: 200 entries under `always`, each in a run of its own."""
    directory = tmp_path_factory.mktemp("written")
    server = ServerProcess(directory, "--appendonly", "yes", "--appendfsync", "always")
    client = redis.Redis(port=server.port)
    for number in range(ENTRIES):
        client.execute_command("XADD", "orders", "IDMP", "p", number, "*", "number", number)
    server.process.kill()
    server.stop()
    return directory


@pytest.fixture
def directory(written: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", str(written), str(tmp_path / "data")], check=True)
    return tmp_path / "data"


def increment(directory: Path) -> Path:
    (found,) = (directory / "appendonlydir").glob("*.incr.aof")
    return found


def damage(path: Path, number: int = 10) -> int:
    """Flip a byte in the run with this number; return how many bytes the run has."""
    data = bytearray(path.read_bytes())
    begin, end = runs_of(bytes(data))[number]
    data[end - 3] ^= 1
    path.write_bytes(data)
    return end - begin


def cut_files(directory: Path) -> list[Path]:
    return sorted((directory / "appendonlydir").glob("*.cut-*"))


def length(directory: Path) -> int:
    with ServerProcess(directory, "--appendonly", "yes") as server:
        return redis.Redis(port=server.port).xlen("orders")


def answered(directory: Path, option: str, answer: str) -> tuple[int, str]:
    """Run `streamd check` on a terminal, and answer its question; return the exit code and what the terminal shows."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "streamd", "check", str(directory), option]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"[yes/no]" not in shown:
        shown += os.read(ours, 65_536)
    os.write(ours, answer.encode() + b"\n")
    try:
        while more := os.read(ours, 65_536):
            shown += more
    except OSError:
        pass  # the other end is closed
    code = process.wait(20)
    os.close(ours)
    return code, shown.decode().replace("\r\n", "\n")


# -- --fix ------------------------------------------------------------------------------------------------------------


def test_faults2_1_3_fix_reports_needs_yes_and_keeps_what_it_cuts(directory: Path):
    path = increment(directory)
    damage(path)
    before = path.read_bytes()

    refused = run_cli("check", str(directory), "--fix")
    assert refused.returncode == 5
    assert "nothing was changed; --yes" in refused.stderr
    assert path.read_bytes() == before
    assert cut_files(directory) == []
    behind = re.search(r"From the fault on: behind it (\d+) bytes, (\d+) of them damaged; whole behind it: (.*)\.\n",
                       refused.stdout)  # fmt: skip
    assert behind is not None
    assert int(behind[1]) == len(before) - runs_of(before)[10][0]
    kept = ENTRIES + 1 - 11
    assert re.match(rf"{kept} records, {kept} of them entries, of \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC to ", behind[3])

    done = run_cli("check", str(directory), "--fix", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    (cut,) = cut_files(directory)
    assert str(cut) in done.stdout
    assert path.read_bytes() + cut.read_bytes() == before
    assert length(directory) == 9


@pytest.mark.parametrize("option", ["--fix", "--skip"])
def test_faults2_1_3_a_person_at_a_terminal_is_asked(directory: Path, option: str):
    path = increment(directory)
    damage(path)
    before = path.read_bytes()
    code, shown = answered(directory, option, "no")
    assert (code, path.read_bytes(), cut_files(directory)) == (5, before, [])
    assert "nothing was changed" in shown
    code, shown = answered(directory, option, "yes")
    assert code == 0
    assert path.read_bytes() != before
    assert len(cut_files(directory)) == 1


@pytest.mark.parametrize("option", ["--fix", "--skip"])
def test_faults2_1_3_a_torn_end_needs_no_yes_and_is_kept_too(directory: Path, option: str):
    path = increment(directory)
    os.truncate(path, path.stat().st_size - 5)
    before = path.read_bytes()
    done = run_cli("check", str(directory), option)
    assert (done.returncode, done.stderr) == (0, "")
    (cut,) = cut_files(directory)
    assert path.read_bytes() + cut.read_bytes() == before
    assert length(directory) == ENTRIES - 1


def test_faults2_1_3_a_cut_never_takes_the_place_of_an_earlier_one():
    server = Restartable()
    for number in range(9):
        server.send("XADD", "s", "*", "number", str(number))
    disk = server.disk.kill()
    before = bytes(disk.names[PATH].data)
    for _ in range(2):
        end = runs_of(bytes(disk.names[PATH].data))[-2][1]
        disk.names[PATH].data[end - 3] ^= 1
        before = bytes(disk.names[PATH].data)
        fixing.fix(place_of(disk), yes)
        names = sorted(name for name in disk.names if ".cut-" in name)
        assert bytes(disk.names[PATH].data) + bytes(disk.names[names[-1]].data) == before
    assert names == [f"{PATH}.cut-20231114T221320Z", f"{PATH}.cut-20231114T221320Z-2"]


def test_faults2_1_3_files_behind_what_is_cut_are_renamed_and_not_removed():
    disk = disk_of(file_of(*([resp(f"SET k {n}")] for n in range(9))))
    second = Part("appendonly.aof.2.incr.aof", 2, INCREMENT)
    parts = [Part("appendonly.aof.1.incr.aof", 1, INCREMENT), second]
    check.replace_manifest(disk, JOURNAL, "appendonly.aof", Manifest(None, parts))
    disk.open(f"{JOURNAL}/{second.name}", create=True).write_at(0, encode_first_line(8))
    disk.names[PATH].data[200] ^= 1
    fixing.fix(place_of(disk), yes)
    assert f"{JOURNAL}/{second.name}" not in disk.names
    assert bytes(disk.names[f"{JOURNAL}/{second.name}.cut-20231114T221320Z"].data) == encode_first_line(8)
    assert Restartable(disk).persistence.cut is None


# -- --skip -----------------------------------------------------------------------------------------------------------


def test_faults2_1_3_skip_leaves_out_one_run_of_200_and_lists_it(directory: Path):
    path = increment(directory)
    size = damage(path)
    before = path.read_bytes()
    assert run_cli("check", str(directory), "--skip").returncode == 5
    assert path.read_bytes() == before
    done = run_cli("check", str(directory), "--skip", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{size} bytes at offset {runs_of(before)[10][0]}: " in done.stdout
    assert "still legible in them, of the keys orders (1): 1 records, 1 of them entries, of 20" in done.stdout
    (cut,) = cut_files(directory)
    assert cut.stat().st_size == size
    assert path.stat().st_size == len(before)
    assert run_cli("check", str(directory)).returncode == 0
    assert length(directory) == ENTRIES - 1


def grown(policy: str = "always") -> Restartable:
    """Return a server with runs of one entry, and of several as one turn has them."""
    server = Restartable(appendfsync=policy)
    for number in range(20):
        server.send("XADD", "s", "IDMP", "p", str(number), "*", "number", str(number))
    for number in range(5):
        server.run(*[[b"XADD", b"s", b"*", b"turn", b"%d-%d" % (number, part)] for part in range(4)])
        server.end_turn()
        server.send("XADD", "s", "*", "alone", str(number))
    server.cron()
    return server


@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_faults2_1_3_whichever_byte_is_damaged_only_its_run_goes(mask: int):
    server = grown()
    data = bytes(server.disk.names[PATH].data)
    all_ids = ids(server)
    runs = runs_of(data)
    for place in range(FIRST_LINE_BYTES, len(data), 7):
        disk = flipped(server.disk, PATH, place, mask)
        report = fixing.skip(place_of(disk), yes)
        if report.is_whole:  # a digest of a unit, which only a damaged run is asked for
            assert ids(Restartable(disk)) == all_ids
            continue
        assert report.is_mended, place
        assert len(disk.names[PATH].data) <= len(data)
        after = Restartable(disk)
        assert after.persistence.cut is None
        there = next(((begin, end) for begin, end in runs if begin <= place < end), None)
        # What is legible in its bytes is what is missing, or the first units of the run match their digests.
        texts = re.findall(rb"\r\n(\d{13}-\d+)\r\n", data[slice(*there)]) if there else []
        gone = {int(ms) << 64 | int(seq) for ms, seq in (text.split(b"-") for text in texts)}
        assert ids(after) <= all_ids
        assert all_ids - ids(after) <= gone, place


def test_faults2_1_3_a_damaged_first_line_costs_nothing():
    server = grown()
    before = dump(server.engine)
    for place in range(FIRST_LINE_BYTES):
        disk = flipped(server.disk, PATH, place, 0x01)
        with pytest.raises(DamagedError):
            Restartable(disk.kill())
        report = fixing.skip(place_of(disk), yes)
        assert report.is_mended, place
        assert dump(Restartable(disk).engine) == before


def test_faults2_1_3_several_damaged_places_cost_only_their_runs():
    server = grown()
    disk = server.disk.kill()
    runs = runs_of(bytes(disk.names[PATH].data))
    for number in (3, 4, 9, 15):
        disk.names[PATH].data[runs[number][1] - 3] ^= 4
    report = fixing.skip(place_of(disk), yes)
    assert report.is_mended
    assert len(ids(server)) - len(ids(Restartable(disk))) == 4
    (kept,) = [name for name in disk.names if ".cut-" in name]
    assert len(disk.names[kept].data) == sum(runs[number][1] - runs[number][0] for number in (3, 4, 9, 15))


def test_faults2_1_3_a_damaged_base_keeps_its_whole_runs():
    server = Restartable()
    for number in range(40):
        server.send("SET", f"k{number}", "v" * 20_000)
    server.rewrite()
    server.send("SET", "last", "1")
    path = next(name for name in server.disk.names if name.endswith(".base.aof"))
    data = bytes(server.disk.names[path].data)
    begin, end = runs_of(data)[1]
    disk = flipped(server.disk, path, (begin + end) // 2)
    with pytest.raises(DamagedError, match="a base cannot be cut"):
        Restartable(disk.kill())
    assert fixing.skip(place_of(disk), yes).is_mended
    found, all_keys = dump(Restartable(disk).engine), dump(server.engine)
    assert found == {key: value for key, value in all_keys.items() if key in found}
    lost = {key for _, key in all_keys.keys() - found.keys()}
    assert lost == {key for _, key in all_keys if b"\r\n%b\r\n$20000" % key in data[begin:end]}
    assert 0 < len(lost) < 20

    cut = server.disk.kill()
    del cut.names[path].data[runs_of(data)[2][0] + 100 :]
    assert fixing.skip(place_of(cut), yes).is_mended
    assert 0 < len(dump(Restartable(cut).engine)) < 41


@pytest.mark.parametrize("rewritten", [False, True], ids=["increment", "base"])
def test_faults2_1_3_behind_a_gap_each_record_goes_to_its_own_database(rewritten: bool):
    server = Restartable(auto_aof_rewrite_percentage=0)
    clients = {db: server.connect() for db in (0, 3, 9)}
    for db, client in clients.items():
        server.send("SELECT", str(db), client=client)
    server.send("SET", "k-before", "0", client=clients[0])
    for number in range(12):
        for db in (0, 0, 3, 3, 9, 0) if number % 2 else (3, 9, 9):
            server.send("SET", f"k{number}-{db}", "v" * (20_000 if rewritten else 5), client=clients[db])
        batch = [[b"SET", b"b%d-%d-3" % (number, part), b"v"] for part in range(130)]
        server.run(*batch, client=clients[3])
        server.end_turn()
    if rewritten:
        server.rewrite()
        server.send("SET", "later-9", "v", client=clients[9])
    path = next(name for name in server.disk.names if name.endswith(".base.aof" if rewritten else ".incr.aof"))
    data = bytes(server.disk.names[path].data)
    whole = dump(server.engine)
    for begin, end in runs_of(data)[:: 1 if rewritten else 5]:
        for place in (begin + 12, end - 4):
            disk = flipped(server.disk, path, place)
            assert fixing.skip(place_of(disk), yes).is_mended
            after = Restartable(disk)
            found = dump(after.engine)
            assert found.items() <= whole.items()
            assert len(whole) - len(found) <= data[begin:end].count(b"\r\nSET\r\n")
            again = after.restart()  # and so it is with what a restarted server writes behind it
            assert dump(again.engine) == found


def test_faults2_1_3_a_restarted_server_goes_on_to_name_databases():
    server = Restartable()
    other = server.connect()
    server.send("SELECT", "3", client=other)
    server.send("SET", "in3", "1", client=other)
    server = server.restart()
    for number in range(5):
        server.send("SET", f"k{number}", "1")
    runs = runs_of(bytes(server.disk.names[PATH].data))
    disk = flipped(server.disk, PATH, runs[-5][1] - 3)
    assert fixing.skip(place_of(disk), yes).is_mended
    assert dump(server.engine).items() - dump(Restartable(disk).engine).items() == {
        one for one in dump(server.engine).items() if one[0][1] == b"k0"
    }


def test_faults2_1_3_what_does_not_fit_without_what_is_lost_is_left_out_and_listed():
    server = Restartable()
    server.send("XADD", "s", "5-1", "f", "v")
    server.send("XGROUP", "CREATE", "s", "g", "0")
    server.send("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    server.run([b"XACK", b"s", b"g", b"5-1"], [b"SET", b"beside", b"1"], [b"XGROUP", b"DELCONSUMER", b"s", b"g", b"c"])
    server.end_turn()
    server.send("SET", "behind", "1")
    data = bytes(server.disk.names[PATH].data)
    disk = flipped(server.disk, PATH, data.index(b"CREATE\r\n"))
    report = fixing.skip(place_of(disk), yes)
    assert report.is_mended
    text = "\n".join(report.done)
    assert "no such group" in text
    after = Restartable(disk)
    assert after.send("GET", "beside") == after.send("GET", "behind") == b"$1\r\n1\r\n"
    assert len(ids(after)) == 1


def test_faults2_1_3_a_command_that_redis_wrote_and_streamd_does_not_know_can_be_left_out():
    bad = b"".join(map(resp, ("MULTI", "SET k in-multi", "GEOADD k 1 2 x", "EXEC")))
    disk = disk_of(resp("SET before 1") + bad + resp("SET after 1"))
    with pytest.raises(LoadError):
        Restartable(disk.kill())
    assert fixing.skip(place_of(disk), yes).is_mended
    assert {key for _, key in dump(Restartable(disk).engine)} == {b"before", b"after"}


@pytest.mark.parametrize("salt", [0, 7])
def test_faults2_1_3_what_looks_like_a_run_in_a_value_is_never_read_as_one(salt: int):
    """A client may have written anything, but does not know the salt; files without one are not searched."""
    forged = b"x" + earlier_file_of(resp("SET forged 1"), salt=0) + file_of([resp("SET forged 1")], salt=9)
    units = [resp("SET a 1"), encode_command([b"SET", b"value", forged]), resp("SET b 1")]
    data = file_of(*([unit] for unit in units)) if salt else earlier_file_of(*units, salt=0)
    for place in range(data.index(forged) - 120, data.index(forged) + len(forged), 5):
        disk = flipped(disk_of(data), PATH, place)
        assert fixing.skip(place_of(disk), yes).is_mended, place
        found = {key for _, key in dump(Restartable(disk).engine)}
        assert b"forged" not in found
        assert b"b" in found or not salt


def test_faults2_1_3_what_skip_leaves_is_read_by_redis(directory: Path, newest_redis: Path, tmp_path: Path):
    path = increment(directory)
    for number in (10, 50, 51):
        damage(path, number)
    assert run_cli("check", str(directory), "--skip", "--yes").returncode == 0
    socket = tmp_path / "redis.sock"
    words = [str(newest_redis), "--port", "0", "--unixsocket", str(socket), "--dir", str(directory)]
    with subprocess.Popen([*words, "--appendonly", "yes", "--save", ""], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Ready to accept" in line for line in process.stdout)
            assert redis.Redis(unix_socket_path=str(socket)).xlen("orders") == ENTRIES - 3
        finally:
            process.terminate()


# -- the start, and newer versions ------------------------------------------------------------------------------------


def test_faults2_1_3_a_refused_start_advises_a_copy_first_then_the_report_then_the_choice(directory: Path):
    damage(increment(directory))
    refused = run_cli("serve", "--port", "0", "--dir", str(directory))
    assert refused.returncode == 5
    (line,) = refused.stderr.splitlines()
    words = ["copy the directory first", "`streamd check ", "a backup", "a replica", "--skip`", "--fix`"]
    places = [line.index(word) for word in words]
    assert places == sorted(places)


NEWER = b"#streamd journal 4 %016x ffff and what a newer version may say\n"


@pytest.mark.parametrize("at", ["beginning", "middle"])
def test_faults2_1_3_what_a_newer_version_wrote_is_neither_loaded_nor_cut(directory: Path, at: str):
    path = increment(directory)
    data = path.read_bytes()
    begin = 0 if at == "beginning" else runs_of(data)[50][0]
    path.write_bytes(data[:begin] + NEWER % 5 + data[FIRST_LINE_BYTES:])
    before = path.read_bytes()
    for words in (["--fix", "--yes"], ["--skip", "--yes"], []):
        done = run_cli("check", str(directory), *words)
        assert done.returncode == 5
        assert f"written by a newer streamd from offset {begin} on: its format is 4" in done.stdout
        assert path.read_bytes() == before
    refused = run_cli("serve", "--port", "0", "--dir", str(directory))
    assert refused.returncode == 5
    assert f"{path} was written by a newer streamd (its format is 4, at offset {begin})" in refused.stderr
    assert "--fix" not in refused.stderr
    assert path.read_bytes() == before
    assert cut_files(directory) == []


def test_faults2_1_3_a_newer_file_that_nothing_says_to_be_synced_is_not_cut_by_a_start():
    disk = disk_of(NEWER % 5 + b"$ who knows\n")
    before = bytes(disk.names[PATH].data)
    with pytest.raises(DamagedError, match="written by a newer streamd"):
        Restartable(disk)
    assert bytes(disk.names[PATH].data) == before


def test_faults2_1_3_a_base_of_a_newer_version_is_not_touched():
    disk = disk_of(encode_first_line(7), NEWER % 5)
    base = next(name for name in disk.names if name.endswith(".base.aof"))
    assert Part(base.rpartition("/")[2], 1, BASE).kind == BASE
    for change in (fixing.fix, fixing.skip):
        report = change(place_of(disk), yes)
        assert (report.done, report.is_mended) == ([], False)
        assert "newer streamd" in report.lines()[-1]


def test_faults2_1_3_a_start_keeps_what_it_cuts_unless_that_is_a_torn_record():
    server = Restartable(appendfsync="no")
    for number in range(5):
        server.send("SET", f"k{number}", "v")
    data = bytes(server.disk.names[PATH].data)
    garbled = flipped(server.disk, PATH, runs_of(data)[-2][1] - 3)
    after = Restartable(garbled, appendfsync="no")
    cut = after.persistence.cut
    assert cut is not None
    assert cut.kept is not None
    assert cut.kept in str(cut)
    assert data[: cut.offset] + bytes(garbled.names[cut.kept].data) == bytes(
        flipped(server.disk, PATH, runs_of(data)[-2][1] - 3).names[PATH].data
    )

    torn = server.disk.kill()
    del torn.names[PATH].data[-3:]
    after = Restartable(torn, appendfsync="no")
    assert after.persistence.cut is not None
    assert after.persistence.cut.kept is None
    assert not [name for name in torn.names if ".cut-" in name]
