"""Decodes requests, strictly and without I/O: the reference for accepted and refused input."""

import re
from io import BytesIO
from typing import Final

from streamd.base.errors import ProtocolError
from streamd.base.limits import AUTHENTICATED, RequestLimits
from streamd.resp.inline import split_inline

STAR: Final = ord("*")
DOLLAR: Final = ord("$")
INT64_MAX: Final = 2**63 - 1
COUNT_MAX: Final = 2**31 - 1  # beyond it Redis says "invalid" to every client

# A longer word is collected as it arrives instead of waiting in the input buffer.
COLLECT_BYTES_MIN: Final = 32 * 1024
# A client that stops in the middle of a request leaves no more of what was decoded in front of it.
DECODED_BYTES_MAX: Final = 4 * 1024

_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")


# Canonical headers are looked up, which is quicker than to parse them, and as strict.
SHORT_BYTES_MAX: Final = 1023
HEADER_BYTES_MAX: Final = len(b"$1073741824\r")
_length_of: Final = {b"$%d\r" % length: length for length in range(SHORT_BYTES_MAX + 1)}.get
_count_of: Final = {b"*%d" % count: count for count in range(1, SHORT_BYTES_MAX + 1)}.get


def parse_length(text: bytes) -> int | None:
    """A length as Redis reads one: decimal, no sign but a minus, no leading zero, 64 bits; None for anything else."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -INT64_MAX - 1 <= number <= INT64_MAX else None


class Decoder:
    """Turns received bytes into requests: `feed(data)`, then `next()` or `take()`.

    Accepts the input that redis-server accepts, its two lenient habits included: the two bytes behind a word, and the
    byte behind the CR of a header, are skipped unchecked. Two differences: a NUL byte is a byte like any other (Redis
    would wait for a line end for ever), and a request longer than `request_bytes_max` gets an error before its end
    (Redis closes without a word).

    `limits` may be replaced between two calls of `next()` (a client said its password); `take()` decodes everything
    under one set of limits. `error` is set when malformed input was met, after the requests in front of it were
    delivered; nothing is decoded after that.

    Cost: every byte is looked at once, however the input is cut. A long word is copied twice: into its
    collecting buffer and, where that is not shared, out of it. A decoder with nothing in it holds no buffer.

    Shape: `_data[_at:]` is not decoded yet; of the request being read, `_words` are complete, `_missing` words are not,
    and `_length` is the current word's length from its header (-1: not read). `_bulk` collects a long word.
    `_data` is empty if and only if all of it was decoded.
    """

    __slots__ = (
        "_at",
        "_bulk",
        "_data",
        "_length",
        "_limits",
        "_missing",
        "_searched",
        "_size",
        "_words",
        "error",
    )

    def __init__(self, limits: RequestLimits = AUTHENTICATED, initial: bytes = b"") -> None:
        self.limits = limits
        self.error: ProtocolError | None = None
        self._data: bytes | bytearray = initial
        self._at = 0
        self._searched = 0  # bytes behind _at in which no line end was found
        self._words: list[bytes] = []
        self._missing = 0
        self._length = -1
        self._size = 0  # bytes of the words of this request, as far as their headers were read
        self._bulk: BytesIO | None = None

    @property
    def limits(self) -> RequestLimits:
        return self._limits

    @limits.setter
    def limits(self, limits: RequestLimits) -> None:
        self._limits = limits

    def feed(self, data: bytes) -> None:
        """Add received bytes; nothing is decoded yet."""
        if not self._data:
            self._data = data
        elif len(self._data) - self._at <= len(data):
            # To copy the shorter part to the longer one is linear in what was received,
            self._data = bytes(memoryview(self._data)[self._at :]) + data
            self._at = 0
        else:
            # and so is to append to a buffer that grows in steps.
            if not isinstance(self._data, bytearray):
                self._data = bytearray(memoryview(self._data)[self._at :])
                self._at = 0
            elif self._at:
                del self._data[: self._at]
                self._at = 0
            self._data += data

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for requests that were not delivered yet."""
        words = self._size - max(self._length, 0) if self._missing else 0
        return len(self._data) - self._at + words + (self._bulk.tell() if self._bulk is not None else 0)

    def rest(self) -> bytes:
        """Return the input that was not delivered, from the first byte of an incomplete request on, and forget it.

        The part of a request that was decoded already is given in canonical form.
        """
        parts: list[bytes] = []
        if self._missing:
            parts.append(b"*%d\r\n" % (len(self._words) + self._missing))
            parts.extend(b"$%d\r\n%b\r\n" % (len(word), word) for word in self._words)
            if self._length >= 0:
                parts.append(b"$%d\r\n" % self._length)
            if self._bulk is not None:
                parts.append(self._bulk.getvalue())
        parts.append(bytes(memoryview(self._data)[self._at :]))
        self.__init__(self.limits)  # type: ignore[misc]
        return b"".join(parts)

    def take(self) -> list[list[bytes]]:
        """Return all complete requests, in order; the list may be empty."""
        requests: list[list[bytes]] = []
        while self._data:
            request = self.next()
            if request is None:
                break
            requests.append(request)
        return requests

    def next(self) -> list[bytes] | None:
        """Return one complete request, or None (also if `error` is set)."""
        if self.error is not None:
            return None
        try:
            request = self._request()
        except ProtocolError as error:
            self.error = error.as_reply()
            return None
        if self._at == len(self._data):
            self._data = b""
            self._at = 0
        elif request is None and self._at > DECODED_BYTES_MAX:
            self._data = self._data[self._at :]
            self._at = 0
        return request

    def _request(self) -> list[bytes] | None:
        """The next request, None if it is not complete. Raises: ProtocolError."""
        while True:
            if self._missing:
                return self._multibulk()
            if self._at == len(self._data):
                return None
            if self._data[self._at] == STAR:
                if self._begin_canonical():
                    continue
                end = self._header_end("too big mbulk count string")
                if end < 0:
                    return None
                count = parse_length(bytes(self._data[self._at + 1 : end]))
                if count is None or count > COUNT_MAX:
                    raise ProtocolError("invalid multibulk length")
                if count > self._limits.arguments_max:
                    refused = "invalid" if self._limits.authenticated else "unauthenticated"
                    raise ProtocolError(f"{refused} multibulk length")
                self._at = end + 2
                if count > 0:  # else a null or empty request: skipped
                    self._missing = count
                    self._size = 0
            else:
                end = self._line_end(b"\n", "too big inline request")
                if end < 0:
                    return None
                request = split_inline(bytes(self._data[self._at : end]).removesuffix(b"\r"))
                self._at = end + 1
                if request:
                    return request

    def _multibulk(self) -> list[bytes] | None:
        """The words of the request whose count was read, None if they are not complete. Raises: ProtocolError."""
        is_begun = self._length >= 0
        if not is_begun:
            self._take_complete_words()
        while self._missing:
            if self._length < 0:
                end = self._header_end("too big bulk count string")
                if end < 0:
                    return None
                self._length = self._bulk_length(end)
                self._size += self._length
                self._at = end + 2
            if self._bulk is not None or self._length >= COLLECT_BYTES_MIN:
                word = self._collect()
                if word is None:
                    return None
            else:
                end = self._at + self._length
                if end + 2 > len(self._data):
                    return None
                word = bytes(self._data[self._at : end])
                self._at = end + 2
            self._words.append(word)
            self._missing -= 1
            self._length = -1
            if is_begun:
                is_begun = False
                self._take_complete_words()  # behind a word that was cut in two
        words = self._words
        self._words = []
        return words

    def _begin_canonical(self) -> bool:
        """Read the count of words at `_at` if it is short, canonical, allowed and complete."""
        data = self._data
        if type(data) is not bytes:
            return False
        end = data.find(b"\r", self._at, self._at + HEADER_BYTES_MAX)
        count = _count_of(data[self._at : end]) if end > 0 else None
        if count is None or count > self._limits.arguments_max or end + 2 > len(data):
            return False
        self._at = end + 2
        self._searched = 0
        self._missing = count
        self._size = 0
        return True

    def _take_complete_words(self) -> None:
        """Take the next words as long as they are canonical, allowed and complete: cheaper than one by one."""
        data = self._data
        limits = self._limits
        if (
            type(data) is not bytes
            or limits.bulk_bytes_max < SHORT_BYTES_MAX
            or self._size + len(data) > limits.request_bytes_max
        ):
            return
        find = data.find
        size = len(data)
        words = self._words
        known, start = len(words), self._at
        at = start
        for _ in range(self._missing):
            word = find(b"\r", at, at + HEADER_BYTES_MAX) + 2
            if word < 2:  # no CR
                break
            length = _length_of(data[at : word - 1])
            if length is None:
                digits = data[at + 1 : max(at + 1, word - 2)]  # compiled, an end before the start is an error
                if data[at] != DOLLAR or digits[:1] == b"0" or not digits.isdigit():
                    break
                length = int(digits)
                if length > limits.bulk_bytes_max:
                    break
            end = word + length
            if end + 2 > size:
                break
            words.append(data[word:end])
            at = end + 2
        if at != start:
            self._at = at
            self._searched = 0
            self._size += sum(map(len, words[known:]))
            self._missing -= len(words) - known

    def _bulk_length(self, end: int) -> int:
        """The length in the header that ends at `end`, within the limits. Raises: ProtocolError."""
        first = self._data[self._at]
        if first != DOLLAR:
            got = " " if first in b"\r\n" else bytes((first,)).decode("utf-8", "surrogateescape")
            raise ProtocolError(f"expected '$', got '{got}'")
        length = parse_length(bytes(self._data[self._at + 1 : end]))
        limits = self._limits
        if length is None or length < 0:
            raise ProtocolError("invalid bulk length")
        if length > limits.bulk_bytes_max:
            unauthenticated = not limits.authenticated and length <= AUTHENTICATED.bulk_bytes_max
            raise ProtocolError("unauthenticated bulk length" if unauthenticated else "invalid bulk length")
        if self._size + length > limits.request_bytes_max:
            raise ProtocolError("too big request")
        return length

    def _collect(self) -> bytes | None:
        """The long word that begins or goes on at `_at`; None if it is not complete."""
        if self._bulk is None:
            if self._at + self._length + 2 <= len(self._data):
                word = bytes(memoryview(self._data)[self._at : self._at + self._length])
                self._at += self._length + 2
                return word
            self._bulk = BytesIO()
        bulk = self._bulk
        missing = self._length - bulk.tell()
        if missing:
            with memoryview(self._data) as data:
                self._at += bulk.write(data[self._at : self._at + missing])
        if bulk.tell() < self._length or self._at + 2 > len(self._data):
            return None
        self._at += 2
        self._bulk = None
        return bulk.getvalue()

    def _header_end(self, too_long: str) -> int:
        """Where the CR of the header at `_at` is, once it and the byte behind it are there; else -1."""
        end = self._line_end(b"\r", too_long)
        return end if end + 1 < len(self._data) else -1

    def _line_end(self, terminator: bytes, too_long: str) -> int:
        """Where the terminator is, -1 if it did not arrive yet. Raises: ProtocolError if it is too far."""
        stop = self._at + self._limits.inline_bytes_max + 1
        end = self._data.find(terminator, self._at + self._searched, stop)
        if end < 0:
            if len(self._data) >= stop:
                raise ProtocolError(too_long)
            self._searched = len(self._data) - self._at
        else:
            self._searched = 0
        return end
