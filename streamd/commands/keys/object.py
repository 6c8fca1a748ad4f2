"""OBJECT and MEMORY: how a key's value is kept."""

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.heap import give_back
from streamd.catalog import Context, answer, command, container
from streamd.catalog.arguments import Arguments
from streamd.data.types import BYTES_OVERHEAD, ROW_OVERHEAD, type_of
from streamd.resp.types import Reply, Verbatim

container(
    "OBJECT",
    since="2.2.3",
    group="generic",
    help_lines=[
        "ENCODING <key>",
        "    Show the name that Redis gives to how it would keep the value.",
        "FREQ <key>",
        "    Not supported: how often keys are accessed is not counted.",
        "IDLETIME <key>",
        "    Show how many seconds ago the key was accessed.",
        "REFCOUNT <key>",
        "    Show 1, or 2147483647 for an integer below 10,000, as Redis does.",
    ],
)


@command(
    "OBJECT ENCODING", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3",
    complexity="O(1); O(N) for a small hash, N its fields", group="generic", syntax="key", access="RO",
    tips="nondeterministic_output",
)  # fmt: skip
def object_encoding(context: Context, args: list[bytes]) -> Reply:
    """Return the name that Redis gives to how it would keep the value, or nil."""
    value = context.db.inspect(args[2], says_miss=False)
    return None if value is None else type_of(value).encoding(value)


@command(
    "OBJECT REFCOUNT", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_refcount(context: Context, args: list[bytes]) -> Reply:
    """Return how many share the value, or nil: 1, but as in Redis 2**31-1 for integers below 10,000."""
    value = context.db.inspect(args[2], says_miss=False)
    if value is None:
        return None
    is_small = isinstance(value, bytes) and value.isdigit() and len(value) <= 4
    return 2**31 - 1 if is_small and type_of(value).encoding(value) == b"int" else 1


@command(
    "OBJECT IDLETIME", arity=3, flags="readonly", keys=(2, 2, 1), since="2.2.3", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_idletime(context: Context, args: list[bytes]) -> Reply:
    """Return how many seconds ago the key was accessed, or nil."""
    key, db = args[2], context.db
    if db.inspect(key, says_miss=False) is None:
        return None
    return max(0, db.time.s - db.used_s[key])


@command(
    "OBJECT FREQ", arity=3, flags="readonly", keys=(2, 2, 1), since="4.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO", tips="nondeterministic_output",
)  # fmt: skip
def object_freq(context: Context, args: list[bytes]) -> Reply:
    """Fail: how often keys are accessed is counted under an LFU policy alone, and there is none; nil without a key."""
    if context.db.inspect(args[2], says_miss=False) is None:
        return None
    raise CommandError(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching "
        "between policies at runtime LRU and LFU data will take some time to adjust."
    )


container(
    "MEMORY",
    since="4.0.0",
    group="server",
    help_lines=[
        "DOCTOR",
        "    Show advice: there is none.",
        "MALLOC-STATS",
        "    Show statistics of the allocator: there are none.",
        "PURGE",
        "    Accepted: memory is given back without being asked.",
        "USAGE <key> [SAMPLES <count>]",
        "    Show about how many bytes a key and its value take.",
    ],
)


@command(
    "MEMORY USAGE", arity=-3, flags="readonly", keys=(2, 2, 1), since="4.0.0",
    complexity="O(N), N the fields of a hash, the segments of a stream", group="server", acl="",
    syntax="key [SAMPLES count]", access="RO",
)  # fmt: skip
def memory_usage(context: Context, args: list[bytes]) -> Reply:
    """Return about how many bytes a key and its value take, or nil."""
    words = Arguments(args, 3)
    while words.left():
        if not words.flag(b"SAMPLES", followed_by=1) or words.integer() < 0:
            raise SyntaxError_()
    value = context.db.peek(args[2])
    if value is None:
        return None
    return type_of(value).memory_bytes(value) + BYTES_OVERHEAD + len(args[2]) + ROW_OVERHEAD


@command(
    "MEMORY PURGE", arity=2, since="4.0.0", complexity="O(1)", group="server",
    tips="request_policy:all_shards response_policy:all_succeeded",
)  # fmt: skip
def memory_purge(context: Context, args: list[bytes]) -> Reply:
    """Give memory that nothing uses back to the system. (A millisecond for 6 MB; an idle server does it by itself.)"""
    context.state.pack()
    give_back()
    return "OK"


for _name, _reply, _summary in (
    ("DOCTOR", b"No advice: memory is managed by Python.\n", "Return advice on memory: there is none."),
    (
        "MALLOC-STATS", b"Stats not supported for the current allocator",
        "Return statistics of the allocator: there are none.",
    ),
):  # fmt: skip
    answer(
        f"MEMORY {_name}", Verbatim(_reply), _summary, arity=2, since="4.0.0", group="server",
        tips="nondeterministic_output request_policy:all_shards response_policy:special",
    )  # fmt: skip
