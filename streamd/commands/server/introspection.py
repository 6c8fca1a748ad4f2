"""COMMAND: descriptions of the commands."""

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.glob import compile_glob
from streamd.catalog import Command, Context, command, container
from streamd.catalog.describe import categories, describe, document
from streamd.catalog.named import accesses_of, keys_of
from streamd.resp.types import Reply, SetReply

_FLAGS = "loading stale"
_ORDER = "nondeterministic_output_order"

container(
    "COMMAND",
    arity=-1,
    since="2.8.13",
    help_since="5.0.0",
    group="server",
    flags=_FLAGS,
    acl="connection",
    tips=_ORDER,
    run=lambda context, args: [describe(one) for one in context.services.commands.values()],
    help_lines=[
        "(no subcommand)",
        "    Describe all commands.",
        "COUNT",
        "    Show how many commands there are.",
        "DOCS [<command> ...]",
        "    Document commands, without arguments all.",
        "GETKEYS <request>",
        "    Show which words of a request are keys.",
        "GETKEYSANDFLAGS <request>",
        "    Show the keys of a request and what happens to them.",
        "INFO [<command> ...]",
        "    Describe commands, without arguments all.",
        "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
        "    Show the names of the commands.",
    ],
)


@command("COMMAND COUNT", arity=2, flags=_FLAGS, since="2.8.13", complexity="O(1)", group="server", acl="connection")
def command_count(context: Context, args: list[bytes]) -> Reply:
    """Return the number of commands, without subcommands."""
    return len(context.services.commands)


@command(
    "COMMAND INFO", arity=-2, flags=_FLAGS, since="2.8.13", complexity="O(N), N the commands", group="server",
    acl="connection", syntax="[command-name [command-name ...]]", tips=_ORDER,
)  # fmt: skip
def command_info(context: Context, args: list[bytes]) -> Reply:
    """Describe commands, without arguments all.

    Reply: array of [name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands];
    nil for each that does not exist.
    """
    commands = context.services.commands
    if len(args) == 2:
        return [describe(one) for one in commands.values()]
    # (A command that is named often is described once.)
    found = {name: commands.find(name) for name in args[2:]}
    described = {name: None if one is None else describe(one) for name, one in found.items()}
    return [described[name] for name in args[2:]]


@command(
    "COMMAND DOCS", arity=-2, flags=_FLAGS, since="7.0.0", complexity="O(N), N the commands", group="server",
    acl="connection", syntax="[command-name [command-name ...]]", tips=_ORDER,
)  # fmt: skip
def command_docs(context: Context, args: list[bytes]) -> Reply:
    """Document commands, without arguments all; unknown ones are left out.

    Reply: map of names to maps.
    """
    commands = context.services.commands
    found = [commands.find(name) for name in dict.fromkeys(args[2:])] if len(args) > 2 else list(commands.values())
    return {one.name.encode(): document(one) for one in found if one is not None}


@command(
    "COMMAND LIST", arity=-2, flags=_FLAGS, since="7.0.0", complexity="O(N), N the commands", group="server",
    acl="connection", syntax="[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]", tips=_ORDER,
)  # fmt: skip
def command_list(context: Context, args: list[bytes]) -> Reply:
    """Return the names of the commands and subcommands, all or those that a filter lets through."""
    parents = context.services.commands.values()
    everything = [one for parent in parents for one in (parent, *parent.subcommands.values())]
    if len(args) == 2:
        return [one.name.encode() for one in everything]
    if len(args) != 5 or args[2].upper() != b"FILTERBY":
        raise SyntaxError_()
    kind, word = args[3].upper(), args[4]
    if kind == b"MODULE":
        return []
    if kind == b"ACLCAT":
        category = word.lower().decode("utf-8", "surrogateescape")
        return [one.name.encode() for one in everything if category in categories(one)]
    if kind == b"PATTERN":
        matches = compile_glob(word, ignore_case=True)
        return [one.name.encode() for one in everything if matches(one.name.encode())]
    raise SyntaxError_()


def _keys_of(context: Context, args: list[bytes]) -> tuple[Command, list[bytes]]:
    """Return the command of the request behind `args[2:]` and its keys. Raises: CommandError."""
    request = args[2:]
    found = context.services.commands.find(request[0])
    if found is not None and found.subcommands and len(request) > 1:
        found = found.subcommands.get(request[1].lower())
    if found is None:
        raise CommandError("ERR Invalid command specified")
    if not found.keys[0] and found.find_keys is None:
        raise CommandError("ERR The command has no key arguments")
    if not found.accepts(len(request)):
        raise CommandError("ERR Invalid number of arguments specified for command")
    keys = keys_of(found, request)
    if not keys and "no_mandatory_keys" not in found.flags:
        raise CommandError("ERR Invalid arguments specified for command")
    return found, keys


@command(
    "COMMAND GETKEYS", arity=-3, flags=_FLAGS, since="2.8.13", complexity="O(N), N the words", group="server",
    acl="connection", syntax="command arg [arg ...]",
)  # fmt: skip
def command_getkeys(context: Context, args: list[bytes]) -> Reply:
    """Return the keys of a request."""
    return _keys_of(context, args)[1]


@command(
    "COMMAND GETKEYSANDFLAGS", arity=-3, flags=_FLAGS, since="7.0.0", complexity="O(N), N the words", group="server",
    acl="connection", syntax="command arg [arg ...]",
)  # fmt: skip
def command_getkeysandflags(context: Context, args: list[bytes]) -> Reply:
    """Return the keys of a request, and what happens to each."""
    found, keys = _keys_of(context, args)
    # (The keys are found by the command's own words, so that none is missing.)
    access = [SetReply([flag for flag in flags if flag != "incomplete"]) for flags in accesses_of(found, args[2:])]
    return [[key, access[min(index, len(access) - 1)]] for index, key in enumerate(keys)]
