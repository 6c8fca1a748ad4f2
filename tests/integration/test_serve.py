"""The server as a process: banner, signals, exit codes, and one line for each mistake."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.integration.process import ServerProcess, run_cli


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_the_banner_says_where_how_and_what(tmp_path: Path):
    with ServerProcess(tmp_path) as server:
        text = "\n".join(server.banner)
        for wanted in (
            f"127.0.0.1:{server.port}",
            str(tmp_path),
            "persistence",
            "redis-cli",
            f"kill {server.process.pid}",
        ):
            assert wanted in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_cleanly(tmp_path: Path, number: signal.Signals):
    server = ServerProcess(tmp_path)
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(b"PING\r\n")
        assert sock.recv(100) == b"+PONG\r\n"
        server.process.send_signal(number)
        code, out, err = server.stop()
    assert (code, out.strip(), "Traceback" in err) == (0, "streamd stopped", False)


def test_a_client_can_shut_the_server_down(tmp_path: Path):
    server = ServerProcess(tmp_path)
    with socket.create_connection(("127.0.0.1", server.port)) as sock:
        sock.sendall(b"SHUTDOWN NOSAVE\r\n")
        assert sock.recv(100) == b""
    assert server.process.wait(timeout=60) == 0
    server.stop()


def test_a_busy_port_ends_with_3_and_one_line(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_cli("serve", "--port", port, "--dir", str(tmp_path))
    assert done.returncode == 3
    line = one_line(done.stderr)
    assert port in line
    assert "--port" in line


def test_a_busy_admin_port_is_named_as_such(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_cli("serve", "--port", "0", "--admin-port", port, "--dir", str(tmp_path))
    assert done.returncode == 3
    assert one_line(done.stderr).endswith("choose another with --admin-port or --admin-bind")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--unixsocket", "gone/x.sock"], 3, "No such file or directory; choose another with --unixsocket"),
        (["--aclfile", "gone"], 2, "No such file or directory; make it, or give another with --aclfile"),
        (
            ["--tls-port", "1", "--tls-cert-file", "gone", "--tls-key-file", "gone"],
            2,
            "tls-cert-file gone: No such file or directory; give a file that the server can read",
        ),
        (
            ["--save", ""],
            2,
            "--save is no flag; give it as the variable STREAMD_SAVE, or as a line of a file: streamd serve FILE",
        ),
        (["--hash-max-ziplist-value", "64"], 2, "as the variable STREAMD_HASH_MAX_LISTPACK_VALUE, or as a line"),
    ],
)
def test_what_a_server_cannot_take_is_said_with_what_to_do(tmp_path: Path, words: list[str], code: int, said: str):
    done = run_cli("serve", "--port", "0", "--dir", str(tmp_path), *words)
    assert done.returncode == code
    assert said in one_line(done.stderr)


def test_a_logfile_that_cannot_be_written_ends_with_4_and_one_line(tmp_path: Path):
    done = run_cli("serve", "--port", "0", "--dir", str(tmp_path), "--logfile", str(tmp_path / "gone" / "x.log"))
    assert done.returncode == 4
    assert "give another with --logfile" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--prot", "1"], "--prot"),
        (["--port", "many"], "--port many"),
        (["--port", "99999"], "--port 99999"),
        (["--appendonly", "maybe"], "--appendonly maybe"),
        (["--loglevel", "loud"], "--loglevel loud"),
        (["--stream-idmp-duration", "0"], "--stream-idmp-duration 0"),
        (["--bind"], "--bind"),
    ],
)
def test_a_wrong_option_ends_with_2_and_one_line_that_names_it(tmp_path: Path, words: list[str], named: str):
    done = run_cli("serve", "--dir", str(tmp_path), *words)
    assert done.returncode == 2
    assert named in one_line(done.stderr)


def test_an_unusable_directory_ends_with_4_and_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    done = run_cli("serve", "--port", "0", "--dir", str(tmp_path / "file"))
    assert done.returncode == 4
    assert "--dir" in one_line(done.stderr)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_ends_with_4_and_one_line(tmp_path: Path):
    tmp_path.chmod(0o500)
    done = run_cli("serve", "--port", "0", "--dir", str(tmp_path))
    assert done.returncode == 4
    assert "not writable" in one_line(done.stderr)


def test_help_explains_every_option_and_the_exit_codes():
    text = run_cli("serve", "--help").stdout
    for word in (
        "--port",
        "--bind",
        "--dir",
        "--appendonly",
        "--requirepass",
        "--maxclients",
        "--databases",
        "--loglevel",
    ):
        assert word in text
    for code in range(7):
        assert f"\n  {code}  " in text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("redirection", [">&-", "<&- >&-", ">/dev/full"])
def test_a_server_that_nobody_listens_to_serves_and_stops(tmp_path: Path, redirection: str):
    port = free_port()
    words = ["sh", "-c", f'exec "$0" "$@" {redirection}', sys.executable, "-m", "streamd", "serve"]
    words += ["--port", str(port), "--dir", str(tmp_path), "--appendonly", "no"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        with connect_when_ready(port, process) as sock:
            sock.sendall(b"PING\r\n")
            assert sock.recv(100) == b"+PONG\r\n"
    finally:
        process.terminate()
        err = process.communicate(timeout=60)[1]
    assert (process.returncode, err) == (0, "")


def test_a_signal_in_the_last_step_of_the_start_stops_the_server(tmp_path: Path):
    program = (
        "import asyncio, sys\n"
        "from streamd import cli\n"
        "from streamd.net import server\n"
        "start = server.Server.start\n"
        "async def start_and_signal(self, on_progress):\n"
        "    await start(self, on_progress)\n"
        "    asyncio.current_task().cancel()\n"
        "server.Server.start = start_and_signal\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", program, "serve", "--port", "0", "--dir", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("streamd stopped\n")


def connect_when_ready(port: int, process: subprocess.Popen[str]) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_the_journal_is_loaded_stops_the_server_cleanly(tmp_path: Path, number: signal.Signals):
    journal = tmp_path / "appendonlydir"
    journal.mkdir()
    request = b"*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n"
    (journal / "appendonly.aof.1.incr.aof").write_bytes(request * 500_000)
    (journal / "appendonly.aof.manifest").write_bytes(b"file appendonly.aof.1.incr.aof seq 1 type i\n")
    port = free_port()
    words = [sys.executable, "-m", "streamd", "serve", "--port", str(port), "--dir", str(tmp_path)]
    words += ["--loglevel", "warning"]  # a slow machine says in its log how far loading has come
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with connect_when_ready(port, process) as sock:
        sock.sendall(b"PING\r\n")
        assert sock.recv(100).startswith(b"-LOADING")
        process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "streamd stopped before it was ready\n", "")


def test_data_that_a_start_does_not_read_is_told_of(tmp_path: Path):
    with ServerProcess(tmp_path, "--appendonly", "yes") as server:
        redis.Redis(port=server.port).set("a", 1)
    journal = f"{tmp_path}/appendonlydir is a journal ("
    for options, said in ((["--appendonly", "no"], journal), (["--appendonly", "yes"], "")):
        server = ServerProcess(tmp_path, *options)
        assert redis.Redis(port=server.port).dbsize() == (0 if said else 1)
        log = server.stop()[2]
        assert f"WARNING data-not-read: {said}" in log if said else "data-not-read" not in log
    (tmp_path / "redis").mkdir()
    (tmp_path / "redis" / "dump.rdb").write_bytes(b"REDIS0010")
    server = ServerProcess(tmp_path / "redis", "--appendonly", "yes")
    assert "dump.rdb is an RDB file, which is not read: let redis-server make a journal of it" in server.stop()[2]


def test_a_server_starts_with_a_file_and_writes_what_was_set_into_it(tmp_path: Path):
    conf, log = tmp_path / "redis.conf", tmp_path / "log.json"
    conf.write_text(f"# kept\nhz 10\ndaemonize yes\nlogfile {log}\nlog-format json\n")
    with ServerProcess(tmp_path, "--maxclients", "77", str(conf)) as server:
        with redis.Redis(port=server.port, decode_responses=True) as client:
            assert client.config_get("maxclients") == {"maxclients": "77"}
            assert client.info("server")["config_file"] == str(conf)
            client.config_set("hz", 30)
            client.config_rewrite()
        assert server.stop()[2] == ""
    assert conf.read_text() == f"# kept\nhz 30\ndaemonize yes\nlogfile {log}\nlog-format json\n"
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["config-passed-over", "ready"]


@pytest.mark.skipif(not Path("/etc/redis/redis.conf").exists(), reason="needs Debian's redis-server")
def test_a_stock_redis_conf_starts(tmp_path: Path):
    with ServerProcess(tmp_path, "--logfile", "", "/etc/redis/redis.conf") as server:
        assert "Ready to accept connections" in server.banner[-1]
        with redis.Redis(port=server.port) as client:
            assert client.ping()
            assert client.info("persistence")["aof_enabled"] == 0
        code, _, err = server.stop()
    assert code == 0
    assert err.count("daemonize") == 1
