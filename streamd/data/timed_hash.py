"""A hash with fields that expire."""

from streamd.base.due_times import DueTimes
from streamd.data.hash import Hash


class TimedHash(Hash):
    """A hash in which `times` says when fields end, Unix milliseconds; at least one field has a time.

    A class of its own, so that a hash without times costs nothing for the others' times. A hash changes its class, in
    its place, when the first field gets a time, and when the last time is gone.
    """

    __slots__ = ()

    def set_fields(self, words: list[bytes]) -> int:
        """Set fields to values, `[field, value, ...]`, and remove their times; return how many are new."""
        for field in words[::2]:
            self.times.drop(field)
        self.settle()
        return Hash.set_fields(self, words)  # (not super(): it may be a plain hash by now)

    def set_keeping_times(self, words: list[bytes]) -> int:
        """Set fields to values, and keep their times. Return how many are new."""
        return Hash.set_fields(self, words)

    def drop(self, field: bytes) -> bool:
        """Remove a field; return whether it was there."""
        self.times.drop(field)
        self.settle()
        return Hash.drop(self, field)

    def settle(self) -> None:
        """Become a plain hash if no field has a time any more."""
        if not self.times:
            self.__class__ = Hash  # type: ignore[assignment]

    def at(self, now_ms: int) -> Hash:
        """Return an independent copy without the fields whose time has come; O(n)."""
        other = self.copy()
        for field, ends_ms in self.times.due_ms.items():
            if ends_ms <= now_ms:
                other.drop(field)
        return other

    def copy(self) -> "TimedHash":
        """Return an independent copy."""
        other = TimedHash()
        other.update(self)
        other.times = self.times.copy()
        return other


def with_times(value: Hash) -> TimedHash:
    """Return a hash in the form for times; a field must get one at once."""
    if not isinstance(value, TimedHash):
        value.times = DueTimes()
        value.__class__ = TimedHash
        assert isinstance(value, TimedHash)
    return value


def times_of(value: Hash) -> dict[bytes, int]:
    """Return field -> Unix milliseconds of the fields that have a time."""
    return value.times.due_ms if isinstance(value, TimedHash) else {}
