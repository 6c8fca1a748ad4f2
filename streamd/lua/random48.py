"""The numbers of `math.random`: those of POSIX's drand48, which Redis gives scripts on every machine."""

from typing import Final

_FACTOR: Final = 0x5DEECE66D
_MASK: Final = (1 << 48) - 1
_LONG_MAX: Final = 2**31 - 1


class Random48:
    """Successive numbers, from a seed or from drand48's initial state."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = 0x1234ABCD330E

    def seed(self, seed: float) -> None:
        """Start again from a seed."""
        # What a double is cut to an int of C.
        whole = int(seed) if seed - seed == 0 else 0
        self._number = (whole & 0xFFFFFFFF) << 16 | 0x330E

    def next(self) -> float:
        """Return a number from 0 to just below 1."""
        self._number = self._number * _FACTOR + 0xB & _MASK
        return (self._number >> 17) % _LONG_MAX / _LONG_MAX
