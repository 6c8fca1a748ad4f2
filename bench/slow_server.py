"""`python -m bench.slow_server serve ...`: streamd on a disk that is slowed down, or that notes how long syncs take.

BENCH_READ_MS: what each read of a segment file takes longer; then nothing is read without waiting. BENCH_SYNCS: a file
that gets the seconds of each sync of the journal's increments, a line each.
"""

import os
import sys
import time

from streamd.base.filesystem import File
from streamd.cli import main

READ_S = float(os.environ.get("BENCH_READ_MS", "0")) / 1_000
NOTES = os.environ.get("BENCH_SYNCS", "")


def slow_down() -> None:
    """Have each read of a segment file take longer."""
    read_at, read_cached = File.read_at, File.read_cached

    def slow_read_at(self: File, offset: int, length: int) -> bytes:
        if self._path.endswith(".seg"):
            time.sleep(READ_S)
        return read_at(self, offset, length)

    def no_read_cached(self: File, offset: int, length: int) -> bytes | None:
        return None if self._path.endswith(".seg") else read_cached(self, offset, length)

    File.read_at = slow_read_at
    File.read_cached = no_read_cached


def note_syncs() -> None:
    """Write down how long each sync of an increment takes."""
    sync, notes = File.sync, os.open(NOTES, os.O_WRONLY | os.O_APPEND)

    def noted_sync(self: File) -> None:
        began_s = time.perf_counter()
        sync(self)
        if ".incr." in self._path:
            os.write(notes, b"%.6f\n" % (time.perf_counter() - began_s))

    File.sync = noted_sync


if __name__ == "__main__":
    if READ_S:
        slow_down()
    if NOTES:
        note_syncs()
    sys.exit(main())
