"""EVAL, EVALSHA and SCRIPT: Lua scripts on the server."""

from streamd.base.errors import CommandError, NoScript
from streamd.catalog import Context, command, container
from streamd.catalog.arguments import parse_integer
from streamd.catalog.counted_keys import CountedKeys
from streamd.connected.monitor import monitor_line
from streamd.resp.types import Reply

_FLAGS = "noscript stale skip_monitor no_mandatory_keys movablekeys"
_SYNTAX = "numkeys [key [key ...]] [arg [arg ...]]"
_SHA_SYNTAX = f"sha1 {_SYNTAX}"
_COST = "Depends on the script that is executed."

container(
    "SCRIPT",
    since="2.6.0",
    group="scripting",
    help_lines=[
        "EXISTS <sha1> [<sha1> ...]",
        "    Show which scripts are known.",
        "FLUSH [ASYNC|SYNC]",
        "    Forget all scripts.",
        "KILL",
        "    End the script that runs, if it has changed nothing.",
        "LOAD <script>",
        "    Make a script known, and show its SHA1.",
        "SHOW <sha1>",
        "    Show a script.",
    ],
)


_keys = CountedKeys(2)


# What most scripts have, read already.
_FEW = {b"%d" % count: count for count in range(10)}


def _keys_count(args: list[bytes]) -> int:
    count = _FEW.get(args[2])
    if count is None:
        count = parse_integer(args[2])
    if count > len(args) - 3:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    if count < 0:
        raise CommandError("ERR Number of keys can't be negative")
    return count


def _show(context: Context, args: list[bytes]) -> None:
    """Show a request to clients in MONITOR, before the commands of its script."""
    state = context.state
    state.show_monitors(monitor_line(state.clock.now_us(), context.db.index, context.client.address, args))


def _run_source(context: Context, args: list[bytes], read_only: bool) -> Reply:
    if context.state.monitors:
        _show(context, args)
    keys, host = _keys_count(args), context.services.scripts
    return host.run(context, host.scripts.evaluated(args[1]), keys, args[3:], read_only)


def _run_sha(context: Context, args: list[bytes], read_only: bool) -> Reply:
    if context.state.monitors:
        _show(context, args)
    if len(args[1]) != 40:  # Redis looks at this before it looks at the keys
        raise NoScript()
    keys, host = _keys_count(args), context.services.scripts
    script = host.scripts.find(args[1])
    if script is None:
        raise NoScript()
    return host.run(context, script, keys, args[3:], read_only)


@command(
    "EVAL", arity=-3, flags=_FLAGS, since="2.6.0", complexity=_COST, group="scripting", syntax=f"script {_SYNTAX}",
    find_keys=_keys, access="RW access update",
)  # fmt: skip
def eval_(context: Context, args: list[bytes]) -> Reply:
    """Run a script and return its result."""
    return _run_source(context, args, read_only=False)


@command(
    "EVALSHA", arity=-3, flags=_FLAGS, since="2.6.0", complexity=_COST, group="scripting", syntax=_SHA_SYNTAX,
    find_keys=_keys, access="RW access update",
)  # fmt: skip
def evalsha(context: Context, args: list[bytes]) -> Reply:
    """Run a script that the server knows, and return its result.

    Raises: NoScript.
    """
    return _run_sha(context, args, read_only=False)


@command(
    "EVAL_RO", arity=-3, flags=f"readonly {_FLAGS}", since="7.0.0", complexity=_COST, group="scripting",
    syntax=f"script {_SYNTAX}", find_keys=_keys, access="RO access",
)  # fmt: skip
def eval_ro(context: Context, args: list[bytes]) -> Reply:
    """Run a script that may not write, and return its result."""
    return _run_source(context, args, read_only=True)


@command(
    "EVALSHA_RO", arity=-3, flags=f"readonly {_FLAGS}", since="7.0.0", complexity=_COST, group="scripting",
    syntax=_SHA_SYNTAX, find_keys=_keys, access="RO access",
)  # fmt: skip
def evalsha_ro(context: Context, args: list[bytes]) -> Reply:
    """Run a script that the server knows and that may not write, and return its result.

    Raises: NoScript.
    """
    return _run_sha(context, args, read_only=True)


@command(
    "SCRIPT LOAD", arity=3, flags="noscript stale", since="2.6.0", complexity="O(N), N the bytes of the script",
    group="scripting", syntax="script", tips="request_policy:all_nodes response_policy:all_succeeded",
)  # fmt: skip
def script_load(context: Context, args: list[bytes]) -> Reply:
    """Store a script and return its SHA1."""
    return context.services.scripts.scripts.load(args[2]).sha.encode()


@command(
    "SCRIPT EXISTS", arity=-3, flags="noscript", since="2.6.0", complexity="O(N), N the SHA1s", group="scripting",
    syntax="sha1 [sha1 ...]", tips="request_policy:all_shards response_policy:agg_logical_and",
)  # fmt: skip
def script_exists(context: Context, args: list[bytes]) -> Reply:
    """Return for each SHA1 whether its script is known.

    Reply: array of 1 or 0.
    """
    scripts = context.services.scripts.scripts
    return [int(scripts.find(sha) is not None) for sha in args[2:]]


@command(
    "SCRIPT FLUSH", arity=-2, flags="noscript", since="2.6.0", complexity="O(N), N the scripts", group="scripting",
    syntax="[ASYNC | SYNC]", tips="request_policy:all_nodes response_policy:all_succeeded",
)  # fmt: skip
def script_flush(context: Context, args: list[bytes]) -> Reply:
    """Forget all scripts."""
    if len(args) > 3 or (len(args) == 3 and args[2].upper() not in (b"ASYNC", b"SYNC")):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    context.services.scripts.scripts.flush()
    return "OK"


@command(
    "SCRIPT KILL", arity=2, flags="noscript allow_busy", since="2.6.0", complexity="O(1)", group="scripting",
    tips="request_policy:all_shards response_policy:one_succeeded",
)  # fmt: skip
def script_kill(context: Context, args: list[bytes]) -> Reply:
    """End the running script, if it has changed nothing."""
    context.services.scripts.kill()
    return "OK"


@command(
    "SCRIPT SHOW", arity=3, flags="noscript", since="8.0.0", complexity="O(1)", group="scripting", syntax="sha1",
)  # fmt: skip
def script_show(context: Context, args: list[bytes]) -> Reply:
    """Return the script with a SHA1, as Valkey does; Redis has no such command.

    Raises: NoScript.
    Source: https://valkey.io/commands/script-show/
    """
    script = context.services.scripts.scripts.find(args[2])
    if script is None:
        raise NoScript()
    return script.source
