"""The admin port while others use it badly: idle connections, and clients that end their side behind the request."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.ports import free_port
from streamd.net import admin
from streamd.testing import EmbeddedServer
from tests.integration.process import ServerProcess


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(admin_port=free_port()) as server:
        yield server


def connect(server: EmbeddedServer) -> socket.socket:
    return socket.create_connection(server._server.admin_addresses[0], timeout=60)


def ask(server: EmbeddedServer, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*server._server.admin_addresses[0], timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def all_of(sock: socket.socket) -> bytes:
    """Return what comes up to the end of the connection."""
    data = b""
    while piece := sock.recv(1 << 16):
        data += piece
    return data


@pytest.mark.parametrize("count", [16, admin.CONNECTIONS_MAX, 3 * admin.CONNECTIONS_MAX])
@pytest.mark.parametrize("begun", [b"", b"GET /metrics HTT"])
def test_faults2_3_9_idle_connections_keep_nobody_from_asking(server: EmbeddedServer, count: int, begun: bytes):
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(count)]
        for sock in idle[-admin.CONNECTIONS_MAX // 2 :]:
            sock.sendall(begun)
        for path in ("/healthz", "/readyz", "/metrics", "/healthz"):
            assert ask(server, path)[0] == 200
        assert len(server._server.admin_connections) <= admin.CONNECTIONS_MAX
        # The newest of them are still there, and are answered once they ask.
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n" if not begun else b"P/1.1\r\n\r\n")
        assert all_of(idle[-1]).startswith(b"HTTP/1.1 200 OK\r\n")


def test_faults2_3_9_the_oldest_that_waits_for_its_request_goes_first(server: EmbeddedServer):
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(admin.CONNECTIONS_MAX)]
        assert ask(server, "/healthz")[0] == 200
        assert ended(idle[0])
        idle[1].sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert all_of(idle[1]).startswith(b"HTTP/1.1 200 OK\r\n")


def ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("path", [b"/metrics", b"/healthz", b"/readyz", b"/none"])
@pytest.mark.parametrize("at", [0, 1, 9, -1])
def test_faults2_3_9_a_client_that_ends_its_side_has_its_whole_answer(server: EmbeddedServer, path: bytes, at: int):
    client = server.client()
    for number in range(300):
        client.xadd(f"s{number}", {"n": 1})
    request = b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path
    with connect(server) as sock:
        sock.sendall(request[:at])
        sock.sendall(request[at:])
        sock.shutdown(socket.SHUT_WR)
        head, _, body = all_of(sock).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404" if path == b"/none" else b"HTTP/1.1 200")
    assert b"Content-Length: %d\r\n" % len(body) in head
    if path == b"/metrics":
        assert body.count(b"redis_stream_length{") == 100
    assert server._server.admin_connections == {}
    assert server.internal_errors == 0


@pytest.mark.parametrize("pure", [False, True], ids=["uvloop", "asyncio"])
def test_faults2_3_9_so_it_is_on_either_loop(tmp_path: Path, pure: bool):
    port = free_port()
    with ServerProcess(tmp_path, "--admin-port", str(port), pure=pure), ExitStack() as stack:
        for _ in range(2 * admin.CONNECTIONS_MAX):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        for path in (b"/healthz", b"/metrics"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
                sock.sendall(b"GET %b HTTP/1.1\r\n\r\n" % path)
                sock.shutdown(socket.SHUT_WR)
                head, _, body = all_of(sock).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"Content-Length: %d\r\n" % len(body) in head


def test_faults2_3_9_a_client_that_ends_its_side_within_its_request_is_closed(server: EmbeddedServer):
    with connect(server) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        sock.shutdown(socket.SHUT_WR)
        assert all_of(sock) == b""
    assert ask(server, "/healthz")[0] == 200


def test_faults2_3_9_more_scrapes_than_allowed_are_refused_and_health_is_not(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
):
    go_on: list[bool] = []

    def expose(host: object, write) -> Iterator[int]:
        while not go_on:
            yield 1
        write("redis_up 1\n")

    monkeypatch.setattr(server._server, "_expose", expose)
    with ExitStack() as stack:
        scrapes = [stack.enter_context(connect(server)) for _ in range(admin.SCRAPES_MAX)]
        for sock in scrapes:
            sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        while sum(one.is_served for one in list(server._server.admin_connections)) < admin.SCRAPES_MAX:
            pass
        assert ask(server, "/metrics") == (503, b"too many scrapes\n")
        assert ask(server, "/healthz")[0] == 200
        go_on.append(True)
        assert all(all_of(sock).endswith(b"redis_up 1\n") for sock in scrapes)
