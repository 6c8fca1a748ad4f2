"""The files of a journal's directory that its manifest does not name, some of which may be moved aside.

A crash leaves two kinds: the files of an unfinished rewrite, whose numbers are greater than all named ones, and the
files that a rewrite has replaced, whose numbers are less. All their data is in other files, too. Any other file was
lost by its manifest, and may hold acknowledged data.
"""

import re
from contextlib import closing
from typing import Final

from streamd.base.filesystem import FileSystem
from streamd.journal.manifest import BASE, INCREMENT, Manifest
from streamd.journal.record import FIRST_LINE_BYTES, FIRST_LINE_HEAD

# A file that is moved aside gets this behind its name. streamd never reads or removes it.
ASIDE: Final = ".unnamed"


class Unnamed(Exception):
    """A file that a manifest should name; the message has its name, number and kind."""


def leftovers(files: FileSystem, directory: str, filename: str, manifest: Manifest) -> list[str]:
    """Return the files that may be moved aside. Raises: Unnamed, OSError."""
    named = {part.name for part in manifest.parts()}
    history_has_base = any(".base." in part.name for part in manifest.history)
    history = {part.name for part in manifest.history}
    part_name = re.compile(rf"{re.escape(filename)}\.([0-9]{{1,18}})\.(base|incr)\.(aof|rdb)")
    found = []
    for name in sorted(files.list(directory)):
        match = part_name.fullmatch(name)
        if match is None or name in named:
            continue
        found.append(name)
        head = _head(files, f"{directory}/{name}")
        if not _holds_records(head):
            continue
        if match[2] == "base":
            is_needed = _is_needed_base(int(match[1]), manifest)
        else:
            is_needed = _is_needed_increment(int(match[1]), manifest, head)
            # redis-server puts an increment into history together with the base that it belongs to.
            is_needed = is_needed or (name in history and not history_has_base)
        if is_needed:
            kind = BASE if match[2] == "base" else INCREMENT
            raise Unnamed(
                f"{name}, which is there and may hold acknowledged data (`file {name} seq {match[1]} type {kind}`)"
            )
    return found


def _is_needed_base(seq: int, manifest: Manifest) -> bool:
    """Return whether an unnamed base may belong to the named increments."""
    increments = manifest.increments
    return manifest.base is None and not (increments and seq > increments[-1].seq)


def _is_needed_increment(seq: int, manifest: Manifest, head: bytes) -> bool:
    """Return whether an unnamed increment may hold records that follow the named files."""
    increments = manifest.increments
    if not increments:
        return manifest.base is None or seq >= manifest.base.seq
    if seq > max(part.seq for part in manifest.parts()):
        # streamd names no increment before its base is whole, and never two; redis-server does, and writes no header.
        return head.startswith((b"*", b"#TS:"))
    return seq >= increments[0].seq


def _head(files: FileSystem, path: str) -> bytes:
    with closing(files.open(path)) as file:
        return file.read_at(0, FIRST_LINE_BYTES + 1)


def _holds_records(head: bytes) -> bool:
    """Return whether a file with this beginning has more than a first line, or than a part of one."""
    word = FIRST_LINE_HEAD[:-2]  # without the format
    return bool(head) and (len(head) > FIRST_LINE_BYTES or head[: len(word)] != word[: len(head)])
