"""The segment files that a base names, examined: whether each is there, and each of its blocks whole."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from streamd.base.filesystem import FileSystem
from streamd.cold.files import SegmentFile, SegmentFiles
from streamd.cold.format import Damaged, Unreadable
from streamd.cold.whole_file import blocks_of
from streamd.journal.cold_records import COLD
from streamd.journal.file_reader import Bare
from streamd.journal.parsing import Parsed


class SegmentFault(NamedTuple):
    """What is wrong with a segment file.

    number: its name in the base. is_block: one block is damaged, and a server serves all others; else nothing of the
    file can be read, and a server does not start if it needs an entry of it.
    """

    number: int
    path: str
    reason: str
    is_block: bool


@dataclass(slots=True)
class SegmentReport:
    """The segment files of a journal.

    names: of those that are there, in the order of the base. orphans: the names of those that no base names.
    """

    names: list[str] = field(default_factory=list)
    size: int = 0
    blocks: int = 0
    entries: int = 0
    faults: list[SegmentFault] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    @property
    def unreadable(self) -> list[SegmentFault]:
        """The files of which nothing can be read."""
        return [fault for fault in self.faults if not fault.is_block]

    def lines(self) -> list[str]:
        """Return the report as lines for people."""
        lines = []
        if self.names:
            what = "1 segment file" if len(self.names) == 1 else f"{len(self.names)} segment files"
            damaged = sum(fault.is_block for fault in self.faults)
            state = f"{damaged} of these damaged" if damaged else "whole"
            lines.append(f"{what}: {self.size} bytes, {self.blocks} blocks with {self.entries} entries, {state}")
        lines += [fault.reason for fault in self.faults]
        lines += [
            f"{name}: no base names it: a crash has left it, and the next start removes it" for name in self.orphans
        ]
        return lines


class TrialSegments:
    """The segment files of a trial start.

    refused: those that it is to refuse, by their numbers, with the reason. needed: returns the numbers of the files
    that are missing, and of which entries are left at the end of the last trial.
    """

    def __init__(self) -> None:
        self.refused: dict[int, str] = {}
        self.needed: Callable[[], set[int]] = set


def names_segments(piece: Bare | Parsed) -> bool:
    """Return whether a piece of a base may name segment files."""
    if isinstance(piece, Bare):
        return COLD in piece.data
    return any(words[0] == COLD for words in piece.commands)


class Named:
    """The segment files that the commands of a base name."""

    def __init__(self) -> None:
        self.files: dict[int, tuple[int, int]] = {}  # size and checksum

    def take(self, commands: Iterable[list[bytes]]) -> None:
        """Look at commands of a base. One that makes no sense is left to the trial start."""
        for words in commands:
            if words[0].upper() == COLD and words[1:2] == [b"FILE"]:
                try:
                    number, size, checksum = words[2:]
                    self.files[int(number)] = int(size), int(checksum, 16)
                except ValueError:
                    continue


def examine_segments(
    files: FileSystem,
    directory: str,
    filename: str,
    named: Named,
    needed: set[int] | None,
    progress: Callable[[int], None],
) -> SegmentReport:
    """Read all blocks of the segment files that a base names.

    needed: of files that are missing, those that are wanted; None: all. progress: called with the bytes read. Raises:
    OSError.
    """
    report, store = SegmentReport(), SegmentFiles(files, directory, filename)
    before = 0
    for number, (size, checksum) in named.files.items():
        try:
            one = store.load(number, size, checksum)
        except FileNotFoundError as error:
            path = str(error.filename)
            if needed is None or number in needed:
                report.faults.append(SegmentFault(number, path, f"{path} is not there", False))
            continue
        except (Damaged, Unreadable) as error:
            report.faults.append(SegmentFault(number, store.path_of(number, checksum), str(error), False))
            continue
        _examine(store, number, one, report, lambda done, before=before: progress(before + done))  # type: ignore[misc]
        before += size
    wrong = {fault.path.rpartition("/")[2] for fault in report.faults}
    report.orphans = [name for name in store.orphans() if name not in wrong]
    store.close()
    return report


def _examine(
    store: SegmentFiles, number: int, one: SegmentFile, report: SegmentReport, progress: Callable[[int], None]
) -> None:
    report.names.append(one.path.rpartition("/")[2])
    report.size += one.size
    report.blocks += one.index.rows
    report.entries += one.index.entries(0, one.index.rows)
    try:
        for row, found in enumerate(blocks_of(store, one)):
            if isinstance(found, Damaged):
                report.faults.append(SegmentFault(number, one.path, str(found), True))
            progress(one.index.place(row).offset)
    except Unreadable as error:
        report.faults.append(SegmentFault(number, one.path, str(error), False))
