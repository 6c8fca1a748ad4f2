"""What the entries of a run have in common."""

from typing import Final

# What entries have, one behind the other.
Texts = list[bytes] | tuple[bytes, ...]


class Layout:
    """The fields' names of some entries, which are the same in all, and how long their values are.

    lengths: of the values of one entry, if they are the same in all entries, too; None if nobody knows.
    """

    __slots__ = ("lengths", "names")

    def __init__(self, names: tuple[bytes, ...], lengths: tuple[int, ...] | None) -> None:
        self.names: Final = names
        self.lengths: Final = lengths

    def with_names(self, values: Texts) -> list[bytes]:
        """Return the fields and values of entries whose values are given, one entry behind the other."""
        flat = [b""] * (2 * len(values))
        flat[::2] = self.names * (len(values) // len(self.names))
        flat[1::2] = values
        return flat

    def joined_with(self, other: "Layout") -> "Layout | None":
        """Return the layout of entries of which some have this one and some another; None if the names differ."""
        if other is self or (other.names == self.names and other.lengths == self.lengths):
            return self
        return Layout(self.names, None) if other.names == self.names else None
