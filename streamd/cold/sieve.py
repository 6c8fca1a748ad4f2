"""A search through rows of segment files, which reads only those that may have a match, and notes what it has seen."""

from collections.abc import Iterator
from typing import Final

from streamd.cold.cache import key_of
from streamd.cold.notes import FileNotes, Judged
from streamd.cold.rows import Rows
from streamd.cold.stretch import Stretch
from streamd.stream.log.runs import Passed
from streamd.stream.log.segment import Segment
from streamd.stream.search.field_values import column
from streamd.stream.search.patterns import EntryFilter

# After so many rows, or so many values that were matched, a search may look at the time: some hundred microseconds.
_ROWS_AT_ONCE: Final = 32
_JUDGED_AT_ONCE: Final = 256
# So many rows are looked at for those that a search needs next.
_ROWS_AHEAD_MAX: Final = 128


class Sieve:
    """What one search knows of the rows of a log by notes.

    passed_id: the ID of the last entry of the row that was passed over last.
    """

    def __init__(self, rows: Rows, wanted: EntryFilter, end: int) -> None:
        """end: the last ID of the search."""
        self.passed_id = 0
        self._end = end
        self._blocks = rows.blocks
        self._book = rows.blocks.notebook
        self._wanted = wanted
        self._is_of_use = not wanted.pattern.takes_plain
        self._stretch: Stretch | None = None
        self._notes: FileNotes | None = None
        self._judged: Judged | None = None
        self._judged_at = 0

    def passes(self, stretch: Stretch, row: int) -> bool:
        """Return whether there is no match in a row, which ends before the search does, by notes alone.

        The last entry of the row is there, so that `passed_id` is what a search would have come to.
        """
        if stretch is not self._stretch:
            self._enter(stretch)
        notes, judged = self._notes, self._judged
        if notes is None or judged is None or not notes.passes(row, self._wanted, judged):
            return False
        last_id = stretch.file.index.last_id(row)
        if notes.last_ids:
            last_id = notes.last_ids.get(row, last_id)
        gone = stretch.gone.get(row) if stretch.gone else None
        if last_id > self._end or (gone is not None and last_id in gone):
            return False
        self.passed_id = last_id
        return True

    def _enter(self, stretch: Stretch) -> None:
        self.leave()
        self._stretch = stretch
        if self._is_of_use:
            self._notes = self._book.of(stretch.file, self._wanted.field, self._blocks.in_place > 0)
            if self._notes is not None:
                self._judged = self._notes.judge(self._wanted)
                self._judged_at = self._notes.judged

    def leave(self) -> None:
        """Have the notes of the rows so far written, if they are many."""
        if self._notes is not None and self._stretch is not None:
            self._book.left(self._notes, self._stretch.high - self._stretch.low)
        self._notes = self._judged = self._stretch = None

    def has_judged_many(self) -> bool:
        """Return whether many values were matched since this was last true."""
        notes = self._notes
        if notes is None or notes.judged < self._judged_at + _JUDGED_AT_ONCE:
            return False
        self._judged_at = notes.judged
        return True

    def note(self, stretch: Stretch, row: int) -> None:
        """Note the values of a row that was just looked at."""
        notes = self._notes
        if notes is None or notes.sets[row] is not None:
            return
        block = self._blocks.cache.peek(key_of(stretch.file.number, row))
        if block is None:
            return
        values: set[bytes | None] = set()
        for segment in block.segments:
            values.update(column(segment, 0, segment.count, self._wanted.field))
        last = block.segments[-1]
        self._book.note(notes, row, values, last.ids(last.count - 1, last.count)[0])


def runs_for(rows: Rows, start: int, end: int, wanted: EntryFilter) -> Iterator[tuple[Segment | Passed, int, int]]:
    """Yield the runs of entries from ID `start` to `end` that a filter may let through, and what is passed over, in
    order. Raises: Absent.
    """
    sieve, book = Sieve(rows, wanted, end), rows.blocks.notebook
    passed = 0
    for stretch, row in rows.between(start, end):
        if sieve.passes(stretch, row):
            book.rows_passed += 1
            passed += sieve.passed_id >= start
            if passed >= _ROWS_AT_ONCE or (passed and sieve.has_judged_many()):
                yield Passed(sieve.passed_id), 0, 0
                passed = 0
            continue
        if passed:
            yield Passed(sieve.passed_id), 0, 0
            passed = 0
        nodes = rows.nodes(stretch, row)
        sieve.note(stretch, row)
        for node in nodes:
            if node.last_id < start or node.first_id > end:
                continue
            for low, high in node.runs(node.position(start), node.position(end + 1)):
                yield node, low, high
    if passed:
        yield Passed(sieve.passed_id), 0, 0
    sieve.leave()


def next_rows(rows: Rows, start: int, end: int, wanted: EntryFilter) -> Iterator[tuple[Stretch, int]]:
    """Yield the rows that a search needs next, as far as a short look tells."""
    sieve = Sieve(rows, wanted, end)
    for asked, (stretch, row) in enumerate(rows.between(start, end)):
        if asked >= _ROWS_AHEAD_MAX or sieve.has_judged_many():
            return
        if not sieve.passes(stretch, row):
            yield stretch, row
