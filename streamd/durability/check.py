"""`streamd check`: what a journal holds, whether it is whole, cutting it, and exporting it for an older Redis."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from streamd.base.errors import CommandError
from streamd.commands.stream.options import parse_recorded_append
from streamd.data.entry_record import NAME
from streamd.journal import manifest as manifests
from streamd.journal.filesystem import FileSystem, repeat, write_all
from streamd.journal.journal import lock_directory
from streamd.journal.loader import Loader, LoadError
from streamd.journal.manifest import INCREMENT, Manifest, Part
from streamd.journal.reading import Bare, FileReader, Parsed, parse_body
from streamd.journal.record import encode_command, encode_select
from streamd.journal.recovery import SALVAGE, Cut, apply_cut, read_manifest
from streamd.journal.words import bare_commands

# What Redis 7.0 does not know, beside the words of XADD that it does not.
_UNKNOWN_TO_OLD_REDIS = frozenset((b"XCFGSET", b"XIDMPRECORD", b"XNACK", b"XDELEX", b"XACKDEL"))

# (bytes done, bytes in all)
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file: its size, how much of it is whole, what is wrong behind that (None: nothing), its number of commands.

    may_have_been_acknowledged: what is wrong lies where all had been noted as synced, or in a file that must be whole.
    unloadable_at: where the command stands that is wrong, if the bytes are right; `whole` is where its unit begins.
    """

    path: str
    size: int
    whole: int
    problem: str | None
    commands: int
    in_run: bool = False
    torn: bool = False
    may_have_been_acknowledged: bool = False
    unloadable_at: int | None = None
    is_base: bool = False

    def __str__(self) -> str:
        text = f"{self.path}: {self.size} bytes, {self.commands} commands"
        if self.problem is None:
            return f"{text}, whole"
        if self.unloadable_at is not None:
            return f"{text}, cannot be loaded at offset {self.unloadable_at}: {self.problem}"
        kind = "torn" if self.torn else "damaged"
        return f"{text}, {kind} at offset {self.whole}: {self.problem}"


@dataclass(slots=True)
class Report:
    """What a check found. is_whole: a server would start without a word. is_fixed: it would now."""

    files: list[FileReport] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)
    is_fixed: bool = False

    @property
    def is_whole(self) -> bool:
        return all(file.problem is None for file in self.files)

    @property
    def would_start(self) -> bool:
        """Whether a server would start, maybe after cutting a torn end."""
        return not any(file.may_have_been_acknowledged for file in self.files)

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        lines = [str(file) for file in self.files]
        if self.fixed:
            return [*lines, *self.fixed]
        if self.is_whole:
            return [*lines, "The journal is whole."]
        if self.would_start:
            return [*lines, "A server starts on it, and cuts the end that is not whole."]
        first = next(file for file in self.files if file.may_have_been_acknowledged)
        if first.is_base:
            return [*lines, f"A server refuses it, and a base cannot be cut: {SALVAGE}"]
        if first.unloadable_at is not None:
            return [*lines, "A server refuses it. --fix cuts off that command and all behind it, for ever."]
        return [*lines, "A server refuses it: what is not whole had been acknowledged. --fix cuts it off, for ever."]


def journal_directory(files: FileSystem, path: str, dirname: str = "appendonlydir") -> tuple[str, str]:
    """Return `(data directory, journal directory)` of a path that is either of them."""
    path = path.rstrip("/")
    if files.exists(f"{path}/{dirname}"):
        return path, f"{path}/{dirname}"
    return path.rpartition("/")[0] or ".", path


class _Trial:
    """Applies commands as a start would, up to the first that cannot be applied; without a loader none is."""

    def __init__(self, loader: Loader | None) -> None:
        self._loader = loader

    def begin_file(self, path: str) -> None:
        """Start a file."""
        if self._loader is not None:
            self._loader.begin_file(path, "")

    def take(self, piece: Bare | Parsed) -> LoadError | None:
        """Apply a piece; return what is wrong with it, once."""
        if self._loader is None:
            return None
        try:
            for _ in self._loader.take(piece):
                pass
        except LoadError as error:
            self.end()
            # A server that is started with more databases loads it, and which one this is nobody has said.
            return None if error.needs_databases else error
        return None

    def end(self) -> None:
        """Apply no more: what comes behind a gap may contradict what was before it."""
        self._loader = None


def examine(
    files: FileSystem,
    directory: str,
    filename: str = "appendonly.aof",
    loader: Loader | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read every file of a journal directory and say what is whole, and with a loader what a start would refuse to
    apply. progress: called with (bytes read, bytes in all). Raises: DamagedError for its manifest; OSError.
    """
    manifest = read_manifest(files, directory, filename)
    if manifest is None:
        raise FileNotFoundError(2, "there is no journal", f"{directory}/{filename}.manifest")
    report = Report()
    trial = _Trial(loader)
    parts = manifest.parts()
    total = sum(_size(files, f"{directory}/{part.name}") for part in parts) if progress is not None else 0
    before = 0
    for part in parts:
        advance = None if progress is None else _from(progress, before, total)
        report.files.append(_examine_file(files, f"{directory}/{part.name}", part, part is parts[-1], trial, advance))
        before += report.files[-1].size
    return report


def _from(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    return lambda offset: progress(before + offset, total)


def _size(files: FileSystem, path: str) -> int:
    file = files.open(path)
    try:
        return file.size()
    finally:
        file.close()


def _examine_file(
    files: FileSystem, path: str, part: Part, last: bool, trial: _Trial, advance: Callable[[int], None] | None
) -> FileReport:
    is_base = part.kind == manifests.BASE
    file = files.open(path)
    try:
        reader = FileReader(file)
        commands = 0
        refused: tuple[LoadError, int, bool] | None = None
        trial.begin_file(path)
        for piece in reader.pieces():
            commands += sum(1 for _ in _commands(piece))
            if (error := trial.take(piece)) is not None:
                refused = error, *reader.cut_before(error.offset)
            if advance is not None:
                advance(reader.offset)
        if advance is not None:
            advance(reader.size)
        report = FileReport(path, reader.size, reader.size, None, commands, is_base=is_base)
        if refused is not None:
            error, whole, in_run = refused
            return replace(
                report,
                whole=whole,
                in_run=in_run,
                problem=error.detail,
                unloadable_at=error.offset,
                may_have_been_acknowledged=True,
            )
        if (trouble := reader.trouble) is not None:
            trial.end()
            lost = is_base or not last or reader.noted_sync() > trouble.offset
            return replace(
                report,
                whole=trouble.offset,
                in_run=trouble.in_run,
                problem=trouble.detail,
                torn=trouble.torn,
                may_have_been_acknowledged=lost,
            )
        if is_base and reader.ours and not reader.ended:
            trial.end()
            return replace(report, problem="its end is missing", torn=True, may_have_been_acknowledged=True)
        return report
    finally:
        file.close()


def _commands(piece: Bare | Parsed) -> Iterable[list[bytes]]:
    return bare_commands(piece.data) if isinstance(piece, Bare) else piece.commands


def _commands_before(piece: Bare | Parsed, place: int) -> Iterable[list[bytes]]:
    parsed = parse_body(piece.data, piece.offset) if isinstance(piece, Bare) else piece
    assert isinstance(parsed, Parsed)
    return [words for words, at in zip(parsed.commands, parsed.places, strict=True) if at < place]


def fix(
    files: FileSystem,
    data_directory: str,
    directory: str,
    filename: str = "appendonly.aof",
    loader: Loader | None = None,
    progress: Progress | None = None,
) -> Report:
    """Cut a journal at the first place that is not whole, with a loader also at a command that cannot be applied, and
    drop what comes behind; say what was done.

    A damaged base is not cut. Raises: LockedError when a server is running; DamagedError; OSError.
    """
    lock = lock_directory(files, data_directory)
    try:
        report = examine(files, directory, filename, loader, progress)
        manifest = read_manifest(files, directory, filename)
        assert manifest is not None
        for number, (part, found) in enumerate(zip(manifest.parts(), report.files, strict=True)):
            if found.problem is None:
                continue
            if part.kind != INCREMENT:
                report.fixed.append(f"{found.path} is a base and cannot be cut: {SALVAGE}")
                break
            report.is_fixed = True
            dropped = manifest.parts()[number + 1 :]
            if dropped:
                kept = [other for other in manifest.increments if other not in dropped]
                _replace_manifest(files, directory, filename, Manifest(manifest.base, kept))
            cut = Cut(found.path, found.whole, found.size, found.problem, found.torn, found.in_run)
            apply_cut(files, cut)
            report.fixed.append(f"{found.path}: cut to {found.whole} bytes, {found.size - found.whole} are gone")
            for other in dropped:
                files.unlink(f"{directory}/{other.name}")
                report.fixed.append(f"{directory}/{other.name}: removed, it came behind what was cut")
            break
        return report
    finally:
        lock.close()


def _replace_manifest(files: FileSystem, directory: str, filename: str, manifest: Manifest) -> None:
    name = f"{filename}.manifest"
    manifests.write_temporary(files, directory, name, manifest)
    manifests.rename_temporary(files, directory, name)
    repeat(lambda: files.sync_directory(directory))


def export(
    files: FileSystem,
    directory: str,
    target: str,
    filename: str = "appendonly.aof",
    report: Report | None = None,
    progress: Progress | None = None,
) -> int:
    """Write the journal into a new journal directory that Redis 7.0 loads; return how many commands it has.

    Idempotence windows, and what else such a Redis does not know, are left out: entries and their IDs stay. Of a
    damaged journal all before the first fault is written, and of one that `report` says cannot be loaded all before
    the unit that is to blame.
    `target` becomes the data directory of a redis-server: `redis-server --dir TARGET --appendonly yes`.
    progress: called with (bytes read, bytes in all).
    Raises: FileExistsError, DamagedError, OSError.
    """
    manifest = read_manifest(files, directory, filename)
    if manifest is None:
        raise FileNotFoundError(2, "there is no journal", f"{directory}/{filename}.manifest")
    out_directory = f"{target}/appendonlydir"
    if files.exists(f"{out_directory}/appendonly.aof.manifest"):
        raise FileExistsError(17, "there is a journal already", out_directory)
    files.make_directory(out_directory)
    part = Part("appendonly.aof.1.incr.aof", 1, INCREMENT)
    out = files.open(f"{out_directory}/{part.name}", create=True)
    try:
        offset = commands = 0
        for data, count in _exported(files, directory, manifest, report or Report(), progress):
            write_all(out, offset, data)
            offset += len(data)
            commands += count
        repeat(out.sync)
    finally:
        out.close()
    _replace_manifest(files, out_directory, "appendonly.aof", Manifest(None, [part]))
    return commands


def _exported(
    files: FileSystem, directory: str, manifest: Manifest, report: Report, progress: Progress | None
) -> Iterator[tuple[bytes, int]]:
    parts = manifest.parts()
    total = sum(_size(files, f"{directory}/{part.name}") for part in parts) if progress is not None else 0
    before = 0
    limits = {file.path: file.whole for file in report.files if file.unloadable_at is not None}
    for part in parts:
        path = f"{directory}/{part.name}"
        limit = limits.get(path)
        file = files.open(path)
        try:
            reader = FileReader(file)
            yield encode_select(0), 0  # as at the beginning of each file
            for piece in reader.pieces():
                commands = _commands(piece) if limit is None else _commands_before(piece, limit)
                kept = [words for found in commands if (words := for_old_redis(found)) is not None]
                yield b"".join(map(encode_command, kept)), len(kept)
                if progress is not None:
                    progress(before + reader.offset, total)
            before += reader.size
            if progress is not None:
                progress(before, total)
            if reader.trouble is not None or limit is not None:
                return  # what comes behind a gap may contradict what was before it
        finally:
            file.close()


def for_old_redis(words: list[bytes]) -> list[bytes] | None:
    """Return a recorded command as Redis 7.0 knows it, None if it does not."""
    name = words[0].upper()
    if name[:1] == b"#" or name in _UNKNOWN_TO_OLD_REDIS:
        return None
    return _without_iid(words) if name == NAME else words


def _without_iid(words: list[bytes]) -> list[bytes] | None:
    """Return the record of an entry without producer and iid; None for one that says that a duplicate was answered."""
    try:
        options = parse_recorded_append(words)
    except (CommandError, IndexError):
        return words  # whoever loads it will say what is wrong with it
    if words[options.at] == b"*":
        return None
    if options.pid_at:
        return words[: options.pid_at - 1] + words[(options.iid_at or options.pid_at) + 1 :]
    return words
