"""Names rows by producer ID and iid, so that a row that is written again has the same name.

* content: the row's bytes and how often they occurred before in this task. Order does not matter.
* key: the values of chosen columns; where the row is written from does not matter either.
* position: the row's number in its partition; right only where a retry brings the rows in the same order.

A producer's window is limited (`windowMaxSize`), so the rows of a task are spread over as many producers (buckets) as
keep each of them below it; how many depends on the number of rows alone, never on their order. With keys all tasks of a
batch share their producers, see `attempts`. Producer IDs form a ring over the batches: batch N + 4 uses those of batch
N again and pushes its iids out, so that a long window costs no memory. Only one batch is ever unfinished, so four leave
room for a task that was given up and still writes.
"""

import math
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.naming.occurrences import Occurrences

RING = 4
MOST_BUCKETS = 4096
SPREAD_MIN = 30  # a smaller window is filled by one producer alone: spread by chance, some bucket would run over
DIGEST_BYTES = 15  # 120 bits
DIGEST_CHARS = 20  # of base64
URL_SAFE = bytes.maketrans(b"+/", b"-_")


@dataclass(frozen=True)
class BatchName:
    """The write that a task belongs to: the sink, its batch, and whether a later run can ask for it again.

    `lasting`: the sink's name across checkpoints, None if that is `sink` itself. A new checkpoint numbers its batches
    from 0 again, so only the scope of a whole stream may use it. `epoch`: the micro-batch of a named write inside
    foreachBatch;
    such names need no longer memory. `query`: the query that writes to its streams as this sink alone; None inside
    foreachBatch, where there may be several.
    """

    sink: str
    batch: str
    number: int | None
    named: bool
    lasting: str | None = None
    epoch: int | None = None
    query: str | None = None

    @property
    def ring(self) -> str:
        """The batch's place in the ring; a batch write with a name of its own has no ring."""
        return str(self.number % RING) if self.number is not None else f"b{digest_text(self.whole.encode())}"

    @property
    def whole(self) -> str:
        """The name of the write that no other write of the sink has."""
        return self.batch if self.epoch is None else f"{self.epoch}/{self.batch}"


def digest_text(data: bytes, size: int = 9) -> str:
    """Return a short name for `data`, 12 characters for 9 bytes."""
    return urlsafe_b64encode(blake2b(data, digest_size=size).digest()).decode()


def bucket_fill(window_size: int) -> float:
    """Return the average number of rows per producer, when hashes spread them: 60 % of its window. In a small window
    chance counts for more, so seven standard deviations stay free.
    """
    return min(0.6 * window_size, ((math.sqrt(49 + 4 * window_size) - 7) / 2) ** 2)


def rows_max(window_size: int) -> int:
    """Return the number of rows of one task that the windows of all its producers can hold."""
    return int(MOST_BUCKETS * bucket_fill(window_size)) if window_size >= SPREAD_MIN else window_size


def bucket_count(rows: int, window_size: int) -> int:
    """Return the number of producers to spread a task's rows over, a power of two."""
    if window_size < SPREAD_MIN:
        return 1
    if rows <= 0.8 * window_size:
        return 1
    return min(MOST_BUCKETS, 1 << math.ceil(math.log2(rows / bucket_fill(window_size))))


def digests_of(texts: list[bytes]) -> bytes:
    """Return the digests of texts, 15 bytes each, joined. The hot spot of a task that writes: 0.4 us a row."""
    return b"".join([blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts])


def hash_column(digests: bytes) -> pa.UInt64Array:
    """Return the 64 bits of each digest that choose its bucket and are counted; a column costs a tenth of a list."""
    whole = pa.Array.from_buffers(pa.binary(DIGEST_BYTES), len(digests) // DIGEST_BYTES, [None, pa.py_buffer(digests)])
    parts = pc.binary_slice(whole, 0, 8)
    return pa.Array.from_buffers(pa.uint64(), len(parts), [None, parts.buffers()[1]])


class Identity:
    """Names the rows that one task writes to one stream.

    `buckets`: the number of producers. `repeated`: the hashes of rows that come more than once, None if unknown.
    """

    def __init__(
        self, kind: str, name: BatchName, partition: int, scope: str, window_size: int, buckets: int = 1
    ) -> None:
        self.kind = kind
        self.window_size = window_size
        sink = digest_text(name.sink.encode())
        batch = name.batch if name.number is not None else digest_text(name.whole.encode())
        self.prefix = f"{batch}.".encode()
        if kind == "key" and scope == "stream":
            sink = digest_text((name.lasting or name.sink).encode())
            self.producer, self.prefix = f"{sink}:k", b""
        elif kind == "key":
            self.producer = f"{sink}:{name.ring}:k{buckets}"
        else:
            self.producer = f"{sink}:{name.ring}:{partition}"
        self.buckets = buckets
        self.rows = 0
        self.repeated: set[int] | None = None
        self.occurrences = Occurrences()

    def producer_id(self, bucket: int) -> bytes:
        return f"{self.producer}:{bucket}".encode()

    def name_rows(self, count: int, digests: bytes) -> tuple[list[int], list[bytes]]:
        """Return the buckets and the iids of rows; to be called with a task's rows in the order they are written.

        `digests` are those of their content or of their keys; by position nothing is asked of them.

        All digests become text at once: 15 bytes are 20 characters of base64 with nothing left over. Text rather than
        bytes, and without `+`: where a request holds a byte that could begin another type of reply, streamd decodes it
        with more care, 0.3 us a row.
        """
        if self.kind == "position":
            return self._by_position(count)
        hashes = hash_column(digests)
        chars = b2a_base64(digests, newline=False).translate(URL_SAFE)
        prefix, ends = self.prefix, range(0, len(chars), DIGEST_CHARS)
        iids = [prefix + chars[at : at + DIGEST_CHARS] for at in ends]
        if self.kind == "content":
            earlier = self._earlier(hashes)
            if earlier is not None:
                iids = [b"%b.%d" % (iid, before) if before else iid for iid, before in zip(iids, earlier, strict=True)]
        if self.buckets == 1:
            return [0] * count, iids
        return pc.bit_wise_and(hashes, pa.scalar(self.buckets - 1, pa.uint64())).to_pylist(), iids

    def _earlier(self, column: pa.UInt64Array) -> list[int] | None:
        """Return the number of earlier occurrences of each row, None if none has any."""
        repeated = self.repeated
        if repeated is not None and not repeated:
            return None
        hashes = column.to_pylist()
        if repeated is None:
            return self.occurrences.count(hashes)
        if repeated.isdisjoint(hashes):
            return None
        those = [number for number in hashes if number in repeated]
        counted = self.occurrences.count(those)
        if counted is None:
            return None
        each = iter(counted)
        return [next(each) if number in repeated else 0 for number in hashes]

    def _by_position(self, count: int) -> tuple[list[int], list[bytes]]:
        rows = range(self.rows, self.rows + count)
        self.rows += count
        return [row // self.window_size for row in rows], [b"%b%d" % (self.prefix, row) for row in rows]
