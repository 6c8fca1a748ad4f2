"""`streamd check` as a process: what it says, what it changes, its exit codes; and what a refused start says."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import redis

from tests.integration.process import ServerProcess, run_cli


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A data directory in which a killed server has left a journal of a base and an increment."""
    directory = tmp_path_factory.mktemp("written")
    server = ServerProcess(directory, "--appendonly", "yes", "--appendfsync", "always")
    client = redis.Redis(port=server.port)
    client.set("before", 1)
    client.save()
    for number in range(20):
        client.execute_command("XADD", "s", "IDMP", "p", number, "*", "number", number)
    server.process.kill()
    server.stop()
    return directory


@pytest.fixture
def directory(written: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may spoil."""
    subprocess.run(["cp", "-r", str(written), str(tmp_path / "data")], check=True)
    return tmp_path / "data"


def part(directory: Path, kind: str) -> Path:
    (found,) = (directory / "appendonlydir").glob(f"*.{kind}.aof")
    return found


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def entries(directory: Path) -> int:
    with ServerProcess(directory, "--appendonly", "yes") as server:
        return redis.Redis(port=server.port).xlen("s")


@pytest.mark.parametrize("below", ["", "appendonlydir"])
def test_a_whole_journal_ends_with_0(directory: Path, below: str):
    done = run_cli("check", str(directory / below))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "The journal is whole."


def test_a_torn_end_ends_with_5_and_is_named_and_cut(directory: Path):
    path = part(directory, "incr")
    torn = path.read_bytes().rindex(b"number")  # in the last entry, whatever follows it
    os.truncate(path, torn)
    done = run_cli("check", str(directory))
    assert done.returncode == 5
    assert re.search(rf"{re.escape(str(path))}: \d+ bytes, \d+ commands, torn at offset \d+: ", done.stdout)
    assert path.stat().st_size == torn
    assert "cut to" in run_cli("check", str(directory), "--fix").stdout
    assert run_cli("check", str(directory)).returncode == 0
    assert entries(directory) == 19


def test_a_refused_start_says_what_to_run_and_that_helps(directory: Path):
    path = part(directory, "incr")
    flip(path, path.stat().st_size // 2)
    refused = run_cli("serve", "--port", "0", "--appendonly", "yes", "--dir", str(directory))
    assert refused.returncode == 5
    line = one_line(refused.stderr)
    assert f"{path} is damaged at offset" in line
    advice = re.search(r"`streamd (check [^`]* --fix)`", line)
    assert advice is not None
    assert "--yes does it without asking" in run_cli(*shlex.split(advice[1])).stderr
    fixed = run_cli(*shlex.split(advice[1]), "--yes")
    assert (fixed.returncode, fixed.stderr) == (0, "")
    assert 0 < entries(directory) < 20


def test_a_damaged_base_is_refused_not_cut_and_what_is_before_can_be_saved(directory: Path, tmp_path: Path):
    path = part(directory, "base")
    flip(path, path.stat().st_size - 5)
    refused = run_cli("serve", "--port", "0", "--appendonly", "yes", "--dir", str(directory))
    assert refused.returncode == 5
    assert "--skip`" in one_line(refused.stderr)
    fixed = run_cli("check", str(directory), "--fix")
    assert fixed.returncode == 5
    assert "cannot be cut" in fixed.stdout
    saved = run_cli("check", str(directory), "--export", str(tmp_path / "saved"))
    assert saved.returncode == 5
    with ServerProcess(tmp_path / "saved", "--appendonly", "yes") as server:
        assert redis.Redis(port=server.port).get("before") == b"1"


def test_a_command_that_cannot_be_applied_is_named_by_file_and_offset_by_a_start_and_by_check(directory: Path):
    path = part(directory, "incr")
    place = path.stat().st_size
    with path.open("ab") as file:  # as redis-server writes it: no line of ours with a checksum
        file.write(b"*5\r\n$6\r\nGEOADD\r\n$1\r\ng\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\nm\r\n")
    refused = run_cli("serve", "--port", "0", "--appendonly", "yes", "--dir", str(directory))
    assert refused.returncode == 5
    line = one_line(refused.stderr)
    said = f"cannot be loaded at offset {place}: `GEOADD g 1`: this version has no such command"
    assert f"{path} {said}" in line
    advice = re.search(r"`streamd (check [^`]* --fix)`", line)
    assert advice is not None
    words = shlex.split(advice[1])
    reported = run_cli(*words[:-1])
    assert reported.returncode == 5
    assert said in reported.stdout
    fixed = run_cli(*words, "--yes")
    assert (fixed.returncode, fixed.stderr) == (0, "")
    assert path.stat().st_size == place
    assert run_cli("check", str(directory)).returncode == 0
    assert entries(directory) == 20


def test_check_does_not_mind_how_many_databases_the_server_had(directory: Path):
    options = ("--appendonly", "yes", "--databases", "40")
    with ServerProcess(directory, *options) as server:
        redis.Redis(port=server.port, db=39).set("k", 1)
    assert run_cli("check", str(directory)).returncode == 0
    refused = run_cli("serve", "--port", "0", "--appendonly", "yes", "--dir", str(directory))
    assert refused.returncode == 5
    assert one_line(refused.stderr).endswith("there are 16 databases; start with more of them: --databases 40")


def test_an_export_has_the_entries_and_goes_nowhere_twice(directory: Path, tmp_path: Path):
    done = run_cli("check", str(directory), "--export", str(tmp_path / "out"))
    assert done.returncode == 0
    assert str(tmp_path / "out") in done.stdout
    assert entries(tmp_path / "out") == 20
    again = run_cli("check", str(directory), "--export", str(tmp_path / "out"))
    assert again.returncode == 4
    assert "--export" in one_line(again.stderr)


def test_an_export_that_cannot_be_written_says_which_option_to_change(directory: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = run_cli("check", str(directory), "--export", str(tmp_path / "file" / "out"))
    assert done.returncode == 4
    assert one_line(done.stderr).endswith("/file/out: Not a directory; give another directory with --export")


def test_a_running_servers_journal_is_examined_but_not_fixed(directory: Path):
    with ServerProcess(directory, "--appendonly", "yes"):
        assert run_cli("check", str(directory)).returncode == 0
        refused = run_cli("check", str(directory), "--fix")
    assert refused.returncode == 4
    assert "a server is running on it" in one_line(refused.stderr)


def test_a_damaged_manifest_ends_with_5_and_one_line(directory: Path):
    (directory / "appendonlydir" / "appendonly.aof.manifest").write_text("file\n")
    for words in (["check", str(directory)], ["serve", "--port", "0", "--appendonly", "yes", "--dir", str(directory)]):
        refused = run_cli(*words)
        assert refused.returncode == 5
        assert "appendonly.aof.manifest" in one_line(refused.stderr)


@pytest.mark.parametrize("made", [False, True])
def test_a_directory_without_a_journal_ends_with_4_and_one_line(tmp_path: Path, made: bool):
    if made:
        (tmp_path / "empty").mkdir()
    done = run_cli("check", str(tmp_path / "empty"))
    assert done.returncode == 4
    assert str(tmp_path / "empty") in one_line(done.stderr)


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--repair"], ["a", "--export"]])
def test_wrong_words_end_with_2_and_one_line(words: list[str]):
    done = run_cli("check", *words)
    assert done.returncode == 2
    assert "--help" in one_line(done.stderr)


def test_a_manifest_that_lost_a_line_is_found_and_refused_and_nothing_is_removed(directory: Path):
    manifest = directory / "appendonlydir" / "appendonly.aof.manifest"
    text = manifest.read_bytes()
    manifest.write_bytes(text.splitlines(keepends=True)[0])
    increment = part(directory, "incr")
    before = increment.read_bytes()
    for words in (
        ["check", str(directory)],
        ["check", str(directory), "--fix"],
        ["serve", "--port", "0", "--dir", str(directory)],
    ):
        ended = run_cli(*words)
        assert ended.returncode == 5
        assert f"it does not name {increment.name}" in one_line(ended.stderr)
        assert increment.read_bytes() == before
    manifest.write_bytes(text)
    assert entries(directory) == 20
