"""The segment files that a base names, found again while it is loaded."""

from collections.abc import Callable
from typing import Final

from streamd.cold.cold_list import ColdList
from streamd.cold.files import BASE, SegmentFile
from streamd.cold.format import Damaged, Header, Unreadable
from streamd.cold.index import Footer
from streamd.cold.store import ColdStore
from streamd.cold.tokens import Hold
from streamd.data.keyspace import Keyspace
from streamd.journal.cold_records import FORMAT, decode_gone
from streamd.journal.recovery import DamagedError
from streamd.stream.entry_id import parse_id
from streamd.stream.stream import Stream

_ADVICE: Final = "restore it from a backup, or copy the directory and see what `streamd check` says"


class NewerFormat(Exception):
    """A base of a format that this version does not know; the message says which."""


class UnreadableError(DamagedError):
    """A segment file that is not there, or that this version or this machine cannot read; the message says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, 0, reason, "")
        self.args = (reason,)


class ColdLoading:
    """Applies the STREAMCOLD records of a base.

    open_store: returns the server's store, told the bytes of `stream-memory` and the greatest number of a file that the
    base says. is_begun: whether the base has such records; then streamd has written all that follows. limit_bytes: what
    the base says. holds: of all files that the base names.
    """

    def __init__(self, open_store: Callable[[int, int], ColdStore]) -> None:
        self._open_store = open_store
        self._store: ColdStore | None = None
        self._files: dict[int, SegmentFile] = {}
        self._missing: dict[int, tuple[SegmentFile, Footer]] = {}
        self.is_begun = False
        self.limit_bytes = 0
        self.holds: list[Hold] = []

    @property
    def store(self) -> ColdStore:
        """The store, once the base has begun."""
        assert self._store is not None
        return self._store

    def begin(self, version: int, limit_bytes: int, number: int) -> None:
        """Take the first command of a base. Raises: NewerFormat, OSError."""
        if version != FORMAT:
            raise NewerFormat(f"it has format {version} of STREAMCOLD, and this one knows {FORMAT}")
        self.is_begun = True
        self.limit_bytes = limit_bytes
        self._store = self._open_store(limit_bytes, number)

    def add_file(self, number: int, size: int, checksum: int) -> None:
        """Take a file that the base names. Raises: DamagedError, OSError."""
        files = self.store.files
        try:
            file = files.load(number, size, checksum)
        except FileNotFoundError:
            # Wrong only if a stream has one of its entries at the end: till then another file stands for it, with a
            # block for each range.
            footer = Footer()
            file = SegmentFile(
                number, files.path_of(number, checksum), Header(number, 0, 0), checksum, size, footer.index()
            )
            files.add_missing(file)
            self._missing[number] = file, footer
        except Damaged as error:
            raise DamagedError(error.path, error.offset, error.reason, _ADVICE)
        except Unreadable as error:
            raise UnreadableError(files.path_of(number, checksum), str(error))
        self._files[number] = file
        self.holds.append(self.store.hold(file, BASE))

    def has(self, number: int) -> bool:
        """Return whether the base has named a file, and it was not refused."""
        return number in self._files

    def add_range(self, stream: Stream, words: list[bytes]) -> None:
        """Add entries of a file to a stream, by the words behind the key. Raises: ValueError, KeyError."""
        number, low, high, entries = map(int, words[:4])
        file = self._files[number]
        if number in self._missing:
            footer = self._missing[number][1]
            footer.add_stand_in(parse_id(words[4]), parse_id(words[5]), entries)
            file.index = footer.index()
            low, high = file.index.rows - 1, file.index.rows
        if not 0 <= low < high <= file.index.rows or file.index.entries(low, high) != entries:
            raise ValueError("a range that its file does not have")
        log = stream.log
        cold = log.sealed if log.sealed is not None else log.put_on(self.store)
        if not isinstance(cold, ColdList) or len(log) != cold.rows.live:
            raise ValueError("a range behind entries that are in memory")
        cold.add_rows(file, low, high)

    def add_gone(self, stream: Stream, word: bytes) -> None:
        """Delete entries of the ranges of a stream. Raises: ValueError."""
        cold = stream.log.sealed
        if not isinstance(cold, ColdList):
            raise ValueError("there are no ranges")
        cold.delete_recorded(decode_gone(word))

    def forget(self) -> None:
        """Let go of all files."""
        self.holds.clear()
        self._files.clear()
        self._missing.clear()

    def needed(self, keyspace: Keyspace) -> dict[int, SegmentFile]:
        """Return the missing files of which streams have entries, once all is loaded, by their numbers in the base."""
        if not self._missing:
            return {}
        there: set[int] = set()
        for db in keyspace:
            for value in db.values.values():
                if type(value) is Stream and isinstance(cold := value.log.sealed, ColdList):
                    there.update([stretch.file.number for stretch in cold.rows.stretches])
        return {number: file for number, (file, _) in self._missing.items() if file.number in there}

    def check(self, keyspace: Keyspace) -> None:
        """Return if no stream has entries of a missing file, once all is loaded. Raises: DamagedError."""
        for file in self.needed(keyspace).values():
            raise UnreadableError(file.path, f"{file.path} is not there, and streams have entries in it; {_ADVICE}")
