"""The common part of the commands that run scripts and functions."""

from streamd.base.errors import CommandError, NotAnInteger
from streamd.catalog import Context, Handler, command
from streamd.catalog.arguments import parse_integer
from streamd.catalog.counted_keys import FEW, CountedKeys
from streamd.connected.monitor import monitor_line

_FLAGS = "noscript stale skip_monitor no_mandatory_keys movablekeys script_runner"


def declare_runner(name: str, what: str, since: str, summary: str, read_only: bool, handler: Handler) -> None:
    """Declare a command that runs a script or function; `what`: what its first word names."""
    command(
        name, arity=-3, flags=f"readonly {_FLAGS}" if read_only else _FLAGS, since=since, group="scripting",
        complexity=f"Depends on the {'function' if what == 'function' else 'script'} that is executed.",
        find_keys=CountedKeys(2), syntax=f"{what} numkeys [key [key ...]] [arg [arg ...]]",
        access="RO access" if read_only else "RW access update", summary=summary,
    )(handler)  # fmt: skip


def keys_count(args: list[bytes], no_integer: type[CommandError] = NotAnInteger) -> int:
    """Return how many keys a request names. Raises: CommandError, `no_integer` for a word that is none."""
    count = FEW.get(args[2])
    if count is None:
        try:
            count = parse_integer(args[2])
        except NotAnInteger:
            raise no_integer()
    if count > len(args) - 3:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise CommandError("ERR Number of keys can't be negative")
    return count


def show_request(context: Context, args: list[bytes]) -> None:
    """Show a request to clients in MONITOR, before the commands that it calls."""
    state = context.state
    state.show_monitors(monitor_line(state.clock.now_us(), context.db.index, context.client.address, args))
