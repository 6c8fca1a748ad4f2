"""Fields and values of a run of entries, by columns or one entry behind the other."""

from collections.abc import Sequence
from itertools import compress

from streamd.data.records import Column
from streamd.stream.stream import Stream
from streamd.stream.wire.run_layout import Layout, Texts


class RunFields:
    """The fields and values of entries that have as many: their columns, or the values of all in one piece.

    columns: what they have at each place; None: `values` has the values, one entry behind the other, of entries with
    this layout.
    """

    __slots__ = ("_columns", "_layout", "_values")

    def __init__(
        self, columns: Sequence[Sequence[bytes]] | None, layout: Layout | None = None, values: Texts = ()
    ) -> None:
        self._columns = columns
        self._layout = layout
        self._values = values

    def columns(self) -> Sequence[Sequence[bytes]]:
        """Return what the entries have at each place."""
        layout, values = self._layout, self._values
        if layout is None:
            assert self._columns is not None
            return self._columns
        width = len(layout.names)
        count = len(values) // width
        columns: list[Sequence[bytes]] = []
        for place, name in enumerate(layout.names):
            columns.append((name,) * count)
            columns.append(values[place::width])
        return columns

    def recorded(self) -> Sequence[Column]:
        """Return what the entries have at each place, where it is known to be the same in all as one word."""
        layout = self._layout
        if layout is None:
            return self.columns()
        columns: list[Column] = []
        for place, name in enumerate(layout.names):
            columns.append(name)
            columns.append(self._values[place :: len(layout.names)])
        return columns

    def selected(self, flags: Sequence[bool]) -> "RunFields":
        """Return those of the entries whose flag is set."""
        return RunFields([(*compress(column, flags),) for column in self.columns()])

    def append_to(self, stream: Stream, ids: Sequence[int]) -> None:
        """Add the entries to a stream, with these IDs."""
        layout = self._layout
        if layout is not None:
            stream.append_run(ids, len(layout.names), self._values, layout)
            return
        columns = self.columns()
        texts = [b""] * (len(ids) * len(columns))
        for place, column in enumerate(columns):
            texts[place :: len(columns)] = column
        stream.append_run(ids, len(columns), texts)
