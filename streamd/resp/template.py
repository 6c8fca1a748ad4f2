"""The template of a pipeline: the words that all its requests share, and what cuts the others out of a chunk."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct
from typing import Final

# So many bytes of a chunk are cut at once.
_BLOCK_BYTES_MAX: Final = 8 * 1024
# Both caches together take some megabytes at most, and much less unless clients mean to fill them.
_TEMPLATES_MAX = 512
_BLOCKS_MAX = 256


class Template:
    """Plain requests whose words have the same lengths, and of which few are a request's own.

    `size_bytes`: of such a request. `words`: one of them; `_own`: the places of the words that differ, `_lengths`
    those words' lengths, `_pieces` the bytes in front of each of them and behind the last one.

    The requests that it makes share the other words, also with those of other clients: they take no memory, their
    hashes are known, and to compare two of them is to see that they are one.
    """

    __slots__ = ("_lengths", "_own", "_pieces", "size_bytes", "words")

    def __init__(self, words: tuple[bytes, ...], own: tuple[int, ...]) -> None:
        self.words = [*words]
        self._own = own
        self._lengths = [len(words[place]) for place in own]
        pieces = [b"*%d\r\n" % len(words)]
        for place, word in enumerate(words):
            pieces[-1] += b"$%d\r\n" % len(word)
            if place in own:
                pieces.append(b"\r\n")
            else:
                pieces[-1] += word + b"\r\n"
        self._pieces = pieces
        self.size_bytes = sum(map(len, pieces)) + sum(self._lengths)

    def cut(self, data: bytes) -> list[list[bytes]] | None:
        """Return the requests of a chunk; None if it is not some requests of this template and nothing else."""
        size = self.size_bytes
        count, rest = divmod(len(data), size)
        if rest:
            return None
        own = self._own
        if not own:
            return [*map(list, repeat(self.words, count))] if data == self._pieces[0] * count else None
        step = max(_BLOCK_BYTES_MAX // size, 1)
        found: Sequence[bytes] = ()
        for at in range(0, count, step):
            cut_all, others = self._block(min(step, count - at))
            parts = cut_all(data[at * size : (at + step) * size] if count > step else data)
            if parts[::2] != others:
                return None
            found = parts[1::2] if count <= step else (*found, *parts[1::2])
        requests = [*map(list, repeat(self.words, count))]
        width = len(own)
        for number, place in enumerate(own):
            for request, word in zip(requests, found[number::width]):  # noqa: B905 (equally long, and hot)
                request[place] = word
        return requests

    @lru_cache(maxsize=_BLOCKS_MAX)  # noqa: B019 (templates are few, and stay for a while)
    def _block(self, count: int) -> tuple[Callable[[bytes], tuple[bytes, ...]], tuple[bytes, ...]]:
        """Return what cuts `count` requests into pieces and own words in turn, and what the pieces must be."""
        pieces = self._pieces
        between = [*pieces[1:-1], pieces[-1] + pieces[0]]
        others = (pieces[0], *(between * count)[:-1], pieces[-1])
        lengths = self._lengths * count
        form = "".join([f"{len(piece)}s{length}s" for piece, length in zip(others[:-1], lengths, strict=True)])
        return Struct(f"{form}{len(pieces[-1])}s").unpack, others


_template: Final = lru_cache(maxsize=_TEMPLATES_MAX)(Template)


def template_of(requests: Sequence[Sequence[bytes]], shared: Sequence[int]) -> tuple[Template | None, list[int]]:
    """Return the template of requests whose words are equally long, and the places of the words that they share.

    shared: where they may share words. None: too few are shared for cutting them by a template to be quicker.
    """
    first = requests[0]
    count = len(requests)
    shared = [place for place in shared if [request[place] for request in requests].count(first[place]) == count]
    own = tuple([place for place in range(len(first)) if place not in shared])
    if 2 * len(own) >= len(first):
        return None, []
    # What differs is not kept: templates that share the same words are one.
    words = tuple([bytes(len(word)) if place in own else word for place, word in enumerate(first)])
    return _template(words, own), shared
