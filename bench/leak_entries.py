"""Memory behind a million small entries with idempotent IDs, beside as many without: the heap has no more holes."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.client import Replies, request
from bench.servers import Target

ENTRIES: Final = 1_000_000
NAME: Final = "XADD IDMP, values of 8 bytes, beside plain ones"
# So much more memory than behind plain XADDs a server may take.
MORE_PERCENT_MAX: Final = 2.0
_DEPTH: Final = 100  # requests of a pipeline, and names of a window
_WARM_UP: Final = 20_000


class Beside(NamedTuple):
    """A server's memory behind the entries, in bytes: without and with idempotent IDs."""

    plain: int
    named: int

    @property
    def percent(self) -> float:
        """How much more the named ones take."""
        return (self.named / self.plain - 1) * 100


def measure_beside(kind: str, entries: int = ENTRIES) -> Beside:
    """Return the memory of two servers of this kind. Both have a second client: requests wait for those of others."""
    return Beside(_behind(kind, False, entries), _behind(kind, True, entries))


def _behind(kind: str, is_named: bool, entries: int) -> int:
    values = random.Random(1)
    with Target(kind) as target, target.connect() as sock, target.connect():
        replies = Replies(sock)
        for first in range(0, _WARM_UP + entries, _DEPTH):
            if first == _WARM_UP:
                sock.sendall(request("DEL", "s"))
                replies.reply()
            sock.sendall(b"".join(_requests(values, is_named, first)))
            for _ in range(_DEPTH):
                replies.reply()
        return target.anonymous_bytes()


def _requests(values: random.Random, is_named: bool, first: int) -> Sequence[bytes]:
    return [
        request("XADD", "s", *(("IDMP", "p", b"%012d" % number) if is_named else ()), "*", "f", values.randbytes(8))
        for number in range(first, first + _DEPTH)
    ]
