"""Commands on the expiry of keys."""

from streamd.base.errors import CommandError, InvalidExpire, echoed
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, INT64_MIN, parse_integer
from streamd.resp.types import Reply

_CONDITIONS = "[NX | XX | GT | LT]"


def _expire(context: Context, args: list[bytes], unit_ms: int, relative: bool) -> int:
    """Decide and set an expiry; return whether it was set."""
    key, db = args[1], context.db
    conditions = _conditions(args)
    number = parse_integer(args[2])
    due_ms = number * unit_ms
    if not INT64_MIN <= due_ms <= INT64_MAX - (context.now_ms if relative else 0):
        raise InvalidExpire(args[0].decode().lower())
    if relative:
        due_ms += context.now_ms
    if db.get(key) is None or not condition_holds(conditions, db.expires_ms.get(key), due_ms):
        return 0
    if due_ms <= context.now_ms:
        db.delete(key)
        context.record(b"DEL", key)
        context.changed(key, "g", "del")
    else:
        db.set_expiry(key, due_ms)
        context.record(b"PEXPIREAT", key, b"%d" % due_ms)
        context.changed(key, "g", "expire")
    return 1


def _conditions(args: list[bytes]) -> set[bytes]:
    found = set()
    for word in args[3:]:
        if word.upper() not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandError(f"ERR Unsupported option {echoed(word)}")
        found.add(word.upper())
    if b"NX" in found and len(found) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if found >= {b"GT", b"LT"}:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return found


def condition_holds(conditions: set[bytes], old_ms: int | None, due_ms: int) -> bool:
    """Return whether the conditions hold; a key without expiry counts as one that lives for ever."""
    return not (
        (b"NX" in conditions and old_ms is not None)
        or (b"XX" in conditions and old_ms is None)
        or (b"GT" in conditions and (old_ms is None or due_ms <= old_ms))
        or (b"LT" in conditions and old_ms is not None and due_ms >= old_ms)
    )


@command(
    "EXPIRE", arity=-3, flags="write fast", keys=(1, 1, 1), since="1.0.0",
    complexity="O(log N), N the keys that expire", group="generic", syntax=f"key seconds {_CONDITIONS}",
    access="RW update",
)  # fmt: skip
def expire(context: Context, args: list[bytes]) -> Reply:
    """Let a key expire after a number of seconds; return whether it was set."""
    return _expire(context, args, 1000, relative=True)


@command(
    "PEXPIRE", arity=-3, flags="write fast", keys=(1, 1, 1), since="2.6.0",
    complexity="O(log N), N the keys that expire", group="generic", syntax=f"key milliseconds {_CONDITIONS}",
    access="RW update",
)  # fmt: skip
def pexpire(context: Context, args: list[bytes]) -> Reply:
    """Let a key expire after a number of milliseconds; return whether it was set."""
    return _expire(context, args, 1, relative=True)


@command(
    "EXPIREAT", arity=-3, flags="write fast", keys=(1, 1, 1), since="1.2.0",
    complexity="O(log N), N the keys that expire", group="generic", syntax=f"key unix-time-seconds {_CONDITIONS}",
    access="RW update",
)  # fmt: skip
def expireat(context: Context, args: list[bytes]) -> Reply:
    """Let a key expire at a Unix time in seconds; return whether it was set."""
    return _expire(context, args, 1000, relative=False)


@command(
    "PEXPIREAT", arity=-3, flags="write fast", keys=(1, 1, 1), since="2.6.0",
    complexity="O(log N), N the keys that expire", group="generic", syntax=f"key unix-time-milliseconds {_CONDITIONS}",
    access="RW update",
)  # fmt: skip
def pexpireat(context: Context, args: list[bytes]) -> Reply:
    """Let a key expire at a Unix time in milliseconds; return whether it was set."""
    return _expire(context, args, 1, relative=False)


def _due_ms(context: Context, key: bytes) -> int | None:
    """Return when a key expires; -1 when it does not, None when there is no key."""
    return None if context.db.inspect(key) is None else context.db.expires_ms.get(key, -1)


@command(
    "TTL", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def ttl(context: Context, args: list[bytes]) -> Reply:
    """Return a key's time to live in seconds, rounded; -1 when it does not expire, -2 without a key."""
    due_ms = _due_ms(context, args[1])
    if due_ms is None:
        return -2
    return -1 if due_ms < 0 else (max(0, due_ms - context.now_ms) + 500) // 1000


@command(
    "PTTL", arity=2, flags="readonly fast", keys=(1, 1, 1), since="2.6.0", complexity="O(1)", group="generic",
    syntax="key", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def pttl(context: Context, args: list[bytes]) -> Reply:
    """Return a key's time to live in milliseconds; -1 when it does not expire, -2 without a key."""
    due_ms = _due_ms(context, args[1])
    if due_ms is None:
        return -2
    return -1 if due_ms < 0 else max(0, due_ms - context.now_ms)


@command(
    "EXPIRETIME", arity=2, flags="readonly fast", keys=(1, 1, 1), since="7.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO access",
)  # fmt: skip
def expiretime(context: Context, args: list[bytes]) -> Reply:
    """Return the Unix time in seconds at which a key expires; -1 when it does not, -2 without a key."""
    due_ms = _due_ms(context, args[1])
    if due_ms is None:
        return -2
    return -1 if due_ms < 0 else (due_ms + 500) // 1000


@command(
    "PEXPIRETIME", arity=2, flags="readonly fast", keys=(1, 1, 1), since="7.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO access",
)  # fmt: skip
def pexpiretime(context: Context, args: list[bytes]) -> Reply:
    """Return the Unix time in milliseconds at which a key expires; -1 when it does not, -2 without a key."""
    due_ms = _due_ms(context, args[1])
    return -2 if due_ms is None else due_ms


@command(
    "PERSIST", arity=2, flags="write fast", keys=(1, 1, 1), since="2.2.0", complexity="O(1)", group="generic",
    syntax="key", access="RW update",
)  # fmt: skip
def persist(context: Context, args: list[bytes]) -> Reply:
    """Let a key live for ever; return whether it would have expired."""
    key = args[1]
    if context.db.get(key) is None or not context.db.clear_expiry(key):
        return 0
    context.record(b"PERSIST", key)
    context.changed(key, "g", "persist")
    return 1
