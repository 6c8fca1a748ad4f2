"""The admin port: health, metrics, what it refuses, and who else is held up by it."""

import asyncio
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.ports import free_port
from streamd.configuration.server_options import Config
from streamd.engine.survey import WORK_PER_SLICE
from streamd.net import listeners
from streamd.net.supervision import notify, take_sockets
from streamd.testing import EmbeddedServer
from tests.integration.process import ServerProcess


@pytest.fixture
def server(tmp_path: Path):
    with EmbeddedServer(admin_port=free_port(), appendonly=True, dir=str(tmp_path), appendfsync="always") as server:
        yield server


def ask(server: EmbeddedServer, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server._server.admin_addresses[0][1], timeout=60)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_health_and_readiness(server):
    assert ask(server, "/healthz") == (200, "ok\n")
    assert ask(server, "/readyz") == (200, "ok\n")
    assert ask(server, "/readyz?verbose=1") == (200, "ok\n")
    assert ask(server, "/healthz", "HEAD") == (200, "")
    assert ask(server, "/other")[0] == 404
    assert ask(server, "/healthz", "POST")[0] == 405


def test_a_server_that_refuses_writes_is_not_ready_but_healthy(server):
    from streamd.base.errors import CommandError

    server._server.engine.state.write_error = CommandError("MISCONF Errors writing to the AOF file: full")
    assert ask(server, "/readyz") == (503, "MISCONF Errors writing to the AOF file: full\n")
    assert ask(server, "/healthz") == (200, "ok\n")
    server._server.engine.state.write_error = None


def test_a_server_that_loads_is_not_ready(server, monkeypatch):
    server._server.engine.state.is_loading = True
    assert ask(server, "/readyz") == (503, "loading the journal\n")
    server._server.engine.state.is_loading = False


def test_the_metrics_have_turns_the_barrier_and_syncs(server):
    client = server.client()
    for number in range(10):
        client.xadd("orders", {"n": number})
    status, text = ask(server, "/metrics")
    assert status == 200
    values = {
        (sample.name, sample.labels.get("stream")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["redis_stream_length", "orders"] == 10
    assert values["streamd_turn_seconds_count", None] >= 10
    assert values["streamd_barrier_seconds_count", None] >= 10
    assert values["streamd_fsync_seconds_count", None] >= 1
    assert 0 < values["streamd_turn_seconds_sum", None] < 60
    assert server.internal_errors == 0


def test_others_have_their_turn_between_any_two_slices_of_a_scrape(server, monkeypatch):
    client = server.client()
    pipeline = client.pipeline(transaction=False)
    for number in range(3000):
        pipeline.xadd(f"s{number}", {"n": number})
    pipeline.execute()
    turns_of_the_loop: list[int] = []
    missed: list[int] = []
    scrape = server._server.scrape

    def watched(*arguments):
        for number, work in enumerate(scrape(*arguments)):
            if len(turns_of_the_loop) != number:
                missed.append(number)
            asyncio.get_running_loop().call_soon(turns_of_the_loop.append, work)
            yield work

    monkeypatch.setattr(server._server, "scrape", watched)
    assert ask(server, "/metrics")[0] == 200
    assert missed == []
    assert sum(turns_of_the_loop) > 3000
    assert max(turns_of_the_loop) <= WORK_PER_SLICE + 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET nopath HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n" + b"x" * 20_000, b"400"),
        (b"GET /healthz HTTP/1.0\n\n", b"200"),
        (b"G", None),
    ],
)
def test_bad_requests_are_answered_or_left_alone(server, sent, status):
    with socket.create_connection(server._server.admin_addresses[0], timeout=60) as sock:
        for at in range(0, len(sent), 7):
            sock.sendall(sent[at : at + 7]) if len(sent) < 100 else None
        if len(sent) >= 100:
            sock.sendall(sent)
        if status is not None:
            assert sock.recv(1000).split(b" ")[1] == status
    assert ask(server, "/healthz")[0] == 200


def test_the_admin_port_is_off_unless_asked_for_and_on_this_machine_only():
    with EmbeddedServer() as server:
        assert server._server.admin_addresses == []
        assert server._server.measures is None
    assert [listener.is_admin for listener in listeners.LISTENERS] == [False, False, False, True]
    with EmbeddedServer(admin_port=free_port()) as server:
        assert [host for host, _ in server._server.admin_addresses] == ["127.0.0.1"]


def test_redis_words_for_all_addresses_are_both_families():
    places = listeners._bound_places(Config(bind="* -::*", port=7))
    assert places == [("0.0.0.0", 7, False), ("::", 7, True)]


def test_without_the_library_there_are_no_metrics_but_the_rest(server, monkeypatch):
    monkeypatch.setattr(server._server, "_expose", None)
    status, text = ask(server, "/metrics")
    assert (status, "pip install 'streamd-server[metrics]'" in text) == (501, True)
    assert ask(server, "/readyz") == (200, "ok\n")


def test_a_scrape_that_takes_long_is_not_taken_for_a_slow_client(server, monkeypatch):
    waits_for_client = []

    def expose(host, write):
        for _ in range(3):
            waits_for_client.extend(not one._patience.cancelled() for one in host.admin_connections)
            yield 1
        write("redis_up 1\n")

    monkeypatch.setattr(server._server, "_expose", expose)
    assert ask(server, "/metrics") == (200, "redis_up 1\n")
    assert waits_for_client == [False] * 3


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
def test_promtool_reads_the_metrics(server):
    server.client().xadd("orders", {"n": 1})
    text = ask(server, "/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    complaints = [line for line in (done.stdout + done.stderr).splitlines() if line]
    # redis_exporter's name, whatever promtool thinks of it
    assert [line for line in complaints if "redis_aof_last_rewrite_duration_sec" not in line] == []


# -- systemd ----------------------------------------------------------------------------------------------------------


def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path: Path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with ServerProcess(tmp_path / "data") as server:
            said = systemd.recv(1000).decode().split("\n")
            assert said[:2] == ["READY=1", f"MAINPID={server.process.pid}"]
            assert said[2].startswith("STATUS=serving on 127.0.0.1:")
        assert systemd.recv(1000) == b"STOPPING=1"


def test_nobody_is_told_where_nobody_asks_or_is_there(tmp_path: Path):
    assert not notify({}, READY=1)
    assert not notify({"NOTIFY_SOCKET": "relative"}, READY=1)
    assert not notify({"NOTIFY_SOCKET": str(tmp_path / "gone")}, READY=1)


def test_sockets_of_another_process_are_not_taken():
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDNAMES": "x", "PATH": "y"}
    assert take_sockets(environment) == []
    assert environment == {"PATH": "y"}


ACTIVATE = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
if listener.fileno() != 3:
    os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "streamd", "serve", *sys.argv[1:]])
"""


def test_a_server_serves_the_socket_that_was_opened_for_it(tmp_path: Path):
    words = [sys.executable, "-c", ACTIVATE, "--port", "1", "--dir", str(tmp_path), "--log-format", "json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:  # it waits in the socket till the start
            sock.sendall(b"PING\r\n")
            assert sock.recv(100) == b"+PONG\r\n"
    finally:
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["ready"]
