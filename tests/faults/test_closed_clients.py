"""Memory of clients that are gone: it is free at once, not when the collector of cycles runs."""

import gc
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from streamd.catalog import Context
from streamd.net.connection import Connection
from tests.faults.test_end_of_input import encoded, until
from tests.integration.process import ServerProcess
from tests.spark.deployments import make_certificates
from tests.unit.net.test_connection import FakeServer

SENT_BYTES = 20_000_000
BEGUN = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + b"v" * 500_000
LEFT_BEHIND = {
    "nothing": [b"PING\r\n"],
    "a value half sent": [BEGUN],
    "a line half sent": [b"PING\r\nSET k"],
    "a transaction": [b"WATCH a\r\nMULTI\r\n" + encoded("SET", "k", b"v" * 100_000)],
    "subscriptions": [b"SUBSCRIBE c\r\nPSUBSCRIBE p*\r\n"],
    "a wait": [b"BLPOP l 0\r\nPING\r\n"],
    "a wait for a filter": [b"XFILTER s - + FIELD f EQ v COUNT 1 BLOCK 0\r\n"],
    "a reply being made": [b"LRANGE long 0 -1\r\nPING\r\n"],
    "tracking": [b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET k\r\n"],
    "tracking of all": [b"HELLO 3\r\nCLIENT TRACKING ON BCAST PREFIX a\r\n"],
    "a monitor": [b"MONITOR\r\n"],
    "an error of the protocol": [b"*1\r\n!4\r\n"],
    "a quit": [b"QUIT\r\n"],
}


def left() -> int:
    """Return how many clients and connections are in memory."""
    return sum(type(thing) in (Connection, Context) for thing in gc.get_objects())


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def served(**options: object) -> FakeServer:
    server = FakeServer(**options)
    first, _ = server.connect()
    first.data_received(encoded("AUTH", "secret") if options else b"PING\r\n")
    first.data_received(encoded("RPUSH", "long", *range(20_000)))
    return server


@pytest.mark.parametrize("sent", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
@pytest.mark.parametrize("options", [{}, {"requirepass": "secret"}], ids=["known", "unknown"])
def test_faults2_2_1_a_client_that_is_gone_leaves_nothing(sent: list[bytes], options, without_collector: None):
    server = served(**options)

    def come_and_go() -> None:
        connection, _ = server.connect()
        for data in sent:
            connection.data_received(data)
        connection.connection_lost(None)
        while server.soon:
            going_on = server.soon.pop()
            if going_on.client is not None and not going_on.client.closed:
                going_on.resume()
                server.end_turn()

    come_and_go()  # what is made once, with the first such client
    before = left()
    come_and_go()
    assert left() == before


def test_faults2_2_1_a_client_that_is_closed_by_the_server_leaves_nothing(without_collector: None):
    server = served()
    before = left()

    def be_killed() -> None:
        killer, _ = server.connect()
        victim, transport = server.connect()
        victim.data_received(b"MULTI\r\n" + BEGUN)
        killer.data_received(b"CLIENT KILL TYPE normal SKIPME yes\r\n")
        assert transport.closed
        for one in (victim, killer, *server.connections):
            one.connection_lost(None)
        server.soon.clear()

    be_killed()
    assert left() == before - 2


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "tls"])
def test_faults2_2_1_values_half_sent_are_free_once_their_clients_are_gone(
    loop: str, is_encrypted: bool, tmp_path: Path
):
    made, port, tls_port = make_certificates(tmp_path), free_port(), free_port()
    options = ["--port", str(port), *made.options(tls_port, "no")]
    process = ServerProcess(tmp_path / "data", *options, pure=loop == "asyncio")
    with process, redis.Redis(port=port) as client:
        rollup = Path(f"/proc/{process.process.pid}/smaps_rollup")
        context = ssl.create_default_context(cafile=str(made.ca))

        def come_and_go() -> None:
            sock = socket.create_connection(("127.0.0.1", tls_port if is_encrypted else port), timeout=30)
            if is_encrypted:
                sock = context.wrap_socket(sock, server_hostname="localhost")
            with sock:
                sock.sendall(b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$30000000\r\n" + bytes(SENT_BYTES))
                assert sock.recv(7) == b"+PONG\r\n"
            until(lambda: client.info("clients")["connected_clients"] == 1)

        come_and_go()
        before = anonymous_bytes(rollup)
        for _ in range(10):
            come_and_go()
        assert anonymous_bytes(rollup) - before < 4 * SENT_BYTES


def anonymous_bytes(rollup: Path) -> int:
    return next(int(line.split()[1]) << 10 for line in rollup.read_text().splitlines() if line.startswith("Pss_Anon:"))
