"""Pieces of a journal whose records are alike, cut into columns by the shape of pieces before them."""

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Final

from streamd.journal.words import bare_commands
from streamd.resp.template import Column, Template, template_around

# A piece is tried as a whole if it has so many records.
TOGETHER_MIN: Final = 8
# IDs of one, two and three digits in turn, and some more.
_TEMPLATES_MAX: Final = 4
# Of a longer record most is its values, which are copied whichever way.
_TEMPLATE_BYTES_MAX: Final = 1_024


class Shapes:
    """Remembers the shapes of the last pieces."""

    def __init__(self) -> None:
        self._templates: deque[Template] = deque(maxlen=_TEMPLATES_MAX)  # what may cut the next piece

    def columns(self, data: bytes) -> tuple[list[Column], int] | None:
        """Return the words of a piece by their places, and the number of its records; None if no shape fits."""
        for template in self._templates:
            is_long = len(data) >= TOGETHER_MIN * template.size_bytes
            alike = template.cut(data) if is_long else None
            if alike is not None:
                return alike.columns(), alike.count
        return None

    def learn(self, records: Sequence[Sequence[bytes]], size_bytes: int) -> None:
        """Take the records of a piece, which are alike, as an example for later ones."""
        template = template_of_piece(records, size_bytes)
        if template is not None and template not in self._templates:
            self._templates.appendleft(template)

    def columns_of_frame(self, body: bytes, select: bytes = b"") -> tuple[list[Column], int] | None:
        """Return the same of the records of a frame, also where no shape fits and the records have as many words.

        select: the SELECT in front of the first record, which may stand in front of others, too; empty without one.
        Values may hold the same bytes. So a SELECT is left out only between two records: a shape or a parser tells
        where these end.
        """
        parts = body.split(select) if select else [body]
        data = b"".join(parts) if select else body
        for template in self._templates:
            size = template.size_bytes
            # Records of this size fill each part if they fill all together. Then no part ends inside a record.
            if len(data) < TOGETHER_MIN * size or any(len(part) % size for part in parts):
                continue
            alike = template.cut(data)
            if alike is not None:
                return alike.columns(), alike.count
        records, is_whole = bare_commands(body)
        size_bytes = len(body)
        if select and is_whole:
            count, selecting = len(records), records[0]
            records = [words for words in records if words != selecting]
            size_bytes -= (count - len(records)) * len(select)
        if not is_whole or not are_alike(records) or {*map(type, chain.from_iterable(records))} != {bytes}:
            return None
        self.learn(records, size_bytes)
        return [*zip(*records)], len(records)  # noqa: B905 (checked)


def are_alike(records: Sequence[Sequence[bytes]]) -> bool:
    """Return whether records are enough to be taken together, and have as many words."""
    count = len(records)
    return count >= TOGETHER_MIN and [*map(len, records)].count(len(records[0])) == count


def template_of_piece(records: Sequence[Sequence[bytes]], size_bytes: int) -> Template | None:
    """Return a template that may cut pieces like this one, going by its first and last record; None if these are not
    equally long, or do not differ, or are long. size_bytes: the size of the piece.
    """
    first, last, count = records[0], records[-1], len(records)
    if size_bytes > _TEMPLATE_BYTES_MAX * count or size_bytes % count or [*map(len, first)] != [*map(len, last)]:
        return None
    own = tuple([place for place, word in enumerate(first) if word != last[place]])
    template = template_around(first, own) if own else None
    return template if template is not None and template.size_bytes * count == size_bytes else None
