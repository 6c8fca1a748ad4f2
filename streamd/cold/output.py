"""A segment file while it is being written: job after job, at the mover's pace, until it is durable."""

from typing import Final

from streamd.base.clock import Clock
from streamd.cold.block import Block
from streamd.cold.files import MOVER, SegmentFile, SegmentFiles, Writing
from streamd.cold.jobs import Jobs, Steps

# So much is handed to the thread at once: of fewer bytes the call takes longer than the writing, and for more the loop
# would gather blocks for longer than a slice.
JOB_BYTES: Final = 1024 * 1024
# What the disk is given on average, in bytes per microsecond: 30 MB/s leave the journal's syncs nearly as quick as
# they are alone. So much of it at once, as the cron comes ten times a second.
_RATE: Final = 30
_BURST_BYTES: Final = 4 * 1024 * 1024


class Pace:
    """How much may be written now, of all that goes to the disk; by the monotonic time.

    is_lifted: all may be, since memory is short.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_lifted = False
        self._clock = clock
        self._left = _BURST_BYTES
        self._at_us = clock.monotonic_us()

    def allows(self) -> bool:
        """Return whether a job may be handed out."""
        now_us = self._clock.monotonic_us()
        self._left = min(_BURST_BYTES, self._left + _RATE * (now_us - self._at_us))
        self._at_us = now_us
        return self.is_lifted or self._left > 0

    def take(self, size: int) -> None:
        """Note what was handed out; a job may take more than is allowed, and later ones wait longer."""
        self._left = max(self._left - size, -_BURST_BYTES)


class Output:
    """One file, from its creation to the disk; it is created by the first job.

    rows: how many blocks it was given.
    """

    def __init__(self, files: SegmentFiles, jobs: Jobs, clock: Clock) -> None:
        self._files = files
        self._jobs = jobs
        self._clock = clock
        self._writing: Writing | None = None
        self._file: SegmentFile | None = None
        self._blocks: list[Block] = []
        self._bytes = 0
        self.rows = 0

    def add(self, block: Block) -> bool:
        """Take a block; return whether `write` is due."""
        self._blocks.append(block)
        self._bytes += block.body_bytes + len(block.directory)
        self.rows += 1
        return self._bytes >= JOB_BYTES

    def write(self, pace: Pace | None) -> Steps:
        """Write the blocks that were added, as soon as the pace allows it. Raises: OSError."""
        while pace is not None and not pace.allows():
            yield False
        blocks, self._blocks = self._blocks, []
        if pace is not None:
            pace.take(self._bytes)
        self._bytes = 0

        def job() -> None:
            writing = self._writing
            if writing is None:
                writing = self._writing = self._files.create(self._clock.now_ms())
            try:
                writing.write(blocks)
                writing.push()
            except BaseException:
                self._writing = None  # it has removed the file
                raise

        yield from self._jobs.run(job)

    def finish(self, pace: Pace | None) -> Steps:
        """Write the rest, and sync; then `file` has the durable file. At least one block was added. Raises: OSError."""
        if self._blocks:
            yield from self.write(pace)

        def job() -> None:
            writing, self._writing = self._writing, None
            assert writing is not None
            self._file = writing.finish()
            self._files.sync(self._file)

        yield from self._jobs.run(job)

    @property
    def file(self) -> SegmentFile:
        """The file, once it is durable. MOVER holds it until `release`."""
        assert self._file is not None
        return self._file

    def release(self) -> None:
        """Let go of the file, if there is one: it stays while something else holds it."""
        one, self._file = self._file, None
        if one is not None:
            self._files.release(one, MOVER)

    def abandon(self) -> None:
        """Remove a file that is not written whole, and let go of one that is; no job may be under way."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.abandon()
        self.release()
