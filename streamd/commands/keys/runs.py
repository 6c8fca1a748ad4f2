"""Runs of requests for strings and sorted sets that are executed as one.

Each function is a `take` of a Batch, for any keys. Besides its words, only a request's own key can end a run: by
another type, an expiry, a client that waits for it, or keyspace events of its class. Each function leaves one piece of
output for each request. Property tests compare them with the handlers.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from streamd.base.limits import LARGE_REPLY_BYTES
from streamd.catalog import Context
from streamd.data.sorted_set import SortedSet
from streamd.resp.encoder import BULK_HEADERS, SHORT_BYTES_MAX, bulk
from streamd.resp.floats import format_float
from streamd.resp.template import Requests

EX: Final = frozenset({b"EX", b"ex"})
_ZERO: Final = ord("0")
_EVENTS_OF_SET: Final = frozenset({"$", "g", "n", "o", "c"})
_SCORE_DIGITS_MAX: Final = 15
# So many GETs are one run at most: their replies are one output.
_GETS_MAX: Final = 256
# A longer reply is left to the handler, as the turn's output may end with it.
_TEXT_BYTES_MAX: Final = LARGE_REPLY_BYTES // 2


def is_plain_expiry(seconds: bytes) -> bool:
    """Return whether a word is a time to live, in seconds, that needs no further check."""
    return seconds.isdigit() and len(seconds) <= 10 and seconds[0] != _ZERO


def set_run(context: Context, requests: Requests) -> int:
    """Execute a run of SETs that have only a key and a value, or all the same EX behind them."""
    first, db, state = requests.first, context.db, context.state
    words = len(first)
    if words not in (3, 5) or not _EVENTS_OF_SET.isdisjoint(state.notify_flags):
        return 0
    if words == 5 and not (first[3] in EX and is_plain_expiry(first[4])):
        return 0
    columns = _columns(requests.rows())
    keys, texts = columns[1], columns[2]
    count = len(keys)
    before = [*map(db.values.get, keys)]
    if {*map(type, before)} - _STRING_OR_NONE:
        count = next(place for place, value in enumerate(before) if type(value) not in _STRING_OR_NONE)
    if db.waiting and not db.waiting.keys().isdisjoint(keys):
        count = min(count, next(place for place, key in enumerate(keys) if key in db.waiting))
    if not count:
        return 0
    if count < len(keys):
        keys, texts = keys[:count], texts[:count]

    db.put_strings(keys, texts)
    records = state.records
    if words == 5:
        due_ms = state.time.ms + int(first[4]) * 1000
        db.set_expiry_of_all(keys, due_ms)
        if records is not None:
            due = b"%d" % due_ms
            records += [(db.index, [b"SET", key, text, b"PXAT", due]) for key, text in zip(keys, texts, strict=True)]
    else:
        if db.expires_ms:
            for key in filter(db.expires_ms.__contains__, keys):
                db.clear_expiry(key)
        if records is not None:
            records += [(db.index, [b"SET", key, text]) for key, text in zip(keys, texts, strict=True)]
    state.dirty += count
    if followed := db.followers.keys:
        for key in filter(followed.__contains__, keys):
            db.touch(key)
    context.out += [b"+OK\r\n"] * count
    return count


_STRING_OR_NONE: Final = frozenset({bytes, type(None)})


def _columns(requests: list[list[bytes]]) -> Sequence[tuple[bytes, ...]]:
    """Return the words of a run by their places: of the first request and of the requests behind it with the same name,
    number of words and, from the fourth on, words.
    """
    first, count = requests[0], len(requests)
    words = len(first)
    if [*map(len, requests)].count(words) == count:
        columns = [*zip(*requests)]  # noqa: B905 (checked, at a fifth of the cost)
        if all(columns[place].count(first[place]) == count for place in (0, *range(3, words))):
            return columns
    name, tail, end = first[0], first[3:], 1
    for request in islice(requests, end, None):
        if len(request) != words or request[0] != name or request[3:] != tail:
            break
        end += 1
    return [*zip(*requests[:end], strict=True)]


def get_run(context: Context, requests: Requests) -> int:
    """Answer a run of GETs: strings, or nil for a missing key."""
    db, state, name = context.db, context.state, requests.first[0]
    values, expires_ms, touched, now_ms, now_s = db.values, db.expires_ms, db.touched, state.time.ms, db.time.s
    nothing = b"$-1\r\n" if context.protocol == 2 else b"_\r\n"
    replies: list[bytes] = []
    misses = 0
    for request in requests.rows()[:_GETS_MAX]:
        if len(request) != 2 or request[0] != name:
            break
        key = request[1]
        value = values.get(key)
        if type(value) is bytes:
            length = len(value)
            if length > _TEXT_BYTES_MAX or (key in expires_ms and expires_ms[key] <= now_ms):
                break
            touched[key] = now_s
            replies.append(BULK_HEADERS[length] + value + b"\r\n" if length <= SHORT_BYTES_MAX else bulk(value))
        elif value is None and db.on_miss is None:
            misses += 1
            replies.append(nothing)
        else:
            break
    db.hits += len(replies) - misses
    db.misses += misses
    context.out += replies
    return len(replies)


def zadd_run(context: Context, requests: Requests) -> int:
    """Execute a run of ZADDs, each with one member, and with a whole number as its score."""
    db, state = context.db, context.state
    if "z" in state.notify_flags:
        return 0
    name, records, followed = requests.first[0], state.records, db.followers.keys
    key, value = b"", None
    replies: list[bytes] = []
    changes = 0
    for request in requests.rows():
        if len(request) != 4 or request[0] != name:
            break
        score_word = request[2]
        if not score_word.isdigit() or len(score_word) > _SCORE_DIGITS_MAX:
            break
        if value is None or request[1] != key:
            key = request[1]
            value = _sorted_set(context, key)
            if value is None:
                break
        member, score = request[3], float(score_word)
        before = value.scores.get(member)
        replies.append(b":1\r\n" if before is None else b":0\r\n")
        if before == score:
            continue
        value.put(member if member != db.newest else db.newest, score)
        changes += 1
        if records is not None:
            records.append((db.index, [b"ZADD", key, format_float(score), member]))
        if key in followed:
            db.touch(key)
    state.dirty += changes
    context.out += replies
    return len(replies)


def _sorted_set(context: Context, key: bytes) -> SortedSet | None:
    """Return the sorted set at a key and note the access; None to leave the request to the handler."""
    db = context.db
    value = db.values.get(key)
    if type(value) is not SortedSet or (key in db.expires_ms and db.expires_ms[key] <= db.time.ms):
        return None
    db.touched[key] = db.time.s
    return value


def zscore_run(context: Context, requests: Requests) -> int:
    """Answer a run of ZSCOREs: the scores of members of sorted sets, or nil."""
    is_old, name = context.protocol == 2, requests.first[0]
    key, value = b"", None
    replies: list[bytes] = []
    for request in requests.rows():
        if len(request) != 3 or request[0] != name:
            break
        if value is None or request[1] != key:
            key = request[1]
            value = _sorted_set(context, key)
            if value is None:
                break
        score = value.scores.get(request[2])
        if score is None:
            replies.append(b"$-1\r\n" if is_old else b"_\r\n")
        else:
            replies.append(bulk(format_float(score)) if is_old else b",%b\r\n" % format_float(score))
    context.db.hits += len(replies)
    context.out += replies
    return len(replies)
