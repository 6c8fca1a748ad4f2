"""The base that a rewrite makes: commands become runs, and a thread writes them.

Most of the time that an entry takes is the system's, copying and starting the disk, without the interpreter's lock:
clients are served meanwhile.
"""

from typing import Final

from streamd.base.filesystem import FileSystem, repeat, write_all
from streamd.journal.jobs import Pending, Submit
from streamd.journal.manifest import Part
from streamd.journal.record import DATABASES_LINE, FIRST_LINE_BYTES, encode_end, encode_run, encode_select
from streamd.journal.recovery import create_part

# A run: large enough that its header does not count, small enough to be read at once.
_RUN_BYTES: Final = 256 * 1024
# What one job writes: a millisecond or less; as much again is gathered meanwhile.
_JOB_BYTES: Final = 1024 * 1024
# After so many bytes of a base, as in Redis, the system is told to begin with writing them to the disk: the sync at the
# end, which with `appendfsync always` all replies wait for, has little left to do then.
_PUSH_BYTES: Final = 4 * 1024 * 1024


class BaseWriter:
    """A new file, begun; add() and end(), then sync() once it is_written.

    size: the bytes that the file has or will have.
    """

    def __init__(self, files: FileSystem, directory: str, part: Part, submit: Submit) -> None:
        """Create the file. Raises: OSError."""
        self.size = FIRST_LINE_BYTES
        self._submit = submit
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._select = b""  # what each further run begins with, once another database than 0 was named
        self._runs: list[bytes] = []
        self._runs_bytes = 0
        self._written = self._pushed = self.size
        self._writing: Pending | None = None
        self._error: BaseException | None = None
        self._is_ended = False
        self._file, self._salt = create_part(files, directory, part.name)
        self._add_run(DATABASES_LINE)

    def select(self, db: int) -> None:
        """Select the database of the commands that are added from here on."""
        self.add(encode_select(db), False)
        self._select = encode_select(db) if db or self._select else b""

    def add(self, data: bytes, notes: bool) -> None:
        """Take ready-made commands, or with `notes` lines of ours, too."""
        if notes:
            self._end_run()
            self._add_run(encode_run([data], 0, True, self._salt, self.size))
            return
        if not self._parts and self._select:
            self._parts.append(self._select)
        self._parts.append(data)
        self._parts_bytes += len(data)
        if self._parts_bytes >= _RUN_BYTES:
            self._end_run()

    def end(self) -> None:
        """Take the last line: nothing more comes."""
        self._end_run()
        self._is_ended = True
        self._add_run(encode_end(self.size, self._salt))

    @property
    def must_wait(self) -> bool:
        """Whether nothing should be added before the job that is under way has ended."""
        return self._writing is not None and self._runs_bytes >= _JOB_BYTES

    @property
    def is_written(self) -> bool:
        """Whether the file has all, the last line included."""
        return self._is_ended and self._writing is None and self._error is None and not self._runs

    def check(self) -> None:
        """Raise the error of a failed job; nothing is written after it."""
        if self._error is not None:
            raise self._error

    def _end_run(self) -> None:
        if self._parts:
            run = encode_run([b"".join(self._parts)], 0, False, self._salt, self.size)
            self._parts = []
            self._parts_bytes = 0
            self._add_run(run)

    def _add_run(self, run: bytes) -> None:
        self.size += len(run)
        self._runs.append(run)
        self._runs_bytes += len(run)
        self._write()

    def _write(self) -> None:
        """Hand the gathered runs to a job, if they are long enough or the last, and no job is under way."""
        if self._writing is not None or self._error is not None or not self._runs:
            return
        if not self._is_ended and self._runs_bytes < _JOB_BYTES:
            return
        runs, self._runs, self._runs_bytes = self._runs, [], 0

        def job() -> None:
            for run in runs:
                write_all(self._file, self._written, run)
                self._written += len(run)
            if self._written - self._pushed >= _PUSH_BYTES:
                self._file.push(self._pushed, self._written - self._pushed)
                self._pushed = self._written

        def done(error: BaseException | None) -> None:
            self._writing = None
            self._error = error
            try:
                self._write()
            except Exception as failure:  # what it was to hand over is not in the file: the next check says so
                self._error = failure

        pending = self._submit(job, done)
        if not pending.ended:
            self._writing = pending

    def wait(self) -> None:
        """Return when no job is under way."""
        while self._writing is not None:
            self._writing.wait()

    def sync(self) -> None:
        """Return when all is on the disk; may run in a thread. Raises: OSError."""
        repeat(self._file.sync)

    def close(self) -> None:
        """Close the file, without the runs that no job has written yet; an error of closing is ignored."""
        self._runs = []
        self.wait()
        try:
            self._file.close()
        except OSError:
            pass
