"""What makes a row the same row when it is written again: producer ID and iid.

* content: the row's bytes and how often they occurred before in this task. Order does not matter.
* key: the values of chosen columns; where the row is written from does not matter either.
* position: the row's number in its partition; right only where a retry brings the rows in the same order.

A producer's window is limited (`windowMaxSize`), so the rows of a task are spread over as many producers (buckets) as
keep each of them below it; how many depends on the number of rows alone, never on their order. Producer IDs form a
ring over the batches: batch N + 4 uses those of batch N again and pushes its iids out, so that a long window costs no
memory. Only one batch is ever unfinished, so four leave room for a task that was given up and still writes.
"""

import math
from base64 import b64encode
from dataclasses import dataclass
from hashlib import blake2b

RING = 4
KEY_BUCKETS = 4096  # fixed: rows with keys may come in any partition, whose sizes say nothing about the batch
MOST_BUCKETS = 4096
BUFFER_ROWS = 250_000
BUFFER_BYTES = 256 << 20
DIGEST_BYTES = 15  # 120 bits; 20 characters of base64


@dataclass(frozen=True)
class BatchName:
    """Which write a task belongs to: the sink, its batch, and whether a later run can ask for it again."""

    sink: str
    batch: str
    number: int | None
    named: bool

    @property
    def ring(self) -> str:
        """The batch's place in the ring; a batch write with a name of its own has no ring."""
        return str(self.number % RING) if self.number is not None else f"b{digest_text(self.batch.encode())}"


def digest_text(data: bytes, size: int = 9) -> str:
    """Return a short name for `data`, 12 characters for 9 bytes."""
    return b64encode(blake2b(data, digest_size=size).digest()).decode()


def bucket_count(rows: int, window_size: int, overflow: bool) -> int:
    """Return over how many producers the rows of a task are spread.

    A power of two. Rows fall into buckets by hash, 60 % of the window on average: no bucket comes near to its end.
    """
    if overflow:
        return MOST_BUCKETS
    if rows <= 0.8 * window_size:
        return 1
    return min(MOST_BUCKETS, 1 << math.ceil(math.log2(rows / (0.6 * window_size))))


class Identity:
    """Names the rows that one task writes to one stream."""

    def __init__(self, kind: str, name: BatchName, partition: int, scope: str, window_size: int) -> None:
        self.kind = kind
        self.window_size = window_size
        sink = digest_text(name.sink.encode())
        batch = name.batch if name.number is not None else digest_text(name.batch.encode())
        self.prefix = f"{batch}.".encode()
        if kind == "key" and scope == "stream":
            self.producer, self.prefix = f"{sink}:k", b""
        elif kind == "key":
            self.producer = f"{sink}:{name.ring}:k"
        else:
            self.producer = f"{sink}:{name.ring}:{partition}"
        self.buckets = KEY_BUCKETS if kind == "key" else 1
        self.rows = 0
        self.seen: dict[bytes, int] = {}

    def producer_id(self, bucket: int) -> bytes:
        return f"{self.producer}:{bucket}".encode()

    def name_rows(self, payloads: list[bytes], keys: list[bytes] | None) -> list[tuple[int, bytes]]:
        """Return (bucket, iid) of each row; to be called with the rows of a task in the order they are written."""
        if self.kind == "position":
            return self._by_position(len(payloads))
        if self.kind == "key":
            assert keys is not None
            return self._by_key(keys)
        return self._by_content(payloads)

    def _by_content(self, payloads: list[bytes]) -> list[tuple[int, bytes]]:
        # The one loop per row of the write path, beside that of the commands: 1.1 us, most of it blake2b.
        seen, prefix, mask, named = self.seen, self.prefix, self.buckets - 1, []
        for payload in payloads:
            digest = blake2b(payload, digest_size=DIGEST_BYTES).digest()
            iid = prefix + b64encode(digest)
            before = seen.get(digest)
            if before is None:
                seen[digest] = 1
            else:
                seen[digest] = before + 1
                iid = b"%b.%d" % (iid, before)
            named.append(((digest[0] << 8 | digest[1]) & mask, iid))
        return named

    def _by_key(self, keys: list[bytes]) -> list[tuple[int, bytes]]:
        prefix, named = self.prefix, []
        for key in keys:
            digest = blake2b(key, digest_size=DIGEST_BYTES).digest()
            named.append(((digest[0] << 8 | digest[1]) % KEY_BUCKETS, prefix + b64encode(digest)))
        return named

    def _by_position(self, count: int) -> list[tuple[int, bytes]]:
        first = self.rows
        self.rows += count
        return [(row // self.window_size, b"%b%d" % (self.prefix, row)) for row in range(first, first + count)]
