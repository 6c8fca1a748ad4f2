"""The notes files of a directory, which lie beside the segment files that they are about.

Names: `<appendfilename>.<number of the segment file>.notes-<xxh3-64 of the field>`. They are never synced: a crash may
leave damaged ones, which are made again.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import closing
from typing import Final

from xxhash import xxh3_64_hexdigest

from streamd.base.filesystem import FileSystem, read_exactly, write_all

# Larger files are read by a thread alone: to take this much apart needs 2 ms.
_CACHED_BYTES_MAX: Final = 64 * 1024


class NotesFiles:
    """The notes files of a directory. All methods may be called in any thread."""

    def __init__(self, files: FileSystem, directory: str, filename: str, names: Iterable[str]) -> None:
        """names: what is in the directory."""
        self._files = files
        self._start = f"{directory}/{filename}."
        self._endings: dict[int, set[str]] = {}
        pattern = re.compile(rf"{re.escape(filename)}\.([0-9]{{1,18}})(\.notes-[0-9a-f]{{16}})")
        for match in map(pattern.fullmatch, names):
            if match is not None:
                self._endings.setdefault(int(match[1]), set()).add(match[2])

    def has(self, number: int, field: bytes) -> bool:
        """Return whether there are notes of a segment file and a field."""
        endings = self._endings.get(number)
        return endings is not None and _ending(field) in endings

    def _path(self, number: int, ending: str) -> str:
        return f"{self._start}{number}{ending}"

    def read(self, number: int, field: bytes) -> bytes:
        """Return what is in a file. Raises: OSError."""
        with closing(self._files.open_to_read(self._path(number, _ending(field)))) as file:
            return read_exactly(file, 0, file.size())

    def read_cached(self, number: int, field: bytes) -> bytes | None:
        """Return what is in a file if that is little and needs no wait for the disk, else None. Raises: OSError."""
        with closing(self._files.open_to_read(self._path(number, _ending(field)))) as file:
            size = file.size()
            return file.read_cached(0, size) if size <= _CACHED_BYTES_MAX else None

    def write(self, number: int, field: bytes, data: bytes) -> None:
        """Write a file in place of the one that is there. Raises: OSError, after which the file is gone."""
        ending = _ending(field)
        path = self._path(number, ending)
        endings = self._endings.setdefault(number, set())
        endings.add(ending)
        self._unlink(path)
        with closing(self._files.create(path)) as file:
            try:
                write_all(file, 0, data)
            except BaseException:
                self.forget(number, field)
                raise

    def forget(self, number: int, field: bytes) -> None:
        """Remove a file that is of no use. Raises: nothing; a start tries again."""
        ending = _ending(field)
        self._endings.get(number, set()).discard(ending)
        try:
            self._unlink(self._path(number, ending))
        except OSError:
            pass

    def unlink(self, number: int) -> None:
        """Remove all notes of a segment file. Raises: OSError; the next call tries again."""
        for ending in [*self._endings.get(number, ())]:
            self._unlink(self._path(number, ending))
        self._endings.pop(number, None)

    def unlink_orphans(self, known: Collection[int]) -> None:
        """Remove the notes of segment files that are not known. Raises: OSError."""
        for number in [number for number in [*self._endings] if number not in known]:
            self.unlink(number)

    def _unlink(self, path: str) -> None:
        try:
            self._files.unlink(path)
        except FileNotFoundError:
            pass


def _ending(field: bytes) -> str:
    return f".notes-{xxh3_64_hexdigest(field)}"
