"""A journal that comes from elsewhere: received into files beside the present ones, which it then replaces."""

from xxhash import xxh3_64

from streamd.base.filesystem import File, write_all
from streamd.journal.journal import Journal
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part


class Incoming:
    """The files of one journal that is being received; no manifest names them yet.

    expected: the bytes of the present file that are still to come.
    """

    def __init__(self, journal: Journal, count: int) -> None:
        """Prepare for so many files, of which the first is a base if there are several. Raises: OSError."""
        self._journal = journal
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

    def begin_file(self, size: int) -> None:
        """Begin the next file. Raises: ValueError."""
        if size < 0 or self.expected or self._begun == len(self._parts):
            raise ValueError("a file begins where none should")
        self._begun += 1
        self._at, self.expected = 0, size

    def write(self, data: bytes) -> None:
        """Write the next bytes of the present file: no more than are expected. Raises: OSError."""
        assert len(data) <= self.expected
        write_all(self._files[self._begun - 1], self._at, data)
        self._digest.update(data)
        self._at += len(data)
        self.expected -= len(data)
        self.received += len(data)

    def digest(self) -> int:
        """Return the hash of all that was received."""
        return self._digest.intdigest()

    def sync(self) -> None:
        """Return when all files are on the disk; may run in a thread. Raises: OSError."""
        for file in self._files:
            file.sync()

    def close(self) -> None:
        """Close the files."""
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
        for part in self._parts[:started]:
            try:
                self._journal.files.unlink(f"{self._journal.directory}/{part.name}")
            except OSError:
                pass  # the next start moves it aside
