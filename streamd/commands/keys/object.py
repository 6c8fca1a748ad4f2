"""OBJECT: the encoding of a key's value, and accesses to the key."""

from streamd.base.errors import CommandError
from streamd.catalog import Context, command, container
from streamd.data.types import type_of
from streamd.resp.types import Reply

container(
    "OBJECT",
    since="2.2.3",
    help_since="6.2.0",
    group="generic",
    help_lines=[
        "ENCODING <key>",
        "    Show the name that Redis gives to how it would keep the value.",
        "FREQ <key>",
        "    Not supported: how often keys are accessed is not counted.",
        "IDLETIME <key>",
        "    Show how many seconds ago the key was accessed.",
        "REFCOUNT <key>",
        "    Show 1: no value is shared.",
    ],
)


@command(
    "OBJECT ENCODING", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3",
    complexity="O(N), N the elements of a small value", group="generic", syntax="key", access="RO",
    tips="nondeterministic_output",
)  # fmt: skip
def object_encoding(context: Context, args: list[bytes]) -> Reply:
    """Return Redis's name for the encoding that it would choose for the value, or nil."""
    value = context.db.inspect(args[2], says_miss=False)
    return None if value is None else type_of(value).encoding(args[2], value, context.state.config.integer)


@command(
    "OBJECT REFCOUNT", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_refcount(context: Context, args: list[bytes]) -> Reply:
    """Return the number of references to the value, which is 1, or nil."""
    return None if context.db.inspect(args[2], says_miss=False) is None else 1


@command(
    "OBJECT IDLETIME", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_idletime(context: Context, args: list[bytes]) -> Reply:
    """Return the seconds since the last access to the key, or nil."""
    key, db = args[2], context.db
    if db.inspect(key, says_miss=False) is None:
        return None
    return max(0, db.time.s - db.used_s[key])


@command(
    "OBJECT FREQ", arity=3, flags="readonly", keys=(2, 2, 1), since="4.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_freq(context: Context, args: list[bytes]) -> Reply:
    """Fail: accesses are counted only under an LFU policy, which streamd has not; nil without a key."""
    if context.db.inspect(args[2], says_miss=False) is None:
        return None
    raise CommandError(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
        "between policies at runtime LRU and LFU data will take some time to adjust."
    )
