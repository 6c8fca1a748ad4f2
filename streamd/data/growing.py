"""A long string for writes in place, whose cost is the length of the written part, not of the string."""

from typing import Final

# A shorter string is copied at each change: at some microseconds that is as quick.
GROWING_BYTES_MIN: Final = 16 * 1024

_PAGE_BYTES: Final = 64 * 1024


class GrowingString:
    """A string that APPEND and SETRANGE change.

    Shape: base is the string as it was given; pages maps the number of a page of the base to a changed copy of it; tail
    is the bytes behind the base.
    """

    __slots__ = ("base", "pages", "tail")

    def __init__(self, base: bytes) -> None:
        self.base = base
        self.pages: dict[int, bytearray] = {}
        self.tail = bytearray()

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    def append(self, part: bytes) -> None:
        """Put `part` behind the end."""
        self.tail += part

    def overwrite(self, offset: int, part: bytes) -> None:
        """Write `part` at `offset`; zero bytes fill the gap between the end and the offset."""
        at, size = 0, len(self.base)
        while at < len(part) and offset + at < size:
            number, start = divmod(offset + at, _PAGE_BYTES)
            page = self.pages.get(number)
            if page is None:
                first = number * _PAGE_BYTES
                page = self.pages[number] = bytearray(self.base[first : first + _PAGE_BYTES])
            piece = part[at : at + len(page) - start]
            page[start : start + len(piece)] = piece
            at += len(piece)
        if at < len(part):
            start = offset + at - size
            if start > len(self.tail):
                self.tail += bytes(start - len(self.tail))
            self.tail[start : start + len(part) - at] = part[at:]

    def part(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`."""
        size = len(self.base)
        pieces: list[bytes | bytearray] = []
        at, stop = start, min(end, size)
        numbers = sorted(number for number in self.pages if (number + 1) * _PAGE_BYTES > start)
        for number in numbers:
            first = number * _PAGE_BYTES
            if first >= stop:
                break
            if first > at:
                pieces.append(self.base[at:first])
                at = first
            page = self.pages[number]
            pieces.append(page[at - first : stop - first])
            at = min(stop, first + len(page))
        if at < stop:
            pieces.append(self.base if at == 0 and stop == size else self.base[at:stop])
        if end > size:
            pieces.append(self.tail[max(0, start - size) : end - size])
        return b"".join(pieces)

    def whole(self) -> bytes:
        """Return the whole string."""
        return self.part(0, len(self))

    @property
    def memory_bytes(self) -> int:
        """The approximate memory in bytes."""
        return len(self.base) + len(self.tail) + len(self.pages) * _PAGE_BYTES
