"""JOURNAL: the journal over the protocol, as one state of the server; and its earlier name, BACKUP."""

from collections.abc import Callable
from typing import Any

from streamd.base.errors import CommandError
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer, parse_timeout_ms
from streamd.catalog.context import Handler
from streamd.connected.blocking import BLOCKED
from streamd.connected.durability_ports import Backups
from streamd.resp.types import Reply

container(
    "JOURNAL",
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

# Redis has a BACKUP of its own since 8.10: what it has there is answered by what to do here.
container(
    "BACKUP",
    since="0.1.0",
    group="server",
    advice="To make a backup run: streamd backup --url URL DIR",
    help_lines=[
        "BEGIN <timeout>",
        "READ <number> <offset> <count>",
        "MARK",
        "END",
        "    Deprecated: other names of JOURNAL BEGIN, READ, MARK and END, for clients of the version before.",
    ],
)


def _subcommand(name: str, complexity: str, *, flags: str = "", **declaration: Any) -> Callable[[Handler], Handler]:
    """Declare the decorated handler as a subcommand of JOURNAL, and under its deprecated name, of BACKUP."""
    declaration |= {
        "flags": f"admin noscript no_multi no_async_loading {flags}",
        "complexity": complexity,
        "since": "0.1.0",
        "group": "server",
        "acl": "admin dangerous",
    }

    def declare(handler: Handler) -> Handler:
        command(f"JOURNAL {name}", **declaration)(handler)
        command(f"BACKUP {name}", summary=f"Deprecated: another name of JOURNAL {name}.", **declaration)(handler)
        return handler

    return declare


def _backups(context: Context) -> Backups:
    journal = context.state.journal
    if journal is None:
        raise CommandError("ERR there is no journal to copy: CONFIG SET appendonly yes begins one")
    return journal.backups


@_subcommand("BEGIN", "O(N), N the keys and entries", arity=3, flags="blocking", syntax="timeout")
def journal_begin(context: Context, args: list[bytes]) -> Reply:
    """Rewrite the journal, and keep its files readable for this connection.

    Reply: array of [name, size in bytes], in the order in which a server loads them; nil if that is not done in time.
    """
    timeout_ms = parse_timeout_ms(args[2], context.now_ms)
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


@_subcommand("READ", "O(N), N the bytes", arity=5, syntax="number offset count")
def journal_read(context: Context, args: list[bytes]) -> Reply:
    """Return bytes of a file of the backup, fewer at its end."""
    number, offset, count = (parse_integer(word) for word in args[2:])
    return _backups(context).read(context.client, number, offset, count)


@_subcommand("MARK", "O(1)", arity=2)
def journal_mark(context: Context, args: list[bytes]) -> Reply:
    """Return the present sizes of the backup's files: up to these they are one state."""
    return list(_backups(context).mark(context.client))


@_subcommand("END", "O(1)", arity=2)
def journal_end(context: Context, args: list[bytes]) -> Reply:
    """Release the backup's files; return 1 if there was one, else 0."""
    return int(_backups(context).end(context.client))
