"""The shape of a plain request, the lengths of its words: it cuts a request like the one before into its words."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

# A longer request gains little.
SHAPE_BYTES_MAX: Final = 1_024
_HEADER_BYTES_MIN: Final = len(b"\r\n$0\r\n")
# All of them together take a few megabytes at most, and much less unless clients mean to fill them.
_SHAPES_MAX = 1_024


class Shape:
    """Plain requests whose words have the same lengths.

    `size_bytes`: of such a request. `cut_words` cuts a request into its words. `mask` has a byte 255 for each byte of a
    header, else 0; `headers` has the headers' bytes, else 0; both as numbers. A chunk as a number has all its bytes,
    `&` leaves those of the headers, and one comparison is that of all of them.
    """

    __slots__ = ("cut_words", "headers", "mask", "size_bytes")

    def __init__(self, lengths: tuple[int, ...]) -> None:
        start = b"*%d" % len(lengths)
        headers = [b"\r\n$%d\r\n" % length for length in lengths]
        pairs = [*zip(headers, lengths, strict=True)]
        all_headers = start + b"".join([header + bytes(length) for header, length in pairs]) + bytes(2)
        self.size_bytes = len(all_headers)
        self.headers = int.from_bytes(all_headers, "little")
        self.mask = int.from_bytes(bytes(255 if byte else 0 for byte in all_headers), "little")
        cuts = Struct(f"{len(start)}x" + "".join([f"{len(header)}x{length}s" for header, length in pairs]) + "2x")
        self.cut_words: Callable[[bytes], tuple[bytes, ...]] = cuts.unpack


_shape: Final = lru_cache(maxsize=_SHAPES_MAX)(Shape)


def shape_of(request: list[bytes]) -> Shape | None:
    """Return the shape of a plain request, or None if it is long."""
    if sum(map(len, request)) + _HEADER_BYTES_MIN * len(request) > SHAPE_BYTES_MAX:
        return None
    return _shape(tuple(map(len, request)))
