"""A raw client beyond redis-benchmark: it sends ready-made bytes and counts the bytes of replies."""

import socket
from collections.abc import Sequence


def request(*words: bytes | str | int) -> bytes:
    """Return a request in RESP."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)


class Replies:
    """Reads replies without building them: it only finds their ends."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._buffer = b""

    def line(self) -> bytes:
        """Return the next line without its end."""
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def reply(self) -> object:
        """Return the next reply as bytes, int, None or list."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            size = int(rest)
            if size < 0:
                return None
            while len(self._buffer) < size + 2:
                self._fill()
            data, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
            return data
        if kind in b"*%>~":
            count = int(rest) * (2 if kind == b"%" else 1)
            return None if count < 0 else [self.reply() for _ in range(count)]
        if kind == b"-":
            return self.error(rest)
        return int(rest) if kind == b":" else rest

    def error(self, line: bytes) -> object:
        """Return the value for an error. Raises: SystemExit for an unexpected one."""
        raise SystemExit(f"bench: the server answered {line.decode()}")

    def _fill(self) -> None:
        data = self._sock.recv(1 << 18)
        if not data:
            raise SystemExit("bench: the server closed the connection")
        self._buffer += data


def ask(sock: socket.socket, *words: bytes | str | int) -> object:
    """Send one request and return its reply."""
    sock.sendall(request(*words))
    return Replies(sock).reply()


def drain(sock: socket.socket, count_bytes: int) -> None:
    """Receive exactly this many bytes and discard them."""
    view = memoryview(bytearray(1 << 20))
    left = count_bytes
    while left:
        got = sock.recv_into(view[: min(left, len(view))])
        if not got:
            raise SystemExit("bench: the server closed the connection")
        left -= got


def load(sock: socket.socket, requests: Sequence[bytes], reply_bytes_each: int | None = None, batch: int = 500) -> None:
    """Send requests in batches and read their replies."""
    replies = Replies(sock)
    for start in range(0, len(requests), batch):
        part = requests[start : start + batch]
        sock.sendall(b"".join(part))
        if reply_bytes_each is not None:
            drain(sock, reply_bytes_each * len(part))
        else:
            for _ in part:
                replies.reply()
