"""`streamd check` of a directory with segment files: whole, with orphans, damaged; mended; exported for Redis."""

import shutil
import subprocess
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from streamd.cli import main
from streamd.testing import EmbeddedServer
from tests.cold.cold_directory import contents, fill, segments, serve
from tests.crash.test_redis_reads_it import SERVERS, RedisProcess


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A data directory that a server has left: most entries are in segment files."""
    directory = tmp_path_factory.mktemp("cold-check") / "data"
    with serve(directory) as server:
        client = server.client()
        fill(client)
        client.execute_command("BGREWRITEAOF")
        client.execute_command("WAITAOF", 1, 0, 10_000)
        while client.info("persistence")["aof_rewrites"] < 1:
            pass
        client.execute_command("XDEL", "s", "700-1")
        client.execute_command("XADD", "s", "*", "f", "v")
    return directory


@pytest.fixture(scope="module")
def expected(written, tmp_path_factory):
    copy = tmp_path_factory.mktemp("served") / "data"
    shutil.copytree(written, copy)
    with serve(copy) as server:
        return contents(server.client())


@pytest.fixture
def directory(written, tmp_path) -> Path:
    """A copy of it that a test may spoil."""
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


def check(capsys, *words: object) -> tuple[int, str, str]:
    code = main(["check", *map(str, words)])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, "".join(line for line in err.splitlines(keepends=True) if not line.startswith("check: "))


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_whole_directory_is_called_whole(directory, capsys):
    before = sorted((path.name, path.read_bytes()) for path in (directory / "appendonlydir").iterdir())
    code, out, _ = check(capsys, directory)
    assert code == 0
    size = sum(path.stat().st_size for path in segments(directory))
    files = "1 segment file" if len(segments(directory)) == 1 else f"{len(segments(directory))} segment files"
    assert f"\n{files}: {size} bytes, " in out
    assert out.endswith(", whole\nThe journal is whole.\n")
    assert sorted((path.name, path.read_bytes()) for path in (directory / "appendonlydir").iterdir()) == before


def test_an_orphan_is_told_and_does_no_harm(directory, expected, capsys):
    orphan = directory / "appendonlydir" / "appendonly.aof.99.seg"
    orphan.write_bytes(b"half")
    code, out, _ = check(capsys, directory)
    assert code == 0
    assert f"{orphan.name}: no base names it: a crash has left it, and the next start removes it\n" in out
    with serve(directory) as server:
        assert contents(server.client()) == expected
    assert not orphan.exists()


def block_at(path: Path) -> int:
    """Return a place within the second block of a file."""
    return path.read_bytes().index(b"SBLK", 1_000) + 300


def test_a_damaged_block_is_told_with_its_file_and_place_and_the_server_serves_the_others(directory, capsys):
    path = segments(directory)[0]
    place = block_at(path)
    flip(path, place)
    before = path.read_bytes()
    code, out, _ = check(capsys, directory)
    assert code == 5
    assert f"{path} is damaged at offset {place - 308}: a block's checksum is wrong\n" in out
    assert "1 of these damaged\n" in out
    assert "A server starts on it" in out
    for words in (["--skip", "--yes"], ["--fix", "--yes"]):
        assert check(capsys, directory, *words)[0] == 5
        assert path.read_bytes() == before
    with serve(directory) as server:
        client = server.client()
        assert len(client.xrange("s", "-", "10-1")) == 9
        with pytest.raises(redis.ResponseError, match="is damaged at offset"):
            client.xrange("s")
        assert client.xlen("s") > 0


def test_an_export_of_a_damaged_block_is_refused_or_goes_on_behind_it(directory, expected, tmp_path, capsys):
    path = segments(directory)[0]
    flip(path, block_at(path))
    code, _, err = check(capsys, directory, "--export", tmp_path / "out")
    assert code == 5
    assert err.startswith(f"streamd: nothing was exported: {path} is damaged at offset ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    assert check(capsys, directory, "--export", tmp_path / "out", "--windows")[0] == 5

    code, out, _ = check(capsys, directory, "--skip", "--export", tmp_path / "out")
    assert code == 5
    left_out = [line for line in out.splitlines() if line.startswith("not exported: ")]
    (lost,) = [line for line in left_out if "pending entries of the group" not in line]
    count, stream = int(lost.split()[2]), lost.split()[7].rstrip(",")
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "out")) as server:
        found = contents(server.client())
    entries, whole = [{str(entry) for entry in one[stream][0]} for one in (found, expected)]
    assert entries < whole
    assert len(whole) - len(entries) == count
    other = "t" if stream == "s" else "s"
    assert found[other] == expected[other]
    assert found["string"] == expected["string"]


SPOILS = {
    "the header": lambda path: flip(path, 3),
    "the footer": lambda path: flip(path, -100),
    "the end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("what", SPOILS)
def test_a_file_that_cannot_be_read_is_left_out_and_kept(directory, expected, what, capsys):
    path = segments(directory)[0]
    SPOILS[what](path)
    before = path.read_bytes() if path.exists() else None
    with pytest.raises(Exception, match="seg"):
        serve(directory).start()
    code, out, _ = check(capsys, directory)
    assert code == 5
    assert str(path) in out
    assert "A server refuses it." in out
    code, _, err = check(capsys, directory, "--export", directory.parent / "out")
    assert (code, err.count("\n")) == (5, 1)
    code, _, err = check(capsys, directory, "--skip")
    assert code == 5
    assert "nothing was changed" in err
    assert (path.read_bytes() if path.exists() else None) == before

    code, out, _ = check(capsys, directory, "--skip", "--yes")
    assert code == 0, out
    kept = [one for one in (directory / "appendonlydir").iterdir() if ".seg.cut-" in one.name]
    assert [one.read_bytes() for one in kept] == ([] if before is None else [before])
    assert not path.exists()
    assert check(capsys, directory)[0] == 0
    with serve(directory) as server:
        found = contents(server.client())
    for key in ("s", "t"):
        assert {str(entry) for entry in found[key][0]} <= {str(entry) for entry in expected[key][0]}
        assert found[key][0][-1] == expected[key][0][-1]
    assert [one.read_bytes() for one in kept] == ([] if before is None else [before])


def test_a_missing_file_of_which_nothing_is_left_is_no_fault(directory, capsys):
    with serve(directory) as server:
        server.client().execute_command("DEL", "s", "t")
    for path in segments(directory):
        path.unlink()
    code, out, _ = check(capsys, directory)
    assert code == 0, out
    assert out.endswith("The journal is whole.\n")


def test_files_swapped_between_servers_are_named(directory, written, tmp_path, capsys):
    with serve(tmp_path / "other") as server:
        client = server.client()
        fill(client)
        client.execute_command("BGREWRITEAOF")
        while client.info("persistence")["aof_rewrites"] < 1:
            pass
    path, other = segments(directory)[0], segments(tmp_path / "other")[0]
    assert path.name == other.name
    shutil.copy(other, path)
    code, out, _ = check(capsys, directory)
    assert code == 5
    assert f"{path} is damaged at offset 0: it is another file than the one that was written with this name" in out


def without_deleted(found):
    """Leave out pending entries that were deleted before the base was written: Redis has no command for them."""
    there = {entry_id for entry_id, _ in found["s"][0]}
    return {**found, "pending": [one for one in found["pending"] if one[0] in there]}


@pytest.mark.parametrize("words", [[], ["--windows"]], ids=["plain", "windows"])
@pytest.mark.parametrize("version", SERVERS)
def test_redis_loads_an_export_and_has_the_same_entries(directory, expected, tmp_path, version, words, capsys):
    if words and version == "7.0.15":
        pytest.skip("it knows no windows")
    code, out, _ = check(capsys, directory, "--export", tmp_path / "out", *words)
    assert code == 0, out
    (part,) = (tmp_path / "out" / "appendonlydir").glob("*.incr.aof")
    assert b"STREAMCOLD" not in part.read_bytes()
    with RedisProcess(version, tmp_path / "out", free_port()) as client:
        assert without_deleted(contents(client)) == without_deleted(expected)
        if words:
            for key in ("s", "t"):
                known = client.execute_command("XADD", key, "IDMP", "p", "again", "*", "f", "v")
                assert known <= expected[key][1][1]
                assert client.xlen(key) == expected[key][1][0]


@pytest.mark.parametrize("version", SERVERS)
def test_redis_refuses_the_directory_itself(directory, version):
    with pytest.raises(redis.ConnectionError), RedisProcess(version, directory, free_port()) as client:
        client.ping()


def test_redis_check_aof_calls_it_valid(directory):
    program = shutil.which("redis-check-aof")
    if program is None:
        pytest.skip("there is no redis-check-aof")
    manifest = directory / "appendonlydir" / "appendonly.aof.manifest"
    ran = subprocess.run([program, str(manifest)], capture_output=True, text=True)
    assert ran.returncode == 0
    assert "All AOF files and manifest are valid" in ran.stdout
