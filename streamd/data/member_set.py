"""The value of a set: its members."""

from collections.abc import Iterable
from typing import Final

from streamd.data import positions

# A set of up to so many members is shown on one page.
_SMALL_MAX: Final = 128


# The score that a member of a set has where sorted sets are combined with sets.
SCORE: Final = 1.0


class MemberSet(dict[bytes, float]):
    """Member -> SCORE. To be changed by `gain` and `lose` alone.

    A dict has positions, for the walks of SSCAN and for random choices, and ZINTER and the like take dicts.
    """

    __slots__ = ()

    def __init__(self, members: Iterable[bytes] = ()) -> None:
        super().__init__(dict.fromkeys(members, SCORE))

    def gain(self, members: list[bytes]) -> int:
        """Add members; return the number of new ones."""
        before = len(self)
        for member in members:
            self[member] = SCORE
        return len(self) - before

    def lose(self, members: Iterable[bytes]) -> list[bytes]:
        """Remove members; return those that were present."""
        gone = [member for member in dict.fromkeys(members) if member in self]
        for member in gone:
            del self[member]
        return gone

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of SSCAN's next page, 0 behind the last one, and `count` members; 0 begins the walk."""
        if len(self) <= _SMALL_MAX:
            return 0, list(self)
        return positions.page(self, cursor, count)

    def copy(self) -> "MemberSet":
        """Return an independent copy."""
        return MemberSet(self)
