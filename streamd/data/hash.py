"""The value of a hash: fields and their values, and the order in which HSCAN walks over them."""

from random import Random
from typing import TYPE_CHECKING

from streamd.data.scan_order import ScanOrder, further_in_order, in_order

if TYPE_CHECKING:
    from streamd.base.due_times import DueTimes

# Redis keeps a hash of up to so many fields, none of whose words is longer, in a list, and shows it on one page.
_LISTED_FIELDS_MAX = 128
_LISTED_BYTES_MAX = 64


class Hash(dict[bytes, bytes]):
    """Field -> value. To be changed by `set_fields` and `drop` alone.

    _order: the fields in HSCAN's order; None until somebody scans: who never does pays nothing for it.
    times: when fields end; there in a TimedHash alone.
    """

    __slots__ = ("_order", "times")

    times: "DueTimes"

    def __init__(self) -> None:
        self._order: ScanOrder | None = None

    def set_fields(self, words: list[bytes]) -> int:
        """Set fields to values, `[field, value, ...]`; return how many of the fields are new."""
        before = len(self)
        if len(words) == 2 and self._order is None:  # (Most are: without four objects that only several need.)
            self[words[0]] = words[1]
            return len(self) - before
        fields = words[::2]
        if self._order is not None:
            for field in dict.fromkeys(fields):
                if field not in self:
                    self._order.add(field)
        self.update(zip(fields, words[1::2], strict=True))
        return len(self) - before

    def drop(self, field: bytes) -> bool:
        """Remove a field; return whether it was there."""
        if self.pop(field, None) is None:
            return False
        if self._order is not None:
            self._order.remove(field)
        return True

    @property
    def is_listed(self) -> bool:
        """Whether Redis would keep it in a list; O(1) for a large hash."""
        return len(self) <= _LISTED_FIELDS_MAX and all(
            len(word) <= _LISTED_BYTES_MAX for pair in self.items() for word in pair
        )

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of HSCAN's next page, 0 when there is none, and the `count` fields from `cursor` on."""
        if self.is_listed:
            return 0, list(self)
        self._order = in_order(self._order, self.keys())
        return self._order.page(cursor, count)

    @property
    def has_order(self) -> bool:
        """Whether `page` has no walk over all fields to make."""
        return self._order is not None and self._order.fits and self._order.is_built

    def prepare_order(self) -> None:
        """Do a part of that walk."""
        self._order = further_in_order(self._order, self.keys())

    def snapshot(self) -> tuple[ScanOrder, dict[bytes, bytes]]:
        """Return the fields in HSCAN's order, which must be there, and with their values, as they are now."""
        return in_order(self._order, self.keys()).snapshot(), dict(self)

    def some(self, random: Random, count: int) -> list[bytes]:
        """Return so many different random fields, or all. O(count) where that is a small part of them, but for the
        first time.
        """
        if count >= len(self):
            return list(self)
        if self.is_listed or count * 3 > len(self):
            return random.sample(list(self), count)
        self._order = in_order(self._order, self.keys())
        found: dict[bytes, None] = {}
        while len(found) < count:
            found[self._order.some_key(random.random())] = None
        return list(found)

    def copy(self) -> "Hash":
        """Return an independent copy."""
        other = Hash()
        other.update(self)
        return other
