"""XACK: acknowledge entries of a consumer group."""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from streamd.base.errors import InvalidStreamId
from streamd.catalog import Batch, Context, command
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.commands.stream.group_effects import find_group, record_removed
from streamd.commands.stream.id_lists import parse_columns
from streamd.commands.stream.options import parse_ids, parse_run
from streamd.resp.template import Column, Requests
from streamd.resp.types import Reply
from streamd.stream.entry_id import parse_id
from streamd.stream.id_parts import ids_of_columns
from streamd.stream.stream import Stream


def xack_batch(context: Context, requests: Requests) -> int:
    """Acknowledge an entry for each of a run of requests that name one each; see Batch.

    The group is looked up once, and IDs are parsed together. A property test holds this against the handler.
    """
    first, db = requests.first, context.db
    key, group_name = first[1], first[2]
    stream = db.values.get(key)
    if len(first) != 4 or type(stream) is not Stream or key in db.expires_ms:
        return 0
    group = None if stream.groups is None else stream.groups.get(group_name)
    ids = [] if group is None else parse_run(requests.rows())
    if group is None or not ids:
        return 0

    results = group.pending.remove_each(ids)
    db.hits += len(results)
    db.touched[key] = context.state.time.s

    if context.state.records is None:
        context.state.dirty += sum(results)
    else:
        for entry_id in compress(ids, results):
            record_removed(context, key, group_name, [entry_id])
        if not any(results):
            context.counts_as_write()
    context.client.out += [_REPLIES[result] for result in results]
    return len(results)


_REPLIES: Final = (b":0\r\n", b":1\r\n")


@command(
    "XACK",
    arity=-4,
    flags="write fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(log(N)) for each entry, N being the number of pending entries of the group.",
    syntax="key group id [id ...]",
    access="RW update",
    batch=Batch(xack_batch),
)
def xack(context: Context, args: list[bytes]) -> Reply:
    """Acknowledge entries and return how many were pending.

    Reply: integer; 0 when the key or the group does not exist.
    Raises: InvalidStreamId; WrongType.
    """
    key, group_name = args[1], args[2]
    found = find_group(context, key, group_name)
    if found is None:
        return 0
    pending = found[1].pending
    columns = parse_columns(args[3:])
    if columns is None:
        ids = [parse_id(word) for word in args[3:]]
        removed = [*compress(ids, pending.remove_each(ids))]
    else:
        done = pending.remove_leading(*columns)
        if done == len(args) - 3 and context.state.records is None:
            context.state.dirty += done
            return done
        ids = ids_of_columns(*columns)
        removed = [*ids[:done], *compress(ids[done:], pending.remove_each(ids[done:]))]

    if removed:
        record_removed(context, key, group_name, removed)
    else:
        context.counts_as_write()
    return len(removed)


@applies("XACK")
def apply_acknowledgement(applying: Applying, words: list[bytes]) -> None:
    """Take entries from the pending ones."""
    _, group = applying.group(words[1], words[2])
    group.pending.remove_many(parse_ids(words[3:]))


def apply_acknowledgements(applying: Applying, places: Sequence[Column], count: int) -> bool:
    """Take so many entries from a group's pending ones, one for each record, given by the places of the records' words;
    return whether that was done: of other records none is applied.
    """
    words = [place if isinstance(place, bytes) else place[0] for place in places]
    if words[0] != b"XACK" or len(words) != 4 or isinstance(places[3], bytes):
        return False
    for word, place in zip(words[:3], places[:3], strict=True):
        if not isinstance(place, bytes) and place.count(word) != count:
            return False
    try:
        apply_acknowledgement(applying, [*words[:3], *places[3]])
    except (CannotApply, InvalidStreamId):
        return False  # it will be refused
    return True
