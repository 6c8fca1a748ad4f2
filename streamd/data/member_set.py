"""The value of a set: its members, and the order in which SSCAN walks over them."""

from collections.abc import Iterable
from random import Random
from typing import Final

from streamd.data.scan_order import ScanOrder, further_in_order, in_order

# A set of up to so many members is shown on one page; that many are also put into a list to choose among them.
_SMALL_MAX: Final = 128


class MemberSet(set[bytes]):
    """Members. To be changed by `gain` and `lose` alone.

    _order: the members in SSCAN's order; None until somebody scans, or takes at random from, a large set.
    """

    __slots__ = ("_order",)

    def __init__(self, members: Iterable[bytes] = ()) -> None:
        super().__init__(members)
        self._order: ScanOrder | None = None

    def gain(self, members: Iterable[bytes]) -> int:
        """Add members; return how many are new."""
        before = len(self)
        if self._order is not None:
            for member in dict.fromkeys(members):
                if member not in self:
                    self._order.add(member)
        self.update(members)
        return len(self) - before

    def lose(self, members: Iterable[bytes]) -> list[bytes]:
        """Remove members; return those that were there."""
        gone = [member for member in dict.fromkeys(members) if member in self]
        self.difference_update(gone)
        if self._order is not None:
            for member in gone:
                self._order.remove(member)
        return gone

    def _in_order(self) -> ScanOrder:
        self._order = in_order(self._order, self)
        return self._order

    @property
    def has_order(self) -> bool:
        """Whether `page` has no walk over all members to make."""
        return self._order is not None and self._order.fits and self._order.is_built

    def prepare_order(self) -> None:
        """Do a part of that walk."""
        self._order = further_in_order(self._order, self)

    def snapshot(self) -> tuple[ScanOrder, None]:
        """Return the members in SSCAN's order, which must be there, as they are now."""
        return self._in_order().snapshot(), None

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of SSCAN's next page, 0 when there is none, and the `count` members from `cursor` on."""
        if len(self) <= _SMALL_MAX and self._order is None:
            return 0, list(self)
        return self._in_order().page(cursor, count)

    def some(self, random: Random) -> bytes:
        """Return a random member; there must be one. O(1), but for the first time with a large set."""
        if len(self) <= _SMALL_MAX:
            return random.choice(list(self))
        return self._in_order().some_key(random.random())

    def different(self, random: Random, count: int) -> list[bytes]:
        """Return so many different random members, or all. O(count) where that is a small part of them."""
        if count >= len(self):
            return list(self)
        if count * 3 > len(self) or len(self) <= _SMALL_MAX:
            return random.sample(list(self), count)
        found: dict[bytes, None] = {}
        while len(found) < count:
            found[self.some(random)] = None
        return list(found)

    def copy(self) -> "MemberSet":
        """Return an independent copy."""
        return MemberSet(self)
