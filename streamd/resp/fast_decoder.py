"""Decodes requests with hiredis where that is sound, and by the strict decoder everywhere else."""

import re
import sys
from collections.abc import Callable
from typing import Final

from streamd.base.limits import RequestLimits
from streamd.resp.decoder import STAR, Decoder
from streamd.resp.shape import Shape, shape_of
from streamd.resp.template import RequestColumns, Template, template_of

# The shortest plain request.
HIREDIS_BYTES_MIN = len(b"*1\r\n$0\r\n\r\n")
# Fewer requests are not worth being cut by a template, where each is made anyway.
ROWS_MIN: Final = 6
# To search a chunk of long words for what looks like a header would cost more than to step over them: a large chunk
# begins with so many lines at least.
LARGE_BYTES_MIN: Final = 4 * 1024
LINES_MIN: Final = 8
try:
    import hiredis
except ImportError:  # PyPy, or a platform without a wheel: the strict decoder serves alone
    HIREDIS_BYTES_MIN = sys.maxsize

# hiredis makes a list as long as a header says, whatever follows: headers of so many digits never get there.
COUNT_DIGITS_MAX: Final = 5
# hiredis frees its buffer between two chunks if it is larger.
HIREDIS_BUFFER_BYTES_MAX: Final = 256 * 1024

_NOT_COMPLETE: Final = object()
_END: Final = b"#t\r\n"
_join: Final = b"".join

# The types that hiredis delivers as if they were `*` or `$`: simple and verbatim strings, big numbers, sets, pushes,
# attributes, maps.
_LOOKALIKES: Final = b"+=(~>|%"


def _long_count_of(kind: int) -> Callable[[bytes], re.Match[bytes] | None]:
    return re.compile(rb"%b[0-9]{%d}" % (re.escape(bytes((kind,))), COUNT_DIGITS_MAX + 1)).search


_has_long_count: Final = _long_count_of(STAR)
# (One pattern for each: a literal first byte is found quickly, a set of them byte by byte.)
_HAS_LONG_LOOKALIKE_COUNT: Final = [(kind, _long_count_of(kind)) for kind in b"~>%|"]

# Readers that wait for work, empty. One serves any number of connections: it is empty between two chunks, so that an
# idle connection holds none. (A list's pop and append are atomic: servers in several threads share it.)
_idle_readers: Final[list] = []


def _decode_complete(data: bytes) -> list[list[bytes]] | None:
    """The requests of a chunk, if it is nothing but complete plain `*n $length` requests; else None.

    Sound, because all input that hiredis takes for such requests and the strict decoder does not is excluded:

    * another type than bytes in a request, a request that is no array: does not join;
    * a type that only looks like an array or a bulk string: its first byte is nowhere in the chunk, or everywhere in
      the words, so that no word is left to begin an element;
    * an empty request: its join is false (as is one of empty words: no harm, the strict decoder takes it);
    * an incomplete request at the end: the mark fed behind it comes out at the top level only if nothing is incomplete.

    Lengths it parses as strictly as Redis, and like the strict decoder it does not look at the two bytes behind a word.
    """
    if _has_long_count(data) is not None:
        return None
    # For speed: `61 in data` is one memchr, and seven of them cost a fifth of one regular expression.
    sized = 62 in data or 37 in data or 126 in data or 124 in data
    if sized:
        for kind, has_long_count in _HAS_LONG_LOOKALIKE_COUNT:
            if kind in data and has_long_count(data) is not None:
                return None
    lookalikes = sized or 61 in data or 43 in data or 40 in data
    try:
        reader = _idle_readers.pop()
    except IndexError:
        reader = hiredis.Reader(notEnoughData=_NOT_COMPLETE)
        reader.setmaxbuf(HIREDIS_BUFFER_BYTES_MAX)
    gets = reader.gets
    try:
        reader.feed(data)
        requests = list(iter(gets, _NOT_COMPLETE))
        reader.feed(_END)
        if gets() is not True:
            return None
        _idle_readers.append(reader)
        if lookalikes:
            words = [*map(_join, requests)]
            if not all(words) or _count_lookalikes(data) != _count_lookalikes(_join(words)):
                return None
        elif not all(map(_join, requests)):
            return None
    except (hiredis.HiredisError, TypeError):
        return None
    return requests


def _last_request_start(data: bytes) -> int:
    """Where the last request of a chunk seems to begin (it may be a word that looks like it), or 0."""
    end = len(data)
    for _ in range(4):  # the last word may be the `*` of XADD, or two of them
        end = data.rfind(b"\r\n*", 0, end)
        if end < 0:
            return 0
        if data[end + 3 : end + 4].isdigit():
            return end + 2
    return 0


def _count_lookalikes(data: bytes) -> int:
    return len(data) - len(data.translate(None, _LOOKALIKES))


class FastDecoder(Decoder):
    """A Decoder that is faster for pipelines, and for requests like the ones before; it accepts and refuses the same
    input.

    Three ways, the fastest first: a request of the shape of the one before is cut by that shape; a pipeline is cut by
    the template of the ones before, so that only differing words are made; hiredis takes other plain requests. The
    strict decoder judges everything else.

    `_chunk_bytes`: the size of the last chunk that came in the third way (-1: none did). Of two of the same size the
    second is learned from. `_shape`: of the last request that came alone. `_template`: of the last pipelines.
    `_shared`: the places of the words that their requests have shared so far.
    """

    __slots__ = ("_chunk_bytes", "_plain_bytes_max", "_shape", "_shared", "_template")

    @property
    def limits(self) -> RequestLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: RequestLimits) -> None:
        self._limits = limits
        # What is like the last request may not be allowed any more.
        self._chunk_bytes = -1
        self._shape: Shape | None = None
        self._template: Template | None = None
        self._shared: list[int] = []
        # So long may a chunk be for the ways that look at no single length.
        self._plain_bytes_max = min(limits.bulk_bytes_max, limits.request_bytes_max)

    def receive(self, data: bytes, is_shared: bool = True) -> list[list[bytes]] | RequestColumns:
        """Add received bytes and return all complete requests: `feed` and `take` in one.

        is_shared: requests of other clients may be executed together with them. Then few are worth being taken as
        RequestColumns, too.

        A client sends mostly requests whose words are as long as those of the ones before, alone or in a pipeline: then
        all headers are compared at once. Sound, since a decoder looks neither at a word nor at the two bytes behind it.
        """
        if self._data or self._missing:
            self.feed(data)
            return self.take()
        size, shape, template = len(data), self._shape, self._template
        few: Template | None = None
        if shape is not None and size == shape.size_bytes:
            if int.from_bytes(data, "little") & shape.mask == shape.headers:
                return [list(shape.cut_words(data))]
        elif template is not None and size > template.size_bytes:
            is_whole = is_shared and not template.is_asked_for_rows
            if is_whole or size >= ROWS_MIN * template.size_bytes:
                columns = template.cut(data)
                if columns is not None:
                    self._chunk_bytes = -1
                    return columns.rows() if template.is_asked_for_rows else columns
            else:
                few = template
        self._data = data
        requests = self.take()
        if size != self._chunk_bytes:
            self._chunk_bytes = size
        elif (
            requests
            and not self._data
            # (To learn again and again from few that are not to be cut would take as long as to execute them.)
            and (few is None or size != len(requests) * few.size_bytes or requests[0][0] != few.words[0])
        ):
            self._learn(requests)
        return requests

    def _learn(self, requests: list[list[bytes]]) -> None:
        """Note the shape of a request that came alone, or which words the requests of a pipeline share with each other
        and those before them, if they are of one shape.

        A word that was another one once is never taken for a shared one again: so this happens a few times at most.
        """
        first = requests[0]
        shape = shape_of(first)
        if shape is None:
            return
        if len(requests) == 1:
            self._shape = shape
            return
        lengths = [*map(len, first)]
        if any([*map(len, request)] != lengths for request in requests):
            return
        known, shared = self._template, [*range(len(first))]
        if known is not None and [*map(len, known.words)] == lengths:
            shared = [place for place in self._shared if known.words[place] == first[place]]
        self._template, self._shared = template_of(requests, shared)

    def take(self) -> list[list[bytes]]:
        """Return all complete requests, in order; empty while none is complete."""
        requests: list[list[bytes]] = []
        if self._missing:
            request = self.next()
            if request is None:
                return requests
            requests.append(request)
        if self._data and self.error is None:
            requests += self._take_complete()
        if self._data:
            requests += Decoder.take(self)
        return requests

    def _take_complete(self) -> list[list[bytes]]:
        """Have hiredis decode all undecoded input, or all but the last request, where that is sound."""
        data = self._data[self._at :] if self._at else self._data
        if (
            not HIREDIS_BYTES_MIN <= len(data) <= self._plain_bytes_max
            or type(data) is not bytes
            or data[0] != STAR
            or self._limits.arguments_max < 10**COUNT_DIGITS_MAX
            or (len(data) > LARGE_BYTES_MIN and data.count(b"\r\n", 0, LARGE_BYTES_MIN) < LINES_MIN)
        ):
            return []
        if data.endswith(b"\r\n"):
            decoded = _decode_complete(data)
            if decoded is not None:
                self._data = b""
                self._at = self._searched = 0
                return decoded
        end = _last_request_start(data)
        decoded = _decode_complete(data[:end]) if end else None
        if decoded is None:
            return []
        self._at += end
        self._searched = 0
        return decoded
