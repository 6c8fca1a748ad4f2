"""The streams of a server, a page at a time, each with its size and growth."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from streamd.clients.ui.source import Request, Source, is_forbidden_key, needed, pairs

# A page: so many streams, about, for SCAN gives what it finds. Where streams are rare among the keys, each SCAN looks
# at more of them, and after so many the page says how to go on.
STREAMS_PER_PAGE = 50
SCAN_KEYS_MAX = 1_000
SCANS_MAX = 20

# Streams whose rate is remembered; two looks that are closer than this say nothing about a rate.
RATES_MAX = 10_000
RATE_S_MIN = 1.0
RATE_S_MAX = 600.0


@dataclass(frozen=True)
class Stream:
    """A stream on a page. rate: entries per second, None while unknown."""

    key: bytes
    length: int
    memory_bytes: int | None
    groups: int
    last_id: bytes
    rate: float | None
    is_average: bool
    facts: dict[bytes, Any]

    @property
    def last_ms(self) -> int:
        """The milliseconds of the last generated ID."""
        return milliseconds(self.last_id)

    @property
    def has_producers(self) -> bool:
        """Whether a producer wrote here idempotently."""
        return self.fact("iids-added") > 0 or self.fact("pids-tracked") > 0

    def fact(self, name: str) -> int:
        """Return a number of XINFO STREAM; 0 if the server does not have it."""
        return int(self.facts.get(name.encode(), 0))


@dataclass(frozen=True)
class Page:
    """Some of the streams, at the server's time now_ms. cursor: of the next page, "0" at the end."""

    streams: list[Stream]
    cursor: str
    now_ms: int


class Rates:
    """The growth of streams between two samples."""

    def __init__(self) -> None:
        self._seen: OrderedDict[bytes, tuple[float, int, float | None]] = OrderedDict()

    def rate(self, key: bytes, added: int, now_s: float) -> float | None:
        """Return entries per second since an earlier sample; None at the first one."""
        seen_s, seen_added, rate = self._seen.pop(key, (now_s, added, None))
        passed_s = now_s - seen_s
        if passed_s > RATE_S_MAX or added < seen_added:
            seen_s, seen_added, rate = now_s, added, None
        elif passed_s >= RATE_S_MIN:
            seen_s, seen_added, rate = now_s, added, (added - seen_added) / passed_s
        self._seen[key] = seen_s, seen_added, rate
        if len(self._seen) > RATES_MAX:
            self._seen.popitem(last=False)
        return rate


def find(source: Source, rates: Rates, match: bytes = b"", cursor: str = "0") -> Page:
    """Return a page of the streams whose keys match a glob pattern, or contain a word. Raises: SourceError."""
    keys: list[bytes] = []
    pattern = match if any(sign in match for sign in (b"*", b"?", b"[")) else b"*" + _literal(match) + b"*"
    words: list[str | bytes] = ["MATCH", pattern] if match else []
    if match and cursor == "0" and source.ask_all([("TYPE", match)]) == [b"stream"]:
        keys.append(match)
    scanned = STREAMS_PER_PAGE
    for _ in range(SCANS_MAX):
        reply = source.ask("SCAN", cursor, *words, "COUNT", scanned, "TYPE", "stream")
        cursor = reply[0].decode()
        keys += reply[1]
        scanned = scanned if reply[1] else min(4 * scanned, SCAN_KEYS_MAX)
        if cursor == "0" or len(keys) >= STREAMS_PER_PAGE:
            break
    found, now_ms = look_at(source, rates, sorted(set(keys)))
    return Page(found, cursor, now_ms)


def _literal(match: bytes) -> bytes:
    return match.replace(b"\\", b"\\\\").replace(b"]", b"\\]")


def look_at(source: Source, rates: Rates, keys: list[bytes]) -> tuple[list[Stream], int]:
    """Return a description of each stream, all of one moment, and the server's time at it.

    Streams that are gone meanwhile, and those that the page's user may not read, are left out. Raises: SourceError.
    """
    requests: list[Request] = [("TIME",)]
    for key in keys:
        requests += [("XINFO STREAM", key), ("MEMORY USAGE", key)]
    (time_of_server, *replies), now_s = source.ask_all(requests), time.monotonic()
    found = []
    for key, facts, memory in zip(keys, replies[::2], replies[1::2], strict=True):
        if is_gone(facts) or is_forbidden_key(facts):
            continue
        found.append(described(key, needed(facts), memory, rates, now_s))
    return found, ms_of(needed(time_of_server))


def is_gone(reply: Any) -> bool:
    """Return whether a reply says that a key is not there, or is no stream."""
    text = str(reply) if isinstance(reply, Exception) else ""
    return "no such key" in text or "wrong kind" in text or text.startswith("WRONGTYPE")


def one(source: Source, rates: Rates, key: bytes) -> Stream:
    """Return a description of a stream. Raises: SourceError, also without such a stream."""
    return one_with(source, rates, key, [])[0]


def one_with(source: Source, rates: Rates, key: bytes, requests: list[Request]) -> tuple[Stream, list[Any]]:
    """Return a description of a stream, and the replies to further requests of the same moment.

    Raises: SourceError, also without such a stream.
    """
    facts, memory, *replies = source.ask_all([("XINFO STREAM", key), ("MEMORY USAGE", key), *requests])
    return described(key, needed(facts), memory, rates, time.monotonic()), replies


def described(key: bytes, reply: Any, memory: Any, rates: Rates, now_s: float) -> Stream:
    """Return the stream that the replies to XINFO STREAM and to MEMORY USAGE describe; the latter may be an error."""
    facts = pairs(reply)
    length = int(facts[b"length"])
    rate = rates.rate(key, int(facts.get(b"entries-added", length)), now_s)
    average = None if rate is not None else _average(facts, length)
    # The first and last entry may be large, and nobody looks at them here.
    facts = {name: value for name, value in facts.items() if name not in (b"first-entry", b"last-entry")}
    return Stream(
        key=key,
        length=length,
        memory_bytes=memory if isinstance(memory, int) else None,
        groups=int(facts[b"groups"]),
        last_id=facts[b"last-generated-id"],
        rate=rate if rate is not None else average,
        is_average=rate is None,
        facts=facts,
    )


def _average(facts: dict[bytes, Any], length: int) -> float | None:
    """Return the rate of the present entries, by the times in their IDs; None if unknown."""
    first, last = facts.get(b"first-entry"), facts.get(b"last-entry")
    if length < 2 or not first or not last:
        return None
    passed_ms = milliseconds(last[0]) - milliseconds(first[0])
    return (length - 1) * 1000 / passed_ms if passed_ms > 0 else None


def milliseconds(entry_id: bytes) -> int:
    """Return the milliseconds of an entry ID."""
    return int(entry_id.partition(b"-")[0])


def now_ms(source: Source) -> int:
    """Return the server's time."""
    return ms_of(source.ask("TIME"))


def ms_of(reply: Any) -> int:
    """Return the Unix milliseconds in a reply to TIME."""
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000
