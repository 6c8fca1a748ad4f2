"""The shape of a plain request, the lengths of its words, and what cuts requests of one shape out of a chunk."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Final

# Headers are compared as one number for so many bytes of a chunk.
_BLOCK_BYTES_MAX: Final = 8 * 1024
# A longer request gains little.
SHAPE_BYTES_MAX: Final = 1_024
_HEADER_BYTES_MIN: Final = len(b"\r\n$0\r\n")
# Both caches together take 8 MB at most, and much less unless clients mean to fill them.
_SHAPES_MAX = 1_024
_BLOCKS_MAX = 256


class Shape:
    """Plain requests whose words have the same lengths.

    `size_bytes`: of such a request. `cut_words` cuts a request into its words, `_cut_many` any number of them.
    `_mask` has a byte 255 for each byte of a header, else 0; `_headers` has the headers' bytes, else 0; `one`: both as
    numbers.
    """

    __slots__ = ("_cut_many", "cut_words", "_headers", "_mask", "one", "size_bytes")

    def __init__(self, lengths: tuple[int, ...]) -> None:
        start = b"*%d" % len(lengths)
        headers = [b"\r\n$%d\r\n" % length for length in lengths]
        pairs = [*zip(headers, lengths, strict=True)]
        self._headers = start + b"".join([header + bytes(length) for header, length in pairs]) + bytes(2)
        self._mask = bytes(255 if byte else 0 for byte in self._headers)
        self.size_bytes = len(self._headers)
        cuts = Struct(f"{len(start)}x" + "".join([f"{len(header)}x{length}s" for header, length in pairs]) + "2x")
        self.cut_words: Callable[[bytes], tuple[bytes, ...]] = cuts.unpack
        self._cut_many: Callable[[bytes], Iterator[tuple[bytes, ...]]] = cuts.iter_unpack
        self.one = int.from_bytes(self._mask, "little"), int.from_bytes(self._headers, "little")

    def cut(self, data: bytes) -> list[list[bytes]] | None:
        """Return the requests of a chunk; None if it is not some requests of this shape and nothing else.

        As a number the chunk has all its bytes, `&` leaves those of the headers, and one comparison is that of all of
        them: half of what any way through pieces takes.
        """
        size = self.size_bytes
        count, rest = divmod(len(data), size)
        if rest:
            return None
        step = _BLOCK_BYTES_MAX // size
        for at in range(0, count, step):
            block = data[at * size : (at + step) * size] if count > step else data
            mask, headers = self._block(min(step, count - at))
            if int.from_bytes(block, "little") & mask != headers:
                return None
        return list(map(list, self._cut_many(data)))

    @lru_cache(maxsize=_BLOCKS_MAX)  # noqa: B019 (shapes are few, and stay)
    def _block(self, count: int) -> tuple[int, int]:
        return int.from_bytes(self._mask * count, "little"), int.from_bytes(self._headers * count, "little")


_shape: Final = lru_cache(maxsize=_SHAPES_MAX)(Shape)


def shape_of(request: list[bytes]) -> Shape | None:
    """Return the shape of a plain request, or None if it is long."""
    if sum(map(len, request)) + _HEADER_BYTES_MIN * len(request) > SHAPE_BYTES_MAX:
        return None
    return _shape(tuple(map(len, request)))
