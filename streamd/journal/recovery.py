"""Recovery: reading a journal's files back in order, and telling torn ends, which may be cut, from damage."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streamd.base.filesystem import File, FileSystem, write_all
from streamd.journal import manifest as manifests
from streamd.journal.behind import begins_behind, what_stands_behind
from streamd.journal.file_reader import Bare, FileReader, Trouble
from streamd.journal.leftovers import Unnamed, leftovers
from streamd.journal.manifest import Manifest, ManifestError, Part
from streamd.journal.mending import Change, change, stamp
from streamd.journal.parsing import Parsed
from streamd.journal.record import CUT_LINE, encode_first_line

_RESTORE: Final = "restore it, or move the directory away"


class DamagedError(Exception):
    """A journal that must not be loaded as it is; the message has the file, the offset and advice."""

    def __init__(self, path: str, offset: int, detail: str, advice: str) -> None:
        super().__init__(f"{path} is damaged at offset {offset}: {detail}; {advice}")
        self.path = path
        self.offset = offset
        self.detail = detail


class NewerError(DamagedError):
    """A journal of a format that this version does not know."""

    def __init__(self, path: str, offset: int, detail: str) -> None:
        super().__init__(path, offset, detail, "")
        self.args = (f"{path} was written by a newer streamd ({detail}, at offset {offset}): start that version on it",)


class RdbError(DamagedError):
    """A base in RDB form, as redis-server writes it by default: whole, and not for streamd."""

    def __init__(self, path: str, advice: str) -> None:
        super().__init__(path, 0, advice, "")
        self.args = (f"{path} is an RDB file, and not damaged: {advice}",)


class Cut(NamedTuple):
    """A cut made by recovery. size: the file's length before; offset: its length now. torn: it removes only a record of
    streamd's own that was being written, of which no client was told. kept: the file that has the cut bytes; None for
    such a record.
    """

    path: str
    offset: int
    size: int
    detail: str
    torn: bool
    in_run: bool
    kept: str | None = None

    def __str__(self) -> str:
        lost = self.size - self.offset
        where = f", and are in {self.kept}" if self.kept is not None else ""
        return f"{self.path}: {self.detail} at offset {self.offset}: the last {lost} bytes are cut off{where}"


@dataclass(slots=True)
class Loading:
    """The progress of loading, and its findings. cut: the cut that the last file needs. last_salt: the salt of that
    file's end (None: other software wrote it; 0: it has no salt). goes_on: what is appended to it may belong to its
    last part. earlier: the first file with a part of an earlier format.
    """

    bytes_total: int = 0
    bytes_done: int = 0
    cut: Cut | None = None
    last_salt: int | None = None
    goes_on: bool = False
    earlier: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)


def read_manifest(files: FileSystem, directory: str, filename: str) -> Manifest | None:
    """Return the manifest of a journal directory, or None if there is no journal. Raises: DamagedError, OSError."""
    path = f"{directory}/{filename}.manifest"
    try:
        manifest = manifests.read(files, path)
        for part in manifest.parts() if manifest is not None else []:
            if not files.exists(f"{directory}/{part.name}"):
                raise DamagedError(path, 0, f"it names {part.name}, which is not there", _RESTORE)
        leftovers(files, directory, filename, manifest or Manifest())
    except ManifestError as error:
        raise DamagedError(path, 0, str(error), _RESTORE)
    except Unnamed as error:
        what = "it is not there, and does not name" if manifest is None else "it does not name"
        raise DamagedError(path, 0, f"{what} {error}", "restore it, or move that file away")
    return manifest


def read_parts(
    files: FileSystem, directory: str, manifest: Manifest, loading: Loading, begin_file: Callable[[str, str], None]
) -> Iterator[Bare | Parsed]:
    """Yield the pieces of all files in order.

    begin_file is called before each file, with its path and the advice for a command that cannot be applied. If the
    last file has to be cut, `loading.cut` is set at the end; nothing is changed on the disk. Raises: DamagedError,
    OSError.
    """
    parts = manifest.parts()
    for part in parts:
        loading.sizes[part.name] = files.identity(f"{directory}/{part.name}").size
    loading.bytes_total = sum(loading.sizes.values())
    before = 0
    empty_base: str | None = None
    for part in parts:
        path = f"{directory}/{part.name}"
        begin_file(path, _advice(directory, part))
        with closing(files.open(path)) as file:
            reader = FileReader(file)
            for piece in reader.pieces():
                yield piece
                loading.bytes_done = before + reader.offset
            last = part is parts[-1]
            loading.last_salt = reader.salt
            loading.goes_on = reader.has_places and not reader.missing
            if reader.has_earlier and loading.earlier is None:
                loading.earlier = path
            if reader.trouble is not None:
                loading.cut = _judge(path, directory, reader, reader.trouble, part, last)
            elif part.kind == manifests.BASE and reader.ours and not reader.ended:
                raise DamagedError(path, reader.size, "the end of the base is missing", _advice(directory, part))
            elif part.kind == manifests.BASE and not reader.size:
                empty_base = path
            elif empty_base is not None and reader.begun_by_us:
                # An empty base is what redis-server makes of no data; streamd's has at least two lines.
                raise DamagedError(empty_base, 0, "it is empty", _advice(directory, parts[0]))
            before += reader.size
            loading.bytes_done = before


def _judge(path: str, directory: str, reader: FileReader, trouble: Trouble, part: Part, last: bool) -> Cut:
    """Return the cut. Raises: DamagedError if the bytes to cut may have been acknowledged as durable, or if no crash
    leaves such a file.

    A base is complete before a manifest names it, and so is every increment but the last. In the last increment all
    bytes noted as synced must be whole; later bytes may be torn (a crash in the middle of a write) or garbled (a power
    loss: blocks reach the disk in any order). No crash moves bytes. The bytes of other software are judged as Redis
    judges them: only the end of the file may be torn.
    """
    if trouble.is_newer:
        raise NewerError(path, trouble.offset, trouble.detail)
    if trouble.is_rdb:
        raise RdbError(path, trouble.detail)
    if part.kind == manifests.BASE or not last:
        raise DamagedError(path, trouble.offset, trouble.detail, _advice(directory, part))
    verdict = judge(reader, trouble)
    if verdict.damage is not None:
        raise DamagedError(path, trouble.offset, verdict.damage, _advice(directory, part))
    return Cut(path, trouble.offset, reader.size, trouble.detail, not verdict.keeps, trouble.in_run)


class Verdict(NamedTuple):
    """What a fault in the last increment is. damage: why the bytes from there on must not be cut; None if they may be.
    keeps: they are kept in a file then.
    """

    damage: str | None
    keeps: bool


def judge(reader: FileReader, trouble: Trouble) -> Verdict:
    """Return what a fault in the last increment is."""
    if trouble.is_damage:
        return Verdict(trouble.detail, True)
    if not reader.ours:
        is_last = not begins_behind(reader)
        return Verdict(None if is_last else f"{trouble.detail}, though a part of streamd's begins behind it", True)
    behind = what_stands_behind(reader)
    if behind.is_moved:
        return Verdict(f"{trouble.detail}, and what stands behind it was written at another place", True)
    if behind.synced > trouble.offset + reader.missing:
        return Verdict(f"{trouble.detail}, though the first {behind.synced} bytes had been written to the disk", True)
    return Verdict(None, not trouble.torn or trouble.is_foreign or behind.has_runs)


def _advice(directory: str, part: Part) -> str:
    """Return the advice for a part that cannot be loaded; steps that change nothing come first."""
    from shlex import quote  # a start without a journal need not wait for it

    check = f"streamd check {quote(directory)}"
    is_base = part.kind == manifests.BASE
    fix = "a base cannot be cut" if is_base else f"`{check} --fix`, which cuts off all from there on"
    return (
        f"copy the directory first, then `{check}` reports what is whole; then choose: a backup, a replica's data, "
        f"`{check} --skip`, which leaves out only what is damaged or does not fit; {fix}"
    )


def apply_cut(files: FileSystem, cut: Cut, now_ms: int) -> Cut:
    """Make the cut that recovery found, durably; return it with the file that has the cut bytes, unless these are a
    torn record. Raises: OSError.
    """
    name = None if cut.torn else f"{cut.path}.cut-{stamp(now_ms)}"
    instead = CUT_LINE if cut.in_run else b""
    return cut._replace(kept=change(files, cut.path, [Change(cut.offset, cut.size, instead)], name))


def create_part(files: FileSystem, directory: str, name: str) -> tuple[File, int]:
    """Create a file of the journal with its first line alone; return it with its salt. Raises: OSError."""
    file = files.open(f"{directory}/{name}", create=True)
    salt = files.salt()
    try:
        write_all(file, 0, encode_first_line(salt))
    except BaseException:
        file.close()
        raise
    return file, salt
