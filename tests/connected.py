"""Connections of the product on transports of the test's, around a server on a simulated disk."""

import socket
from typing import Any

from streamd.net.connection import Connection
from tests.crash.restartable import Restartable


class Transport:
    """Remembers what was written; `unread` of it is still to be read by the client."""

    def __init__(self, peer: tuple[str, int] = ("127.0.0.1", 50_000)) -> None:
        self.peer = peer
        self.written = b""
        self.pieces: list[bytes] = []
        self.unread = 0
        self.keeps = False
        self.reading = True
        self.closed = False
        self.aborted = False
        self.socket: socket.socket | None = None

    def get_extra_info(self, name: str) -> object:
        if name == "socket":
            return self.socket
        return {"peername": self.peer, "sockname": ("127.0.0.1", 6379)}.get(name)

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        self.written += data
        self.pieces.append(data)
        if self.keeps:
            self.unread += len(data)

    def writelines(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.write(piece)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Host:
    """A server on a simulated disk whose turns end when the test says so, as those of several clients do.

    transports: of all connections that were made, in their order.
    """

    def __init__(self, **options: Any) -> None:
        self.restartable = Restartable(**options)
        self.engine = self.restartable.engine
        self.clock = self.restartable.clock
        self.connections: set[Connection] = set()
        self.soon: list[Connection] = []
        self.transports: dict[Connection, Any] = {}

    def end_turn(self) -> None:
        """Be told that the turn may end."""

    def resume_soon(self, connection: Connection) -> None:
        self.soon.append(connection)

    def make_transport(self) -> Any:
        """Return what a further connection writes to."""
        return Transport(("127.0.0.1", 50_000 + len(self.transports)))

    def open(self) -> Connection:
        """Return a further connection."""
        connection = Connection(self)
        self.transports[connection] = self.make_transport()
        connection.connection_made(self.transports[connection])
        return connection

    def receive(self, connection: Connection, requests: list[list[bytes]], is_shared: bool = True) -> None:
        """Have requests arrive at a connection in one piece. is_shared: in a turn that others are taken to send in."""
        self.engine.gathering.is_shared = is_shared
        connection.data_received(b"".join(map(encoded, requests)))

    def written(self, connection: Connection) -> bytes:
        """Return all that has left towards a client."""
        written: bytes = self.transports[connection].written
        return written

    def turns(self) -> int:
        """End the turn, and run others until nothing goes on; return how many."""
        count = 0
        self.restartable.end_turn()
        while self.soon:
            count += 1
            going, self.soon = self.soon, []
            for connection in going:
                assert connection.client is not None
                if not connection.client.closed:
                    connection.resume()
            self.restartable.end_turn()
        return count

    def let_go(self) -> None:
        """Do what the loop does once a transport is closed: tell its connection."""
        for connection, transport in self.transports.items():
            if transport.closed and connection in self.connections:
                connection.connection_lost(None)


def encoded(words: list[bytes]) -> bytes:
    """Return a request as it is sent."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])
