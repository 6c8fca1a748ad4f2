"""CONFIG: options at run time."""

from streamd.base.errors import SyntaxError_
from streamd.base.glob import compile_glob
from streamd.catalog import EVERY_NODE, Context, command, container
from streamd.resp.types import Reply

_FLAGS = "admin noscript loading stale"
_SPECIAL = frozenset(b"*?[")

container(
    "CONFIG",
    since="2.0.0",
    help_since="5.0.0",
    group="server",
    help_lines=[
        "GET <pattern> [<pattern> ...]",
        "    Show the options whose names match a pattern, with their values.",
        "SET <option> <value> [<option> <value> ...]",
        "    Set options, all or none.",
        "RESETSTAT",
        "    Set the statistics of INFO back to zero.",
        "REWRITE",
        "    Write what was set, and users, into the configuration file; comments and all other lines stay.",
    ],
)


@command(
    "CONFIG GET", arity=-3, flags=_FLAGS, since="2.0.0", complexity="O(N), N the patterns", group="server",
    syntax="parameter [parameter ...]",
)  # fmt: skip
def config_get(context: Context, args: list[bytes]) -> Reply:
    """Return the options that match one of the patterns, with their values.

    Reply: map.
    """
    texts = {
        name.encode(): text.encode("utf-8", "surrogateescape") for name, text in context.state.config.texts().items()
    }
    shown: dict[bytes, bytes] = {}  # each option with the name under which it is shown
    left = list(texts)
    for word in dict.fromkeys(args[2:]):
        if _SPECIAL.isdisjoint(word):
            if word.lower() in texts:
                shown.setdefault(word.lower(), word)  # as it was written first
            continue
        matches = compile_glob(word, ignore_case=True)
        for name in filter(matches, left):
            shown.setdefault(name, name)
        left = [name for name in left if name not in shown]
    return {name: texts[option] for option, name in shown.items()}


@command(
    "CONFIG SET", arity=-4, flags=_FLAGS, since="2.0.0", complexity="O(N), N the options", group="server",
    syntax="parameter value [parameter value ...]", tips=EVERY_NODE,
)  # fmt: skip
def config_set(context: Context, args: list[bytes]) -> Reply:
    """Set options, all or none."""
    words = [word.decode("utf-8", "surrogateescape") for word in args[2:]]
    if len(words) % 2:
        raise SyntaxError_()
    context.state.config.set_all(list(zip(words[::2], words[1::2], strict=True)))
    return "OK"


@command(
    "CONFIG RESETSTAT", arity=2, flags=_FLAGS, since="2.0.0", complexity="O(N), N the commands", group="server",
    tips=EVERY_NODE,
)  # fmt: skip
def config_resetstat(context: Context, args: list[bytes]) -> Reply:
    """Set the statistics back to zero."""
    for one in context.services.commands.values():
        for counted in (one, *one.subcommands.values()):
            counted.calls = counted.nanoseconds = counted.rejected = counted.failed = 0
    context.state.reset_stats()
    return "OK"


@command(
    "CONFIG REWRITE", arity=2, flags=_FLAGS, since="2.8.0", complexity="O(1)", group="server", tips=EVERY_NODE,
)  # fmt: skip
def config_rewrite(context: Context, args: list[bytes]) -> Reply:
    """Write what CONFIG SET and ACL SETUSER have changed into the configuration file; users only without an aclfile."""
    context.services.access.rewrite()
    return "OK"
