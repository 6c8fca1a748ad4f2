"""Holds the rows of a task until all are known: in memory up to a bound, the rest in a file.

A task knows the number and identity of its rows before it writes the first. It takes as much memory for ten thousand
rows as for ten million.
"""

import os
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from spark_source.errors import StreamdError

HOLD_BYTES = 8 << 20  # of a task's rows in memory; the rest lies in a file


@dataclass(frozen=True)
class Part:
    """Encoded rows for one stream, in their order: their bytes, how many words each has, and their digests, joined."""

    stream: str
    payloads: pa.Array
    words: list[int] | int
    digests: bytes

    @property
    def size_bytes(self) -> int:
        words = 8 * len(self.words) if isinstance(self.words, list) else 0
        return self.payloads.nbytes + words + len(self.digests)


class Held:
    """Parts in the order in which they came; they can be taken once."""

    def __init__(self, hold_bytes: int = HOLD_BYTES) -> None:
        self.hold_bytes = hold_bytes
        self.size = 0
        self.parts: list[Part] = []
        self.file: IO[bytes] | None = None
        self.filed = 0

    def append(self, part: Part) -> None:
        """Take a part. Raises: StreamdError when there is no room on disk."""
        self.size += part.size_bytes
        if self.file is None and self.size <= self.hold_bytes:
            self.parts.append(part)
            return
        try:
            if self.file is None:
                self.file = spill_file()
            pickle.dump(part, self.file, protocol=5)
        except OSError as error:
            raise no_room(error) from None
        self.filed += 1

    def take(self) -> Iterator[Part]:
        """Yield the parts; each is released when the next is asked for."""
        self.parts.reverse()
        while self.parts:
            yield self.parts.pop()
        if self.file is not None:
            self.file.flush()
            self.file.seek(0)
            for _ in range(self.filed):
                yield pickle.load(self.file)
        self.close()

    def close(self) -> None:
        """Release the remaining parts."""
        self.parts.clear()
        if self.file is not None:
            self.file.close()
            self.file = None


def spill_file() -> IO[bytes]:
    """Return an unnamed file in Spark's local directory; it disappears with the process."""
    for place in os.environ.get("SPARK_LOCAL_DIRS", "").split(","):
        if place and os.access(place, os.W_OK):
            return tempfile.TemporaryFile(dir=place)
    return tempfile.TemporaryFile()


def no_room(error: OSError) -> StreamdError:
    return StreamdError(
        f"the rows of a partition cannot be held in a file ({error.strerror}): make room in the directory that "
        "spark.local.dir or TMPDIR names, or use more partitions"
    )
