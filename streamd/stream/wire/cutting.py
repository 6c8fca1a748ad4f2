"""Cutting joined texts apart by their lengths."""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

_FORMATS = [f"{length}s" for length in range(1024)]

# struct cuts several times as quickly as slices do. A Struct takes 32 bytes for each text; a kept one has so many.
_KEPT_TEXTS_MAX: Final = 4_096


@lru_cache(maxsize=256)
def _cutter(lengths: tuple[int, ...], entries: int) -> Struct:
    return Struct("".join([f"{length}s" for length in lengths]) * entries)


def cut_alike(joined: bytes, lengths: tuple[int, ...], low: int, high: int) -> Sequence[bytes]:
    """Return the texts of the entries at positions from `low` to before `high`; every entry's texts have `lengths`."""
    width, size = len(lengths), sum(lengths)
    if (high - low) * width <= _KEPT_TEXTS_MAX:
        return _cutter(lengths, high - low).unpack_from(joined, low * size)
    if width > _KEPT_TEXTS_MAX:
        return cut(joined, lengths * (high - low), low * size)
    texts: list[bytes] = []
    step = _KEPT_TEXTS_MAX // width
    for at in range(low, high, step):
        texts += _cutter(lengths, min(step, high - at)).unpack_from(joined, at * size)
    return tuple(texts)


def cut(joined: bytes, lengths: Sequence[int], offset: int) -> Sequence[bytes]:
    """Return the texts that begin at an offset and have these lengths."""
    try:
        layout = "".join([_FORMATS[length] for length in lengths])
    except IndexError:
        layout = "%ds" * len(lengths) % tuple(lengths)
    # A Struct of its own: struct's cache would be full of formats that never come again.
    return Struct(layout).unpack_from(joined, offset)
