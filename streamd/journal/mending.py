"""How a damaged file of the journal is changed: removed bytes are first kept beside it."""

from collections.abc import Sequence
from contextlib import closing
from typing import Final, NamedTuple

from streamd.base.filesystem import READ_BYTES, File, FileSystem, read_exactly, repeat, write_all

# Lines stay below what redis-server reads of one, 1,024 bytes.
_FILLING_LINE_BYTES: Final = 1_000
_FILLING_TEXT: Final = b"# left out"
# What a file is called while it is copied with its changes.
_COPY: Final = ".mended"


class Change(NamedTuple):
    """Bytes to remove, from `offset` to `end`, and their replacement: mostly as many bytes, or the new end of the
    file.
    """

    offset: int
    end: int
    instead: bytes


def stamp(now_ms: int) -> str:
    """Return a time as names of files have it: 20261122T063500Z."""
    from datetime import UTC, datetime  # not at each start

    return f"{datetime.fromtimestamp(now_ms // 1000, UTC):%Y%m%dT%H%M%SZ}"


def free_name(files: FileSystem, path: str) -> str:
    """Return a path that nothing has: this one, or this one with a number behind it. Raises: OSError."""
    number, free = 1, path
    while files.exists(free):
        number += 1
        free = f"{path}-{number}"
    return free


def can_fill(length: int) -> bool:
    """Return whether there is a filling of this length: a line has two bytes at least."""
    return length != 1


def filling(length: int) -> bytes:
    """Return so many bytes of lines that redis-server and every version of streamd skip."""
    lines = []
    while length:
        size = min(length, _FILLING_LINE_BYTES)
        size -= length - size == 1  # what is left is a line, too
        lines.append(_FILLING_TEXT[: size - 1].ljust(size - 1) + b"\n")
        length -= size
    return b"".join(lines)


def change(files: FileSystem, path: str, changes: Sequence[Change], cut_name: str | None) -> str | None:
    """Change a file, durably. Removed bytes are first written to a new file beside it, one part behind the other:
    return its path, which begins with `cut_name`; with None nothing is kept. Raises: OSError.

    Where a replacement has another length than what it replaces, bytes behind it move: then the file is copied with
    the changes, and the copy takes its place.
    """
    with closing(files.open(path)) as file:
        kept = None if cut_name is None else free_name(files, cut_name)
        if kept is not None:
            _copy(files, file, changes, kept)
            repeat(lambda: files.sync_directory(path.rpartition("/")[0]))
        size = file.size()
        if any(len(instead) != end - offset and end < size for offset, end, instead in changes):
            _put_copy(files, file, changes, path)
            return kept
        for offset, end, instead in changes:
            _put(file, offset, end, instead)
        repeat(file.sync)
        return kept


def _copy(files: FileSystem, file: File, changes: Sequence[Change], path: str) -> None:
    with closing(files.open(path, create=True)) as aside:
        written = 0
        for offset, end, _ in changes:
            written = _append(file, offset, end, aside, written)
        repeat(aside.sync)


def _append(file: File, offset: int, end: int, target: File, written: int) -> int:
    """Copy bytes to the end of another file, which has so many; return how many it has then."""
    while offset < end and (data := read_exactly(file, offset, min(READ_BYTES, end - offset))):
        write_all(target, written, data)
        written += len(data)
        offset += len(data)
    return written


def _put_copy(files: FileSystem, file: File, changes: Sequence[Change], path: str) -> None:
    """Put a copy of the file, with the changes, in its place."""
    with closing(files.open(path + _COPY, create=True)) as copy:
        at = written = 0
        for offset, end, instead in changes:
            written = _append(file, at, offset, copy, written)
            write_all(copy, written, instead)
            written += len(instead)
            at = end
        _append(file, at, file.size(), copy, written)
        repeat(copy.sync)
    files.rename(path + _COPY, path)
    repeat(lambda: files.sync_directory(path.rpartition("/")[0]))


def _put(file: File, offset: int, end: int, instead: bytes) -> None:
    if len(instead) < end - offset:  # only at the end of the file
        repeat(lambda: file.truncate(offset))
    write_all(file, offset, instead)
