"""EVAL, EVALSHA and SCRIPT: Lua scripts on the server."""

from streamd.base.errors import CommandError, NoScript
from streamd.catalog import EVERY_NODE, Context, command, container
from streamd.commands.server.running import declare_runner, keys_count, show_request
from streamd.resp.types import Reply

container(
    "SCRIPT",
    since="2.6.0",
    help_since="5.0.0",
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


def _declare_eval(name: str, since: str, summary: str, is_sha: bool, read_only: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        if context.state.monitors:
            show_request(context, args)
        if is_sha and len(args[1]) != 40:  # Redis looks at this before it looks at the keys
            raise NoScript()
        keys, host = keys_count(args), context.services.scripts
        script = host.scripts.find(args[1]) if is_sha else host.scripts.evaluated(args[1])
        if script is None:
            raise NoScript()
        return host.run(context, script, keys, args, read_only)

    declare_runner(name, "sha1" if is_sha else "script", since, summary, read_only, handler)


_declare_eval("EVAL", "2.6.0", "Run a script and return its result.", is_sha=False, read_only=False)
_declare_eval(
    "EVALSHA", "2.6.0", "Run a script that the server knows, and return its result.", is_sha=True, read_only=False
)
_declare_eval(
    "EVAL_RO", "7.0.0", "Run a script that may not write, and return its result.", is_sha=False, read_only=True
)
_declare_eval(
    "EVALSHA_RO", "7.0.0", "Run a script that the server knows and that may not write, and return its result.",
    is_sha=True, read_only=True,
)  # fmt: skip


@command(
    "SCRIPT LOAD", arity=3, flags="noscript stale", since="2.6.0", complexity="O(N), N the bytes of the script",
    group="scripting", syntax="script", tips=EVERY_NODE,
)  # fmt: skip
def script_load(context: Context, args: list[bytes]) -> Reply:
    """Store a script and return its SHA1."""
    return context.services.scripts.scripts.load(args[2]).name.encode()


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
    syntax="[ASYNC | SYNC]", tips=EVERY_NODE,
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
    context.services.scripts.kill(is_function=False)
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
