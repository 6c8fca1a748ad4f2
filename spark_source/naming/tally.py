"""A summary of the rows of one attempt, so that two attempts can be compared.

* content, key: the sum of the hashes of all rows, or of their keys, which does not depend on the order.
* position: a digest over all rows in their order, since there the order counts.

With keys there is also a sample of their hashes, all of them where they are few: rows with keys may come in another
partition, and the sample tells whether each key of an earlier attempt is still among those of all partitions.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.naming.identity import hash_column
from spark_source.naming.repeats import Repeats

ALL = 2**64
SAMPLE_MAX = 512  # hashes, 4 KB


@dataclass(frozen=True)
class Short:
    """A summary of an attempt's rows for one stream: their number, their digest, a sample of their keys."""

    rows: int
    digest: str
    sample: bytes = b""


def sum_digest(shorts: Iterable[Short]) -> str:
    """Return the digest of all attempts' rows together, by their content or keys."""
    return f"{sum(int(short.digest, 16) for short in shorts) % ALL:016x}"


class Tally:
    """Counts and digests rows as they come."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rows = 0
        self.sum = 0
        self.bytes_digest = blake2b(digest_size=12)
        self.lengths_digest = blake2b(digest_size=12)
        self.sample = Sample()
        self.repeats = Repeats()

    def add(self, payloads: pa.Array, digests: bytes) -> None:
        """Take rows: their bytes, and the digests of their content or keys."""
        self.rows += len(payloads)
        if self.kind == "position":
            lengths = pc.binary_length(payloads)
            self.lengths_digest.update(lengths.buffers()[1][: 4 * len(lengths)])
            self.bytes_digest.update(_bytes_of(payloads))
            return
        hashes = hash_column(digests)
        self.sum += pc.sum(hashes).as_py() or 0
        if self.kind == "content":
            self.repeats.add(hashes)
            return
        if self.sample.limit < ALL:
            hashes = hashes.filter(pc.less(hashes, pa.scalar(self.sample.limit, pa.uint64())))
        self.sample.add(hashes.to_pylist())

    def short(self) -> Short:
        if self.kind == "position":
            return Short(self.rows, self.bytes_digest.hexdigest() + self.lengths_digest.hexdigest())
        return Short(self.rows, f"{self.sum % ALL:016x}", self.sample.packed() if self.kind == "key" else b"")


def _bytes_of(payloads: pa.Array) -> memoryview:
    _, offsets, data = payloads.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[payloads.offset] : ends[payloads.offset + len(payloads)]]


class Sample:
    """The hashes below a limit, which is halved whenever they are too many: the same hashes in any order of rows."""

    def __init__(self, hashes: Iterable[int] = (), limit: int = ALL) -> None:
        self.hashes = set(hashes)
        self.limit = limit

    def add(self, hashes: Sequence[int]) -> None:
        limit = self.limit
        self.hashes.update([number for number in hashes if number < limit])
        while len(self.hashes) > SAMPLE_MAX:
            self.limit //= 2
            self.hashes = {number for number in self.hashes if number < self.limit}

    def packed(self) -> bytes:
        """Return the sample as bytes: its limit less one, and the hashes."""
        return array("Q", [self.limit - 1, *sorted(self.hashes)]).tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> "Sample":
        numbers = array("Q")
        numbers.frombytes(data)
        return cls(numbers[1:], numbers[0] + 1)


def missing(earlier: Iterable[bytes], now: Iterable[bytes]) -> int:
    """Return about how many keys of earlier samples are missing in the present ones; 0 only if none is known to be."""
    before = [Sample.unpacked(data) for data in earlier]
    present = [Sample.unpacked(data) for data in now]
    limit = min((sample.limit for sample in present), default=ALL)
    there = set().union(*(sample.hashes for sample in present)) if present else set()
    found = 0.0
    for sample in before:
        shared = min(limit, sample.limit)
        found += sum(1 for number in sample.hashes if number < shared and number not in there) * ALL / shared
    return round(found)
