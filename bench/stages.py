"""`python -m bench.stages`: the server's own work for a request, by stages, without the kernel's part.

Connections get the bytes that clients would send, in one process, without sockets: what is left is decoding, executing
with the turn around it, and the journal's part. In both forms, if `make compiled` was called before: the table in "What
bounds what" in bench/NOTES.md.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.client import request
from bench.servers import COMPILED
from streamd.base.clock import Clock
from streamd.base.filesystem import FileSystem
from streamd.base.form import form
from streamd.base.limits import AUTHENTICATED
from streamd.configuration.server_options import Config
from streamd.durability.persistence import Persistence
from streamd.engine.engine import Engine
from streamd.net.connection import Connection
from streamd.resp.fast_decoder import FastDecoder

TREE = Path(__file__).resolve().parent.parent
TIMES = 5  # the least counts
REQUESTS = 48_000  # of each time, about
AGAIN = 4_800  # of those that come twice: they are still remembered
VALUE = "x" * 52
Words = tuple[str, ...]


@dataclass(frozen=True)
class Shape:
    """One row: this many clients send this many requests at once, each made of its number.

    prepare: sent before. again: requests are sent twice, and the second time counts.
    """

    name: str
    clients: int
    depth: int
    words: Callable[[int], Words]
    prepare: tuple[Words, ...] = ()
    again: bool = False


def xadd(number: int, *between: str, key: str = "s") -> Words:
    """Return an XADD of a field of 64 bytes, of which twelve differ."""
    return ("XADD", key, *between, "*", "f", f"{VALUE}{number:012}")


SHAPES = (
    Shape("XADD", 1, 1, xadd),
    Shape("XADD", 50, 1, xadd),
    Shape("XADD", 10, 4, xadd),
    Shape("XADD", 50, 16, xadd),
    Shape(
        "XADD of 10 fields of 12 bytes",
        50,
        16,
        lambda n: ("XADD", "s", "*", *(word for at in range(10) for word in (f"f{at}", f"{n * 10 + at:012}"))),
    ),
    Shape("XADD `MAXLEN ~ 1000`", 50, 16, lambda n: xadd(n, "MAXLEN", "~", "1000")),
    Shape("XADD to 1,000 streams", 50, 16, lambda n: xadd(n, key=f"s{n * 7919 % 1000:03}")),
    Shape("XADD IDMP, one producer", 50, 16, lambda n: xadd(n, "IDMP", "p", f"{n:012}")),
    Shape("XADD IDMPAUTO, one producer", 50, 16, lambda n: xadd(n, "IDMPAUTO", "p")),
    Shape("XADD IDMP, 1,000 producers", 50, 16, lambda n: xadd(n, "IDMP", f"p{n * 7919 % 1000:03}", f"{n:012}")),
    Shape(
        "XADD IDMP, duplicates",
        50,
        16,
        lambda n: xadd(n, "IDMP", "p", f"{n:012}"),
        (("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"), ("XCFGSET", "s", "IDMP-MAXSIZE", "10000")),
        again=True,
    ),
    Shape(
        "XRANGE COUNT 10",
        50,
        1,
        lambda n: ("XRANGE", "r", f"{1000 + n * 7919 % 90_000}-0", "+", "COUNT", "10"),
        tuple(("XADD", "r", f"{1000 + at}-0", "f", f"{VALUE}{at:012}") for at in range(100_000)),
    ),
    Shape("SET", 50, 1, lambda n: ("SET", f"k:{n * 7919 % 1000}", f"{VALUE}{n:012}")),
    Shape(
        "GET", 50, 1, lambda n: ("GET", f"k:{n * 7919 % 1000}"), tuple(("SET", f"k:{at}", VALUE) for at in range(1000))
    ),
)


class Wire:
    """A transport that discards output, unless it begins with an error."""

    def write(self, data: bytes) -> None:
        if data[:1] == b"-":
            raise SystemExit(f"bench.stages: {data[:200]!r}")

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        raise SystemExit("bench.stages: a connection was closed")


class NoSyncs:
    """Syncs of the journal that never run: they are the disk's part, and a thread's."""

    def submit(self, job: Callable[[], None], done: Callable[[OSError | None], None], is_timed: bool = False) -> Any:
        done(None)
        return self

    def run_if_quick(self, job: Callable[[], None]) -> bool:
        return False


class Host:
    """The server of the connections."""

    def __init__(self, directory: str = "") -> None:
        """With a directory: one that has a journal there."""
        config = Config(appendonly=True, appendfsync="everysec", dir=directory) if directory else Config()
        self.engine = Engine(Clock(), config)
        self.connections: set[Connection] = set()
        if directory:
            state, syncs = self.engine.state, NoSyncs()
            journal = Persistence(state, FileSystem(), directory, syncs, syncs.submit, sys.exit, self.engine.serve)
            journal.open()
            for _ in journal.load():
                pass
            journal.begin()

    def end_turn(self) -> None:
        """A turn ends when all clients have sent."""

    def resume_soon(self, connection: Connection) -> None:
        raise SystemExit("bench.stages: a chunk was too large")

    def connect(self, clients: int) -> list[Connection]:
        """Return this many new clients."""
        connections = [Connection(self) for _ in range(clients)]
        for connection in connections:
            connection.connection_made(Wire())  # type: ignore[arg-type]
        return connections

    def receive(self, connections: list[Connection], turns: list[list[bytes]]) -> None:
        """Run turns; in each every client sends its chunk."""
        for chunks in turns:
            for connection, chunk in zip(connections, chunks, strict=True):
                connection.data_received(chunk)
            self.engine.end_turn()


def turns_of(shape: Shape, first: int, count: int) -> list[list[bytes]]:
    """Return the chunks of this many turns, one for each client."""
    numbers = itertools.count(first)
    return [
        [b"".join(request(*shape.words(next(numbers))) for _ in range(shape.depth)) for _ in range(shape.clients)]
        for _ in range(count)
    ]


def decoding_us(shape: Shape) -> float:
    """Return the microseconds of CPU to decode one request and free it."""
    decoders = [FastDecoder(AUTHENTICATED) for _ in range(shape.clients)]

    def receive(turns: list[list[bytes]]) -> None:
        for chunks in turns:
            for decoder, chunk in zip(decoders, chunks, strict=True):
                decoder.receive(chunk)

    return _least_us(shape, receive)


def whole_us(shape: Shape, directory: str = "") -> float:
    """Return the microseconds of CPU for one request from its bytes to its reply, without the kernel's part.

    directory: adds a journal; its writes are the kernel's, but counted.
    """
    host = Host(directory)
    host.receive(host.connect(1), [[request(*words)] for words in shape.prepare])
    connections = host.connect(shape.clients)
    return _least_us(shape, lambda turns: host.receive(connections, turns))


def _least_us(shape: Shape, receive: Callable[[list[list[bytes]]], None]) -> float:
    per_turn = shape.clients * shape.depth
    count = max(1, (AGAIN if shape.again else REQUESTS) // per_turn)
    least = float("inf")
    for number in range(TIMES + 1):
        turns = turns_of(shape, number * REQUESTS, count)
        if shape.again:
            receive(turns)
        start = time.process_time_ns()
        receive(turns)
        if number:
            least = min(least, time.process_time_ns() - start)
    return least / (count * per_turn) / 1000


def row(shape: Shape) -> list[float]:
    """Return the microseconds for decoding, for the rest of a request, and for a journal."""
    decoding, whole = decoding_us(shape), whole_us(shape)
    with tempfile.TemporaryDirectory() as directory:
        return [decoding, whole - decoding, whole_us(shape, directory) - whole]


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.stages", description=__doc__)
    parser.add_argument("--only", default="", help="the rows whose names contain this text")
    parser.add_argument("--row", type=int, help="only the figures of this row, in the form that this is")
    arguments = parser.parse_args()
    if arguments.row is not None:
        print(form(), *row(SHAPES[arguments.row]))
        return 0
    forms = ["pure", "compiled"] if COMPILED.is_file() else ["pure"]
    print(f"| ns for each | {' | '.join(f'{one}: decode | the rest | journal' for one in forms)} |")
    print(f"|---|{'---|' * 3 * len(forms)}")
    for number, shape in enumerate(SHAPES):
        if arguments.only not in shape.name:
            continue
        figures = [figure for one in forms for figure in _figures_of(one, number)]
        shown = " | ".join(f"{1000 * max(0, figure):,.0f}" for figure in figures)
        print(f"| {shape.name}, {_senders(shape)} | {shown} |", flush=True)
    return 0


def _figures_of(wanted: str, number: int) -> list[float]:
    """Return a row's figures in one form, from a process of its own, whose heap no other row has used."""
    python = str(COMPILED) if wanted == "compiled" else sys.executable
    # (The compiled streamd is that of its environment, and comes first; this tree has the rest.)
    start = f"import sys; sys.path.append({str(TREE)!r}); from bench.stages import main; sys.exit(main())"
    words = [python, "-P", "-c", start] if wanted == "compiled" else [python, "-m", "bench.stages"]
    done = subprocess.run([*words, "--row", str(number)], cwd=TREE, check=True, capture_output=True, text=True)
    found, *figures = done.stdout.split()
    if found != wanted:
        raise SystemExit(f"bench.stages: {python} runs the {found} form")
    return [float(figure) for figure in figures]


def _senders(shape: Shape) -> str:
    clients = f"{shape.clients} clients" if shape.clients > 1 else "1 client"
    return clients + (f" x {shape.depth}" if shape.depth > 1 else "")


if __name__ == "__main__":
    sys.exit(main())
