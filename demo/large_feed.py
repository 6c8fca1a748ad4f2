"""The readings of the demo of large streams, and a producer that sends each until it has a reply."""

import socket
from collections.abc import Iterator
from typing import Final

STREAM: Final = "telemetry"
DEVICES: Final = 1_000
# So many requests are sent at once; the next batch is sent before the replies of this one are read.
BATCH: Final = 2_000

# Fixed widths: the requests of a batch differ in the digits alone.
_REQUEST: Final = (
    b"*12\r\n$4\r\nXADD\r\n$9\r\ntelemetry\r\n$4\r\nIDMP\r\n$4\r\nfeed\r\n$8\r\n%08d\r\n$1\r\n*\r\n"
    b"$6\r\ndevice\r\n$5\r\nd%04d\r\n$1\r\nn\r\n$8\r\n%08d\r\n"
    b'$7\r\nreading\r\n$81\r\n{"temperature":%05.2f,"humidity":%04.1f,"unit":"celsius","trace":"%016x"}\r\n'
)
# Makes numbers that look random of consecutive ones.
_ODD: Final = 0x9E37_79B9_7F4A_7C15
_WORD: Final = 0xFFFF_FFFF_FFFF_FFFF


def requests_of(low: int, high: int) -> bytes:
    """Return the requests of the readings from number `low` to before `high`; the same each time."""
    return b"".join(
        [
            _REQUEST % (n, n % DEVICES, n, 10 + n * 7919 % 8_999 / 100, 10 + n * 104_729 % 899 / 10, n * _ODD & _WORD)
            for n in range(low, high)
        ]
    )


def numbers_of(device: int, entries: int) -> range:
    """Return the numbers of a device's readings, if there are so many of all devices."""
    return range(device, entries, DEVICES)


class Producer:
    """Sends the readings in order, under their numbers as idempotent IDs.

    replied: how many have their replies. repeated: how many were sent a second time.
    """

    def __init__(self, port: int, entries: int) -> None:
        self._port = port
        self._entries = entries
        self.replied = self.repeated = 0
        self._ahead = 0  # lines of replies of the next batch that came with the ones of this batch

    def run(self) -> Iterator[int]:
        """Send until all have their replies; yields after each batch, while the next one is on its way.

        Raises: OSError when the server is gone.
        """
        self._ahead = 0
        with socket.create_connection(("127.0.0.1", self._port), timeout=60) as sock:
            sent = [self._send(sock, self.replied)]
            while self.replied < self._entries:
                sent.append(self._send(sock, sent[-1]))
                self._take_replies(sock, sent[0] - self.replied)
                self.replied = sent.pop(0)
                yield self.replied

    def resume(self) -> None:
        """Note that what was on its way has to be sent again."""
        self.repeated += min(self._entries, self.replied + 2 * BATCH) - self.replied

    def _send(self, sock: socket.socket, low: int) -> int:
        high = min(low + BATCH, self._entries)
        sock.sendall(requests_of(low, high))
        return high

    def _take_replies(self, sock: socket.socket, count: int) -> None:
        """Read this many replies: a bulk string each, which are two lines. Raises: OSError."""
        lines = 2 * count - self._ahead
        while lines > 0:
            data = sock.recv(1 << 17)
            if not data:
                raise ConnectionError("the server has closed the connection")
            if b"-ERR" in data or b"-MISCONF" in data or b"-OOM" in data:
                raise ConnectionError(f"the server replied {data[:100]!r}")
            lines -= data.count(b"\n")
        self._ahead = -lines
