"""The value of a list: elements in the middle are found as quickly as those at the ends."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

# To put an element in front of a full block moves its pointers: two kilobytes, in some ten nanoseconds.
_BLOCK: Final = 256


class ElementList:
    """Elements in their order.

    Shape: _blocks are lists of elements, none of them empty. All have _BLOCK elements, but the first and the last one,
    which may have fewer. So arithmetic finds the block of a place.
    """

    __slots__ = ("_blocks",)

    def __init__(self, elements: "list[bytes] | None" = None) -> None:
        self._blocks: list[list[bytes]] = []
        if elements:
            self.extend(elements)

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __len__(self) -> int:
        blocks = self._blocks
        if len(blocks) < 2:
            return len(blocks[0]) if blocks else 0
        return len(blocks[0]) + (len(blocks) - 2) * _BLOCK + len(blocks[-1])

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._blocks)

    def __reversed__(self) -> Iterator[bytes]:
        return chain.from_iterable(map(reversed, reversed(self._blocks)))

    def _find(self, place: int) -> tuple[int, int]:
        """Return the number of the block with the element at a place, and its index there; the place must exist."""
        first = len(self._blocks[0])
        if place < first:
            return 0, place
        number, at = divmod(place - first, _BLOCK)
        return number + 1, at

    def __getitem__(self, place: int) -> bytes:
        number, at = self._find(place)
        return self._blocks[number][at]

    def __setitem__(self, place: int, element: bytes) -> None:
        number, at = self._find(place)
        self._blocks[number][at] = element

    def part(self, start: int, stop: int) -> list[bytes]:
        """Return the elements from the place `start` on and before `stop`; both must be valid."""
        if start >= stop:
            return []
        first, at = self._find(start)
        last, end = self._find(stop - 1)
        blocks = self._blocks
        if first == last:
            return blocks[first][at : end + 1]
        return [*blocks[first][at:], *chain.from_iterable(blocks[first + 1 : last]), *blocks[last][: end + 1]]

    def place_of(self, element: bytes) -> int | None:
        """Return the first place of an element, or None. O(N)."""
        passed = 0
        for block in self._blocks:
            if element in block:
                return passed + block.index(element)
            passed += len(block)
        return None

    def append(self, element: bytes) -> None:
        """Put an element at the end."""
        blocks = self._blocks
        if blocks and len(blocks[-1]) < _BLOCK:
            blocks[-1].append(element)
        else:
            blocks.append([element])

    def appendleft(self, element: bytes) -> None:
        """Put an element at the head."""
        blocks = self._blocks
        if blocks and len(blocks[0]) < _BLOCK:
            blocks[0].insert(0, element)
        else:
            blocks.insert(0, [element])

    def extend(self, elements: list[bytes]) -> None:
        """Put elements at the end, in their order."""
        blocks = self._blocks
        room = _BLOCK - len(blocks[-1]) if blocks else 0
        if len(elements) <= room > 0:
            blocks[-1] += elements
            return
        if room:
            blocks[-1] += elements[:room]
        for at in range(room, len(elements), _BLOCK):
            blocks.append(elements[at : at + _BLOCK])

    def extendleft(self, elements: list[bytes]) -> None:
        """Put elements at the head, one after the other: the last one is the new head."""
        blocks = self._blocks
        room = _BLOCK - len(blocks[0]) if blocks else 0
        if len(elements) <= room > 0:
            blocks[0][:0] = elements[::-1]
            return
        if room:
            blocks[0][:0] = elements[:room][::-1]
        blocks[:0] = [elements[at : at + _BLOCK][::-1] for at in range(room, len(elements), _BLOCK)][::-1]

    def pop(self) -> bytes:
        """Remove and return the last element; there must be one."""
        blocks = self._blocks
        element = blocks[-1].pop()
        if not blocks[-1]:
            del blocks[-1]
        return element

    def popleft(self) -> bytes:
        """Remove and return the head; there must be one."""
        blocks = self._blocks
        element = blocks[0].pop(0)
        if not blocks[0]:
            del blocks[0]
        return element

    def take(self, count: int, left: bool) -> list[bytes]:
        """Remove and return up to this many elements, from the head or from the end; there must be one."""
        if count == 1:
            return [self.popleft() if left else self.pop()]
        size = len(self)
        rest = max(0, size - count)
        if left:
            taken = self.part(0, size - rest)
            self.keep(size - rest, size)
        else:
            taken = self.part(rest, size)[::-1]
            self.keep(0, rest)
        return taken

    def keep(self, start: int, stop: int) -> list[list[bytes]]:
        """Remove all elements outside the places from `start` to before `stop`; return most removed ones in lists."""
        if start >= stop:
            gone, self._blocks = self._blocks, []
            return gone
        first, at = self._find(start)
        last, end = self._find(stop - 1)
        blocks = self._blocks
        gone = blocks[:first] + blocks[last + 1 :]
        del blocks[last][end + 1 :], blocks[last + 1 :], blocks[first][:at], blocks[:first]
        return gone

    def insert(self, place: int, element: bytes) -> None:
        """Put an element in front of the one at a place, or at the end. O(N), a step for each block up to an end."""
        if place == len(self):
            self.append(element)
            return
        number, at = self._find(place)
        blocks = self._blocks
        blocks[number].insert(at, element)
        # A block that has one too many hands an element to its neighbour, on the way to the nearer end.
        if number < len(blocks) // 2:
            while len(blocks[number]) > _BLOCK and number:
                blocks[number - 1].append(blocks[number].pop(0))
                number -= 1
            if len(blocks[0]) > _BLOCK:
                blocks.insert(0, [blocks[0].pop(0)])
        else:
            while len(blocks[number]) > _BLOCK and number < len(blocks) - 1:
                blocks[number + 1].insert(0, blocks[number].pop())
                number += 1
            if len(blocks[-1]) > _BLOCK:
                blocks.append([blocks[-1].pop()])

    def remove(self, element: bytes, most: int, backwards: bool) -> int:
        """Remove up to `most` elements equal to one, from the head or backwards from the end; return their number.

        O(N), but nearly all of it is Python's own comparison.
        """
        blocks, removed = self._blocks, 0
        for number in range(len(blocks) - 1, -1, -1) if backwards else range(len(blocks)):
            block = blocks[number]
            here = block.count(element)
            if not here:
                continue
            if most == 1:
                self._close(number, len(block) - 1 - block[::-1].index(element) if backwards else block.index(element))
                return 1
            gone = min(here, most - removed)
            if gone == here:
                blocks[number] = [one for one in block if one != element]
            else:
                some = block[::-1] if backwards else block[:]
                for _ in range(gone):
                    some.remove(element)
                blocks[number] = some[::-1] if backwards else some
            removed += gone
            if removed == most:
                break
        if removed:
            self.replace(list(chain.from_iterable(blocks)))
        return removed

    def _close(self, number: int, at: int) -> None:
        """Remove the element at a place of a block. O(N), a step for each block up to an end."""
        blocks = self._blocks
        del blocks[number][at]
        # Its neighbour hands it an element, and so on, from the nearer end.
        if number < len(blocks) // 2:
            for other in range(number, 0, -1):
                blocks[other].insert(0, blocks[other - 1].pop())
            if not blocks[0]:
                del blocks[0]
        else:
            for other in range(number, len(blocks) - 1):
                blocks[other].append(blocks[other + 1].pop(0))
            if not blocks[-1]:
                del blocks[-1]

    def replace(self, elements: list[bytes]) -> None:
        """Replace all elements by these."""
        self._blocks = []
        self.extend(elements)

    def copy(self) -> "ElementList":
        """Return an independent copy."""
        other = ElementList()
        other._blocks = [block[:] for block in self._blocks]
        return other
