"""A journal that comes from elsewhere: received into files beside the present ones, which it then replaces."""

from contextlib import closing
from typing import Final

from xxhash import xxh3_64

from streamd.base.filesystem import File, repeat, write_all
from streamd.cold.files import SegmentFiles
from streamd.journal.journal import Journal
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part

# The system begins to write a segment file to the disk after so many bytes, so that syncing it at the end is short.
_PUSHED_BYTES: Final = 8 * 1024 * 1024


class Incoming:
    """The files of one journal that is being received; no manifest names them yet.

    Segment files come before the files of the journal, and stand beside those of the present state.

    expected: the bytes of the present file that are still to come.
    """

    def __init__(self, journal: Journal, count: int, segments: int, store: SegmentFiles | None) -> None:
        """Prepare for so many files, of which the first is a base if there are several, behind so many segment files.

        store: the segment files of the present state. Raises: OSError.
        """
        self._journal = journal
        if segments and store is None:
            store = SegmentFiles(journal.files, journal.directory, journal.filename)
        self._store = store
        self._copies: list[tuple[int, str]] = []  # the number and the path of each segment file
        self._copies_left = segments
        self._copy: File | None = None
        self._pushed = 0
        self._is_abandoned = False
        seq = journal.free_seq()
        kinds = [BASE if count > 1 and not number else INCREMENT for number in range(count)]
        self._parts = [
            Part(f"{journal.filename}.{seq + number}.{'base' if kind == BASE else 'incr'}.aof", seq + number, kind)
            for number, kind in enumerate(kinds)
        ]
        self._files: list[File] = []  # all of them exist from now on, so that nobody else takes their names
        try:
            for part in self._parts:
                self._files.append(journal.files.open(f"{journal.directory}/{part.name}", create=True))
        except OSError:
            self.abandon()
            raise
        self._begun = 0
        self._at = 0
        self._digest = xxh3_64()
        self.expected = 0
        self.received = 0

    @property
    def manifest(self) -> Manifest:
        """The manifest that is to name the files."""
        first = self._parts[0]
        return Manifest(first, self._parts[1:]) if first.kind == BASE else Manifest(None, self._parts[:])

    @property
    def is_whole(self) -> bool:
        """Whether all files have been received."""
        return self._begun == len(self._parts) and not self.expected

    def begin_file(self, size: int, is_segment: bool = False) -> None:
        """Begin the next file. Raises: ValueError, OSError."""
        if size < 0 or self.expected or self._begun == len(self._parts) or is_segment != bool(self._copies_left):
            raise ValueError("a file begins where none should")
        self._close_copy()
        self._at, self.expected = 0, size
        if not is_segment:
            self._begun += 1
            return
        assert self._store is not None
        self._copies_left -= 1
        self._copy, number, path = self._store.create_copy()
        self._copies.append((number, path))
        self._pushed = 0

    def write(self, data: bytes) -> None:
        """Write the next bytes of the present file: no more than are expected. Raises: OSError."""
        assert len(data) <= self.expected
        write_all(self._files[self._begun - 1] if self._copy is None else self._copy, self._at, data)
        self._digest.update(data)
        self._at += len(data)
        if self._copy is not None and self._at - self._pushed >= _PUSHED_BYTES:
            self._copy.push(self._pushed, self._at - self._pushed)
            self._pushed = self._at
        self.expected -= len(data)
        self.received += len(data)

    def digest(self) -> int:
        """Return the hash of all that was received."""
        return self._digest.intdigest()

    def sync(self) -> None:
        """Return when all files are on the disk, segment files under the names by which the base finds them; may run in
        a thread. Raises: Damaged, Unreadable, OSError.
        """
        for file in self._files:
            file.sync()
        store = self._store
        for at, (number, path) in enumerate(self._copies):
            assert store is not None
            with closing(self._journal.files.open(path)) as copy:
                repeat(copy.sync)
            self._copies[at] = number, store.name_copy(number)
            if self._is_abandoned:
                self._forget_copies()
                return
        if self._copies:
            repeat(lambda: self._journal.files.sync_directory(self._journal.directory))

    def _close_copy(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.close()

    def close(self) -> None:
        """Close the files."""
        try:
            self._close_copy()
        except OSError:
            pass
        for file in self._files:
            try:
                file.close()
            except OSError:
                pass  # they were synced, or are of no more use
        self._files = []

    def abandon(self) -> None:
        """Remove the files: no manifest names them."""
        started = len(self._files)
        self.close()
        self._is_abandoned = True
        self._forget_copies()
        for part in self._parts[:started]:
            try:
                self._journal.files.unlink(f"{self._journal.directory}/{part.name}")
            except OSError:
                pass  # the next start moves it aside

    def _forget_copies(self) -> None:
        for number, path in self._copies:
            assert self._store is not None
            self._store.forget_copy(number, path)
