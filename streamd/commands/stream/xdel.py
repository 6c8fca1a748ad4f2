"""XDEL: delete entries by their IDs."""

from itertools import compress
from typing import Final

from streamd.catalog import Batch, Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.options import parse_ids, parse_run
from streamd.resp.template import Requests
from streamd.resp.types import Reply
from streamd.stream.entry_id import format_id, format_ids
from streamd.stream.stream import Stream


def xdel_batch(context: Context, requests: Requests) -> int:
    """Delete an entry for each of a run of requests that name one each; see Batch.

    The stream is looked up once, and IDs are parsed together. A property test holds this against the handler.
    """
    first, db = requests.first, context.db
    key = first[1]
    stream = db.values.get(key)
    if len(first) != 3 or type(stream) is not Stream or key in db.expires_ms:
        return 0
    ids = parse_run(requests.rows())
    if not ids:
        return 0

    if stream.log.may_wait:
        stream.log.require_ids(ids)
        with stream.log.at_once():
            results = stream.delete_each(ids)
    else:
        results = stream.delete_each(ids)
    db.touched[key] = context.state.time.s

    if context.state.records is None and key not in db.followed:
        context.state.dirty += sum(results)
    else:
        for entry_id in compress(ids, results):
            context.record(b"XDEL", key, format_id(entry_id))
            context.changed(key, "t", "xdel")
    context.client.out += [_REPLIES[result] for result in results]
    return len(results)


_REPLIES: Final = (b":0\r\n", b":1\r\n")


@command(
    "XDEL",
    arity=-3,
    flags="write fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(log(S)) for each entry, with S being the number of the stream's segments.",
    syntax="key id [id ...]",
    access="RW delete",
    batch=Batch(xdel_batch),
)
def xdel(context: Context, args: list[bytes]) -> Reply:
    """Delete entries from a stream and return how many were there.

    Reply: integer; 0 when the key does not exist.
    Raises: InvalidStreamId; WrongType.
    """
    key = args[1]
    stream = context.stream(key)
    if stream is None:
        return 0
    ids = parse_ids(args[2:])

    deleted = stream.delete_many(ids)

    if deleted:
        if context.state.records is None:
            context.state.dirty += len(deleted)  # without a journal nobody needs their texts
        else:
            context.record_words([b"XDEL", key, *format_ids(deleted)], len(deleted))
        context.changed(key, "t", "xdel")
    return len(deleted)


@applies("XDEL")
def apply_deletion(applying: Applying, words: list[bytes]) -> None:
    """Delete these entries; redis-server names also some that were not there."""
    stream, ids = applying.stream(words[1]), parse_ids(words[2:])
    if stream.log.may_wait and applying.names_entries:
        stream.delete_recorded(ids)
    else:
        stream.delete_many(ids)
