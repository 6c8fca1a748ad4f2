"""A row: requests to prepare, the measured request, and how its time may grow with N.

Requests are written as in redis-cli, several with ` ; ` between them, and grow by a few signs:

    N, {N}, {H}    the number, in a word; half of it
    m#*N           N words m1 m2 m3 ...; f#,v*N: f1 v f2 v ...
    x^N            one word of N bytes, x again and again
    N x SET k# v   N requests, # being 1 to N; 100 x ...: a hundred
    @ SUBSCRIBE c  on a connection of its own, which stays open; N x @ ...: on N connections
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from bench.client import request as encode
from streamd.catalog import COMMANDS

FACTOR = 8
SIZE = 25_000  # of a key, and of a list of words: it grows to 200,000
BYTES = 128 * 1024  # of an argument: it grows to a megabyte
_REPEATED = re.compile(r"^(\d+|N) x (.*)$")
_SOME = re.compile(r"^(.*)\*(N|\d+)$")
_LONG = re.compile(r"^(.+)\^(N|\d+)$")

# How the time may grow while N grows eightfold, from the documented O.
GROWTH = {"1": 1.0, "log": 1.5, "n": 8.0, "n log": 10.0, "n2": 64.0}


@dataclass(frozen=True, slots=True)
class Row:
    """One request whose N grows.

    order: a key of GROWTH. prepare: executed once. before: executed ahead of each measurement, and not measured.
    fresh: `prepare` is executed ahead of each measurement, for a request that uses up what it finds.
    whole: its command cannot be sliced, and docs/guarantees.md names it. refused: its reply may be an error. command:
    whose row this is, if the request does not begin with its name.
    """

    request: str
    order: str = "n"
    prepare: str = ""
    before: str = ""
    n: int = SIZE
    fresh: bool = False
    whole: bool = False
    refused: bool = False
    command: str = ""

    @property
    def name(self) -> str:
        """The command's name, as COMMAND LIST has it."""
        if self.command:
            return self.command.lower().replace(" ", "|")
        words = _REPEATED.sub(r"\2", self.request).split()
        parent = COMMANDS.get(words[0].lower().encode())
        if parent is not None and len(words) > 1 and words[1].lower().encode() in parent.subcommands:
            return f"{words[0]}|{words[1]}".lower()
        return words[0].lower()

    @property
    def grows(self) -> set[str]:
        """The part that grows with N: "key", or of the request "words", "bytes" or a "number"."""
        found = {"key"} if grown(self.prepare) else set()
        return found | {"words" if one == "requests" else one for one in grown(self.before) | grown(self.request)}


def rows(prepare: str, *some: tuple[str, str] | Row, n: int = SIZE) -> tuple[Row, ...]:
    """Return rows with the same preparation; a pair is a request and its order."""
    made = (one if isinstance(one, Row) else Row(*one) for one in some)
    return tuple(replace(one, prepare=prepare, n=one.n if one.n != SIZE else n) for one in made)


def grown(text: str) -> set[str]:
    """Return the growing signs in a text of requests: "requests", "words", "bytes", "number"."""
    found = set()
    for line in filter(None, text.split(" ; ")):
        many = _REPEATED.match(line)
        if many:
            line = many[2]
            if many[1] == "N":
                found.add("requests")
        for word in shlex.split(line):
            some, long = _SOME.match(word), _LONG.match(word)
            if some and some[2] == "N":
                found.add("words")
            elif long and long[2] == "N":
                found.add("bytes")
            elif word == "N" or "{N}" in word or "{H}" in word:
                found.add("number")
    return found


@lru_cache(maxsize=16)
def requests(text: str, n: int) -> tuple[tuple[bool, bytes], ...]:
    """Return a text of requests in RESP: whether on a connection of its own, and the bytes."""
    made: list[tuple[bool, bytes]] = []
    for line in filter(None, text.split(" ; ")):
        many = _REPEATED.match(line)
        line, times = (many[2], n if many[1] == "N" else int(many[1])) if many else (line, 0)
        apart = line.startswith("@ ")
        words = shlex.split(line.removeprefix("@ "))
        if not times:
            made.append((apart, encode(*_words(words, n))))
        elif apart:
            made += [(True, one) for one in _each(words, times, n)]
        else:
            made.append((False, b"".join(_each(words, times, n))))
    return tuple(made)


def _each(words: list[str], times: int, n: int) -> Iterator[bytes]:
    """Yield a request for each number from 1 to `times`."""
    plain = encode(*_words(words, n))
    if not any("#" in word for word in words):
        yield from [plain] * times
        return
    whole = list(_words(words, n))
    for number in range(1, times + 1):
        written = b"%d" % number
        yield encode(*(word.replace(b"#", written) for word in whole))


def _words(words: list[str], n: int) -> list[bytes]:
    made: list[bytes] = []
    for word in words:
        some, long = _SOME.match(word), _LONG.match(word)
        if some:
            each = some[1].encode().split(b",")
            for number in range(1, (n if some[2] == "N" else int(some[2])) + 1):
                written = b"%d" % number
                made += [one.replace(b"#", written) for one in each]
        elif long:
            size, unit = n if long[2] == "N" else int(long[2]), long[1].encode()
            made.append((unit * (size // len(unit) + 1))[:size])
        elif word == "N":
            made.append(b"%d" % n)
        else:
            made.append(word.replace("{N}", str(n)).replace("{H}", str(n // 2)).encode())
    return made
