"""The demo's proxy cuts where it says it cuts."""

import socket
import threading
from contextlib import closing

import pytest

from demo.proxy import KINDS, REPLY_TORN, REPLY_WITHHELD, REQUEST_TORN, CuttingProxy

REQUEST, REPLY = b"request\n", b"the reply\n"


class LineServer:
    """Answers every complete line with REPLY and remembers, per connection, what it received."""

    def __init__(self):
        self.received = []
        self.closed = threading.Semaphore(0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.received.append(b"")
            with connection:
                while data := self.receive(connection):
                    self.received[-1] += data
                    if data.endswith(b"\n"):
                        connection.sendall(REPLY)
            self.closed.release()

    @staticmethod
    def receive(connection):
        try:
            return connection.recv(4096)
        except ConnectionError:
            return b""


def receive_all(client):
    """Return what comes until the connection ends, however it ends."""
    received = b""
    try:
        while data := client.recv(4096):
            received += data
    except ConnectionError:
        pass
    return received


@pytest.fixture
def server():
    server = LineServer()
    yield server
    server.listener.close()


@pytest.fixture
def proxy(server):
    proxy = CuttingProxy(server.port, reads_between_cuts=(3, 3))
    proxy.start()
    yield proxy
    proxy.stop()


def test_each_connection_works_until_its_third_request_and_is_then_cut_as_planned(server, proxy):
    for kind in KINDS:
        with closing(socket.create_connection(("127.0.0.1", proxy.port), timeout=60)) as client:
            for _ in range(2):
                client.sendall(REQUEST)
                assert client.recv(4096) == REPLY
            client.sendall(REQUEST)
            rest = receive_all(client)
        assert server.closed.acquire(timeout=60)

        assert rest == (REPLY[:5] if kind == REPLY_TORN else b"")
        assert server.received.pop() == REQUEST * 2 + (REQUEST[:4] if kind == REQUEST_TORN else REQUEST)

    assert proxy.cuts == {REPLY_WITHHELD: 2, REQUEST_TORN: 1, REPLY_TORN: 1}


def test_a_server_that_is_gone_means_a_cut_connection():
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        port = gone.getsockname()[1]
    proxy = CuttingProxy(port)
    proxy.start()
    with closing(socket.create_connection(("127.0.0.1", proxy.port), timeout=60)) as client:
        assert receive_all(client) == b""
    proxy.stop()
