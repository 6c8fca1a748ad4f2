"""The cost of a user's rules: a server's CPU for the same requests by a user with rules and by one without.

python -m bench.rules [--compiled] [--only TEXT] [--pairs N]

Both are clients of one server, on the same keys, in turn; the figure is the median of the pairs' ratios, which other
load on the machine moves little. A pipelined request has as little around it as can be, so there a look weighs most.
"""

import argparse
import random
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import hiredis

from bench.client import ask, request
from bench.servers import Target

RULES = "ann on nopass ~orders:* ~k:* %R~r:* &news:* -@all +@read +@write +@stream +@transaction +eval +publish -keys"
# So much CPU time is measured at once.
CHUNK_S = 0.03
VALUE = b"x" * 64
Words = tuple[bytes, ...]


@dataclass(frozen=True)
class Row:
    """One row: a round sends `depth` requests without waiting, each made of its number."""

    name: str
    depth: int
    make: Callable[[int], Iterable[Words]]


def _every(*words: bytes) -> Callable[[int], list[Words]]:
    return lambda number: [words]


def _transaction(number: int) -> list[Words]:
    inner = [(b"SET", b"k:%d" % at, VALUE) for at in range(4)]
    return [(b"MULTI",), *inner, (b"EXEC",)]


ROWS = (
    Row("GET", 1, _every(b"GET", b"k:1")),
    Row("GET, pipelined", 16, _every(b"GET", b"k:1")),
    Row("GET of 1,000 keys, pipelined", 1000, lambda number: [(b"GET", b"k:%d" % number)]),
    Row("SET", 1, _every(b"SET", b"k:1", VALUE)),
    Row("SET, pipelined", 16, _every(b"SET", b"k:1", VALUE)),
    Row("MGET of 10 keys", 1, _every(b"MGET", *(b"k:%d" % at for at in range(10)))),
    Row("MGET of 10 keys, pipelined", 16, _every(b"MGET", *(b"k:%d" % at for at in range(10)))),
    Row("XADD", 1, _every(b"XADD", b"orders:1", b"MAXLEN", b"~", b"1000", b"*", b"f", VALUE)),
    Row("XADD, pipelined", 16, _every(b"XADD", b"orders:1", b"MAXLEN", b"~", b"1000", b"*", b"f", VALUE)),
    Row("XADD, pipelined 100", 100, _every(b"XADD", b"orders:1", b"MAXLEN", b"~", b"1000", b"*", b"f", VALUE)),
    Row("XADD to 16 streams, pipelined", 16,
        lambda number: [(b"XADD", b"orders:%d" % number, b"MAXLEN", b"~", b"1000", b"*", b"f", VALUE)]),
    Row("XLEN", 1, _every(b"XLEN", b"orders:1")),
    Row("XRANGE of 10", 1, _every(b"XRANGE", b"r:1", b"-", b"+", b"COUNT", b"10")),
    Row("XREAD of 10", 1, _every(b"XREAD", b"COUNT", b"10", b"STREAMS", b"r:1", b"0")),
    Row("XREAD of 10, new IDs", 16, lambda number: [(b"XREAD", b"COUNT", b"10", b"STREAMS", b"r:1", b"%d-0" % number)]),
    Row("XREADGROUP with nothing new", 1, _every(b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"orders:g", b">")),
    Row("XACK, pipelined", 16, _every(b"XACK", b"orders:g", b"g", b"1-1")),
    Row("MULTI, 4 SET, EXEC", 1, _transaction),
    Row("EVAL of one GET", 1, _every(b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", b"k:1")),
    Row("PUBLISH", 1, _every(b"PUBLISH", b"news:1", VALUE)),
    # From here on more keys were named than are remembered.
    Row("GET of 100,000 keys, pipelined", 100_000, lambda number: [(b"GET", b"k:%d" % number)]),
    Row("MGET of 10 of them", 10_000, lambda number: [(b"MGET", *(b"k:%d" % (10 * number + at) for at in range(10)))]),
)  # fmt: skip


def prepare(target: Target) -> None:
    """Create the data of the rows."""
    with target.connect() as sock:
        ask(sock, "XGROUP", "CREATE", "orders:g", "g", "$", "MKSTREAM")
        for number in range(1, 21):
            ask(sock, "XADD", "r:1", f"{number}-0", "f", VALUE.decode())
        for number in range(10):
            ask(sock, "SET", f"k:{number}", VALUE.decode())


def converse(sock: socket.socket, reader: hiredis.Reader, data: bytes, replies: int, rounds: int) -> None:
    """Send requests for this many rounds, each after all replies of the one before; an error ends the run."""
    for _ in range(rounds):
        sock.sendall(data)
        left = replies
        while left:
            reply = reader.gets()
            if reply is False:
                reader.feed(sock.recv(1 << 18))
                continue
            if isinstance(reply, hiredis.ReplyError):
                raise SystemExit(f"bench: the server answered {reply}")
            left -= 1


def measure(target: Target, row: Row, pairs: int) -> tuple[float, float, float]:
    """Return microseconds of CPU a request without rules and with them, and the median of the ratios."""
    requests = [words for number in range(row.depth) for words in row.make(number)]
    data = b"".join(request(*words) for words in requests)
    with target.connect() as plain, target.connect() as ruled:
        ask(ruled, "AUTH", "ann", "x")
        replies = len(requests)

        def cost(sock: socket.socket, rounds: int) -> float:
            before = target.cpu_s()
            converse(sock, hiredis.Reader(), data, replies, rounds)
            return (target.cpu_s() - before) / rounds / replies

        rounds = 1
        while (took := cost(plain, rounds) * rounds * replies) < CHUNK_S:
            rounds = max(rounds + 1, min(rounds * 10, int(rounds * CHUNK_S / max(took, 1e-6))))
        cost(ruled, rounds)
        found = []
        coin = random.Random(pairs)
        for _ in range(pairs):
            # (Not in turn: what a stream does every hundred entries would fall to the same one each time.)
            order = (plain, ruled) if coin.getrandbits(1) else (ruled, plain)
            costs = {sock: cost(sock, rounds) for sock in order}
            found.append((costs[plain], costs[ruled]))
    return (
        median(one for one, _ in found) * 1e6,
        median(other for _, other in found) * 1e6,
        median(other / one for one, other in found),
    )


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description="what a user's rules cost")
    parser.add_argument("--only", default="", help="run the rows whose name contains this text")
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--compiled", action="store_true", help="measure what `make compiled` built")
    arguments = parser.parse_args()
    print(f"{'':36}{'without':>10}{'with rules':>12}{'ratio':>8}   (server CPU, us a request)")
    with Target("compiled" if arguments.compiled else "streamd", ["--user", RULES]) as target:
        prepare(target)
        for row in ROWS:
            if arguments.only.lower() in row.name.lower():
                plain, ruled, ratio = measure(target, row, arguments.pairs)
                print(f"{row.name:36}{plain:10.2f}{ruled:12.2f}{ratio:8.3f}", flush=True)


if __name__ == "__main__":
    main()
