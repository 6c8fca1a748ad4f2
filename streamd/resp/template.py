"""Requests as rows or as columns, and the template that cuts these out of a chunk by the words that all share."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from operator import attrgetter
from struct import Struct
from typing import Final, cast

# So many bytes of a chunk are cut at once. (Words of two blocks are put together; between the tuples that this takes,
# the texts of sealed entries would leave holes of the heap.)
_BLOCK_BYTES_MAX: Final = 32 * 1024
# Both caches together take some megabytes at most, and much less unless clients mean to fill them.
_TEMPLATES_MAX = 512
_BLOCKS_MAX = 256

# The words at one place of several requests: one word that all share, or one for each.
Column = bytes | Sequence[bytes]


class Template:
    """Plain requests whose words have the same lengths, and of which few are a request's own.

    `size_bytes`: of such a request. `words`: one of them, which is not to be changed; `places`: of the words that
    differ, in place of which it has zeros, as many; `_lengths`: those words' lengths, `_pieces`: the bytes in front of
    each of them and behind the last one. `is_asked_for_rows`: the caller has asked for separate requests.
    `keys_differ`: the second words do.

    The requests that it cuts share the other words, also with those of other clients: they take no memory, their
    hashes are known, and to compare two of them is to see that they are one.
    """

    __slots__ = ("_lengths", "_pieces", "is_asked_for_rows", "keys_differ", "places", "size_bytes", "words")

    def __init__(self, words: tuple[bytes, ...], own: tuple[int, ...]) -> None:
        self.words: Final = [*words]
        self.places: Final = own
        self.keys_differ: Final = 1 in own
        self.is_asked_for_rows = False
        self._lengths = [len(words[place]) for place in own]
        pieces = self._pieces = [b"*%d\r\n" % len(words)]
        for place, word in enumerate(words):
            pieces[-1] += b"$%d\r\n" % len(word)
            if place in own:
                pieces.append(b"\r\n")
            else:
                pieces[-1] += word + b"\r\n"
        self.size_bytes = sum(map(len, pieces)) + sum(self._lengths)

    def cut(self, data: bytes) -> "RequestColumns | None":
        """Return the requests of a chunk; None if it is not some requests of this template and nothing else.

        Sound: all bytes but a request's own words are compared, the lengths of all words included. So words begin and
        end where any parser finds them.
        """
        size = self.size_bytes
        count, rest = divmod(len(data), size)
        if rest:
            return None
        if not self.places:
            return RequestColumns(self, count, ()) if data == self._pieces[0] * count else None
        if len(data) <= _BLOCK_BYTES_MAX or count == 1:
            own = self._cut_block(data, count)
            return None if own is None else RequestColumns(self, count, own)
        step = max(_BLOCK_BYTES_MAX // size, 1)
        found: tuple[bytes, ...] = ()
        for at in range(0, count, step):
            own = self._cut_block(data[at * size : (at + step) * size], min(step, count - at))
            if own is None:
                return None
            found += own
        return RequestColumns(self, count, found)

    def _cut_block(self, block: bytes, count: int) -> tuple[bytes, ...] | None:
        """Return the own words of `count` requests; None if they are not of this template."""
        cut_own, pieces = self._block(count)
        own = cut_own(block)
        # To put it together again and compare it once takes less than to cut out and compare each piece.
        woven = pieces[:]
        woven[1::2] = own
        return own if b"".join(woven) == block else None

    @lru_cache(maxsize=_BLOCKS_MAX)  # noqa: B019 (templates are few, and stay for a while)
    def _block(self, count: int) -> tuple[Callable[[bytes], tuple[bytes, ...]], list[bytes]]:
        """Return a function that cuts the own words out of `count` requests, and the bytes around them, as a list with
        room for the words.
        """
        pieces = self._pieces
        between = [*pieces[1:-1], pieces[-1] + pieces[0]]
        others = [pieces[0], *(between * count)[:-1], pieces[-1]]
        lengths = self._lengths * count
        form = "".join([f"{len(piece)}x{length}s" for piece, length in zip(others[:-1], lengths, strict=True)])
        woven = [b""] * (2 * len(others) - 1)
        woven[::2] = others
        return Struct(f"{form}{len(pieces[-1])}x").unpack, woven


class RequestRows:
    """Requests as lists of their words.

    first: the first of them. count: how many there are.
    """

    __slots__ = ("_rows", "count", "first")

    def __init__(self, rows: list[list[bytes]]) -> None:
        self._rows: Final = rows
        self.first: Final = rows[0]
        self.count: Final = len(rows)

    def rows(self) -> list[list[bytes]]:
        """Return the requests."""
        return self._rows


class RequestColumns:
    """Requests of one template, in order of arrival; `rows` makes the lists of their words.

    first: the template's words: those that all requests share, and zeros at the places of differing words. count: the
    number of requests. own: the differing words, the first request's in the order of the template's places, then the
    second's, and so on.
    """

    __slots__ = ("count", "first", "own", "template")

    def __init__(self, template: Template, count: int, own: tuple[bytes, ...]) -> None:
        self.template: Final = template
        self.first: Final = template.words
        self.count: Final = count
        self.own: Final = own

    def rows(self) -> list[list[bytes]]:
        """Return the requests, each a new list."""
        words: list[Iterable[bytes]] = [repeat(word, self.count) for word in self.first]
        width = len(self.template.places)
        for number, place in enumerate(self.template.places):
            words[place] = self.own[number::width]
        return [*map(list, zip(*words))]  # noqa: B905 (equally long, and hot)

    def columns(self) -> list[Column]:
        """Return the words by their places: one that all share, else one for each request."""
        columns: list[Column] = [*self.first]
        width = len(self.template.places)
        for number, place in enumerate(self.template.places):
            columns[place] = self.own[number::width]
        return columns


Requests = RequestRows | RequestColumns
# Requests as a client sent them. (An object around each list would take a tenth of an XADD's time, 50 clients.)
Sent = list[list[bytes]] | RequestColumns
_own_words: Final = attrgetter("own")
_template_of: Final = attrgetter("template")


def rows_of(sent: Sent) -> list[list[bytes]]:
    """Return requests as lists of their words."""
    return sent.rows() if isinstance(sent, RequestColumns) else sent


def joined(parts: Sequence[Sent]) -> Requests:
    """Return the requests of all parts, one part's behind the other's: columns, if all are of one template."""
    kinds = {*map(type, parts)}
    if RequestColumns not in kinds:
        return RequestRows([*chain.from_iterable(parts)])  # type: ignore[arg-type]
    if len(kinds) > 1 or len({*map(_template_of, parts)}) > 1:
        return RequestRows([*chain.from_iterable(map(rows_of, parts))])
    columns = cast("Sequence[RequestColumns]", parts)
    if len(columns) == 1:
        return columns[0]
    own = tuple(chain.from_iterable(map(_own_words, columns)))
    return RequestColumns(columns[0].template, sum([other.count for other in columns]), own)


_kept: Final = lru_cache(maxsize=_TEMPLATES_MAX)(Template)


def template_around(words: Sequence[bytes], own: tuple[int, ...]) -> Template:
    """Return the template of requests that share these words but for those at the places `own`, as long as these.

    Differing words are not kept: templates with the same shared words are one.
    """
    return _kept(tuple([bytes(len(word)) if place in own else word for place, word in enumerate(words)]), own)


def template_of(requests: Sequence[Sequence[bytes]], shared: Sequence[int]) -> tuple[Template, list[int]]:
    """Return the template of requests whose words are equally long, and the places of the words that they share.

    shared: where they may share words.
    """
    first = requests[0]
    count = len(requests)
    shared = [place for place in shared if [request[place] for request in requests].count(first[place]) == count]
    own = tuple([place for place in range(len(first)) if place not in shared])
    return template_around(first, own), shared
