"""`streamd backup` and `streamd restore`: under load, cut off, onto a full disk."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest
import redis

from streamd import cli
from streamd.backup.copying import back_up
from streamd.clients.remote_journal import RemoteJournal, connect
from streamd.testing import EmbeddedServer
from tests.integration.process import ServerProcess, run_cli

STREAMS = 5


class Writer(threading.Thread):
    """Writes 0, 1, 2 ... , each into two streams by one transaction, until it is told to stop."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.client = redis.Redis(port=port)
        self.acknowledged = self.sent = 0
        self.is_stopped = False
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.is_stopped:
            pipeline = self.client.pipeline(transaction=True)
            for number in range(self.sent, self.sent + 10):
                pipeline.xadd(f"s{number % STREAMS}", {"n": number, "x": "x" * 100}, idmp=("p", str(number).encode()))
                pipeline.set("last", number)
            self.sent += 10
            pipeline.execute()
            self.acknowledged += 10
            if self.acknowledged >= 2000:
                self.enough.set()

    def stop(self) -> None:
        self.is_stopped = True
        self.join(20)
        self.client.close()


def numbers(client: redis.Redis) -> list[int]:
    return sorted(int(fields[b"n"]) for at in range(STREAMS) for _, fields in client.xrange(f"s{at}"))


def test_a_copy_under_load_is_a_state_that_was_and_can_be_restored_and_served(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        writer = Writer(server.port)
        writer.start()
        try:
            assert writer.enough.wait(60)
            before = writer.acknowledged
            done = run_cli("backup", "--url", f"redis://127.0.0.1:{server.port}", str(tmp_path / "copy"))
            after = writer.sent
        finally:
            writer.stop()
        assert done.returncode == 0, done.stderr
        assert "streamd serve --dir" in done.stdout
    restored = run_cli("restore", str(tmp_path / "copy"), str(tmp_path / "again"))
    assert restored.returncode == 0, restored.stderr
    said = (done.stderr + restored.stderr).splitlines()
    assert all(line.startswith(("backup: ", "restore: ")) for line in said)  # of what takes more than a second
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "again")) as copy:
        client = copy.client()
        found = numbers(client)
        assert found == list(range(len(found)))
        assert before <= len(found) <= after
        assert len(found) % 10 == 0
        assert int(client.get("last")) == len(found) - 1
        last = len(found) - 1
        client.xadd(f"s{last % STREAMS}", {"n": last, "x": "x" * 100}, idmp=("p", str(last).encode()))
        assert numbers(client) == found


class CutProxy(threading.Thread):
    """Hands on one connection, and cuts it when the server has sent so many bytes."""

    def __init__(self, port: int, bytes_max: int) -> None:
        super().__init__(daemon=True)
        self._target, self._left = port, bytes_max
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.start()

    def run(self) -> None:
        near, _ = self._listener.accept()
        with near, socket.create_connection(("127.0.0.1", self._target)) as far, self._listener:
            threading.Thread(target=self._up, args=(near, far), daemon=True).start()
            while self._left > 0 and (data := far.recv(min(65536, self._left))):
                self._left -= len(data)
                near.sendall(data)
            near.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _up(near: socket.socket, far: socket.socket) -> None:
        try:
            while data := near.recv(65536):
                far.sendall(data)
        except OSError:
            pass


@pytest.fixture
def filled(tmp_path: Path):
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "data")) as server:
        client = server.client()
        pipeline = client.pipeline(transaction=False)
        for _ in range(1000):
            pipeline.xadd("s", {"v": os.urandom(1000)})
        pipeline.execute()
        yield server


@pytest.mark.parametrize("bytes_max", [0, 50, 300, 300_000, 1_000_000])
def test_a_cut_connection_is_one_line_and_leaves_nothing(tmp_path: Path, filled: EmbeddedServer, bytes_max: int):
    proxy = CutProxy(filled.port, bytes_max)
    done = run_cli("backup", "--url", f"redis://127.0.0.1:{proxy.port}", str(tmp_path / "new" / "copy"))
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if not re.match(r"backup: \d+ % of", line)]  # (slow machines)
    assert "nothing was left in" in line
    assert not (tmp_path / "new").exists()
    assert filled.internal_errors == 0


def test_what_followed_while_the_base_was_copied_is_in_the_copy(tmp_path: Path, filled: EmbeddedServer):
    class Meanwhile(RemoteJournal):
        def read(self, number: int, offset: int, count: int) -> bytes:
            if number == 0:
                writer.incr("meanwhile")
            return super().read(number, offset, count)

    writer = filled.client()
    with connect(filled.url) as client:
        back_up(Meanwhile(client), str(tmp_path / "copy"), lambda done, total: None)
    written = int(writer.get("meanwhile"))
    assert written > 2
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "copy")) as copy:
        assert int(copy.client().get("meanwhile")) == written


class FullFile:
    """A file on a disk that is full after so many bytes."""

    left = 0

    def __init__(self, path, mode):
        self._file = open(path, mode)  # noqa: SIM115

    def write(self, data):
        FullFile.left -= len(data)
        if FullFile.left < 0:
            raise OSError(28, "No space left on device")
        return self._file.write(data)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()


@pytest.mark.parametrize("left", [0, 600_000, 1_010_000])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, filled, monkeypatch, capsys, left, is_there):
    target = tmp_path / "copy"
    if is_there:
        target.mkdir()
        (target / "mine").write_text("kept")
    FullFile.left = left
    monkeypatch.setattr("streamd.backup.placing.open", FullFile, raising=False)
    assert cli.main(["backup", "--url", filled.url, str(target)]) == 4
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"streamd: backup: cannot write to {target}: No space left on device; nothing was left there\n"
    assert [path.name for path in tmp_path.glob("copy/**/*")] == (["mine"] if is_there else [])
    assert target.exists() == is_there


def test_a_directory_with_a_journal_is_not_touched(tmp_path: Path, filled: EmbeddedServer, capsys):
    journal = tmp_path / "data" / "appendonlydir"
    before = sorted(path.name for path in journal.iterdir())
    assert cli.main(["restore", str(tmp_path / "data"), str(tmp_path / "data")]) == 4
    assert cli.main(["backup", "--url", filled.url, str(tmp_path / "data")]) == 4
    assert capsys.readouterr().err.count("is there already; give another directory, or move it away") == 2
    assert sorted(path.name for path in journal.iterdir()) == before


def test_a_damaged_copy_is_not_restored(tmp_path: Path, filled: EmbeddedServer, capsys):
    assert cli.main(["backup", "--url", filled.url, str(tmp_path / "copy")]) == 0
    (base,) = (tmp_path / "copy" / "appendonlydir").glob("*.base.aof")
    data = bytearray(base.read_bytes())
    data[5000] ^= 1
    base.write_bytes(data)
    assert cli.main(["restore", str(tmp_path / "copy"), str(tmp_path / "new")]) == 4
    assert "is damaged" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_is_no_backup_is_said_to_be_none(tmp_path: Path, capsys):
    assert cli.main(["restore", str(tmp_path), str(tmp_path / "new")]) == 4
    said = capsys.readouterr().err
    assert "is no backup" in said
    assert said.endswith("; give what streamd backup made\n")


def test_a_server_that_has_no_backups_refuses(tmp_path: Path, capsys):
    with EmbeddedServer() as server:
        assert cli.main(["backup", "--url", server.url, str(tmp_path / "copy")]) == 3
    assert "there is no journal to copy: CONFIG SET appendonly yes begins one" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()


_NO_PATH = "unix:// takes the whole path of the socket: unix:///"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://x", "Redis URL must specify one of"),
        ("redis://x/db", "database 'db' is no number"),
        ("unix://", _NO_PATH),
        ("unix://x.sock", _NO_PATH),
        ("unix://run/x.sock", _NO_PATH),
    ],
)
def test_a_url_that_names_no_server_is_a_wrong_word(tmp_path: Path, capsys, url: str, said: str):
    assert cli.main(["backup", "--url", url, str(tmp_path / "copy")]) == 2
    assert capsys.readouterr().err.startswith(f"streamd: backup: --url: {said}")


def test_the_server_may_be_named_by_a_variable_and_a_password_is_not_shown(tmp_path: Path, monkeypatch, capsys):
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "data"), requirepass="hunter2") as server:
        monkeypatch.setenv("STREAMD_URL", f"redis://:hunter2@127.0.0.1:{server.port}")
        assert cli.main(["backup", str(tmp_path / "copy")]) == 0
        monkeypatch.setenv("STREAMD_URL", f"redis://:wrong1@127.0.0.1:{server.port}")
        assert cli.main(["backup", str(tmp_path / "other")]) == 3
    with pytest.raises(SystemExit):
        cli.main(["backup", "--help"])
    shown = capsys.readouterr()
    assert "wrong1" not in shown.out + shown.err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ("", "a password is required; give it in STREAMD_URL, redis://user:password@host"),
        ("ann:wrong@", "wrong user or password; give the right ones in STREAMD_URL, redis://user:password@host"),
        ("ann:right@", "the 'journal|begin' command; a user for backups needs +journal +hello +client|setinfo"),
        ("bob:right@", ""),
        ("eve:right@", ""),
    ],
)
def test_who_may_not_have_a_backup_is_told_what_is_missing(tmp_path: Path, capsys, login: str, said: str):
    with EmbeddedServer(appendonly=True, dir=str(tmp_path / "data")) as server, server.client() as client:
        rules = "on >right -@all +hello +client|setinfo"
        client.execute_command("ACL", "SETUSER", "ann", *rules.split())
        client.execute_command("ACL", "SETUSER", "bob", *rules.split(), "+journal")
        client.execute_command("ACL", "SETUSER", "eve", *rules.split(), "+backup")  # of the version before
        client.execute_command("ACL", "SETUSER", "default", "off")
        code = cli.main(["backup", "--url", f"redis://{login}127.0.0.1:{server.port}", str(tmp_path / "copy")])
    shown = capsys.readouterr().err
    assert shown == "" if not said else f"{said}; nothing was left in" in shown
    assert (code, (tmp_path / "copy").exists()) == ((3, False) if said else (0, True))


def test_where_no_server_is_the_line_says_what_to_do(tmp_path: Path, capsys):
    with EmbeddedServer() as server:
        url = server.url
    assert cli.main(["backup", "--url", url, str(tmp_path / "copy")]) == 3
    assert "refused; start the server, or give another with --url; nothing was left" in capsys.readouterr().err
