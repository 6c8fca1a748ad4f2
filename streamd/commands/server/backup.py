"""BACKUP: the journal over the protocol, as one state of the server."""

from streamd.base.errors import CommandError
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer, parse_timeout_ms
from streamd.connected.blocking import BLOCKED
from streamd.connected.durability_ports import Backups
from streamd.resp.types import Reply

_ADMIN = "admin noscript no_multi no_async_loading"

container(
    "BACKUP",
    since="0.1.0",
    group="server",
    help_lines=[
        "BEGIN <timeout>",
        "    Rewrite the journal and keep its files readable for this connection: their names and sizes. Null if that",
        "    is not done after so many milliseconds, 0 for ever: ask again.",
        "READ <number> <offset> <count>",
        "    Show bytes of a file, the first is 0; at most 262144.",
        "MARK",
        "    Show the files' sizes now: up to these they are one state.",
        "END",
        "    Let go of the files. So does the end of the connection.",
    ],
)


def _backups(context: Context) -> Backups:
    journal = context.state.journal
    if journal is None:
        raise CommandError("ERR there is no journal to copy: CONFIG SET appendonly yes begins one")
    return journal.backups


@command(
    "BACKUP BEGIN", arity=3, flags=_ADMIN + " blocking", since="0.1.0", complexity="O(N), N the keys and entries",
    group="server", acl="admin dangerous", syntax="timeout",
)  # fmt: skip
def backup_begin(context: Context, args: list[bytes]) -> Reply:
    """Rewrite the journal, and keep its files readable for this connection.

    Reply: array of [name, size in bytes], in the order in which a server loads them; nil if that is not done in time.
    """
    timeout_ms = parse_timeout_ms(args[2])
    backups, client = _backups(context), context.client
    journal = context.state.journal
    assert journal is not None

    def attempt() -> Reply:
        begun = backups.begin(client)
        if begun is not None:
            return [[name.encode("utf-8", "surrogateescape"), size] for name, size in begun]
        return BLOCKED

    reply = attempt()
    if reply is not BLOCKED:
        return reply
    parked = context.block((), timeout_ms, attempt, None)
    assert context.waiter is not None
    journal.serve_when_synced(context.waiter)
    return parked


@command(
    "BACKUP READ", arity=5, flags=_ADMIN, since="0.1.0", complexity="O(N), N the bytes", group="server",
    acl="admin dangerous", syntax="number offset count",
)  # fmt: skip
def backup_read(context: Context, args: list[bytes]) -> Reply:
    """Return bytes of a file of the backup, fewer at its end."""
    number, offset, count = (parse_integer(word) for word in args[2:])
    return _backups(context).read(context.client, number, offset, count)


@command(
    "BACKUP MARK", arity=2, flags=_ADMIN, since="0.1.0", complexity="O(1)", group="server", acl="admin dangerous",
)  # fmt: skip
def backup_mark(context: Context, args: list[bytes]) -> Reply:
    """Return the present sizes of the backup's files: up to these they are one state."""
    return list(_backups(context).mark(context.client))


@command(
    "BACKUP END", arity=2, flags=_ADMIN, since="0.1.0", complexity="O(1)", group="server", acl="admin dangerous",
)  # fmt: skip
def backup_end(context: Context, args: list[bytes]) -> Reply:
    """Release the backup's files; return 1 if there was one, else 0."""
    return int(_backups(context).end(context.client))
