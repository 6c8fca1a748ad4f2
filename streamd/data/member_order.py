"""The order of a large sorted set's members, made only in the parts that a command reads."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

Row = tuple[float, bytes]

# A part with more members is split in two; one with fewer is joined to its neighbour, where both are one part then. To
# put a part in order takes a tenth of a millisecond.
PART_MAX: Final = 1_024
PART_MIN: Final = 128
# So many new members wait until the parts are found for all of them, and so many in one part until it is put in order.
# Whoever asks for the order waits for both, less than a millisecond.
NEW_MAX: Final = 1_024
WAITING_MAX: Final = 512
# Not more find their places one by one, which takes no longer than to sort the part.
FEW_MAX: Final = 64
# Where somebody asks for the order behind each change or two, these are put into place at once.
ALONE_MAX: Final = 3
# So many parts are counted together, so that a place is found among millions.
_GROUP_BITS: Final = 6


class MemberOrder:
    """Members in the order of their scores and, among equal ones, of the members.

    Finding the place of a member among hundreds of thousands means a dozen cache misses. So a new one finds only its
    part of the order, together with other new ones, and only the bounds of the parts are read. A part is put in order
    when a command reads it, or when too many wait in it.

    Shape: part n has the columns `_scores[n]` and `_members[n]`, in order, and the unordered rows `_waiting[n]`.
    `_bounds`: for each part but the first, a row between the parts: rows from it on belong to this part, earlier rows
    to the part before. `_sizes[n]`: the number of members of a part, waiting ones included; `_groups`: the number of
    members of each 64 parts. `_new`: member -> score of the members whose part is not known yet.
    """

    __slots__ = ("_bounds", "_groups", "_members", "_new", "_scores", "_sizes", "_waiting")

    def __init__(self, rows: Iterable[Row]) -> None:
        ordered = sorted(rows)
        half = PART_MAX // 2
        parts = [ordered[at : at + half] for at in range(0, len(ordered), half)] or [[]]
        self._scores = [array("d", [score for score, _ in part]) for part in parts]
        self._members = [[member for _, member in part] for part in parts]
        self._waiting: list[list[Row]] = [[] for _ in parts]
        self._bounds: list[Row] = [part[0] for part in parts[1:]]
        self._sizes = [*map(len, parts)]
        self._new: dict[bytes, float] = {}
        self._groups: list[int] = []
        self._count()

    def add(self, member: bytes, score: float) -> None:
        """Add a new member."""
        new = self._new
        new[member] = score
        if len(new) >= NEW_MAX:
            self._deal()

    def remove(self, member: bytes, score: float) -> None:
        """Remove a present member, with its score."""
        if self._new.pop(member, None) is not None:
            return
        part = bisect_right(self._bounds, (score, member))
        waiting = self._waiting[part]
        if waiting:
            self._put_in_order(part)
            part = bisect_right(self._bounds, (score, member))
        scores, members = self._scores[part], self._members[part]
        at = _place(scores, members, score, member)
        del scores[at]
        del members[at]
        self._sizes[part] -= 1
        self._groups[part >> _GROUP_BITS] -= 1
        if len(members) < PART_MIN:
            self._join(part)

    def remove_places(self, start: int, stop: int) -> None:
        """Remove the members of a range."""
        if self._new:
            self._deal()
        while start < stop:
            part, at = self._part_of(start)
            if self._waiting[part]:
                self._put_in_order(part)
                continue
            members = self._members[part]
            count = min(stop - start, len(members) - at)
            if count <= 0:
                break
            del self._scores[part][at : at + count]
            del members[at : at + count]
            self._sizes[part] -= count
            self._groups[part >> _GROUP_BITS] -= count
            stop -= count
            if len(members) < PART_MIN:
                self._join(part)

    def below(self, score: float, member: bytes | None = None) -> int:
        """Return the number of members before a score, or before a member that has it."""
        if self._new:
            self._deal()
        # (A row without a member is before all that have its score.)
        row = (score,) if member is None else (score, member)
        part = bisect_right(self._bounds, row)
        if self._waiting[part]:
            self._put_in_order(part)
            part = bisect_right(self._bounds, row)
        scores = self._scores[part]
        at = bisect_left(scores, score) if member is None else _place(scores, self._members[part], score, member)
        group = part >> _GROUP_BITS
        return sum(self._groups[:group]) + sum(self._sizes[group << _GROUP_BITS : part]) + at

    def members(self, start: int, stop: int) -> list[bytes]:
        """Return the members of a range."""
        if self._new:
            self._deal()
        found: list[bytes] = []
        if start >= stop:
            return found
        part, at = self._part_of(start)
        while len(found) < stop - start and part < len(self._members):
            if self._waiting[part] and self._put_in_order(part):
                part, at = self._part_of(start + len(found))
                continue
            found += self._members[part][at : at + stop - start - len(found)]
            part += 1
            at = 0
        return found

    def _part_of(self, place: int) -> tuple[int, int]:
        """Return the number of the part that holds a place, and the index in that part."""
        groups, sizes = self._groups, self._sizes
        if place < sizes[0]:
            return 0, place
        behind = sum(groups) - place
        if behind <= sizes[-1]:
            return len(sizes) - 1, sizes[-1] - behind
        group, last = 0, len(groups) - 1
        while group < last and place >= groups[group]:
            place -= groups[group]
            group += 1
        part = group << _GROUP_BITS
        last = len(sizes) - 1
        while part < last and place >= sizes[part]:
            place -= sizes[part]
            part += 1
        return part, place

    def _deal(self) -> None:
        """Deal the new members out to the parts."""
        new, bounds = self._new, self._bounds
        if len(new) <= ALONE_MAX:
            for member, score in new.items():
                self._put(member, score)
            new.clear()
            return
        rows = sorted(zip(new.values(), new, strict=True))
        new.clear()
        full = []
        at, count = 0, len(rows)
        part = bisect_right(bounds, rows[0])
        while at < count:
            end = bisect_left(rows, bounds[part], at) if part < len(bounds) else count
            if part == len(bounds) and not self._waiting[part]:
                self._append(rows[at:end])
            else:
                waiting = self._waiting[part]
                waiting += rows[at:end]
                if len(waiting) >= WAITING_MAX:
                    full.append(part)
            self._sizes[part] += end - at
            self._groups[part >> _GROUP_BITS] += end - at
            at = end
            if at < count:
                part = bisect_right(bounds, rows[at], part + 1)
        for part in reversed(full):
            self._put_in_order(part)
        if self._sizes[-1] > PART_MAX:
            self._put_in_order(len(bounds))

    def _put(self, member: bytes, score: float) -> None:
        """Put one new member into its part, at its place if the part has no waiting rows."""
        part = bisect_right(self._bounds, (score, member))
        waiting, scores, members = self._waiting[part], self._scores[part], self._members[part]
        self._sizes[part] += 1
        self._groups[part >> _GROUP_BITS] += 1
        if waiting:
            waiting.append((score, member))
            if len(waiting) >= WAITING_MAX:
                self._put_in_order(part)
            return
        at = _place(scores, members, score, member)
        scores.insert(at, score)
        members.insert(at, member)
        if len(members) > PART_MAX:
            self._split(part)

    def _append(self, rows: list[Row]) -> None:
        """Add rows to the last part, which has no waiting rows: queues grow at their end."""
        scores, members = self._scores[-1], self._members[-1]
        if not members or rows[0] > (scores[-1], members[-1]):
            scores.extend([score for score, _ in rows])
            members += [member for _, member in rows]
        else:
            self._waiting[-1] += rows

    def _put_in_order(self, part: int) -> bool:
        """Put a part in order; return whether it was split, which changes the numbers of the parts behind it."""
        waiting = self._waiting[part]
        scores, members = self._scores[part], self._members[part]
        if len(waiting) <= FEW_MAX:
            for score, member in waiting:
                at = _place(scores, members, score, member)
                scores.insert(at, score)
                members.insert(at, member)
            waiting.clear()
        else:
            # (Not one by one: two columns that are in order, and the new ones, are sorted in C at once.)
            rows = [*zip(scores, members, strict=True), *waiting]
            rows.sort()
            self._waiting[part] = []
            self._scores[part] = array("d", [score for score, _ in rows])
            self._members[part] = [member for _, member in rows]
        if len(self._members[part]) <= PART_MAX:
            return False
        self._split(part)
        return True

    def _split(self, part: int) -> None:
        """Split a part without waiting rows into parts of half its size."""
        scores, members = self._scores[part], self._members[part]
        half = PART_MAX // 2
        starts = range(0, len(members) - half // 2, half)
        ends = [*starts[1:], len(members)]
        places = [*zip(starts, ends, strict=True)]
        self._scores[part : part + 1] = [scores[start:end] for start, end in places]
        self._members[part : part + 1] = [members[start:end] for start, end in places]
        self._waiting[part : part + 1] = [[] for _ in places]
        self._sizes[part : part + 1] = [end - start for start, end in places]
        self._bounds[part:part] = [(scores[start], members[start]) for start in starts[1:]]
        self._count()

    def _join(self, part: int) -> None:
        """Join a small part without waiting rows with a neighbour that is not too large."""
        sizes = self._sizes
        if len(sizes) == 1:
            return
        first = part - 1 if part and (part + 1 == len(sizes) or sizes[part - 1] < sizes[part + 1]) else part
        second = first + 1
        if sizes[part] and sizes[first] + sizes[second] > PART_MAX:
            return
        self._scores[first] += self._scores.pop(second)
        self._members[first] += self._members.pop(second)
        self._waiting[first] += self._waiting.pop(second)
        sizes[first] += sizes.pop(second)
        del self._bounds[first]
        self._count()

    def _count(self) -> None:
        sizes = self._sizes
        self._groups = [sum(sizes[at : at + (1 << _GROUP_BITS)]) for at in range(0, len(sizes), 1 << _GROUP_BITS)]


def _place(scores: "array[float]", members: list[bytes], score: float, member: bytes) -> int:
    at = bisect_left(scores, score)
    if at == len(scores) or scores[at] != score or members[at] == member:
        return at
    return bisect_left(members, member, at, bisect_right(scores, score, at))
