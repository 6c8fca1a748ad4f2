"""The effects of a unit in the journal's form: the words that repeat them, or the columns of many that are alike."""

from collections.abc import Sequence

from streamd.resp.template import Column
from streamd.stream.entry_id import format_ids

Words = Sequence[bytes]

# The words at one place of several records; or entry IDs of one millisecond that follow each other.
RecordColumn = Column | range


class ColumnsRecord:
    """Several records for one database, each a unit of its own, that have the same shape: name, key, and so on.

    columns: by the places of their words; at least one has a word for each of them. end: the words of one record more,
    behind all of them (the trim that a batch ends with): then they are one unit, all together, and of one key.
    """

    __slots__ = ("columns", "db_index", "end")

    def __init__(self, db_index: int, columns: Sequence[RecordColumn], end: Words | None = None) -> None:
        self.db_index = db_index
        self.columns = columns
        self.end = end

    @property
    def key(self) -> bytes | None:
        """The key that all of them concern; None if they concern several."""
        column = self.columns[1]
        return column if isinstance(column, bytes) else None

    def records(self) -> list[tuple[int, list[bytes]]]:
        """Return them one by one."""
        count = next(len(column) for column in self.columns if not isinstance(column, bytes))
        places = [
            [column] * count
            if isinstance(column, bytes)
            else format_ids(column)
            if isinstance(column, range)
            else column
            for column in self.columns
        ]
        records = [(self.db_index, list(words)) for words in zip(*places, strict=True)]
        return records if self.end is None else [*records, (self.db_index, list(self.end))]


# One decided effect: the number of its database and the words that repeat it.
Record = tuple[int, Words]
