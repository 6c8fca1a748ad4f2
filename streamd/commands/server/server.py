"""Commands on the server as a whole: time, size, flushing, shutdown, replication."""

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.resp.types import NO_REPLY, Reply

_ADMIN = "admin noscript loading stale"


@command(
    "TIME", arity=1, flags="loading stale fast", since="2.6.0", complexity="O(1)", group="server",
    tips="nondeterministic_output",
)  # fmt: skip
def time(context: Context, args: list[bytes]) -> Reply:
    """Return the server's Unix time.

    Reply: array of the seconds and the microseconds of the second.
    """
    return [b"%d" % part for part in divmod(context.state.clock.now_us(), 1_000_000)]


@command(
    "DBSIZE", arity=1, flags="readonly fast", since="1.0.0", complexity="O(1)", group="server", acl="keyspace",
    tips="request_policy:all_shards response_policy:agg_sum",
)  # fmt: skip
def dbsize(context: Context, args: list[bytes]) -> Reply:
    """Return the number of keys in the database, with expired ones that are not removed yet."""
    return len(context.db)


def _declare_flush(name: str, complexity: str, what: str, is_everywhere: bool) -> None:
    word = name.encode()

    def handler(context: Context, args: list[bytes]) -> Reply:
        if len(args) > 2 or (len(args) == 2 and args[1].upper() not in (b"SYNC", b"ASYNC")):
            raise SyntaxError_()
        databases = context.state.keyspace.databases if is_everywhere else [context.db]
        context.state.dirty += sum(db.clear() for db in databases)
        context.state.tracking.flushed()
        context.record(word, changes=0)
        return "OK"

    command(
        name, arity=-1, flags="write", since="1.0.0", complexity=complexity, group="server", acl="keyspace dangerous",
        syntax="[ASYNC | SYNC]", tips="request_policy:all_shards response_policy:all_succeeded",
        summary=f"Remove all keys of {what}.",
    )(handler)  # fmt: skip


_declare_flush("FLUSHDB", "O(N), N the keys in the database", "the database", is_everywhere=False)
_declare_flush("FLUSHALL", "O(N), N the keys", "all databases", is_everywhere=True)


@command(
    "SHUTDOWN", arity=-1, flags="admin noscript loading stale no_multi allow_busy", since="1.0.0", complexity="O(1)",
    group="server", syntax="[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
)  # fmt: skip
def shutdown(context: Context, args: list[bytes]) -> Reply:
    """Stop the server.

    Reply: none; the connection is closed.
    """
    options = [word.upper() for word in args[1:]]
    if not set(options) <= {b"NOSAVE", b"SAVE", b"NOW", b"FORCE", b"ABORT"} or {b"NOSAVE", b"SAVE"} <= set(options):
        raise SyntaxError_()
    if b"ABORT" in options:
        if len(options) > 1:
            raise SyntaxError_()
        raise CommandError("ERR No shutdown in progress.")
    if context.state.is_busy and b"NOSAVE" not in options:
        context.state.check_restrictions(frozenset())
    save = True if b"SAVE" in options else False if b"NOSAVE" in options else None
    context.services.shut_down(save)
    return NO_REPLY


@command(
    "LASTSAVE", arity=1, flags="loading stale fast", since="1.0.0", complexity="O(1)", group="server",
    acl="admin dangerous", tips="nondeterministic_output",
)  # fmt: skip
def lastsave(context: Context, args: list[bytes]) -> Reply:
    """Return the Unix time of the last rewrite of the journal in seconds, or that of the start."""
    journal = context.state.journal
    return context.state.started_ms // 1000 if journal is None else journal.saved_s


@command("MONITOR", arity=1, flags=_ADMIN, since="1.0.0", complexity="O(1)", group="server")
def monitor(context: Context, args: list[bytes]) -> Reply:
    """Show every request that the server executes from here on, except administrative ones."""
    client = context.client
    if context.in_unit:
        raise CommandError("ERR MONITOR isn't allowed for DENY BLOCKING client")
    client.monitoring = True
    context.state.monitors[client.id] = client
    context.state.restrict()
    return "OK"
