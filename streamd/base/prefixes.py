"""Values by prefixes, found by looking up one beginning of a text for each length of prefix."""

from typing import Generic, TypeVar

Value = TypeVar("Value")


class Prefixes(Generic[Value]):
    """Prefix -> value.

    A look-up tries the text's beginning of each length that a prefix has. So prefixes that do not fit cost nothing,
    however many there are.

    values: all of them; only the methods change it.
    """

    __slots__ = ("_lengths", "values")

    def __init__(self) -> None:
        self.values: dict[bytes, Value] = {}
        self._lengths: dict[int, int] = {}  # how many prefixes are so long

    def __len__(self) -> int:
        return len(self.values)

    def put(self, prefix: bytes, value: Value) -> None:
        """Set the value of a prefix."""
        if prefix not in self.values:
            length = len(prefix)
            self._lengths[length] = self._lengths.get(length, 0) + 1
        self.values[prefix] = value

    def remove(self, prefix: bytes) -> None:
        """Remove a present prefix."""
        del self.values[prefix]
        length = len(prefix)
        left = self._lengths[length] - 1
        if left:
            self._lengths[length] = left
        else:
            del self._lengths[length]

    def of(self, text: bytes) -> list[tuple[bytes, Value]]:
        """Return the prefixes of a text and their values, in no order."""
        values, lengths, longest = self.values, self._lengths, len(text)
        found: list[tuple[bytes, Value]] = []
        for length in lengths if len(lengths) <= longest else range(longest + 1):
            if length <= longest:
                prefix = text[:length]
                if prefix in values:
                    found.append((prefix, values[prefix]))
        return found


def overlapping(prefixes: list[bytes]) -> set[bytes]:
    """Return the prefixes that begin with another one, or that another one begins with; equal ones, too."""
    found: set[bytes] = set()
    # In order, what begins with a prefix stands right behind it: so each is compared with those around it that it may
    # begin with, which are each a beginning of the next.
    around: list[bytes] = []
    for prefix in sorted(prefixes):
        while around and not prefix.startswith(around[-1]):
            around.pop()
        if around:
            found.add(around[-1])
            found.add(prefix)
        around.append(prefix)
    return found
