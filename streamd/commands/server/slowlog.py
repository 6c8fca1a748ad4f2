"""SLOWLOG: the last slow commands."""

from streamd.base.errors import CommandError, NotAnInteger, SubcommandSyntax
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer
from streamd.resp.types import Reply

_ADMIN = "admin loading stale"
_NODES = "request_policy:all_nodes"

container(
    "SLOWLOG",
    since="2.2.12",
    help_since="6.2.0",
    group="server",
    help_lines=[
        "GET [<count>]",
        "    Show the newest entries, 10 by default, all with -1: number, Unix time, microseconds, request, client,",
        "    client's name.",
        "LEN",
        "    Show how many entries there are.",
        "RESET",
        "    Remove all entries.",
    ],
)


@command(
    "SLOWLOG GET", arity=-2, flags=_ADMIN, since="2.2.12", complexity="O(N), N the entries returned", group="server",
    syntax="[count]", tips=f"{_NODES} nondeterministic_output",
)  # fmt: skip
def slowlog_get(context: Context, args: list[bytes]) -> Reply:
    """Return the newest entries of the slow log, 10 by default, all with -1.

    Reply: array of [number, Unix time in seconds, microseconds, request, client's address, client's name].
    """
    count = 10
    if len(args) > 3:
        raise SubcommandSyntax(args)
    if len(args) > 2:
        try:
            count = parse_integer(args[2])
        except NotAnInteger:
            count = -2
        if count < -1:
            raise CommandError("ERR count should be greater than or equal to -1")
    entries = list(context.state.slowlog.entries)
    return [
        [entry.number, entry.unix_s, entry.took_us, entry.words, entry.address, entry.name]
        for entry in (entries if count < 0 else entries[:count])
    ]


@command(
    "SLOWLOG LEN", arity=2, flags=_ADMIN, since="2.2.12", complexity="O(1)", group="server",
    tips=f"{_NODES} response_policy:agg_sum nondeterministic_output",
)  # fmt: skip
def slowlog_len(context: Context, args: list[bytes]) -> Reply:
    """Return the number of entries in the slow log."""
    return len(context.state.slowlog.entries)


@command(
    "SLOWLOG RESET", arity=2, flags=_ADMIN, since="2.2.12", complexity="O(N), N the entries", group="server",
    tips=f"{_NODES} response_policy:all_succeeded",
)  # fmt: skip
def slowlog_reset(context: Context, args: list[bytes]) -> Reply:
    """Remove all entries of the slow log."""
    context.state.slowlog.entries.clear()
    return "OK"
