"""`streamd check --fix` and `--skip`: cuts a journal at its first fault, or leaves out only the damaged parts."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from streamd.base.filesystem import READ_BYTES, FileSystem
from streamd.durability.check import (
    Progress,
    Report,
    Trial,
    examine,
    existing_manifest,
    parsed,
    replace_manifest,
    say_nothing,
)
from streamd.durability.segment_check import TrialSegments
from streamd.durability.tally import LEGIBLE_BYTES_MAX, Tally, legible
from streamd.journal import manifest as manifests
from streamd.journal.file_reader import Bare, FileReader
from streamd.journal.journal import lock_directory
from streamd.journal.loader import Loader
from streamd.journal.manifest import Manifest, Part
from streamd.journal.mending import Change, can_fill, change, filling, free_name, stamp
from streamd.journal.parsing import Incomplete, Malformed, Parsed, parse_one, parse_unit
from streamd.journal.record import CUT_LINE, encode_end, encode_first_line, encode_missing, encode_select
from streamd.journal.salvage import Gap, Salvage

# agree(lines of the findings, the question): whether to do it.
Agree = Callable[[list[str], str], bool]
# A later record may build upon a unit that was applied in the trial and then left out: so there are several rounds.
_ROUNDS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Place:
    """The journal to change. loaders: makes states for trials; None: only bytes are examined. segments: the segment
    files of these.
    """

    files: FileSystem
    data_directory: str
    directory: str
    filename: str = "appendonly.aof"
    loaders: Callable[[], Loader] | None = None
    now_ms: int = 0
    progress: Progress = say_nothing
    segments: TrialSegments | None = None

    def examine(self) -> Report:
        """Raises: DamagedError, OSError."""
        return examine(self.files, self.directory, self.filename, self.loader(), self.progress, self.segments)

    def loader(self) -> Loader | None:
        return self.loaders() if self.loaders is not None else None

    def manifest(self) -> Manifest:
        return existing_manifest(self.files, self.directory, self.filename)

    def path(self, part: Part) -> str:
        return f"{self.directory}/{part.name}"

    def cut_name(self, path: str) -> str:
        return f"{path}.cut-{stamp(self.now_ms)}"


def fix(place: Place, agree: Agree) -> Report:
    """Cut a journal at the first place that is damaged or cannot be applied, if `agree` returns True; the rest stays
    in files beside it. A torn record at the end is cut without a question.

    A base is not cut, nor a part that a newer version wrote. Raises: LockedError when a server is running;
    DamagedError; OSError.
    """
    with closing(lock_directory(place.files, place.data_directory)):
        report = place.examine()
        first = report.first_fault
        if first is None or report.is_newer:
            return report
        if first.is_base:
            report.done.append(f"{first.path} is a base and cannot be cut; --skip leaves out what is damaged in it")
            return report
        if not first.is_torn_tail and not agree(report.lines(), f"Cut off all from the fault on: {report.behind()}?"):
            return report
        manifest = place.manifest()
        at = next(number for number, part in enumerate(manifest.parts()) if place.path(part) == first.path)
        dropped = manifest.parts()[at + 1 :]
        if dropped:
            kept_parts = [part for part in manifest.increments if part not in dropped]
            replace_manifest(place.files, place.directory, place.filename, Manifest(manifest.base, kept_parts))
        instead = CUT_LINE if first.in_run else b""
        cut_name = place.cut_name(first.path)
        kept = change(place.files, first.path, [Change(first.whole, first.size, instead)], cut_name)
        lost = first.size - first.whole
        report.done.append(f"{first.path}: cut to {first.whole} bytes; the {lost} bytes behind are in {kept}")
        for path in map(place.path, dropped):
            aside = free_name(place.files, place.cut_name(path))
            place.files.rename(path, aside)
            report.done.append(f"{path}: came behind what was cut, and is now {aside}")
        report.is_mended = True
        return report


def skip(place: Place, agree: Agree) -> Report:
    """Leave out the damaged parts, and the units that cannot be applied without them, if `agree` returns True. The
    parts are listed and kept in a file beside the journal. A torn record at the end is left out without a question.

    A segment file that cannot be read at all is left out and kept beside the journal. One with damaged blocks stays: a
    server serves all others. If the base is damaged, all segment files are kept under further names.
    Raises: LockedError when a server is running; DamagedError; OSError.
    """
    with closing(lock_directory(place.files, place.data_directory)):
        report = place.examine()
        first, unreadable = report.first_fault, report.segments.unreadable
        if (first is None and not unreadable) or report.is_newer:
            return report
        if place.segments is not None:
            place.segments.refused = {fault.number: fault.reason for fault in unreadable}
        plans = _plan(place)
        is_torn_tail = first is not None and first.is_torn_tail and not unreadable
        known = [*report.lines(), "Left out would be:", *_missing(plans)]
        if not is_torn_tail and not agree(known, f"Leave these parts out ({len(_missing(plans))})?"):
            return report
        for fault in unreadable:  # first: a start removes segment files that no base names
            if place.files.exists(fault.path):
                aside = free_name(place.files, place.cut_name(fault.path))
                place.files.rename(fault.path, aside)
                report.done.append(f"{fault.path}: cannot be read, and is now {aside}")
        is_base_cut = first is not None and first.is_base
        for name in [*report.segments.names, *report.segments.orphans] if is_base_cut else ():
            # What is left out may have said which of its entries are whose; a later start would remove it.
            path = f"{place.directory}/{name}"
            place.files.link(path, aside := free_name(place.files, place.cut_name(path)))
            report.done.append(f"{path}: what is left out may need it; it stays as {aside}, too")
        if unreadable or is_base_cut:
            place.files.sync_directory(place.directory)
        for _ in range(_ROUNDS_MAX):
            for plan in plans:
                kept = change(place.files, plan.path, plan.changes, place.cut_name(plan.path))
                report.done += plan.missing
                report.done.append(f"{plan.path}: what was left out is in {kept}")
            report.is_mended = place.examine().is_whole
            if report.is_mended:
                break
            plans = _plan(place)
        return report


@dataclass(slots=True)
class _Plan:
    """The plan for one file: its changes, and the losses by them, a line each."""

    path: str
    is_base: bool
    changes: list[Change] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    # The place at which a damaged run has to end, because the next unit in it does not fit.
    cut: tuple[int, bool] | None = None


def _missing(plans: list[_Plan]) -> list[str]:
    return [line for plan in plans for line in plan.missing]


def _plan(place: Place) -> list[_Plan]:
    """Return the plan for each file with something to leave out. Raises: OSError."""
    trial, plans = Trial(place.loader(), goes_on=True), []
    for part in place.manifest().parts():
        plan = _Plan(place.path(part), part.kind == manifests.BASE)
        _plan_file(place.files, plan, trial)
        if plan.changes:
            plans.append(plan)
    return plans


def _plan_file(files: FileSystem, plan: _Plan, trial: Trial) -> None:
    with closing(files.open(plan.path)) as file:
        reader = FileReader(file)
        trial.begin_file(plan.path)
        for piece in Salvage(reader).pieces():
            if isinstance(piece, Gap):
                _leave_out_gap(files, plan, reader, piece)
            else:
                _try(plan, reader, piece, trial)
        if plan.is_base and reader.ours and not reader.ended and not _ends(plan, reader.size):
            plan.changes.append(
                Change(reader.size, reader.size, encode_end(reader.size + reader.missing, reader.salt or 0))
            )
            plan.missing.append(f"{plan.path}: its end; what stood there is not known")


def _ends(plan: _Plan, size: int) -> bool:
    return bool(plan.changes) and plan.changes[-1].end == size


def _leave_out_gap(files: FileSystem, plan: _Plan, reader: FileReader, gap: Gap) -> None:
    offset, in_run = gap.offset, gap.in_run
    if plan.cut is not None and not gap.instead:
        offset, in_run = plan.cut
    plan.cut = None
    head = (CUT_LINE if in_run else b"") + gap.instead
    if gap.end < reader.size and (gap.missing or not can_fill(gap.end - offset - len(head))):
        instead = _with_missing(head, gap, gap.end - offset)
    elif gap.end < reader.size:
        instead = head + filling(gap.end - offset - len(head))
    elif plan.is_base and (offset == 0 or reader.ours) and not reader.ended:
        salt = (reader.salt or 0) if offset else files.salt()
        head = head if offset else encode_first_line(salt)
        instead = head + encode_end(offset + reader.missing + len(head), salt)
    else:
        instead = head
    plan.changes.append(Change(offset, gap.end, instead))
    tally = Tally()
    for words in legible(reader.read(offset, min(gap.end - offset, LEGIBLE_BYTES_MAX))):
        tally.add(words)
    text = f"{plan.path}: {gap.end - offset} bytes at offset {offset}: {gap.detail}"
    if gap.missing > 0:
        text += f"; {gap.missing} more bytes are missing there"
    keys = f"; still legible in them, of the keys {tally.keys()}: {tally}" if tally.records else ""
    plan.missing.append(text + keys)


def _with_missing(head: bytes, gap: Gap, room: int) -> bytes:
    """Return the bytes for a gap of so much room: a head, and the line that says how many bytes are missing. If there
    is less room than they need, the bytes behind move, and fewer are missing.
    """
    needed = len(head) + len(encode_missing(0, gap.salt))
    spare = max(room - needed, 0)
    spare += not can_fill(spare)
    return head + encode_missing(gap.missing - (needed + spare - room), gap.salt) + filling(spare)


def _try(plan: _Plan, reader: FileReader, piece: Bare | Parsed, trial: Trial) -> None:
    """Apply a piece, and plan to leave out the units that do not fit."""
    run = reader.run_here()
    dropped: list[tuple[int, int]] = []
    rest: Bare | Parsed = piece
    while (error := trial.take(rest)) is not None:
        plan.missing.append(f"{plan.path}: at offset {error.offset}: {error.detail}")
        if run is not None and not run.is_whole:
            _end_run_early(plan, reader, piece, error.offset)
            return
        try:
            begin, end = _unit(reader, error.offset, run.body_at if run is not None else None)
        except (Incomplete, Malformed):
            trial.end()
            return
        dropped.append((begin, end))
        all_of_it = parsed(rest)
        left = [number for number, at in enumerate(all_of_it.places) if at >= end]
        rest = Parsed([all_of_it.commands[number] for number in left], [all_of_it.places[number] for number in left])
    if run is None:
        plan.changes += [Change(begin, end, filling(end - begin)) for begin, end in dropped]
    elif dropped:
        body, at = b"", run.body_at
        for begin, end in dropped:
            body += reader.read(at, begin - at) + _selected_in(reader.read(begin, end - begin))
            at = end
        body += reader.read(at, run.end - at)
        new = reader.beginning.run(body, run.synced, run.has_notes, run.place) if body else b""
        plan.changes.append(Change(reader.offset, run.end, new + filling(run.end - reader.offset - len(new))))


def _unit(reader: FileReader, place: int, body_at: int | None) -> tuple[int, int]:
    """Return `(begin, end)` of the unit with the command at `place`: that command, or its transaction.

    body_at: the offset of its run's body; None for commands of other software. Raises: Incomplete, Malformed.
    """
    begin = body_at if body_at is not None else reader.cut_before(place)[0]
    want = READ_BYTES
    while True:
        data = reader.read(begin, want)
        at = 0
        try:
            while True:
                end = parse_unit(data, at)[1]
                if begin + end > place:
                    return begin + at, begin + end
                at = end
        except Incomplete:
            if len(data) < want:
                raise
            want *= 2


def _selected_in(unit: bytes) -> bytes:
    """Return the last SELECT in a unit as RESP, or empty bytes."""
    last, at = b"", 0
    while at < len(unit):
        words, at = parse_one(unit, at)
        if words[0] == b"SELECT":
            last = encode_select(int(words[1]))
    return last


def _end_run_early(plan: _Plan, reader: FileReader, piece: Bare | Parsed, place: int) -> None:
    """End a damaged run in front of a unit: its checksum cannot be computed anew."""
    assert isinstance(piece, Parsed)
    offset, in_run = reader.cut_before(place)
    last = piece.places[-1]
    words_end = parse_one(reader.read(last, reader.size - last), 0)[1]
    end = last + words_end + len(CUT_LINE)
    if reader.read(end - len(CUT_LINE), len(CUT_LINE)) != CUT_LINE:
        plan.cut = offset, in_run  # a gap follows
        return
    head = CUT_LINE if in_run else b""
    plan.changes.append(Change(offset, end, head + filling(end - offset - len(head))))
