"""MULTI, EXEC, DISCARD, WATCH, UNWATCH: transactions."""

from itertools import pairwise

from streamd.base.errors import CommandError
from streamd.catalog import Context, command
from streamd.catalog.script_host import SCRIPT_COMMANDS
from streamd.resp.encoder import encode
from streamd.resp.types import NULL_ARRAY, Raw, Reply


@command(
    "MULTI", arity=1, flags="noscript loading stale fast allow_busy", since="1.2.0", complexity="O(1)",
    group="transactions",
)  # fmt: skip
def multi(context: Context, args: list[bytes]) -> Reply:
    """Start a transaction: what follows is queued until EXEC."""
    client = context.client
    if client.transaction is not None:
        raise CommandError("ERR MULTI calls can not be nested")
    client.transaction = []
    client.transaction_broken = False
    context.update_quick()
    return "OK"


@command(
    "EXEC", arity=1, flags="noscript loading stale skip_slowlog", since="1.2.0",
    complexity="That of the queued commands", group="transactions",
)  # fmt: skip
def exec_(context: Context, args: list[bytes]) -> Reply:
    """Run the queued commands, with nothing in between, and return their replies.

    Reply: array; nil when a watched key changed.
    """
    client, state = context.client, context.state
    if client.transaction is None:
        raise CommandError("ERR EXEC without MULTI")
    requests, broken = client.transaction, client.transaction_broken
    for db_index, key in client.watched:
        state.keyspace[db_index].get(key)  # marks the watchers of a key whose time has passed
    touched = client.touched
    context.discard_transaction()
    if broken:
        raise CommandError("EXECABORT Transaction discarded because of previous errors.")
    if touched:
        return NULL_ARRAY
    if not SCRIPT_COMMANDS.isdisjoint([request[0].lower() for request in requests]):
        return context.services.scripts.beside(context, lambda: _run_all(context, requests))
    return _run_all(context, requests)


def _run_all(context: Context, requests: list[list[bytes]]) -> list[Reply]:
    context.in_unit = True
    try:
        return _execute(context, requests)
    finally:
        context.in_unit = False


def _execute(context: Context, requests: list[list[bytes]]) -> list[Reply]:
    """Execute the queued commands; replies before a HELLO keep the earlier protocol."""
    ends = [at + 1 for at, request in enumerate(requests) if len(request[0]) == 5 and request[0].upper() == b"HELLO"]
    if not ends:
        return context.services.execute(context, requests)
    replies: list[Reply] = []
    for start, end in pairwise([0, *ends, len(requests)]):
        protocol = context.protocol
        more = context.services.execute(context, requests[start:end])
        if context.protocol != protocol:
            replies = [Raw(encode(reply, protocol)) for reply in (*replies, *more[:-1])]
            more = more[-1:]
        replies += more
    return replies


@command(
    "DISCARD", arity=1, flags="noscript loading stale fast allow_busy", since="2.0.0",
    complexity="O(N), N the queued commands", group="transactions",
)  # fmt: skip
def discard(context: Context, args: list[bytes]) -> Reply:
    """Forget the queued commands and end the transaction."""
    if context.client.transaction is None:
        raise CommandError("ERR DISCARD without MULTI")
    context.discard_transaction()
    return "OK"


@command(
    "WATCH", arity=-2, flags="noscript loading stale fast allow_busy", keys=(1, -1, 1), since="2.2.0",
    complexity="O(1) for each key", group="transactions", syntax="key [key ...]", access="RO",
)  # fmt: skip
def watch(context: Context, args: list[bytes]) -> Reply:
    """Let the next EXEC do nothing if one of the keys changes until then."""
    client, db = context.client, context.db
    if client.transaction is not None:
        raise CommandError("ERR WATCH inside MULTI is not allowed")
    for key in args[1:]:
        db.peek(key)  # a key whose time has passed is gone before it is watched
        client.watched.add((db.index, key))
        db.followers.watch(db.index, key, client)
    return "OK"


@command(
    "UNWATCH", arity=1, flags="noscript loading stale fast allow_busy", since="2.2.0", complexity="O(1)",
    group="transactions",
)  # fmt: skip
def unwatch(context: Context, args: list[bytes]) -> Reply:
    """Forget what is watched."""
    context.unwatch()
    return "OK"
