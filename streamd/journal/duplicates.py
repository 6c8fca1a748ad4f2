"""Which notes of duplicates a turn writes: of several about one stream the last one, which says the sum."""

from collections.abc import Sequence
from typing import Final

from streamd.data.records import ColumnsRecord, Record
from streamd.journal.notes import NOTES
from streamd.journal.record import encode_note

DUPLICATES: Final = b"XIDMPDUPLICATE"
_WORDS: Final = 3  # with more of them it says the time of an iid, too
# Records that leave every stream at its key: a note of duplicates says the same in front of them and behind them.
_STAYING: Final = (NOTES - {DUPLICATES}) | {b"XADD", b"XTRIM", b"XDEL", b"XACK", b"XCLAIM", b"XGROUP", b"XSETID"}


class DuplicateNotes:
    """Keeps notes of duplicates back, until the end of a turn or a record that may move or remove a stream.

    A note says how many duplicates its stream has answered in all, so the next one of the same stream takes its place:
    a producer that sends a thousand requests again costs the journal one line in a turn and not a thousand.

    kept: (database, key) -> the note.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: dict[tuple[int, bytes], Record] = {}

    def take(self, record: Record) -> None:
        """Keep a note of duplicates in place of an earlier one."""
        index, words = record
        self.kept[index, words[1]] = record

    def may_wait(self, unit: Sequence[Record | ColumnsRecord]) -> bool:
        """Return whether the kept notes may be written behind a unit as well as in front of it.

        A note of duplicates that is one record of several keeps its place, for it is newer than the kept note.
        """
        if len(unit) == 1 and type(unit[0]) is not ColumnsRecord and unit[0][1][0] == DUPLICATES:  # type: ignore[index]
            return True
        return all(type(record) is ColumnsRecord or record[1][0] in _STAYING for record in unit)  # type: ignore[index]

    def end(self) -> list[bytes]:
        """Return the kept notes as encoded units, and keep none any more."""
        units = [encode_note(index, words) for index, words in self.kept.values()]
        self.kept.clear()
        return units


def without_overtaken(unit: Sequence[Record]) -> Sequence[Record]:
    """Return a unit without the notes of duplicates that a later one within it takes the place of."""
    names = [words[0] for _, words in unit]
    if names.count(DUPLICATES) < 2:
        return unit
    left: list[Record] = []
    later: set[tuple[int, bytes]] = set()
    for record, name in zip(reversed(unit), reversed(names), strict=True):
        if name == DUPLICATES and len(record[1]) == _WORDS:
            place = (record[0], record[1][1])
            if place in later:
                continue
            later.add(place)
        elif name not in _STAYING and name != DUPLICATES:
            later.clear()
        left.append(record)
    left.reverse()
    return left
