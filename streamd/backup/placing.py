"""Puts the files of a journal into a data directory, all of them or none."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import Final

from streamd.base.filesystem import FileSystem
from streamd.cold.files import ENDING
from streamd.journal import manifest as manifests
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part

DIRNAME: Final = "appendonlydir"
FILENAME: Final = "appendonly.aof"

# What the name of a segment file says behind that of its journal: a base names it by that.
_SEGMENT: Final = re.compile(rf"\.[0-9]{{1,18}}(?:-[0-9a-f]{{16}})?{re.escape(ENDING)}\Z")

# A file: its name, and its bytes in pieces.
Source = tuple[str, Iterable[bytes]]


class PlaceError(Exception):
    """A directory that cannot take a journal; the message is one line."""


class Place:
    """A data directory that gets a journal.

    `with Place(path) as place: place.take(...); place.commit()`. Any end of the block without a commit removes
    everything.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._made: list[str] = []
        self._temporary = os.path.join(path, f".{DIRNAME}.partial-{os.getpid()}")
        self._is_mine = False  # another process may have the same number, in another container
        self._files = FileSystem()

    def __enter__(self) -> "Place":
        """Raises: PlaceError."""
        target = os.path.join(self.path, DIRNAME)
        if os.path.lexists(target):
            raise PlaceError(f"{target} is there already; give another directory, or move it away")
        try:
            self._make_directories()
            os.mkdir(self._temporary)
            self._is_mine = True
        except OSError as error:
            self._remove()
            raise PlaceError(f"{error.filename or self.path}: {error.strerror}; give another directory")
        return self

    def _make_directories(self) -> None:
        missing = []
        path = os.path.abspath(self.path)
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            os.mkdir(one)
            self._made.append(one)

    def __exit__(self, *error: object) -> None:
        self._remove()

    def take(self, sources: Iterable[Source]) -> None:
        """Write files, in the order in which a server loads them, and the manifest that names them; segment files come
        in front of the base, which names them. Raises: PlaceError, and the errors of the sources.
        """
        parts: list[Part] = []
        for name, pieces in sources:
            segment = _SEGMENT.search(name)
            if segment is not None and not parts:
                self._write(FILENAME + segment[0], pieces, is_private=True)
                continue
            kind, number = _kind(name), len(parts) + 1
            if kind == BASE and parts:
                raise PlaceError(f"{name} comes behind {parts[-1].name}: no files of one journal")
            word = "base" if kind == BASE else "incr"
            parts.append(Part(f"{FILENAME}.{number}.{word}.aof", number, kind))
            self._write(parts[-1].name, pieces)
        base = parts[0] if parts and parts[0].kind == BASE else None
        manifest = Manifest(base, parts[1:] if base else parts)
        try:
            manifests.replace(self._files, self._temporary, f"{FILENAME}.manifest", manifest)
        except OSError as error:
            raise self._failure(error)

    def _write(self, name: str, pieces: Iterable[bytes], is_private: bool = False) -> None:
        """Write a file. is_private: nobody but its owner may read it, whatever the process's umask says."""
        path = os.path.join(self._temporary, name)
        try:
            with open(path, "xb", opener=_private) if is_private else open(path, "xb") as file:
                for piece in pieces:  # (which raise no OSError)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise self._failure(error)

    @property
    def journal(self) -> str:
        """Where the files are until `commit`, for an examination."""
        return self._temporary

    def commit(self) -> None:
        """Move the files to their place, durably. Raises: PlaceError."""
        try:
            self._files.sync_directory(self._temporary)
            os.rename(self._temporary, os.path.join(self.path, DIRNAME))
            self._made.clear()
            self._files.sync_directory(self.path)
            self._files.sync_directory(os.path.dirname(os.path.abspath(self.path)))
        except OSError as error:
            raise self._failure(error)

    def _failure(self, error: OSError) -> PlaceError:
        return PlaceError(f"cannot write to {self.path}: {error.strerror}; nothing was left there")

    def _remove(self) -> None:
        if self._is_mine:
            shutil.rmtree(self._temporary, ignore_errors=True)
        for path in reversed(self._made):
            try:
                os.rmdir(path)
            except OSError:
                pass  # somebody else has put something there
        self._made.clear()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _kind(name: str) -> str:
    """Return the kind of a journal's file, by its name. Raises: PlaceError."""
    if name.endswith(".base.aof"):
        return BASE
    if name.endswith(".aof"):
        return INCREMENT
    raise PlaceError(f"{name!r} is no file of a journal that streamd can load")


def pieces_of(path: str) -> Iterator[bytes]:
    """Return the bytes of a file. Raises: OSError."""
    with open(path, "rb") as file:
        while piece := file.read(1024 * 1024):
            yield piece
