"""Backups of a server with segment files: copied, restored, served; with an older client; with kills in between."""

import builtins
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from streamd.backup.copying import back_up, restore
from streamd.backup.placing import Place, PlaceError, pieces_of
from streamd.cli import main
from streamd.clients.remote_journal import RemoteJournal, connect
from tests.cold.cold_directory import contents, fill, segments, serve
from tests.replication.clusters import wait_until
from tests.version_before import unpack_version_before


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("cold-backup") / "data") as server:
        fill(server.client())
        yield server


@pytest.fixture(scope="module")
def copy(server, tmp_path_factory) -> Path:
    """A backup."""
    directory = tmp_path_factory.mktemp("copied") / "copy"
    assert main(["backup", "--url", server.url, str(directory)]) == 0
    return directory


@pytest.fixture(scope="module")
def expected(server):
    return contents(server.client())


def served(directory: Path, **options):
    with serve(directory, **options) as server:
        return contents(server.client())


def test_a_backup_has_the_segment_files_which_its_owner_alone_can_read(copy, expected, tmp_path, capsys):
    assert segments(copy)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in segments(copy))
    assert main(["check", str(copy)]) == 0
    assert "segment file" in capsys.readouterr().out
    assert main(["restore", str(copy), str(tmp_path / "again")]) == 0
    assert [path.name for path in segments(tmp_path / "again")] == [path.name for path in segments(copy)]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in segments(tmp_path / "again"))
    assert served(tmp_path / "again") == expected


def test_a_restored_directory_keeps_the_limit_without_the_option(copy, expected, tmp_path):
    assert main(["restore", str(copy), str(tmp_path / "again")]) == 0
    with serve(tmp_path / "again", stream_memory=0) as server:
        assert contents(server.client()) == expected


def test_what_is_trimmed_and_rewritten_during_a_backup_is_in_it(tmp_path):
    with serve(tmp_path / "data") as server:
        client = server.client()
        fill(client)
        before = contents(client)
        with connect(server.url) as of_backup:
            remote = RemoteJournal(of_backup)
            files = remote.begin(lambda: None)
            sizes = remote.mark()
            held = segments(tmp_path / "data")
            for command in ("XTRIM s MAXLEN 0", "DEL t"):
                client.execute_command(*command.split())
            for number in (1, 2):
                client.execute_command("BGREWRITEAOF")
                wait_until(
                    lambda done=number + 1: client.info("persistence")["aof_rewrites"] == done, "it is rewritten"
                )
            assert segments(tmp_path / "data") == held
            place = Place(str(tmp_path / "copy"))
            with place:

                def pieces(number: int):
                    at = 0
                    while at < sizes[number]:
                        piece = remote.read(number, at, sizes[number] - at)
                        at += len(piece)
                        yield piece

                place.take((name, pieces(number)) for number, (name, _) in enumerate(files))
                place.commit()
            remote.end()
        wait_until(lambda: not segments(tmp_path / "data"), "the files are unlinked")
    assert served(tmp_path / "copy") == before


def test_a_backup_whose_client_has_gone_holds_no_file(tmp_path):
    with serve(tmp_path / "data") as server:
        client = server.client()
        fill(client)
        with connect(server.url) as of_backup:
            RemoteJournal(of_backup).begin(lambda: None)
            client.execute_command("FLUSHALL")
            client.execute_command("SAVE")
            assert segments(tmp_path / "data")
            of_backup.connection_pool.disconnect()
        wait_until(lambda: not segments(tmp_path / "data"), "the files are unlinked")


def test_an_older_backup_fails_in_one_line_rather_than_leave_entries_out(server, tmp_path):
    source = unpack_version_before(tmp_path / "before")
    words = ["-m", "streamd", "backup", "--url", server.url, str(tmp_path / "copy")]
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=source,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert ran.returncode == 4, ran.stderr
    assert ".seg' is no file of a journal that streamd can load" in ran.stderr
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("place", [0, 100, -1, "missing"])
def test_a_damaged_backup_is_not_restored(copy, tmp_path, place, capsys):
    subprocess.run(["cp", "-r", str(copy), str(tmp_path / "damaged")], check=True)
    path = segments(tmp_path / "damaged")[-1]
    if place == "missing":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
    assert main(["restore", str(tmp_path / "damaged"), str(tmp_path / "again")]) == 4
    said = capsys.readouterr().err
    assert said.startswith(f"streamd: restore: {tmp_path}/damaged is damaged: {path} is ")
    assert said.count("\n") == 1
    assert not (tmp_path / "again").exists()


class Killed(BaseException):
    """The end of a process: nothing runs behind it."""


OPERATIONS = ("mkdir", "open", "fsync", "rename", "replace", "rmdir", "unlink", "pwrite")


def dying_at(step, monkeypatch):
    """Let the process die at an operation, and do nothing more."""
    done = [0]

    def counted(operation):
        def run(*words, **named):
            done[0] += 1
            if done[0] >= step:
                raise Killed
            return operation(*words, **named)

        return run

    for name in OPERATIONS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr("shutil.rmtree", counted(lambda *words, **named: None))
    monkeypatch.setattr(builtins, "open", counted(open))
    return done


@pytest.mark.interpreted(reason="functions of the system are replaced")
def test_a_kill_at_any_operation_leaves_a_whole_directory_or_none(copy, expected, tmp_path):
    target, step, whole = tmp_path / "again", 0, 0
    while True:
        step += 1
        monkeypatch = pytest.MonkeyPatch()
        done = dying_at(step, monkeypatch)
        try:
            restore(str(copy), str(target), lambda done, total: None)
            break
        except Killed:
            pass
        finally:
            monkeypatch.undo()
        if (target / "appendonlydir").exists():
            whole += 1
            assert main(["check", str(target)]) == 0
        subprocess.run(["rm", "-rf", str(target)], check=True)
    assert done[0] > 20
    assert whole > 0
    assert served(target) == expected


def test_segment_files_of_foreign_names_are_refused(copy, tmp_path):
    data = pieces_of(str(segments(copy)[0]))
    for name in ("x.seg", "appendonly.aof.seg", "appendonly.aof.1.seg.aof/../x.seg", "appendonly.aof.1-zz.seg"):
        with pytest.raises(PlaceError, match="is no file of a journal"), Place(str(tmp_path / "new")) as place:
            place.take([(name, data)])
    assert not (tmp_path / "new").exists()


def test_back_up_counts_the_bytes_of_segment_files(server, tmp_path):
    with connect(server.url) as client:
        seen = []
        size = back_up(RemoteJournal(client), str(tmp_path / "copy"), lambda done, total: seen.append((done, total)))
    assert size == seen[-1][0] == seen[-1][1] > sum(path.stat().st_size for path in segments(tmp_path / "copy"))
    assert isinstance(client, redis.Redis)
