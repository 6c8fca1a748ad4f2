"""How a command is declared: beside its handler, for the table of all commands."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from streamd.base.errors import CommandError, WrongArity
from streamd.base.form import summary_of
from streamd.catalog.context import Batch, Command, CommandTable, Context, Handler
from streamd.resp.types import Reply

# Filled by importing streamd.commands.
COMMANDS: Final = CommandTable()
# The tips of a command that clients of a cluster send to each node.
EVERY_NODE: Final = "request_policy:all_nodes response_policy:all_succeeded"


def command(
    name: str,
    *,
    arity: int,
    flags: str = "",
    keys: tuple[int, int, int] = (0, 0, 0),
    since: str,
    complexity: str,
    group: str = "stream",
    syntax: str = "",
    find_keys: Callable[[list[bytes]], list[bytes]] | None = None,
    access: str = "",
    acl: str | None = None,
    tips: str = "",
    batch: Batch | None = None,
    advice: str = "",
    summary: str = "",
) -> Callable[[Handler], Handler]:
    """Declare the decorated handler as command `NAME`, or as subcommand `CONTAINER SUB`.

    The summary is the first line of the handler's docstring, unless given: a function inside of a function has no
    docstring when it is compiled. A container must be declared before its subcommands.
    """

    def declare(handler: Handler) -> Handler:
        said = summary or summary_of(handler)
        assert said, f"{name} has no docstring"
        made = Command(
            name=name.lower().replace(" ", "|"),
            handler=handler,
            arity=arity,
            flags=frozenset(flags.split()),
            keys=keys,
            since=since,
            complexity=complexity,
            group=group,
            syntax=syntax,
            summary=said,
            find_keys=find_keys,
            access=access,
            acl=acl,
            tips=tips,
            batch=batch,
            advice=advice,
        )
        container, _, sub = name.lower().partition(" ")
        if sub:
            COMMANDS[container.encode()].subcommands[sub.encode()] = made
        else:
            assert name.lower().encode() not in COMMANDS, name
            COMMANDS[name.lower().encode()] = made
        return handler

    return declare


def answer(name: str, reply: Reply, summary: str, **declaration: Any) -> None:
    """Declare a command that always answers `reply`, which may be an error.

    summary: the first line that a handler's docstring would have; declaration: the keywords of `command`.
    """

    def handler(context: Context, args: list[bytes]) -> Reply:
        if isinstance(reply, CommandError):
            raise CommandError(str(reply))
        return reply

    declare = command(name, complexity="O(1)", summary=summary, **declaration)
    declare(handler)


def container(
    name: str,
    *,
    since: str,
    group: str,
    help_lines: Sequence[str],
    help_since: str = "",
    arity: int = -2,
    run: Handler | None = None,
    flags: str = "",
    acl: str = "",
    tips: str = "",
    advice: str = "",
) -> None:
    """Declare a command that has subcommands; its HELP answers `help_lines`. `run`: its handler without subcommand.

    help_since: the version that brought HELP, where that is a later one. advice: see `Command`.
    """

    def no_subcommand(context: Context, args: list[bytes]) -> Reply:
        if run is not None:
            return run(context, args)
        raise WrongArity(name.lower())

    declare = command(
        name,
        arity=arity,
        since=since,
        complexity="Depends on subcommand.",
        group=group,
        flags=flags,
        acl=acl,
        tips=tips,
        advice=advice,
        summary=f"A container for {name} commands.",
    )
    declare(no_subcommand)

    title = f"{name.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    lines = [title, *help_lines, "HELP", "    Print this help."]

    def show_help(context: Context, args: list[bytes]) -> Reply:
        return list(lines)

    declare = command(
        f"{name} HELP",
        arity=2,
        flags="loading stale",
        since=help_since or since,
        complexity="O(1)",
        group=group,
        acl=acl or None,
        summary="Return helpful text about the subcommands.",
    )
    declare(show_help)
