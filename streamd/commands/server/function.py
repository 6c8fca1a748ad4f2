"""FUNCTION, for a server without functions."""

from typing import Any

from streamd.base.errors import Busy, CommandError, SubcommandSyntax, echoed
from streamd.catalog import Context, answer, command, container
from streamd.catalog.arguments import Arguments
from streamd.resp.types import Reply

container(
    "FUNCTION",
    since="7.0.0",
    group="scripting",
    help_lines=[
        "FLUSH [ASYNC|SYNC]",
        "    Remove all functions: there are none.",
        "KILL",
        "    Fail: no function runs.",
        "LIST [LIBRARYNAME <pattern>] [WITHCODE]",
        "    Show all functions: there are none.",
        "STATS",
        "    Show which function runs: none.",
    ],
)


@command(
    "FUNCTION LIST", arity=-2, flags="noscript", since="7.0.0", complexity="O(1)", group="scripting",
    syntax="[LIBRARYNAME library-name-pattern] [WITHCODE]", tips="nondeterministic_output_order",
)  # fmt: skip
def function_list(context: Context, args: list[bytes]) -> Reply:
    """Return all functions: an empty list."""
    words = Arguments(args, 2)
    with_code = named = False
    while words.left():
        if not with_code and words.flag(b"WITHCODE"):
            with_code = True
        elif not named and words.flag(b"LIBRARYNAME"):
            if not words.left():
                raise CommandError("ERR library name argument was not given")
            words.word()
            named = True
        else:
            raise CommandError(f"ERR Unknown argument {echoed(words.word())}")
    return []


@command(
    "FUNCTION FLUSH", arity=-2, flags="write noscript", since="7.0.0", complexity="O(1)", group="scripting",
    syntax="[ASYNC | SYNC]", tips="request_policy:all_shards response_policy:all_succeeded",
)  # fmt: skip
def function_flush(context: Context, args: list[bytes]) -> Reply:
    """Remove all functions, of which streamd has none."""
    if len(args) > 3:
        raise SubcommandSyntax(args)
    if len(args) == 3 and args[2].upper() not in (b"ASYNC", b"SYNC"):
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    return "OK"


_ALL = "request_policy:all_shards response_policy"
_WHILE_BUSY: Any = {"arity": 2, "flags": "noscript allow_busy", "since": "7.0.0", "group": "scripting"}
_NOTHING_HELD: dict[bytes, Reply] = {b"LUA": {b"libraries_count": 0, b"functions_count": 0}}

answer(
    "FUNCTION STATS", {b"running_script": None, b"engines": _NOTHING_HELD},
    "Return which function runs: none; and what the engine that Redis has holds: nothing.",
    tips=f"nondeterministic_output {_ALL}:special", **_WHILE_BUSY,
)  # fmt: skip


@command(
    "FUNCTION KILL", complexity="O(1)", tips=f"{_ALL}:one_succeeded", **_WHILE_BUSY,
)  # fmt: skip
def function_kill(context: Context, args: list[bytes]) -> Reply:
    """End the running function: an error, as none runs."""
    if context.state.is_busy:
        raise Busy()
    raise CommandError("NOTBUSY No scripts in execution right now.")
