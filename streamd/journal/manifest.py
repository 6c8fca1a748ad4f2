"""The manifest: which files make up the journal, in the format of Redis 7."""

from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from xxhash import xxh3_64_hexdigest

from streamd.base.errors import ProtocolError
from streamd.base.filesystem import FileSystem, read_exactly, repeat, write_all
from streamd.resp.inline import split_inline

MANIFEST_BYTES_MAX: Final = 1024 * 1024

# In Redis's manifest: b the base, i an increment, h what a rewrite has made obsolete and has still to delete.
BASE, INCREMENT, HISTORY = "b", "i", "h"

# The last line of a manifest of streamd's, with the hash of those before it. redis-server skips it, and writes none.
_CHECK: Final = b"#streamd manifest "
# What the names of files say of their kind, if they say anything.
_KINDS: Final = ((".base.aof", BASE), (".base.rdb", BASE), (".incr.aof", INCREMENT))


class ManifestError(ValueError):
    """A manifest that makes no sense; the message says which line and why."""


class Part(NamedTuple):
    """One file of the journal: its name in the directory, its number, and its kind."""

    name: str
    seq: int
    kind: str


@dataclass(slots=True)
class Manifest:
    """The files of a journal: at most one base, then the increments in their order."""

    base: Part | None = None
    increments: list[Part] = field(default_factory=list)
    history: list[Part] = field(default_factory=list)

    def parts(self) -> list[Part]:
        """Return the files in the order in which they are loaded."""
        return ([self.base] if self.base else []) + self.increments

    def next_seq(self) -> int:
        """Return a number that no file of the journal has."""
        return max((part.seq for part in self.parts() + self.history), default=0) + 1

    def encode(self) -> bytes:
        """Return the text of the manifest."""
        lines = b"".join(
            f"file {_written(part.name)} seq {part.seq} type {part.kind}\n".encode()
            for part in self.parts() + self.history
        )
        return lines + _check_line(lines)


def _written(name: str) -> str:
    """Return a name as Redis writes it into a line: in quotes if it has blanks, quotes or backslashes."""
    if name.isprintable() and not any(letter in " \"'\\" for letter in name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_line(lines: bytes) -> bytes:
    return b"%b%b\n" % (_CHECK, xxh3_64_hexdigest(lines).encode())


def parse(text: bytes) -> Manifest:
    """Return the manifest that `text` says. Raises: ManifestError."""
    manifest = Manifest()
    names: set[str] = set()
    if not text:
        raise ManifestError("it is empty")
    if not text.endswith(b"\n"):
        raise ManifestError("its last line is not ended")
    lines, check, _ = text.partition(_CHECK)
    if check and text != lines + _check_line(lines):
        raise ManifestError("it does not match its checksum")
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        if line.startswith(b"#"):
            continue
        part = _parse_line(line, number)
        if part.name in names:
            raise ManifestError(f"line {number} names {part.name} again")
        names.add(part.name)
        if part.kind == BASE:
            if manifest.base is not None:
                raise ManifestError(f"line {number} names a second base")
            manifest.base = part
        elif part.kind == INCREMENT:
            if manifest.increments and part.seq <= manifest.increments[-1].seq:
                raise ManifestError(f"line {number}: increments are not in order")
            manifest.increments.append(part)
        else:
            manifest.history.append(part)
    if not manifest.parts():
        raise ManifestError("it names no file")
    return manifest


def _parse_line(line: bytes, number: int) -> Part:
    try:
        words = [word.decode() for word in split_inline(line.removesuffix(b"\r"))]
    except (UnicodeDecodeError, ProtocolError):
        raise ManifestError(f"line {number} is not text")
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    name, seq, kind = pairs.get("file", ""), pairs.get("seq", ""), pairs.get("type", "")
    if len(words) % 2 or len(words) != 2 * len(pairs) or not name or kind not in (BASE, INCREMENT, HISTORY):
        raise ManifestError(f"line {number} is not `file NAME seq NUMBER type b|i|h`")
    if not (seq.isascii() and seq.isdigit() and 0 < int(seq) < 2**63):
        raise ManifestError(f"line {number}: {seq!r} is no number of a file")
    if "/" in name or "\\" in name or name in (".", ".."):
        raise ManifestError(f"line {number}: {name!r} is not a name in this directory")
    for ending, said in _KINDS:
        if name.endswith(ending) and kind not in (said, HISTORY):
            raise ManifestError(f"line {number}: {name} is not of type {kind}")
    return Part(name, int(seq), kind)


def read(files: FileSystem, path: str) -> Manifest | None:
    """Return the manifest at `path`, or None if the file is missing. Raises: ManifestError, OSError."""
    if not files.exists(path):
        return None
    with closing(files.open(path)) as file:
        return parse(read_exactly(file, 0, MANIFEST_BYTES_MAX))


def replace(files: FileSystem, directory: str, name: str, manifest: Manifest) -> None:
    """Put `manifest` in the place of the one that counts; durable once the directory is synced. Raises: OSError."""
    temporary = f"{directory}/temp-{name}"
    with closing(files.open(temporary, create=True)) as file:
        write_all(file, 0, manifest.encode())
        repeat(file.sync)
    repeat(lambda: files.rename(temporary, f"{directory}/{name}"))
