"""Replies of many XADDs: entry IDs as bulk strings."""

from collections.abc import Sequence

from streamd.stream.entry_id import SEQ_MAX, consecutive_parts
from streamd.stream.id_parts import runs_of


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
    # What is sent again is mostly a batch that was one before.
    if ids[-1] == first + count - 1 and ids[-1] >> 64 == first >> 64 and [*ids] == [*range(first, first + count)]:
        return consecutive_replies(first, count)
    runs = runs_of(ids)
    if 2 * len(runs) > count or max([run_id & SEQ_MAX for run_id, _ in runs]) > SEQ_MAX - count:
        return b"".join(map(reply_of, ids))
    # Several clients sent what they had sent before: each of their pipelines counts up.
    return b"".join([consecutive_replies(run_id, length) for run_id, length in runs])
