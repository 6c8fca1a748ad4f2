"""Finds the rows of a task that come more than once, in memory that does not grow with the rows.

All hashes are written to a file, 8 bytes each, and then counted one share after the other.
"""

import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.naming.held import no_room

SHARE_HASHES = 125_000  # looked at at once, in some 4 MB
REPEATED_MAX = 250_000  # kept as a set; where more rows repeat, all are counted as they are written
MEMORY_BYTES = 2 << 20  # of hashes, before they go to a file
READ_BYTES = 1 << 20


class Repeats:
    """Collects 64-bit hashes, and finds the repeated ones."""

    def __init__(self, share: int = SHARE_HASHES, most: int = REPEATED_MAX) -> None:
        self.share, self.most = share, most
        self.file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115 - closed in `repeated`
        self.count = 0

    def add(self, hashes: pa.UInt64Array) -> None:
        """Take the hashes of some rows. Raises: StreamdError when there is no room on disk."""
        at, end = 8 * hashes.offset, 8 * (hashes.offset + len(hashes))
        try:
            self.file.write(memoryview(hashes.buffers()[1])[at:end])
        except OSError as error:
            raise no_room(error) from None
        self.count += len(hashes)

    def repeated(self) -> set[int] | None:
        """Return the hashes that came more than once; None if they are too many to be kept. Can be asked once."""
        shares = 1 << max(0, -(-self.count // self.share) - 1).bit_length()
        found: set[int] = set()
        for number in range(shares):
            mine = pa.chunked_array(list(self._one_share(number, shares)), pa.uint64()).combine_chunks()
            ordered = mine.take(pc.array_sort_indices(mine))  # Arrow's value_counts takes ten times the memory
            often = ordered[1:].filter(pc.equal(ordered[1:], ordered[:-1]))
            found.update(often.to_pylist())
            if len(found) > self.most:
                self.file.close()
                return None
        self.file.close()
        return found

    def _one_share(self, number: int, shares: int) -> Iterator[pa.Array]:
        self.file.seek(0)
        while data := self.file.read(READ_BYTES):
            hashes = pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])
            if shares > 1:
                hashes = hashes.filter(pc.equal(pc.bit_wise_and(hashes, pa.scalar(shares - 1, pa.uint64())), number))
            yield hashes
