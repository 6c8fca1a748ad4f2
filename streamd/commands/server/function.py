"""FUNCTION: libraries of functions on the server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from streamd.base.errors import CommandError, SubcommandSyntaxError, echoed
from streamd.base.failure import EXIT_USAGE, Failure
from streamd.base.glob import compile_glob
from streamd.catalog import Context, command, container
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.catalog.arguments import Arguments
from streamd.distribution import install_line
from streamd.lua.libraries import Function, Library, never
from streamd.lua.programs import LuaNotInstalled
from streamd.lua.shebang import FLAGS
from streamd.rdb.bytes import STRING_BYTES_MAX, BadData
from streamd.rdb.functions import dump_libraries, read_libraries
from streamd.resp.types import Reply, SetReply

container(
    "FUNCTION",
    since="7.0.0",
    group="scripting",
    help_lines=[
        "DELETE <LIBRARY NAME>",
        "    Remove a library.",
        "DUMP",
        "    Show all libraries in a form for FUNCTION RESTORE.",
        "FLUSH [ASYNC|SYNC]",
        "    Remove all libraries.",
        "KILL",
        "    End the function that runs, if it has changed nothing.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Show the libraries and their functions.",
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Add a library.",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Add the libraries of a FUNCTION DUMP. FLUSH removes all others before, REPLACE those of the same names.",
        "STATS",
        "    Show the function that runs, and how many functions there are.",
    ],
)

_ALL: Final = "request_policy:all_shards response_policy"
_EACH: Final = f"{_ALL}:all_succeeded"
_POLICIES: Final = frozenset({b"FLUSH", b"APPEND", b"REPLACE"})


@command(
    "FUNCTION LOAD", arity=-3, flags="write denyoom noscript", since="7.0.0", group="scripting", tips=_EACH,
    complexity="O(1) (considering compilation time is redundant)", syntax="[REPLACE] function-code",
)  # fmt: skip
def function_load(context: Context, args: list[bytes]) -> Reply:
    """Add a library and return its name."""
    for word in args[2:-1]:
        if word.upper() != b"REPLACE":
            raise CommandError(f"ERR Unknown option given: {echoed(word)}")
    replace = len(args) > 3
    name = context.state.libraries.load(args[-1], replace, context.services.scripts.load_deadline())
    context.record(b"FUNCTION", b"LOAD", *([b"REPLACE"] if replace else []), args[-1])
    return name


@applies("FUNCTION LOAD")
def apply_load(applying: Applying, words: list[bytes]) -> None:
    """Apply a recorded FUNCTION LOAD. Raises: CommandError, and Failure without Lua."""
    with _needing_lua():
        applying.libraries.load(words[-1], len(words) > 3, never)


@contextmanager
def _needing_lua() -> Iterator[None]:
    """End the program if Lua is not installed: the journal is whole, and must not be mended. Raises: Failure."""
    try:
        yield
    except LuaNotInstalled:
        raise Failure(EXIT_USAGE, f"the journal holds functions, which need Lua: {install_line('lua')}")


@command(
    "FUNCTION DELETE", arity=3, flags="write noscript", since="7.0.0", complexity="O(1)", group="scripting",
    syntax="library-name", tips=_EACH,
)  # fmt: skip
def function_delete(context: Context, args: list[bytes]) -> Reply:
    """Remove a library and its functions."""
    context.state.libraries.delete(args[2])
    context.record(b"FUNCTION", b"DELETE", args[2])
    return "OK"


@applies("FUNCTION DELETE")
def apply_delete(applying: Applying, words: list[bytes]) -> None:
    """Apply a recorded FUNCTION DELETE."""
    applying.libraries.delete(words[2])


@command(
    "FUNCTION FLUSH", arity=-2, flags="write noscript", since="7.0.0", group="scripting", syntax="[ASYNC | SYNC]",
    complexity="O(N) where N is the number of functions deleted", tips=_EACH,
)  # fmt: skip
def function_flush(context: Context, args: list[bytes]) -> Reply:
    """Remove all libraries."""
    if len(args) > 3:
        raise SubcommandSyntaxError(args)
    if len(args) == 3 and args[2].upper() not in (b"ASYNC", b"SYNC"):
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    context.state.libraries.flush()
    context.record(b"FUNCTION", b"FLUSH")
    return "OK"


@applies("FUNCTION FLUSH")
def apply_flush(applying: Applying, words: list[bytes]) -> None:
    """Apply a recorded FUNCTION FLUSH."""
    applying.libraries.flush()


@command(
    "FUNCTION LIST", arity=-2, flags="noscript", since="7.0.0", complexity="O(N) where N is the number of functions",
    group="scripting", syntax="[LIBRARYNAME library-name-pattern] [WITHCODE]", tips="nondeterministic_output_order",
)  # fmt: skip
def function_list(context: Context, args: list[bytes]) -> Reply:
    """Return the libraries and their functions.

    Reply: array of maps with library_name, engine, functions, and library_code if asked for.
    """
    words = Arguments(args, 2)
    with_code = False
    pattern: bytes | None = None
    while words.left():
        if not with_code and words.flag(b"WITHCODE"):
            with_code = True
        elif pattern is None and words.flag(b"LIBRARYNAME"):
            if not words.left():
                raise CommandError("ERR library name argument was not given")
            pattern = words.word()
        else:
            raise CommandError(f"ERR Unknown argument {echoed(words.word())}")
    shown = [*context.state.libraries.by_name.values()]
    if pattern is not None:
        fits = compile_glob(pattern, ignore_case=True)
        shown = [library for library in shown if fits(library.name)]
    return [_described(library, with_code) for library in shown]


def _described(library: Library, with_code: bool) -> Reply:
    functions: list[Reply] = [_described_function(one) for one in library.functions.values()]
    described: dict[Reply, Reply] = {b"library_name": library.name, b"engine": b"LUA", b"functions": functions}
    if with_code:
        described[b"library_code"] = library.code
    return described


def _described_function(function: Function) -> Reply:
    flags = SetReply([flag for flag in FLAGS if flag in function.flags])
    return {b"name": function.name.encode(), b"description": function.description, b"flags": flags}


@command(
    "FUNCTION DUMP", arity=2, flags="noscript", since="7.0.0", complexity="O(N) where N is the number of functions",
    group="scripting",
)  # fmt: skip
def function_dump(context: Context, args: list[bytes]) -> Reply:
    """Return all libraries as one string, for FUNCTION RESTORE."""
    return dump_libraries(context.state.libraries.codes())


@command(
    "FUNCTION RESTORE", arity=-3, flags="write denyoom noscript", since="7.0.0", group="scripting", tips=_EACH,
    complexity="O(N) where N is the number of functions on the payload",
    syntax="serialized-value [FLUSH | APPEND | REPLACE]",
)  # fmt: skip
def function_restore(context: Context, args: list[bytes]) -> Reply:
    """Add the libraries of a FUNCTION DUMP."""
    if len(args) > 4:
        raise SubcommandSyntaxError(args)
    policy = args[3].upper() if len(args) == 4 else b"APPEND"
    if policy not in _POLICIES:
        raise CommandError("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
    try:
        codes = read_libraries(args[2], context.state.config.integer("lua-memory-max"))
    except BadData as error:
        raise CommandError(f"ERR {error}")
    context.state.libraries.restore(codes, policy, context.services.scripts.load_deadline())
    context.record(b"FUNCTION", b"RESTORE", args[2], policy)
    return "OK"


@applies("FUNCTION RESTORE")
def apply_restore(applying: Applying, words: list[bytes]) -> None:
    """Apply a recorded FUNCTION RESTORE."""
    try:
        codes = read_libraries(words[2], STRING_BYTES_MAX)
    except BadData as error:
        raise CannotApply(str(error))
    with _needing_lua():
        applying.libraries.restore(codes, words[3].upper() if len(words) > 3 else b"APPEND", never)


_WHILE_BUSY: Any = {"arity": 2, "flags": "noscript allow_busy", "since": "7.0.0", "group": "scripting"}


@command(
    "FUNCTION STATS", complexity="O(1)", tips=f"nondeterministic_output {_ALL}:special", **_WHILE_BUSY,
)  # fmt: skip
def function_stats(context: Context, args: list[bytes]) -> Reply:
    """Return the function that runs, and how many libraries and functions there are."""
    running = context.services.scripts.running()
    script: Reply = None
    if running is not None:
        name, request, duration_ms = running
        script = {b"name": name.encode(), b"command": [*request], b"duration_ms": duration_ms}
    libraries = context.state.libraries
    counts: Reply = {b"libraries_count": len(libraries), b"functions_count": libraries.functions_count}
    return {b"running_script": script, b"engines": {b"LUA": counts}}


@command(
    "FUNCTION KILL", complexity="O(1)", tips=f"{_ALL}:one_succeeded", **_WHILE_BUSY,
)  # fmt: skip
def function_kill(context: Context, args: list[bytes]) -> Reply:
    """End the running function, if it has changed nothing."""
    context.services.scripts.kill(is_function=True)
    return "OK"
