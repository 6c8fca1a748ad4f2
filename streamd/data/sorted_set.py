"""The value of a sorted set: members with scores, in the order of the scores and, among equal ones, of the members."""

from bisect import bisect_left, bisect_right
from itertools import count
from math import inf, nextafter
from typing import Final

from streamd.data import positions
from streamd.data.member_order import MemberOrder

# Redis keeps a sorted set of up to so many members, none of which is longer, in a list, and shows it on one page.
LISTED_MEMBERS_MAX: Final = 128
LISTED_BYTES_MAX: Final = 64

_stamps: Final = count(1)


class SortedSet:
    """Member -> score, and the order.

    scores: to be changed by `put`, `drop` and `drop_places` alone. `_few`: the order of a set that never had more than
    LISTED_MEMBERS_MAX members, as a list of them, which costs eight bytes a member. `_many`: the order of a larger set.
    If all members came at once, both are None until a command asks for the order; the readers of a snapshot never do.
    is_listed: whether Redis would keep the set in a listpack, since it was never too large for one.
    stamp: a number that no other set has, nor this one with other members or scores; 0 until it is asked for.

    A *place* counts from 0 in the order; places from `start` on and before `stop` are a range.
    """

    __slots__ = ("_few", "_many", "is_listed", "scores", "stamp")

    def __init__(self, scores: "dict[bytes, float] | None" = None) -> None:
        """scores: the initial ones; the dict is kept, not copied."""
        self.scores: dict[bytes, float] = {} if scores is None else scores
        self._few: list[bytes] | None = [] if scores is None else None
        self._many: MemberOrder | None = None
        self.stamp = 0
        self.is_listed = scores is None or (
            len(scores) <= LISTED_MEMBERS_MAX and all(len(member) <= LISTED_BYTES_MAX for member in scores)
        )

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self.scores)

    def put(self, member: bytes, score: float) -> None:
        """Add a member, or give it another score."""
        scores = self.scores
        self.stamp = 0
        before = scores.get(member)
        if before is None and self.is_listed:
            self.is_listed = len(scores) < LISTED_MEMBERS_MAX and len(member) <= LISTED_BYTES_MAX
        many = self._many
        if many is not None:
            if before is not None:
                many.remove(member, before)
            many.add(member, score)
        elif self._few is not None:
            few = self._few
            if before is not None:
                del few[self._place_among_few(before, member)]
            if len(few) >= LISTED_MEMBERS_MAX:
                self._few = None
                scores[member] = score
                self._in_order()
            elif not few or scores[few[-1]] < score:
                few.append(member)  # queues grow at their end
            else:
                few.insert(self._place_among_few(score, member), member)
        scores[member] = score

    def drop(self, member: bytes) -> bool:
        """Remove a member; return whether it was there."""
        score = self.scores.get(member)
        if score is None:
            return False
        self.stamp = 0
        if self._many is not None:
            self._many.remove(member, score)
        elif self._few is not None:
            del self._few[self._place_among_few(score, member)]
        del self.scores[member]
        return True

    def drop_places(self, start: int, stop: int) -> list[bytes]:
        """Remove a range and return its members."""
        dropped = self.members(start, stop)
        self.stamp = 0
        if self._many is not None:
            self._many.remove_places(start, stop)
        elif self._few is not None:
            del self._few[start:stop]
        for member in dropped:
            del self.scores[member]
        return dropped

    def stamped(self) -> int:
        """Return the stamp; a result made from a set with the same stamp is still valid."""
        if not self.stamp:
            self.stamp = next(_stamps)
        return self.stamp

    def _place_among_few(self, score: float, member: bytes) -> int:
        assert self._few is not None
        few, score_of = self._few, self.scores.__getitem__
        start = bisect_left(few, score, key=score_of)
        if start == len(few) or few[start] == member or score_of(few[start]) != score:
            return start
        return bisect_left(few, member, start, bisect_right(few, score, start, key=score_of))

    def _in_order(self) -> MemberOrder | None:
        """Make the order if it is missing; return `_many`, or None if `_few` has the order."""
        if self._many is None and self._few is None:
            rows = zip(self.scores.values(), self.scores, strict=True)
            if len(self.scores) > LISTED_MEMBERS_MAX:
                self._many = MemberOrder(rows)
            else:
                self._few = [member for _, member in sorted(rows)]
        return self._many

    def below(self, score: float, member: bytes | None = None) -> int:
        """Return the number of members before a score, or before a member that has it."""
        many = self._in_order()
        if many is not None:
            return many.below(score, member)
        if member is not None:
            return self._place_among_few(score, member)
        assert self._few is not None
        return bisect_left(self._few, score, key=self.scores.__getitem__)

    def below_word(self, word: bytes) -> int:
        """Return the number of members before a word; all scores must be the same, or rise with the members."""
        first, last = self.members(0, 1)[0], self.members(len(self) - 1, len(self))[0]
        if self.scores[first] == self.scores[last]:
            return self.below(self.scores[first], word)
        return bisect_left(range(len(self)), word, key=lambda place: self.members(place, place + 1)[0])

    def up_to(self, score: float) -> int:
        """Return the number of members with this score or a smaller one."""
        return len(self.scores) if score == inf else self.below(nextafter(score, inf))

    def rank(self, member: bytes) -> int:
        """Return the place of a member that is there."""
        return self.below(self.scores[member], member)

    def members(self, start: int, stop: int) -> list[bytes]:
        """Return the members of a range."""
        many = self._in_order()
        if many is not None:
            return many.members(start, stop)
        assert self._few is not None
        return self._few[start:stop]

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of ZSCAN's next page, 0 behind the last one, and `count` members; 0 begins the walk."""
        if self.is_listed:
            return 0, self.members(0, len(self.scores))
        return positions.page(self.scores, cursor, count)

    def copy(self) -> "SortedSet":
        """Return an independent copy."""
        other = SortedSet(self.scores.copy())
        other.is_listed = self.is_listed
        return other
