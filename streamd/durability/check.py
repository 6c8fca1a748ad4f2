"""`streamd check`: examines a journal, reports faults and the records behind them, exports it for an older Redis."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from streamd.base.filesystem import FileSystem, repeat, write_all
from streamd.durability.flattening import Flattening
from streamd.durability.old_redis import ForOldRedis
from streamd.durability.segment_check import Named, SegmentReport, TrialSegments, examine_segments, names_segments
from streamd.durability.tally import LEGIBLE_BYTES_MAX, Tally, commands_of, legible
from streamd.journal import manifest as manifests
from streamd.journal.file_reader import Bare, FileReader
from streamd.journal.loader import Loader, LoadError
from streamd.journal.manifest import INCREMENT, Manifest, Part
from streamd.journal.parsing import Parsed, parse_body
from streamd.journal.record import encode_command, encode_select
from streamd.journal.recovery import judge, read_manifest
from streamd.journal.salvage import Gap, Salvage

# (bytes done, bytes in all)
Progress = Callable[[int, int], None]


def say_nothing(done: int, total: int) -> None:
    """Show no progress."""


@dataclass(slots=True)
class FileReport:
    """One file: its size, the length of its whole part, the problem behind that (None: none), its number of commands.

    may_have_been_acknowledged: the fault lies in bytes noted as synced, in a file that must be whole, or in a command.
    unloadable_at: the place of the wrong command, if the bytes are right; `whole` is where its unit begins.
    behind: the whole records behind the first fault of the journal; damaged: the number of damaged bytes. legible: the
    records in the damaged bytes of other software, which have no checksum. keeps: a start keeps what it cuts off in a
    file.
    """

    path: str
    size: int
    whole: int
    commands: int = 0
    problem: str | None = None
    in_run: bool = False
    torn: bool = False
    may_have_been_acknowledged: bool = False
    unloadable_at: int | None = None
    keeps: bool = False
    is_base: bool = False
    is_newer: bool = False
    is_rdb: bool = False
    behind: Tally = field(default_factory=Tally)
    legible: Tally = field(default_factory=Tally)
    damaged: int = 0

    def __str__(self) -> str:
        text = f"{self.path}: {self.size} bytes, {self.commands} commands"
        if self.problem is None:
            return f"{text}, whole"
        if self.is_newer:
            return f"{text}, written by a newer streamd from offset {self.whole} on: {self.problem}"
        if self.is_rdb:
            return f"{self.path}: {self.size} bytes, an RDB file, and not damaged: {self.problem}"
        if self.unloadable_at is not None:
            return f"{text}, cannot be loaded at offset {self.unloadable_at}: {self.problem}"
        kind = "torn" if self.torn else "damaged"
        return f"{text}, {kind} at offset {self.whole}: {self.problem}"

    @property
    def is_torn_tail(self) -> bool:
        """Whether there is only an incomplete record at the end, as a crash leaves it."""
        return self.torn and not (self.may_have_been_acknowledged or self.behind.records or self.legible.records)

    def tell(self, problem: str, whole: int, in_run: bool = False, torn: bool = False) -> None:
        """Note the first fault."""
        if self.problem is None:
            self.problem, self.whole, self.in_run, self.torn = problem, whole, in_run, torn


@dataclass(slots=True)
class Report:
    """The result of a check. is_whole: a server would start without a remark. done: the changes made. is_mended: the
    changes made the journal whole.
    """

    files: list[FileReport] = field(default_factory=list)
    segments: SegmentReport = field(default_factory=SegmentReport)
    done: list[str] = field(default_factory=list)
    is_mended: bool = False

    @property
    def is_whole(self) -> bool:
        return self.first_fault is None and not self.segments.faults

    @property
    def first_fault(self) -> FileReport | None:
        """The first file that is not whole."""
        return next((file for file in self.files if file.problem is not None), None)

    @property
    def would_start(self) -> bool:
        """Whether a server would start, maybe after cutting a torn end."""
        return not any(file.may_have_been_acknowledged for file in self.files)

    @property
    def is_newer(self) -> bool:
        """Whether a newer version has written a part."""
        return any(file.is_newer for file in self.files)

    def behind(self) -> str:
        """Return a line for people on the bytes and records behind the first fault, which --fix would cut off."""
        at = next(number for number, file in enumerate(self.files) if file.problem is not None)
        first, rest = self.files[at], self.files[at + 1 :]
        size = first.size - first.whole + sum(file.size for file in rest)
        tallies = "; ".join(str(file.behind) for file in self.files[at:] if file.behind.records)
        damaged = sum(file.damaged for file in self.files)
        legible = f"; still legible in these: {first.legible}" if first.legible.records else ""
        return f"behind it {size} bytes, {damaged} of them damaged{legible}; whole behind it: {tallies or 'no record'}"

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        lines = [*map(str, self.files), *self.segments.lines()]
        first = self.first_fault
        if first is None and self.segments.faults:
            return [*lines, *self._on_segments()]
        if first is None:
            return [*lines, "The journal is whole."]
        if self.is_newer:
            return [*lines, "A newer streamd wrote it, and can load it. This one neither loads nor changes it."]
        if first.is_rdb:
            return [
                *lines,
                "A server refuses it, and neither --fix nor --skip helps: its commands are not in a journal yet.",
            ]
        lines.append(f"From the fault on: {self.behind()}.")
        if self.would_start:
            kept = f", and keeps these {first.size - first.whole} bytes in {first.path}.cut-TIME" if first.keeps else ""
            return [
                *lines,
                f"A server starts on it with the {first.commands} commands before that. It cuts the end that is not"
                f" whole{kept}.",
            ]
        fix = "A base cannot be cut" if first.is_base else "--fix cuts off all from the fault on"
        return [
            *lines,
            "A server refuses it. Copy the directory before anything else. A backup or a replica may have all of it.",
            f"--skip leaves out only what is damaged or does not fit, and lists it. {fix}.",
        ]

    def _on_segments(self) -> list[str]:
        """Return what to do about segment files, where all else is whole."""
        if self.segments.unreadable:
            return [
                "A server refuses it. Copy the directory before anything else. A backup or a replica may have all of",
                "it. --skip leaves out the entries that are in these files, and lists them.",
            ]
        return [
            "A server starts on it, and refuses to read what is in damaged blocks. Copy the directory before anything",
            "else. A backup or a replica may have all of it. --export --skip writes the other entries for Redis.",
        ]


def journal_directory(files: FileSystem, path: str) -> tuple[str, str]:
    """Return `(data directory, journal directory)` of a path to either of them."""
    path = path.rstrip("/")
    if files.exists(f"{path}/appendonlydir"):
        return path, f"{path}/appendonlydir"
    return path.rpartition("/")[0] or ".", path


class Trial:
    """A trial start: it applies commands up to the first faulty one, or with `goes_on` the commands behind it, too;
    without a loader it applies nothing.
    """

    def __init__(self, loader: Loader | None, goes_on: bool = False) -> None:
        self._loader = loader
        self._goes_on = goes_on

    def begin_file(self, path: str) -> None:
        """Start a file."""
        if self._loader is not None:
            self._loader.begin_file(path, "")

    @property
    def is_applied(self) -> bool:
        """Whether all pieces so far were applied."""
        return self._loader is not None

    def take(self, piece: Bare | Parsed) -> LoadError | None:
        """Apply a piece; return the fault of its first command that cannot be applied."""
        if self._loader is None:
            return None
        try:
            for _ in self._loader.take(piece):
                pass
        except LoadError as error:
            if error.needs_databases or not self._goes_on:
                self.end()
            # A server with more databases loads it; the number of the future server's databases is unknown here.
            return None if error.needs_databases else error
        return None

    def end(self) -> None:
        """Apply no more: records behind a gap may contradict those before it."""
        self._loader = None


def examine(
    files: FileSystem,
    directory: str,
    filename: str = "appendonly.aof",
    loader: Loader | None = None,
    progress: Progress = say_nothing,
    segments: TrialSegments | None = None,
) -> Report:
    """Read every file of a journal directory and report the whole parts and the faults; with a loader also the first
    command that a start would refuse. segments: those that the loader has loaded.
    progress: called with (bytes read, bytes in all). Raises: DamagedError for its manifest; OSError.
    """
    report = Report()
    trial, named = Trial(loader), Named()
    parts = existing_manifest(files, directory, filename).parts()
    total = sum(files.identity(f"{directory}/{part.name}").size for part in parts)
    before = 0
    for part in parts:
        found = FileReport(f"{directory}/{part.name}", 0, 0, is_base=part.kind == manifests.BASE)
        for offset in _examine_file(files, found, part is parts[-1], not report.is_whole, trial, named):
            progress(before + offset, total)
        report.files.append(found)
        before += found.size
    total += sum(size for size, _ in named.files.values())
    needed = segments.needed() if segments is not None and trial.is_applied else None
    report.segments = examine_segments(
        files, directory, filename, named, needed, lambda done: progress(before + done, total)
    )
    return report


def existing_manifest(files: FileSystem, directory: str, filename: str) -> Manifest:
    """Return the manifest of a journal. Raises: FileNotFoundError if it has none; DamagedError, OSError."""
    manifest = read_manifest(files, directory, filename)
    if manifest is None:
        raise FileNotFoundError(2, "there is no journal", f"{directory}/{filename}.manifest")
    return manifest


def _examine_file(
    files: FileSystem, report: FileReport, last: bool, is_behind: bool, trial: Trial, named: Named
) -> Iterator[int]:
    """Fill in a report, and yield how many bytes are read. is_behind: a fault lies in a file before this one. named:
    gets the segment files that a base names.
    """
    with closing(files.open(report.path)) as file:
        reader = FileReader(file)
        report.size = report.whole = reader.size
        trial.begin_file(report.path)
        for piece in Salvage(reader).pieces():
            if isinstance(piece, Gap):
                assert reader.trouble is not None
                trial.end()
                if not report.may_have_been_acknowledged:
                    verdict = judge(reader, reader.trouble)
                    report.keeps = verdict.keeps
                    lost = report.is_base or not last or verdict.damage is not None
                    report.may_have_been_acknowledged = lost
                report.tell(piece.detail, piece.offset, piece.in_run, reader.trouble.torn)
                report.is_rdb = report.is_rdb or reader.trouble.is_rdb
                report.damaged += piece.end - piece.offset
                if not reader.ours:
                    for words in legible(reader.read(piece.offset, min(piece.end - piece.offset, LEGIBLE_BYTES_MAX))):
                        report.legible.add(words)
                continue
            if report.is_base and names_segments(piece):
                named.take(commands_of(piece))
            if (error := trial.take(piece)) is not None:
                report.unloadable_at = error.offset
                report.tell(error.detail, *reader.cut_before(error.offset))
                report.may_have_been_acknowledged = True
            if report.problem is not None or is_behind:
                for words in commands_of(piece) if error is None else _placed(piece, error.offset, reader.size):
                    report.behind.add(words)
            if report.problem is None or report.unloadable_at is not None:
                report.commands += sum(1 for _ in commands_of(piece))
            yield reader.offset
        yield reader.size
        if reader.trouble is not None:
            report.tell(reader.trouble.detail, reader.trouble.offset)
            report.is_newer = report.may_have_been_acknowledged = True
        elif report.is_base and reader.ours and not reader.ended:
            trial.end()
            report.tell("its end is missing", reader.size, torn=True)
            report.may_have_been_acknowledged = True


def _placed(piece: Bare | Parsed, begin: int, end: int) -> Iterable[list[bytes]]:
    """Return the commands of a piece between two offsets of its file."""
    found = parsed(piece)
    return [words for words, at in zip(found.commands, found.places, strict=True) if begin <= at < end]


def parsed(piece: Bare | Parsed) -> Parsed:
    """Return a piece as commands with their places."""
    found = parse_body(piece.data, piece.offset) if isinstance(piece, Bare) else piece
    assert isinstance(found, Parsed)
    return found


def replace_manifest(files: FileSystem, directory: str, filename: str, manifest: Manifest) -> None:
    """Put a manifest in place, durably. Raises: OSError."""
    manifests.replace(files, directory, f"{filename}.manifest", manifest)
    repeat(lambda: files.sync_directory(directory))


def export(
    files: FileSystem,
    directory: str,
    target: str,
    filename: str = "appendonly.aof",
    report: Report | None = None,
    progress: Progress = say_nothing,
    missing: list[str] | None = None,
    lost: list[str] | None = None,
) -> int:
    """Write the journal into a new journal directory that Redis 7.0 loads; return how many commands it has.

    Idempotence windows, and other records that such a Redis does not know, are left out; entries keep their IDs. From a
    damaged journal it writes all before the first fault. From a journal that cannot be loaded, according to `report`,
    it writes all before the faulty unit.
    Entries in segment files are written like others. missing: gets a line for each part of these that cannot be read;
    None: that is an error. lost: gets a line for each group of which Redis 7.0 cannot have all pending entries.
    `target` becomes the data directory of a redis-server: `redis-server --dir TARGET --appendonly yes`.
    progress: called with (bytes read, bytes in all).
    Raises: FileExistsError, DamagedError, OSError.
    """
    manifest = existing_manifest(files, directory, filename)
    old = ForOldRedis()
    flat = Flattening(files, directory, filename, missing, old)
    pieces = _exported(files, directory, manifest, report or Report(), flat, old, progress)
    commands = write_journal(files, target, pieces)
    if lost is not None:
        lost += old.losses()
    return commands


def write_journal(files: FileSystem, target: str, pieces: Iterable[tuple[bytes, int]]) -> int:
    """Write a new journal directory from `(bytes, number of commands)`; return the number of its commands.

    Raises: FileExistsError, OSError.
    """
    out_directory = f"{target}/appendonlydir"
    files.make_directory(out_directory)
    if files.list(out_directory):
        raise FileExistsError(17, "there are files already", out_directory)
    part = Part("appendonly.aof.1.incr.aof", 1, INCREMENT)
    with closing(files.open(f"{out_directory}/{part.name}", create=True)) as out:
        offset = commands = 0
        for data, count in pieces:
            write_all(out, offset, data)
            offset += len(data)
            commands += count
        repeat(out.sync)
    replace_manifest(files, out_directory, "appendonly.aof", Manifest(None, [part]))
    return commands


def _exported(
    files: FileSystem,
    directory: str,
    manifest: Manifest,
    report: Report,
    flat: Flattening,
    old: ForOldRedis,
    progress: Progress,
) -> Iterator[tuple[bytes, int]]:
    parts = manifest.parts()
    total = sum(files.identity(f"{directory}/{part.name}").size for part in parts)
    before = 0
    limits = {file.path: file.whole for file in report.files if file.unloadable_at is not None}
    for part in parts:
        path = f"{directory}/{part.name}"
        limit = limits.get(path)
        with closing(files.open(path)) as file:
            reader = FileReader(file)
            yield encode_select(0), 0  # as at the beginning of each file
            for piece in reader.pieces():
                commands = commands_of(piece) if limit is None else _placed(piece, 0, limit)
                if part.kind == manifests.BASE and (flat.is_within or names_segments(piece)):
                    yield from flat.pieces(commands)
                    continue
                kept = [words for found in commands if (words := old.take(found)) is not None]
                yield b"".join(map(encode_command, kept)), len(kept)
                progress(before + reader.offset, total)
            yield from flat.end()
            before += reader.size
            progress(before, total)
            if reader.trouble is not None or limit is not None:
                return  # records behind a gap may contradict those before it
