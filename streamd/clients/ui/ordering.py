"""The order of a table's rows, which the reader chooses by its columns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from streamd.clients.ui.rendering import address

Row = TypeVar("Row")
# From a row to what it is sorted by; None, which is unknown, comes last.
Columns = Mapping[str, Callable[[Any], Any]]
# Columns that are read from A to Z. Of all others, which are numbers, the greatest come first.
NAMES = ("name", "stream", "last_id")


@dataclass(frozen=True)
class Order:
    """The order of a table. path, given: the address of the page, for links to its other orders."""

    column: str
    is_descending: bool
    path: str
    given: Mapping[str, str]

    def link(self, column: str) -> str:
        """Return the address of the page sorted by a column, or the other way round if it is sorted by it already."""
        descending = not self.is_descending if column == self.column else column not in NAMES
        given = {name: value for name, value in self.given.items() if name not in ("sort", "from")}
        return address(self.path, **given, sort=f"-{column}" if descending else column)

    def of(self, column: str) -> str:
        """Return the value of aria-sort for a column."""
        if column != self.column:
            return "none"
        return "descending" if self.is_descending else "ascending"


def order_of(wanted: str, columns: Columns, usual: str, path: str, given: Mapping[str, str]) -> Order:
    """Return the wanted order of a table, a column or a column behind a minus; the usual one for anything else."""
    if wanted.removeprefix("-") not in columns:
        wanted = usual
    return Order(wanted.removeprefix("-"), wanted.startswith("-"), path, given)


def in_order(rows: Iterable[Row], order: Order, columns: Columns) -> list[Row]:
    """Return the rows in an order; equal ones stay as they were."""
    value = columns[order.column]
    rows = list(rows)
    known = [row for row in rows if value(row) is not None]
    unknown = [row for row in rows if value(row) is None]
    return sorted(known, key=value, reverse=order.is_descending) + unknown
