"""Commands on the expiry of a hash's fields."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, InvalidExpire
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.keys.expiry import EXPIRY_SYNTAX, Expiry, condition_holds
from streamd.commands.keys.hash_fields import remove_fields, set_fields
from streamd.commands.keys.hash_words import SetOptions, take_all_fields, take_expire_options
from streamd.data.hash import Hash
from streamd.data.timed_hash import TimedHash, times_of, with_times
from streamd.data.types import HASH
from streamd.resp.types import Reply

# The latest Unix time in milliseconds that Redis takes for a field: that of the year 4199.
_DUE_MS_MAX: Final = 2**46 - 1
_FIELDS: Final = "FIELDS numfields:integer field [field ...]"
_ON: Final = "O(N), N the fields"

# What is answered for a field that is not there, one without a time, one whose condition did not hold, one that got a
# time, and one that was removed as its time has passed.
_NO_FIELD, _NO_TIME, _NOT_MET, _SET, _REMOVED = -2, -1, 0, 1, 2


def _due_ms(context: Context, number: int, unit_ms: int, relative: bool, name: str) -> int:
    """Return the Unix milliseconds of an argument. Raises: InvalidExpire, CommandError."""
    if number < 0:
        raise CommandError("ERR invalid expire time, must be >= 0")
    due_ms = number * unit_ms + (context.now_ms if relative else 0)
    if due_ms > _DUE_MS_MAX:
        raise InvalidExpire(name)
    return due_ms


def _give_time(
    context: Context, key: bytes, value: Hash, fields: list[bytes], due_ms: int, just_set: bool = False
) -> None:
    """Let present fields expire at a future time, or remove them if it has passed; the event names them as they come.

    just_set: this command has set all of them, which was counted as its changes.
    """
    if not fields:
        return
    if due_ms <= context.now_ms:
        remove_fields(context, key, value, fields, just_set)
        return
    timed = with_times(value)
    once = dict.fromkeys(fields)
    for field in once:
        timed.times.set(field, due_ms)
    context.db.note_times(key, timed)
    words = [b"HPEXPIREAT", key, b"%d" % due_ms, b"FIELDS", b"%d" % len(once)]
    context.record(*words, *once, changes=0 if just_set else len(fields))
    context.changed(key, "h", "hexpire", fields)


def _take_times(context: Context, key: bytes, value: Hash, fields: list[bytes]) -> None:
    """Let fields that have a time live as long as their hash."""
    if not fields:
        return
    assert isinstance(value, TimedHash)
    for field in fields:
        value.times.drop(field)
    value.settle()
    context.record(b"HPERSIST", key, b"FIELDS", b"%d" % len(fields), *fields, changes=len(fields))
    context.changed(key, "h", "hpersist", fields)


def _declare_expire(name: str, amount: str, unit_ms: int, relative: bool, summary: str) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        key = args[1]
        value = context.db.get_as(key, HASH)
        due_ms = _due_ms(context, parse_integer(args[2]), unit_ms, relative, name.lower())
        fields, conditions = take_expire_options(Arguments(args, 3))
        if value is None:
            return [_NO_FIELD] * len(fields)
        replies = []
        chosen: list[bytes] = []  # with the fields that are named twice
        seen: set[bytes] = set()
        for field in fields:
            if field not in value or (field in seen and due_ms <= context.now_ms):
                replies.append(_NO_FIELD)
                continue
            old_ms = due_ms if field in seen else times_of(value).get(field)
            if not condition_holds(conditions, old_ms, due_ms):
                replies.append(_NOT_MET)
                continue
            chosen.append(field)
            seen.add(field)
            replies.append(_REMOVED if due_ms <= context.now_ms else _SET)
        _give_time(context, key, value, chosen, due_ms)
        return replies

    command(
        name, arity=-6, flags="write fast", keys=(1, 1, 1), since="7.4.0", complexity=_ON, group="hash",
        syntax=f"key {amount} [NX | XX | GT | LT] {_FIELDS}", access="RW update", summary=summary,
    )(handler)  # fmt: skip


for _name, _amount, _unit_ms, _relative, _summary in (
    ("HEXPIRE", "seconds", 1000, True, "Let fields of a hash end in so many seconds."),
    ("HPEXPIRE", "milliseconds", 1, True, "Let fields of a hash end in so many milliseconds."),
    ("HEXPIREAT", "unix-time-seconds", 1000, False, "Let fields of a hash end at a Unix time in seconds."),
    ("HPEXPIREAT", "unix-time-milliseconds", 1, False, "Let fields of a hash end at a Unix time in milliseconds."),
):
    _declare_expire(_name, _amount, _unit_ms, _relative, _summary)


def _declare_time(name: str, shown: Callable[[int, int], int], summary: str) -> None:
    """shown(due_ms, now_ms): the reply for a field that expires at `due_ms`."""

    def handler(context: Context, args: list[bytes]) -> Reply:
        value = context.db.read_as(args[1], HASH)
        fields = take_all_fields(Arguments(args, 2))
        if value is None:
            return [_NO_FIELD] * len(fields)
        times = times_of(value)
        return [
            _NO_FIELD if field not in value else _NO_TIME if field not in times else shown(times[field], context.now_ms)
            for field in fields
        ]

    command(
        name, arity=-5, flags="readonly fast", keys=(1, 1, 1), since="7.4.0", complexity=_ON, group="hash",
        syntax=f"key {_FIELDS}", access="RO access", tips="nondeterministic_output" if "TTL" in name else "",
        summary=summary,
    )(handler)  # fmt: skip


_declare_time(
    "HTTL", lambda due_ms, now_ms: -((now_ms - due_ms) // 1000),
    "Return how many seconds fields of a hash have left; -1 for one without a time, -2 for one that is not there.",
)  # fmt: skip
_declare_time(
    "HPTTL", lambda due_ms, now_ms: due_ms - now_ms,
    "Return how many milliseconds fields of a hash have left; -1 for one without a time, -2 for one that is not there.",
)  # fmt: skip
_declare_time(
    "HEXPIRETIME", lambda due_ms, now_ms: -(-due_ms // 1000),
    "Return the Unix times in seconds at which fields end; -1 for one without a time, -2 for one that is not there.",
)  # fmt: skip
_declare_time(
    "HPEXPIRETIME", lambda due_ms, now_ms: due_ms,
    "Return the Unix milliseconds at which fields end; -1 for one without a time, -2 for one that is not there.",
)  # fmt: skip


@command(
    "HPERSIST", arity=-5, flags="write fast", keys=(1, 1, 1), since="7.4.0", complexity=_ON, group="hash",
    syntax=f"key {_FIELDS}", access="RW update",
)  # fmt: skip
def hpersist(context: Context, args: list[bytes]) -> Reply:
    """Let fields of a hash live as long as the hash.

    Reply: array, for each field 1, -1 if it had no time, -2 if it is missing.
    """
    value = context.db.get_as(args[1], HASH)
    fields = take_all_fields(Arguments(args, 2))
    if value is None:
        return [_NO_FIELD] * len(fields)
    replies = []
    chosen: dict[bytes, None] = {}
    times = times_of(value)
    for field in fields:
        has_time = field in times and field not in chosen
        replies.append(_SET if has_time else _NO_TIME if field in value else _NO_FIELD)
        if has_time:
            chosen[field] = None
    _take_times(context, args[1], value, list(chosen))
    return replies


def _take_options(context: Context, args: list[bytes], name: str, keep: bytes) -> SetOptions:
    def parse_due(expiry: Expiry) -> int:
        unit_ms, relative, word = expiry
        return _due_ms(context, parse_integer(word), unit_ms, relative, name)

    return SetOptions(Arguments(args, 2), name, keep, parse_due)


def _take_values(context: Context, key: bytes, value: Hash, fields: list[bytes]) -> list[Reply]:
    """Remove fields and return their values; nil for missing ones, and where a field is named again."""
    values: list[Reply] = []
    seen: dict[bytes, None] = {}
    for field in fields:
        values.append(None if field in seen else value.get(field))
        seen[field] = None
    remove_fields(context, key, value, seen)
    return values


@command(
    "HGETEX", arity=-5, flags="write fast", keys=(1, 1, 1), since="8.0.0", complexity=_ON, group="hash",
    syntax=f"key [{EXPIRY_SYNTAX} | PERSIST] {_FIELDS}", access="RW access update",
)  # fmt: skip
def hgetex(context: Context, args: list[bytes]) -> Reply:
    """Return the values of fields, nil for missing ones, and change when the fields expire."""
    key = args[1]
    value = context.db.get_as(key, HASH)
    options = _take_options(context, args, "hgetex", b"PERSIST")
    fields, due_ms = options.fields, options.due_ms
    if value is None:
        return [None] * len(fields)
    if due_ms is not None and due_ms <= context.now_ms:
        return _take_values(context, key, value, fields)
    values = [value.get(field) for field in fields]
    if due_ms is not None:
        _give_time(context, key, value, [field for field in fields if field in value], due_ms)
    elif options.keeps:
        times = times_of(value)
        _take_times(context, key, value, [field for field in dict.fromkeys(fields) if field in times])
    return values


@command(
    "HGETDEL", arity=-5, flags="write fast", keys=(1, 1, 1), since="8.0.0", complexity=_ON, group="hash",
    syntax=f"key {_FIELDS}", access="RW access delete",
)  # fmt: skip
def hgetdel(context: Context, args: list[bytes]) -> Reply:
    """Remove fields and return their values; nil for missing ones."""
    value = context.db.get_as(args[1], HASH)
    fields = take_all_fields(Arguments(args, 2))
    return [None] * len(fields) if value is None else _take_values(context, args[1], value, fields)


@command(
    "HSETEX", arity=-6, flags="write denyoom fast", keys=(1, 1, 1), since="8.0.0", complexity=_ON, group="hash",
    syntax=f"key [FNX | FXX] [{EXPIRY_SYNTAX} | KEEPTTL] FIELDS numfields:integer field value [field value ...]",
    access="RW update",
)  # fmt: skip
def hsetex(context: Context, args: list[bytes]) -> Reply:
    """Set fields of a hash, and when they expire.

    Reply: 1; 0 when a field existed under FNX, or was missing under FXX, and nothing was set.
    """
    key, db = args[1], context.db
    options = _take_options(context, args, "hsetex", b"KEEPTTL")
    pairs, due_ms = options.fields, options.due_ms
    value = db.get_as(key, HASH)
    fields = pairs[::2]
    present = () if value is None else value
    if options.condition == b"FNX" and any(field in present for field in fields):
        return 0
    if options.condition == b"FXX" and not all(field in present for field in fields):
        return 0
    if value is None:
        db.put(key, value := Hash())
    set_fields(context, key, value, pairs, "hset", keeps_times=options.keeps)
    if due_ms is not None:
        _give_time(context, key, value, fields, due_ms, just_set=True)
    return 1
