"""The notes of segment files that a server has in memory: read when a search needs them, written when one made them."""

from collections import OrderedDict
from functools import partial
from typing import Final

from streamd.cold.files import SegmentFile
from streamd.cold.jobs import Submit
from streamd.cold.notes import FileNotes, Written, decode
from streamd.cold.notes_files import NotesFiles

# Notes may take this part of `stream-memory`, and those of one file this part of that.
_LIMIT_PART: Final = 16
_ONE_PART: Final = 2
# Notes are written when so large a part of the rows that a stream has in the file was noted since the last time.
_FRESH_PART: Final = 8
# The notes of a file with fewer rows are not written.
_ROWS_MIN: Final = 4
# So many notes may wait to be written; others are given up.
_WRITES_MAX: Final = 4

_Key = tuple[int, bytes]


class Notebook:
    """The notes in memory, those that were used longest ago first.

    Notes that cannot be read are made again, and those that cannot be written are kept in memory for a while, so
    failures only cost time. submit, submit_read: run jobs that write, and that read, on a thread; None: nothing is
    written, and files are read at once. bytes: what the notes take. rows_passed: how many rows searches have passed
    over.
    """

    def __init__(self, files: NotesFiles, limit_bytes: int) -> None:
        """limit_bytes: what entries in memory may take."""
        self.submit: Submit | None = None
        self.submit_read: Submit | None = None
        self.bytes = 0
        self.rows_passed = 0
        self._files = files
        self._notes: OrderedDict[_Key, FileNotes] = OrderedDict()
        self._loading: set[_Key] = set()
        self._writing: dict[_Key, SegmentFile] = {}
        self.set_limit(limit_bytes)

    def set_limit(self, limit_bytes: int) -> None:
        """Set what entries in memory may take; notes take a part as large beside them."""
        self._limit_bytes = limit_bytes // _LIMIT_PART
        self._shrink()

    def of(self, file: SegmentFile, field: bytes, at_once: bool) -> FileNotes | None:
        """Return the notes of a file, perhaps empty ones; None while they are read. at_once: read them now."""
        key = file.number, field
        found = self._notes.get(key)
        if found is not None:
            self._notes.move_to_end(key)
            return found
        if key in self._loading or key in self._writing:
            return None
        data: bytes | None = None
        if self._files.has(*key):
            try:
                data = self._files.read_cached(*key)
                if data is None and (at_once or self.submit_read is None):
                    data = self._files.read(*key)
            except OSError:
                self._files.forget(*key)
            else:
                if data is None:
                    self._load(file, field)
                    return None
        return self._put(self._decoded(file, field, data) if data is not None else self._empty(file, field))

    @property
    def _one_bytes(self) -> int:
        return self._limit_bytes // _ONE_PART

    def _empty(self, file: SegmentFile, field: bytes) -> FileNotes:
        return FileNotes(file, field, self._one_bytes)

    def _decoded(self, file: SegmentFile, field: bytes, data: bytes) -> FileNotes:
        """Return notes that were read; empty ones, without the file, if they are of no use."""
        try:
            return decode(data, file, field, self._one_bytes)
        except ValueError:
            self._files.forget(file.number, field)
            return self._empty(file, field)

    def _put(self, notes: FileNotes) -> FileNotes:
        self._notes[notes.file.number, notes.field] = notes
        self.bytes += notes.memory_bytes
        self._shrink()
        return notes

    def note(self, notes: FileNotes, row: int, values: set[bytes | None], last_id: int) -> None:
        """Note the values of a row, and the ID of its last entry."""
        before = notes.memory_bytes
        notes.note(row, values, last_id)
        if self._notes.get((notes.file.number, notes.field)) is notes:
            self.bytes += notes.memory_bytes - before
            self._shrink()

    def _shrink(self) -> None:
        while self.bytes > self._limit_bytes and self._notes:
            _, notes = self._notes.popitem(last=False)
            self.bytes -= notes.memory_bytes
            self._write(notes)

    # Reading.

    def _load(self, file: SegmentFile, field: bytes) -> None:
        """Have the notes of a file read."""
        key = file.number, field
        found: list[FileNotes] = []

        def job() -> None:
            found.append(self._decoded(file, field, self._files.read(*key)))

        def done(failure: BaseException | None) -> None:
            self._loading.discard(key)
            if found and file.holders.total():
                self._put(found[0])
            elif isinstance(failure, OSError):
                self._files.forget(*key)
            elif failure is not None:
                raise failure

        assert self.submit_read is not None
        self._loading.add(key)
        self.submit_read(job, done)

    # Writing.

    def left(self, notes: FileNotes, rows: int) -> None:
        """Note that a search has come to the end of the rows that a stream has in a file."""
        if notes.fresh * _FRESH_PART >= rows:
            self._write(notes)

    def _write(self, notes: FileNotes) -> None:
        """Have notes written, unless there is nothing new in them."""
        file, key = notes.file, (notes.file.number, notes.field)
        is_alive = file.holders.total() > 0
        if self.submit is None or not (notes.fresh and is_alive) or len(notes.sets) < _ROWS_MIN:
            return
        if key in self._writing or len(self._writing) >= _WRITES_MAX:
            return
        notes.fresh = 0
        self._writing[key] = file
        self.submit(partial(self._write_now, notes.written()), partial(self._wrote, key))

    def _write_now(self, written: Written) -> None:
        self._files.write(written.file.number, written.field, written.encode())

    def _wrote(self, key: _Key, failure: BaseException | None) -> None:
        """Take the end of a write: after a failure there is no file, and more rows bring the next try."""
        file = self._writing.pop(key)
        if not file.holders.total():
            self._files.forget(*key)
        if not (failure is None or isinstance(failure, OSError)):
            raise failure

    def forget(self, number: int) -> None:
        """Forget the notes of a file that nothing holds any more."""
        for key in [key for key in self._notes if key[0] == number]:
            self.bytes -= self._notes.pop(key).memory_bytes
