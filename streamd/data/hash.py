"""The value of a hash: fields and their values."""

from typing import TYPE_CHECKING

from streamd.data import positions

if TYPE_CHECKING:
    from streamd.base.due_times import DueTimes

# Redis keeps a hash of up to so many fields, none of whose words is longer, in a list, and shows it on one page.
_LISTED_FIELDS_MAX = 512
_LISTED_BYTES_MAX = 64


class Hash(dict[bytes, bytes]):
    """Field -> value. To be changed by `set_fields` and `drop` alone.

    times: when fields expire; only a TimedHash has them.
    """

    __slots__ = ("times",)

    times: "DueTimes"

    def set_fields(self, words: list[bytes]) -> int:
        """Set fields to values, `[field, value, ...]`; return how many of the fields are new."""
        before = len(self)
        if len(words) == 2:  # (Most are: without four objects that only several need.)
            self[words[0]] = words[1]
        else:
            self.update(zip(words[::2], words[1::2], strict=True))
        return len(self) - before

    def drop(self, field: bytes) -> bool:
        """Remove a field; return whether it was there."""
        return self.pop(field, None) is not None

    @property
    def is_listed(self) -> bool:
        """Whether Redis would keep it as a listpack; O(1) for a large hash."""
        return len(self) <= _LISTED_FIELDS_MAX and all(
            len(word) <= _LISTED_BYTES_MAX for pair in self.items() for word in pair
        )

    def page(self, cursor: int, count: int) -> tuple[int, list[bytes]]:
        """Return the cursor of HSCAN's next page, 0 behind the last one, and `count` fields; 0 begins the walk."""
        if self.is_listed:
            return 0, list(self)
        return positions.page(self, cursor, count)

    def copy(self) -> "Hash":
        """Return an independent copy."""
        other = Hash()
        other.update(self)
        return other
