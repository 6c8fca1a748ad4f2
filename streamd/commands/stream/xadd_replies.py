"""Replies of many XADDs: entry IDs as bulk strings."""

from collections.abc import Sequence
from typing import Final

from streamd.stream.entry_id import NUMBERS, SEQ_MAX, consecutive_parts
from streamd.stream.id_parts import parts_of, runs_of


def consecutive_replies(entry_id: int, count: int) -> bytes:
    """Return the replies of `count` IDs that follow each other in one millisecond, as bulk strings."""
    replies = b""
    for head, tails in consecutive_parts(entry_id, count):
        start = b"$%d\r\n%b" % (len(head) + len(tails[0]), head)
        replies += start + (b"\r\n" + start).join(tails) + b"\r\n"
    return replies


def reply_of(entry_id: int) -> bytes:
    text = f"{entry_id >> 64}-{entry_id & SEQ_MAX}"
    return f"${len(text)}\r\n{text}\r\n".encode()


def replies_of(ids: Sequence[int]) -> bytes:
    """Return the replies of any IDs, as bulk strings."""
    first, count = ids[0], len(ids)
    if first == ids[-1] and ids.count(first) == count:
        return reply_of(first) * count  # one request that is sent again and again
    # What is sent again is mostly a batch that was one before.
    if ids[-1] == first + count - 1 and ids[-1] >> 64 == first >> 64 and [*ids] == [*range(first, first + count)]:
        return consecutive_replies(first, count)
    if count >= _SCATTERED_MIN and 2 * len(runs_of(ids[:_LOOKED_AT])) > _LOOKED_AT:
        return _scattered_replies(ids)
    runs = runs_of(ids)
    if 2 * len(runs) > count or max([run_id & SEQ_MAX for run_id, _ in runs]) > SEQ_MAX - count:
        return b"".join(map(reply_of, ids))
    # Several clients sent what they had sent before: each of their pipelines counts up.
    return b"".join([consecutive_replies(run_id, length) for run_id, length in runs])


# By a look at so many, the replies of many IDs are put together of their parts; fewer are not worth it.
_LOOKED_AT: Final = 16
_SCATTERED_MIN: Final = 48
# An ID's milliseconds up to the year 2286, and the dash. What is between two replies, by the seq of the second.
_HEAD_BYTES: Final = 14
_MARKS: Final = [b"\r\n$%d\r\n" % (_HEAD_BYTES + len(number)) for number in NUMBERS]


def _scattered_replies(ids: Sequence[int]) -> bytes:
    """Return the replies of IDs in no order, whose milliseconds are formatted once and whose seqs are in a table."""
    milliseconds, seqs = parts_of(ids)
    heads = {ms: b"%d-" % ms for ms in {*milliseconds}}
    if max(seqs) >= len(NUMBERS) or {*map(len, heads.values())} != {_HEAD_BYTES}:
        return b"".join(map(reply_of, ids))
    pieces = [b""] * (3 * len(ids))
    pieces[::3] = map(_MARKS.__getitem__, seqs)
    pieces[1::3] = map(heads.__getitem__, milliseconds)
    pieces[2::3] = map(NUMBERS.__getitem__, seqs)
    return b"".join(pieces)[2:] + b"\r\n"
