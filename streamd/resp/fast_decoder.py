"""Decodes requests with hiredis where that is sound, and by the strict decoder everywhere else."""

import re
import sys
from collections.abc import Callable
from typing import Final

from streamd.base.limits import AUTHENTICATED, RequestLimits
from streamd.resp.decoder import STAR, Decoder, header_of
from streamd.resp.shape import SHAPE_BYTES_MAX, Shape, shape_of
from streamd.resp.template import Requests, Template, template_of

# In a shorter chunk hiredis gains nothing over the strict decoder's own way with plain requests.
HIREDIS_BYTES_MIN = 200
# Of a single request all words are cut out sooner than those that differ; of fewer than `ROWS_MIN`, where each request
# is made anyway.
TEMPLATE_MIN: Final = 2
ROWS_MIN: Final = 6
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

    Sound, because everything that hiredis takes for such requests beyond what the strict decoder takes is excluded:

    * another type than bytes in a request, a request that is no array: does not join;
    * a type that only looks like an array or a bulk string: its first byte is nowhere in the chunk, or everywhere in
      the words, so that there is none left to begin an element;
    * an empty request: its join is false (as is one of empty words: no harm, the strict decoder takes it);
    * an incomplete request at the end: what is fed then comes out at the top if, and only if, nothing waits for more.

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
    """A Decoder that is quick where several requests arrive at once, or some that are like those before; it accepts
    and refuses the same.

    Four ways, the quickest first: requests of the shape of those before are cut out of the bytes (of a pipeline whose
    requests share most words with those before, the others alone); a plain request that comes alone is split at its
    line ends; several are hiredis's; everything else is judged by the strict decoder.

    `_shape`: that of the requests of two chunks as long as each other, if they had one. `_chunk_bytes`: how long the
    last chunk was that was decoded without one, or -1. `_head`, `_first_words`: the bytes of the request that the shape
    is of up to its last word, None if they are not known, and the words in them. `_template`: that of the pipelines of
    this shape, and `_shared` the places of the words that all their requests have shared; None while that is not known.
    """

    __slots__ = ("_chunk_bytes", "_first_words", "_head", "_shape", "_shared", "_template")

    def __init__(self, limits: RequestLimits = AUTHENTICATED, initial: bytes = b"") -> None:
        self._chunk_bytes = -1
        self._shape: Shape | None = None
        self._head: bytes | None = None
        self._first_words: list[bytes] = []
        self._template: Template | None = None
        self._shared: list[int] | None = None
        super().__init__(limits, initial)

    @property
    def limits(self) -> RequestLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: RequestLimits) -> None:
        self._shape = self._template = None  # what is like the last request may not be allowed any more
        self._chunk_bytes = -1
        self._limits = limits
        self._plain_bytes_max = self._plain_bytes_max_of(limits)

    def receive(self, data: bytes, is_shared: bool = True) -> Requests:
        """Add received bytes and return all complete requests: `feed` and `take` in one.

        Those of a template come as Alike, of which each makes new ones. is_shared: other clients' requests may be
        executed together with them, so a template pays even for few.

        A client sends mostly requests whose words are as long as those of the ones before, alone or in a pipeline: then
        all headers are compared at once. Sound, since a decoder looks neither at a word nor at the two bytes behind it.
        """
        if self._data or self._missing:
            self.feed(data)
            return self.take()
        shape = self._shape
        if shape is not None:
            if len(data) == shape.size_bytes:  # (One alone, the most frequent, without the call.)
                head = self._head
                if head is not None and data.startswith(head):
                    # Only the last word is another one: the others are there, and their hashes are known.
                    return [[*self._first_words, data[len(head) : -2]]]
                mask, headers = shape.one
                if int.from_bytes(data, "little") & mask == headers:
                    return [list(shape.cut_words(data))]
            else:
                template = self._template
                if template is not None and (
                    (is_shared and not template.is_asked_for_rows) or len(data) >= ROWS_MIN * shape.size_bytes
                ):
                    alike = template.cut(data)
                    if alike is not None:
                        self._chunk_bytes = -1
                        return alike
                    template = None
                like = shape.cut(data)
                if like is not None:
                    if template is None and len(like) >= TEMPLATE_MIN and self._shared != []:
                        self._learn_template(like)
                    self._chunk_bytes = -1  # another shape has to come twice in a row to take its place
                    return like
        if data[:1] == b"*" and len(data) <= SHAPE_BYTES_MAX and self.error is None:
            words = self._plain_request(data)
            if words is not None:
                return [words]
        self._data = data
        requests = self.take()
        if len(data) != self._chunk_bytes:
            self._chunk_bytes = len(data)
        elif requests and not self._data:
            shape = shape_of(requests[0])
            if shape is not None and len(data) == shape.size_bytes * len(requests) and shape is not self._shape:
                # (Else the one before may come again, as between two numbers that have a digit more.)
                self._head = None
                self._shape = shape
                self._template = self._shared = None
        return requests

    def _learn_template(self, requests: list[list[bytes]]) -> None:
        """Note which words these requests share with each other and those before them, which have the same shape.

        A word that was another one once is never taken for a shared one again: so this happens a few times at most.
        """
        known = self._template
        shared = range(len(requests[0])) if self._shared is None else self._shared
        if known is not None:
            shared = [place for place in shared if known.words[place] == requests[0][place]]
        self._template, self._shared = template_of(requests, shared)

    def _plain_request(self, data: bytes) -> list[bytes] | None:
        """Return the words of a chunk that is one plain request, and note its shape; None for anything else."""
        lines = data.split(b"\r\n")
        words = lines[2::2]
        count = len(words)
        if (
            not count  # nothing is asked, nothing answered: the strict decoder passes over it
            or len(lines) != 2 * count + 2
            or lines[0] != b"*%d" % count
            or lines[-1]
            or count > self._limits.arguments_max
            or len(data) > self._plain_bytes_max
        ):
            return None
        lengths = list(map(len, words))
        if lines[1:-1:2] != list(map(header_of, lengths)):
            return None
        if len(data) == self._chunk_bytes:
            self._shape = shape_of(words)
            self._template = self._shared = None
            self._head = data[: len(data) - len(words[-1]) - 2]
            self._first_words = words[:-1]
        self._chunk_bytes = len(data)
        return words

    def _take_plain(self, requests: list[list[bytes]]) -> None:
        data = self._data[self._at :] if self._at else self._data
        if (
            HIREDIS_BYTES_MIN <= len(data) <= self._plain_bytes_max
            and type(data) is bytes
            and data[0] == STAR
            and self._limits.arguments_max >= 10**COUNT_DIGITS_MAX
        ):
            if data.endswith(b"\r\n"):
                decoded = _decode_complete(data)
                if decoded is not None:
                    requests += decoded
                    self._data = b""
                    self._at = self._searched = 0
                    return
            end = _last_request_start(data)
            if end and end >= HIREDIS_BYTES_MIN:
                decoded = _decode_complete(data[:end])
                if decoded is not None:
                    requests += decoded
                    self._at += end
                    self._searched = 0
                    return
        Decoder._take_plain(self, requests)
