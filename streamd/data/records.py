"""The effects of a unit as the journal's records: the words that repeat them, or the columns of many like records."""

from collections.abc import Sequence

from streamd.resp.template import Column
from streamd.stream.entry_id import format_ids

Words = Sequence[bytes]

# The words at one place of several records; or entry IDs of one millisecond that follow each other.
RecordColumn = Column | range


class ColumnsRecord:
    """Several records of the same shape (name, key, and so on) for one database, each a unit of its own.

    columns: the words by their places in a record; at least one column has a word for each record. end: the words of
    one more record behind them (the trim at the end of a batch): then all are one unit, of one key.
    """

    __slots__ = ("columns", "db_index", "end")

    def __init__(self, db_index: int, columns: Sequence[RecordColumn], end: Words | None = None) -> None:
        self.db_index = db_index
        self.columns = columns
        self.end = end

    @property
    def key(self) -> bytes | None:
        """The key of all records; None if they have several keys."""
        column = self.columns[1]
        return column if isinstance(column, bytes) else None

    def records(self) -> list[tuple[int, list[bytes]]]:
        """Return the records one by one, as (number of the database, words)."""
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
