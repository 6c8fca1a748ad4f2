"""Sends requests to another server and waits for its replies: keys on their way by MIGRATE."""

import socket
import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

from streamd.catalog.transfer import Target, TargetAway, TargetRefused
from streamd.journal.record import encode_command

# So many requests are sent before their replies are read: a target stops reading while its replies are not read.
_REQUESTS_AT_ONCE: Final = 64
# A step in which the timeout must suffice: to send so many bytes, or to receive a line.
_STEP_BYTES: Final = 64 * 1024
_LINE_BYTES_MAX: Final = 1024


def transfer(target: Target, requests: Iterator[list[bytes]]) -> Iterator[bytes]:
    """Yield the first line of the reply to each request, which is sent to a target; see streamd.catalog.transfer.

    It blocks. Nothing is sent to a target that has refused the user or the database.
    """
    with _connected(target) as connection:
        link = _Link(connection, target.timeout_ms / 1000)
        greetings = [[b"AUTH", *target.credentials]] if target.credentials else []
        greetings.append([b"SELECT", b"%d" % target.database])
        link.send(greetings)
        for _ in greetings:
            line = link.line()
            if line[:1] == b"-":
                raise TargetRefused(line[1:])
        while some := list(islice(requests, _REQUESTS_AT_ONCE)):
            link.send(some)
            for _ in some:
                yield link.line()


def _connected(target: Target) -> socket.socket:
    try:
        host = target.host.decode()
        # (Redis hands the lower 16 bits on.)
        port = target.port % 65536 if target.port >= 0 else target.port
        return socket.create_connection((host, port), target.timeout_ms / 1000)
    except ConnectionRefusedError:
        # Redis notices that with the first bytes that it sends.
        raise TargetAway("writing to target instance")
    except (OSError, OverflowError, ValueError):
        raise TargetAway("connecting to the client")


class _Link:
    """The connection to a target. A step that takes longer than the timeout ends with TargetAway."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._received = bytearray()

    def send(self, requests: list[list[bytes]]) -> None:
        """Send requests."""
        self._connection.settimeout(self._timeout_s)
        try:
            for words in requests:
                data = memoryview(encode_command(words))
                for at in range(0, len(data), _STEP_BYTES):
                    self._connection.sendall(data[at : at + _STEP_BYTES])
        except OSError:
            raise TargetAway("writing to target instance")

    def line(self) -> bytes:
        """Return the next line, without its end."""
        received = self._received
        deadline_s = time.monotonic() + self._timeout_s
        try:
            while (end := received.find(b"\r\n")) < 0:
                self._connection.settimeout(max(0.001, deadline_s - time.monotonic()))
                some = self._connection.recv(4096)
                if not some or len(received) > _LINE_BYTES_MAX or time.monotonic() > deadline_s:
                    raise TargetAway("reading to target instance")
                received += some
        except OSError:
            raise TargetAway("reading to target instance")
        line = bytes(received[:end])
        del received[: end + 2]
        return line
