"""Commands on the expiry of keys, and the options of further ones that set it."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, InvalidExpire, echoed
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, INT64_MIN, Arguments, parse_integer
from streamd.resp.types import Reply

EXPIRY_SYNTAX: Final = "EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds"

# Option, milliseconds of its unit, whether it counts from now on.
_OPTIONS: Final = ((b"EX", 1000, True), (b"PX", 1, True), (b"EXAT", 1000, False), (b"PXAT", 1, False))

# An expiry as it was asked for: milliseconds of its unit, whether it counts from now on, and the number as a word.
Expiry = tuple[int, bool, bytes]


def take_expiry(words: Arguments) -> Expiry | None:
    """Take `EX 10` and the like; None without such an option."""
    for option, unit_ms, relative in _OPTIONS:
        if words.flag(option, followed_by=1):
            return unit_ms, relative, words.word()
    return None


def expiry_ms(context: Context, expiry: Expiry, name: str) -> int:
    """Return the Unix milliseconds of an expiry. Raises: NotAnInteger, InvalidExpire."""
    unit_ms, relative, word = expiry
    number = parse_integer(word)
    if not 0 < number <= INT64_MAX // unit_ms:
        raise InvalidExpire(name)
    due_ms = number * unit_ms + (context.now_ms if relative else 0)
    if due_ms > INT64_MAX:
        raise InvalidExpire(name)
    return due_ms


def remove_key(context: Context, key: bytes) -> bool:
    """Remove a key; return whether it was there."""
    if not context.db.delete(key):
        return False
    context.record(b"DEL", key)
    context.changed(key, "g", "del")
    return True


def set_due(context: Context, key: bytes, due_ms: int) -> None:
    """Let a key that is there expire at a future time, or remove it if that has passed."""
    if due_ms <= context.now_ms:
        remove_key(context, key)
    else:
        context.db.set_expiry(key, due_ms)
        context.record(b"PEXPIREAT", key, b"%d" % due_ms)
        context.changed(key, "g", "expire")


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


def _declare_expire(name: str, since: str, amount: str, unit_ms: int, relative: bool, when: str) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        key, db = args[1], context.db
        conditions = _conditions(args)
        number = parse_integer(args[2])
        due_ms = number * unit_ms
        if not INT64_MIN <= due_ms <= INT64_MAX - (context.now_ms if relative else 0):
            raise InvalidExpire(name.lower())
        if relative:
            due_ms += context.now_ms
        if db.get(key) is None or not condition_holds(conditions, db.expires_ms.get(key), due_ms):
            return 0
        set_due(context, key, due_ms)
        return 1

    command(
        name, arity=-3, flags="write fast", keys=(1, 1, 1), since=since, group="generic",
        complexity="O(log N), N the keys that expire", syntax=f"key {amount} [NX | XX | GT | LT]", access="RW update",
        summary=f"Let a key expire {when}; return whether it was set.",
    )(handler)  # fmt: skip


_declare_expire("EXPIRE", "1.0.0", "seconds", 1000, True, "after a number of seconds")
_declare_expire("PEXPIRE", "2.6.0", "milliseconds", 1, True, "after a number of milliseconds")
_declare_expire("EXPIREAT", "1.2.0", "unix-time-seconds", 1000, False, "at a Unix time in seconds")
_declare_expire("PEXPIREAT", "2.6.0", "unix-time-milliseconds", 1, False, "at a Unix time in milliseconds")


def _declare_time(name: str, since: str, shown: Callable[[int, int], int], what: str) -> None:
    """shown(due_ms, now_ms): the reply for a key that expires at `due_ms`."""

    def handler(context: Context, args: list[bytes]) -> Reply:
        if context.db.inspect(args[1]) is None:
            return -2
        due_ms = context.db.expires_ms.get(args[1])
        return -1 if due_ms is None else shown(due_ms, context.now_ms)

    command(
        name, arity=2, flags="readonly fast", keys=(1, 1, 1), since=since, complexity="O(1)", group="generic",
        syntax="key", access="RO access", tips="nondeterministic_output" if "TTL" in name else "",
        summary=f"Return {what}, -2 without a key.",
    )(handler)  # fmt: skip


_declare_time(
    "TTL", "1.0.0", lambda due_ms, now_ms: (max(0, due_ms - now_ms) + 500) // 1000,
    "a key's time to live in seconds, rounded; -1 when it does not expire",
)  # fmt: skip
_declare_time(
    "PTTL", "2.6.0", lambda due_ms, now_ms: max(0, due_ms - now_ms),
    "a key's time to live in milliseconds; -1 when it does not expire",
)  # fmt: skip
_declare_time(
    "EXPIRETIME", "7.0.0", lambda due_ms, now_ms: (due_ms + 500) // 1000,
    "the Unix time in seconds at which a key expires; -1 when it does not",
)  # fmt: skip
_declare_time(
    "PEXPIRETIME", "7.0.0", lambda due_ms, now_ms: due_ms,
    "the Unix time in milliseconds at which a key expires; -1 when it does not",
)  # fmt: skip


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
