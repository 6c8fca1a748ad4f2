"""Measures the cost of a request on one server: CPU of the thread that executes commands."""

import multiprocessing
import select
import socket
import time
from pathlib import Path

from bench.latency import ping
from bench.servers import Target
from bench.slopes.row import requests

END = b"the end of the reply"
_SENTINEL = b"*2\r\n$4\r\nPING\r\n$%d\r\n%b\r\n" % (len(END), END)
PATIENCE_S = 30.0
PIECE_BYTES = 1 << 18
# A request that is refused on both servers is no measurement; so many bytes of the reply say why.
HEAD_BYTES = 200


class Unanswered(Exception):
    """The server did not reply, or closed the connection."""


class Probe:
    """A server with connections to it: one that is measured, and those of a row."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._others: list[socket.socket] = []
        self._sock = self._connect()

    def _connect(self) -> socket.socket:
        sock = self.target.connect()
        sock.setblocking(False)
        return sock

    def prepare(self, text: str, n: int) -> None:
        """Empty the server, close what a row opened, and execute requests. Raises: Unanswered."""
        for sock in (self._sock, *self._others):
            sock.close()
        self._others.clear()
        self._sock = self._connect()
        self.execute("FLUSHALL", n)
        self.execute(text, n)
        self.settle()

    def execute(self, text: str, n: int) -> None:
        """Execute requests that are not measured. Raises: Unanswered, also when one is refused."""
        for apart, data in requests(text, n):
            if apart:
                sock = self.target.connect()
                sock.sendall(data)  # who waits is not answered: settle() lets the server come so far
                self._others.append(sock)
            else:
                refused = self._exchange(data, every=True)
                if refused:
                    raise Unanswered(f"prepared: {refused!r}")

    def cost_us(self, text: str, n: int) -> tuple[float, bytes]:
        """Return the cost of requests in microseconds, and the beginning of the first reply. Raises: Unanswered."""
        data = b"".join(data for _, data in requests(text, n))
        before_ns = self._computed_ns()
        head = self._exchange(data)
        return (self._computed_ns() - before_ns) / 1e3, head

    def longest_wait_ms(self, text: str, n: int) -> float:
        """Return the server's longest computing during one PING of another client. Raises: Unanswered."""
        data = b"".join(data for _, data in requests(text, n))
        here, there = multiprocessing.Pipe()
        pinger = multiprocessing.get_context("fork").Process(target=ping, args=(self.target, there))
        pinger.start()
        here.recv()
        try:
            self._exchange(data)
        finally:
            here.send(None)
            _, computed_ms, _ = here.recv()
            pinger.join()
        return float(computed_ms)

    def settle(self) -> None:
        """Return when the server is idle."""
        deadline = time.monotonic() + 3
        before_ns = self._computed_ns()
        while time.monotonic() < deadline:
            time.sleep(0.004)
            now_ns = self._computed_ns()
            if now_ns - before_ns < 300_000:
                return
            before_ns = now_ns

    def _exchange(self, data: bytes, every: bool = False) -> bytes:
        """Send and receive until all is answered; return how the reply begins, with `every` the first refusal."""
        waiting, head, tail, refused = memoryview(data + _SENTINEL), b"", b"\n", b""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN | select.POLLOUT)
        deadline = time.monotonic() + PATIENCE_S
        while not tail.endswith(END + b"\r\n"):
            events = poll.poll(1_000)
            if time.monotonic() > deadline:
                raise Unanswered(f"no answer within {PATIENCE_S:.0f} s")
            event = events[0][1] if events else 0
            if event & ~select.POLLOUT:
                got = self._receive()
                if every and not refused and b"\n-" in tail[-1:] + got:
                    refused = (tail[-1:] + got).split(b"\n-", 1)[1][:HEAD_BYTES]
                head = head if len(head) >= HEAD_BYTES else head + got[:HEAD_BYTES]
                tail = (tail + got[-64:])[-64:]
            if event & select.POLLOUT:
                waiting = waiting[self._sock.send(waiting[:PIECE_BYTES]) :]
                if not waiting:
                    poll.modify(self._sock, select.POLLIN)
        return refused if every else head

    def _receive(self) -> bytes:
        try:
            got = self._sock.recv(1 << 20)
        except OSError as error:
            raise Unanswered(str(error)) from None
        if not got:
            raise Unanswered("the connection was closed")
        return got

    def _ran_ns(self) -> int:
        return int(Path(f"/proc/{self.target.process.pid}/schedstat").read_text().split()[0])

    def _computed_ns(self) -> int:
        """Return how long the thread has had a processor, when it sleeps: until then the kernel has not added all."""
        stat = Path(f"/proc/{self.target.process.pid}/stat")
        deadline = time.monotonic() + PATIENCE_S
        while stat.read_text().rpartition(")")[2].split()[0] == "R":
            if time.monotonic() > deadline:
                raise Unanswered("the server does not come to rest")
            time.sleep(0.0001)
        return self._ran_ns()
