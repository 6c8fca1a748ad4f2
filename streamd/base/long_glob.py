"""Long glob patterns, matched in a time bounded by the lengths of pattern and text."""

from typing import Final

from streamd.base.glob_words import Word, is_literal, least_length, parts, words

# A part between two stars is tried place by place, with so many comparisons for each of its words and one for each byte
# of the text. After these the remaining places are decided all at once.
_COMPARISONS_PER_WORD: Final = 4


class LongGlob:
    """A pattern.

    Most texts are shorter than their pattern; for these nothing is compiled. _least: no shorter text matches; it is
    the least length if _is_exact, and before a bound that is found at once.
    _parts: the parts between the stars as bytes, each replaced by a segment once one is needed. The first part is at
    the beginning of a text, the last one at its end.
    """

    __slots__ = ("__weakref__", "_ignore_case", "_is_exact", "_least", "_parts", "_pattern")

    def __init__(self, pattern: bytes, ignore_case: bool) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._parts: list[bytes | _Segment] = []
        # (A class may be long and stands for one byte, so nothing from the first class on is counted.)
        head = pattern.partition(b"[")[0]
        self._least = len(head) - head.count(b"*") - head.count(b"\\")
        self._is_exact = False

    def matches(self, text: bytes) -> bool:
        """Return whether the whole of a text matches."""
        if len(text) < self._least:
            return False
        if not self._is_exact:
            self._least, self._is_exact = least_length(self._pattern), True
            if len(text) < self._least:
                return False
        if not self._parts:
            self._cut()
        if self._ignore_case:
            text = text.lower()
        first, last = self._segment(0), self._segment(-1)
        if len(self._parts) == 1:
            return len(text) == first.length and first.stands_at(text, 0)
        if not first.stands_at(text, 0) or not last.stands_at(text, len(text) - last.length):
            return False
        at, end = first.length, len(text) - last.length
        for place in range(1, len(self._parts) - 1):
            part = self._parts[place]
            if isinstance(part, bytes) and not self._ignore_case and is_literal(part):
                at = text.find(part, at, end)
                length = len(part)
            else:
                segment = self._segment(place)
                at = segment.find(text, at, end)
                length = segment.length
            if at < 0:
                return False
            at += length
        return True

    def _cut(self) -> None:
        found = parts(self._pattern)
        self._parts = [part for part in found if part[:1] != b"*"]
        if not found or found[0][:1] == b"*":
            self._parts.insert(0, b"")
        if found and found[-1][:1] == b"*":
            self._parts.append(b"")

    def _segment(self, place: int) -> "_Segment":
        part = self._parts[place]
        if isinstance(part, bytes):
            part = self._parts[place] = _Segment(part, self._ignore_case)
        return part


class _Segment:
    """Words without a star between them.

    length: of a text that it matches. literals, classes: the words of these sorts, each as (offset, word). longest:
    the longest of the literals.
    """

    __slots__ = ("classes", "length", "literals", "longest")

    def __init__(self, text: bytes, ignore_case: bool) -> None:
        self.length = 0
        self.literals: list[tuple[int, bytes]] = []
        self.classes: list[tuple[int, frozenset[int]]] = []
        self.longest: tuple[int, bytes] = (0, b"")
        for word in words(text, ignore_case):
            self._add(word, ignore_case)

    def _add(self, word: Word, ignore_case: bool) -> None:
        if word.literal is not None:
            literal = word.literal.lower() if ignore_case else word.literal
            self.literals.append((self.length, literal))
            if len(literal) > len(self.longest[1]):
                self.longest = self.literals[-1]
        elif word.members is not None:
            self.classes.append((self.length, word.members))
        self.length += word.length

    def stands_at(self, text: bytes, at: int) -> bool:
        """Return whether this matches a text at a place; the text is long enough."""
        return self._compared(text, at) < 0

    def _compared(self, text: bytes, at: int) -> int:
        """Return the number of words compared up to the first that did not match, -1 if all matched."""
        compared = 0
        for offset, literal in self.literals:
            compared += 1
            if not text.startswith(literal, at + offset):
                return compared
        for offset, members in self.classes:
            compared += 1
            if text[at + offset] not in members:
                return compared
        return -1

    def find(self, text: bytes, at: int, end: int) -> int:
        """Return the first place from `at` on where this matches a text, up to before `end`; or -1."""
        offset, longest = self.longest
        last = end - self.length
        if not self.literals and not self.classes:
            return at if at <= last else -1
        left = _COMPARISONS_PER_WORD * (len(self.literals) + len(self.classes)) + last - at
        while at <= last:
            if longest:
                found = text.find(longest, at + offset, last + offset + len(longest))
                if found < 0:
                    return -1
                at = found - offset
            compared = self._compared(text, at)
            if compared < 0:
                return at
            at += 1
            left -= compared
            if left < 0:
                return self._find_at_once(text, at, end)
        return -1

    def _find_at_once(self, text: bytes, at: int, end: int) -> int:
        """Do the work of `find` for all places at once: each is a bit of a number, and a step takes 64 of them."""
        places = end - self.length - at + 1
        if places <= 0:
            return -1
        text = text[at:end]
        left = (1 << places) - 1
        known: dict[frozenset[int], int] = {}
        for offset, members in (*self._bytes_of_literals(), *self.classes):
            bits = known.get(members)
            if bits is None:
                table = bytes(49 if byte in members else 48 for byte in range(256))
                bits = known[members] = int(text.translate(table)[::-1], 2)
            left &= bits >> offset
            if not left:
                return -1
        return at + (left & -left).bit_length() - 1

    def _bytes_of_literals(self) -> list[tuple[int, frozenset[int]]]:
        single = [frozenset((byte,)) for byte in range(256)]
        return [(offset + at, single[byte]) for offset, literal in self.literals for at, byte in enumerate(literal)]
