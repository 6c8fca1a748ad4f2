"""The work of `bench.large_streams`: streams of three kinds of entries, written and read as bytes."""

import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

from bench.client import ask, drain, request
from bench.cold import KINDS
from bench.measure import Sample, timed
from bench.progress import said
from bench.servers import Target

MS = 1_700_000_000_000
AT_ONCE = 500
READ = 100  # entries of an XRANGE
STREAM = "s"
# Without a rewrite in between, whose work depends on how much is in memory.
NO_REWRITES = ("--auto-aof-rewrite-percentage", "0")
JOURNAL = ("--appendonly", "yes", "--appendfsync", "everysec")
COLD = (*JOURNAL, "--maxmemory", "4gb", "--stream-memory", "16mb")


def entries_of(kind: str, low: int, high: int) -> Iterator[list[bytes]]:
    """Yield the fields and values of entries; the same each time that it begins at the same number."""
    chance, texts = random.Random(low), KINDS[kind]
    for number in range(low, high):
        yield texts(number, chance)


def take_lines(sock: socket.socket, lines: int) -> None:
    """Receive so many lines, and nothing behind them."""
    left = lines
    while left > 0:
        data = sock.recv(1 << 18)
        if not data or data.startswith(b"-"):
            raise SystemExit(f"bench: the server answered {data[:100]!r}")
        left -= data.count(b"\n")


class Filled:
    """A stream's requests, and the bytes of what XRANGE replies to READ entries of it from each READ-th on.

    The IDs are those of consecutive milliseconds.
    """

    def __init__(self, kind: str, entries: int) -> None:
        self.kind, self.entries = kind, entries // AT_ONCE * AT_ONCE
        self.reply_bytes: list[int] = []

    def batches(self) -> Iterator[bytes]:
        """Yield the requests, AT_ONCE each."""
        self.reply_bytes.clear()
        for low in range(0, self.entries, AT_ONCE):
            found = []
            for number, words in enumerate(entries_of(self.kind, low, low + AT_ONCE), low):
                found.append(request("XADD", STREAM, f"{MS + number}-0", *words))
                if number % READ == 0:
                    self.reply_bytes.append(len(f"*{READ}\r\n"))
                self.reply_bytes[-1] += 4 + 22 + len(request(*words))
            yield b"".join(found)

    def fill(self, targets: Sequence[Target]) -> None:
        """Send it all to servers."""
        socks = [target.connect() for target in targets]
        with said(f"writing {self.entries:,} entries of {self.kind}"):
            for batch in self.batches():
                for sock in socks:
                    sock.sendall(batch)
                for sock in socks:
                    take_lines(sock, 2 * AT_ONCE)
        for sock in socks:
            sock.close()

    def read_all(self, target: Target) -> Sample:
        """Read the stream by XRANGE, one after the other; the operations are requests."""
        asked = [
            request("XRANGE", STREAM, str(MS + READ * at), "+", "COUNT", READ) for at in range(len(self.reply_bytes))
        ]
        with target.connect() as sock:

            def read() -> None:
                for sent, size in zip(asked, self.reply_bytes, strict=True):
                    sock.sendall(sent)
                    drain(sock, size)

            return timed(target, len(asked), read)


def info(target: Target, section: str = "persistence") -> dict[str, str]:
    """Return the fields of a section of INFO."""
    with target.connect() as sock:
        text = ask(sock, "INFO", section)
    assert isinstance(text, bytes)
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


def rewrite(target: Target) -> float:
    """Return the seconds of a rewrite of the journal."""
    before, began_s = info(target)["aof_rewrites"], time.monotonic()
    with target.connect() as sock:
        ask(sock, "BGREWRITEAOF")
    while (now := info(target))["aof_rewrites"] == before or now["aof_rewrite_in_progress"] == "1":
        time.sleep(0.005)
    return time.monotonic() - began_s


def forget(target: Target) -> None:
    """Have the system forget the segment files of a server, so that they are read from the disk."""
    for path in target.directory.rglob("*.seg"):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def alternate(
    names: dict[str, Target], work: Callable[[Target], Sample], rounds: int, what: str
) -> dict[str, list[Sample]]:
    """Do work on all servers in turn; the samples by the servers' names."""
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for number in range(rounds):
        for name in list(names) if number % 2 == 0 else reversed(names):
            forget(names[name])
            with said(f"{what}, round {number + 1} of {rounds}, {name}"):
                found[name].append(work(names[name]))
    return found


def ratio(found: dict[str, list[Sample]], one: str, other: str, figure: str = "rate") -> float:
    """Return the median over the rounds of one server's figure over another's."""
    pairs = zip(found[one], found[other], strict=True)
    return median([getattr(a, figure) / max(getattr(b, figure), 1e-9) for a, b in pairs])
