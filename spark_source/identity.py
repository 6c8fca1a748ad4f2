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
from base64 import urlsafe_b64encode
from binascii import b2a_base64
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct

from spark_source.occurrences import Occurrences

RING = 4
KEY_BUCKETS = 4096  # fixed: rows with keys may come in any partition, whose sizes say nothing about the batch
MOST_BUCKETS = 4096
SPREAD_MIN = 30  # a smaller window is filled by one producer alone: spread by chance, some bucket would run over
BUFFER_ROWS = 250_000
BUFFER_BYTES = 256 << 20
DIGEST_BYTES = 15  # 120 bits
DIGEST_CHARS = 20  # of base64
HASH = Struct("<Q7x")  # of a digest, the 64 bits that choose the bucket and are counted
URL_SAFE = bytes.maketrans(b"+/", b"-_")


@dataclass(frozen=True)
class BatchName:
    """Which write a task belongs to: the sink, its batch, and whether a later run can ask for it again.

    `lasting` is the sink's name across checkpoints, None where that is `sink` itself. Batches of a new checkpoint are
    numbered from 0 again, so nothing but the scope of a whole stream may go by it.
    """

    sink: str
    batch: str
    number: int | None
    named: bool
    lasting: str | None = None

    @property
    def ring(self) -> str:
        """The batch's place in the ring; a batch write with a name of its own has no ring."""
        return str(self.number % RING) if self.number is not None else f"b{digest_text(self.batch.encode())}"


def digest_text(data: bytes, size: int = 9) -> str:
    """Return a short name for `data`, 12 characters for 9 bytes."""
    return urlsafe_b64encode(blake2b(data, digest_size=size).digest()).decode()


def bucket_fill(window_size: int) -> float:
    """Return how many rows a producer gets on average, when they are spread by hash: 60 % of its window, less of a
    small one, where chance counts for more: seven standard deviations stay free."""
    return min(0.6 * window_size, ((math.sqrt(49 + 4 * window_size) - 7) / 2) ** 2)


def rows_max(window_size: int) -> int:
    """Return how many rows of one task the windows of all its producers hold."""
    return int(MOST_BUCKETS * bucket_fill(window_size)) if window_size >= SPREAD_MIN else window_size


def bucket_count(rows: int, window_size: int, overflow: bool) -> int:
    """Return over how many producers the rows of a task are spread, a power of two."""
    if window_size < SPREAD_MIN:
        return 1
    if overflow:
        return MOST_BUCKETS
    if rows <= 0.8 * window_size:
        return 1
    return min(MOST_BUCKETS, 1 << math.ceil(math.log2(rows / bucket_fill(window_size))))


class Identity:
    """Names the rows that one task writes to one stream."""

    def __init__(self, kind: str, name: BatchName, partition: int, scope: str, window_size: int) -> None:
        self.kind = kind
        self.window_size = window_size
        sink = digest_text(name.sink.encode())
        batch = name.batch if name.number is not None else digest_text(name.batch.encode())
        self.prefix = f"{batch}.".encode()
        if kind == "key" and scope == "stream":
            sink = digest_text((name.lasting or name.sink).encode())
            self.producer, self.prefix = f"{sink}:k", b""
        elif kind == "key":
            self.producer = f"{sink}:{name.ring}:k"
        else:
            self.producer = f"{sink}:{name.ring}:{partition}"
        self.buckets = KEY_BUCKETS if kind == "key" else 1
        self.rows = 0
        self.occurrences = Occurrences()

    def producer_id(self, bucket: int) -> bytes:
        return f"{self.producer}:{bucket}".encode()

    def name_rows(self, payloads: list[bytes], keys: list[bytes] | None) -> tuple[list[int], list[bytes]]:
        """Return the buckets and the iids of rows; to be called with a task's rows in the order they are written."""
        if self.kind == "position":
            return self._by_position(len(payloads))
        if self.kind == "key":
            assert keys is not None
            hashes, iids = self._digests(keys)
            return [number % KEY_BUCKETS for number in hashes], iids
        hashes, iids = self._digests(payloads)
        mask = self.buckets - 1
        earlier = self.occurrences.count(hashes)
        if earlier is not None:
            iids = [b"%b.%d" % (iid, before) if before else iid for iid, before in zip(iids, earlier, strict=True)]
        return [number & mask for number in hashes], iids

    def _digests(self, texts: list[bytes]) -> tuple[list[int], list[bytes]]:
        """Return 64 bits of each text's digest, and the iids: the digests as text behind the batch's name.

        The hot spot of a task that writes: 0.6 us a row, two thirds of it blake2b. 15 bytes are 20 characters of base64
        with nothing left over, so all digests are encoded at once. Text rather than bytes, and without `+`: where a
        request holds a byte that could begin another type of reply, streamd decodes it with more care, 0.3 us a row.
        """
        digests = b"".join([blake2b(text, digest_size=DIGEST_BYTES).digest() for text in texts])
        chars = b2a_base64(digests, newline=False).translate(URL_SAFE)
        prefix, ends = self.prefix, range(0, len(chars), DIGEST_CHARS)
        iids = [prefix + chars[at : at + DIGEST_CHARS] for at in ends]
        return [number for (number,) in HASH.iter_unpack(digests)], iids

    def _by_position(self, count: int) -> tuple[list[int], list[bytes]]:
        rows = range(self.rows, self.rows + count)
        self.rows += count
        return [row // self.window_size for row in rows], [b"%b%d" % (self.prefix, row) for row in rows]
