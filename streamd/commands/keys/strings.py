"""Commands on strings: reading and writing them whole."""

from dataclasses import dataclass
from typing import Final

from streamd.base.errors import CommandError, NotAnInteger, SyntaxError_, WrongArity, WrongType
from streamd.catalog import Batch, Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.catalog.counted_keys import CountedKeys
from streamd.commands.keys.comparisons import comparison_holds, is_comparison
from streamd.commands.keys.expiry import EXPIRY_SYNTAX, Expiry, expiry_ms, remove_key, set_due, take_expiry
from streamd.commands.keys.runs import EX, get_run, is_plain_expiry, set_run
from streamd.data.keyspace import Database
from streamd.data.types import STRING
from streamd.resp.types import Reply


@dataclass(slots=True)
class _Settings:
    """The options of SET and MSETEX: a condition on the old value, with what that is compared with; and the expiry."""

    condition: bytes | None = None
    operand: bytes = b""
    expiry: Expiry | None = None
    get: bool = False
    keep_ttl: bool = False


def _take_settings(words: Arguments, reads: bool) -> _Settings:
    """Parse options up to the end. reads: whether they may need the old value (GET, IFEQ ...). Raises: SyntaxError_."""
    found = _Settings()
    while words.left():
        option = words.word().upper()
        if option in (b"NX", b"XX") and found.condition in (None, option):
            found.condition = option
        elif reads and is_comparison(option) and found.condition in (None, option):
            found.condition, found.operand = option, words.word()
        elif reads and option == b"GET":
            found.get = True
        elif option == b"KEEPTTL" and found.expiry is None:
            found.keep_ttl = True
        else:
            words.at -= 1
            taken = None if found.keep_ttl else take_expiry(words)
            if taken is None or (found.expiry is not None and found.expiry[:2] != taken[:2]):
                raise SyntaxError_()
            found.expiry = taken
    return found


def _put(context: Context, key: bytes, value: bytes, expires_ms: int | None, keep_ttl: bool) -> None:
    """Set a key to a string and record it, without the events on that."""
    db, state = context.db, context.state
    if state.notify_flags:
        context.notify_overwritten(key, db.peek(key), value)
    db.put(key, value)
    state.dirty += 1
    records = state.records
    if expires_ms is not None:
        db.set_expiry(key, expires_ms)
        if records is not None:
            records.append((db.index, [b"SET", key, value, b"PXAT", b"%d" % expires_ms]))
    elif keep_ttl:
        if records is not None:
            records.append((db.index, [b"SET", key, value, b"KEEPTTL"]))
    else:
        if key in db.expires_ms:
            db.clear_expiry(key)
        if records is not None:
            records.append((db.index, [b"SET", key, value]))


def _store(context: Context, key: bytes, value: bytes, expires_ms: int | None = None, keep_ttl: bool = False) -> None:
    _put(context, key, value, expires_ms, keep_ttl)
    if key in context.db.followed:
        context.changed(key, "$", "set")
        if expires_ms is not None:
            context.notify(key, "g", "expire")


@command(
    "SET", arity=-3, flags="write denyoom", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key value [NX | XX | IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest] [GET] "
    f"[{EXPIRY_SYNTAX} | KEEPTTL]",
    access="RW access update variable_flags",
    batch=Batch(set_run, any_keys=True),
)  # fmt: skip
def set_(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string, over any value.

    Reply: OK; nil when a condition kept it from being set. With GET: the old string, or nil.
    Raises: SyntaxError_, NotAnInteger, InvalidExpire, WrongType (with GET, IFEQ ...), CommandError.
    """
    key, value = args[1], args[2]
    if len(args) == 3:
        _store(context, key, value)
        return "OK"
    if len(args) == 5 and args[3] in EX and is_plain_expiry(args[4]):
        # As below, for what most clients send.
        _store(context, key, value, context.state.time.ms + int(args[4]) * 1000)
        return "OK"
    settings = _take_settings(Arguments(args, 3), reads=True)
    expires_ms = None if settings.expiry is None else expiry_ms(context, settings.expiry, "set")
    db, condition = context.db, settings.condition
    compares = condition not in (None, b"NX", b"XX")
    # (A comparison with a missing key is no miss.)
    reads = settings.get or (compares and db.peek(key) is not None)
    old = db.read_as(key, STRING) if reads else db.get(key)
    if condition is None:
        is_met = True
    elif compares and isinstance(old, bytes):
        is_met = comparison_holds((condition, settings.operand), old)
    else:
        is_met = (old is None) == (condition in _MET_BY_NOTHING)
    if is_met:
        if expires_ms is not None and expires_ms <= context.now_ms:
            remove_key(context, key)
        else:
            _store(context, key, value, expires_ms, settings.keep_ttl)
    return old if settings.get else "OK" if is_met else None


# The conditions that a missing key meets.
_MET_BY_NOTHING: Final = (b"NX", b"IFNE", b"IFDNE")


@command(
    "SETNX", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key value", access="OW insert",
)  # fmt: skip
def setnx(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string if it does not exist; return whether it was set."""
    if context.db.get(args[1]) is not None:
        return 0
    _store(context, args[1], args[2])
    return 1


def _declare_setex(name: str, since: str, unit: str, unit_ms: int) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        _store(context, args[1], args[3], expiry_ms(context, (unit_ms, True, args[2]), name.lower()))
        return "OK"

    command(
        name, arity=4, flags="write denyoom", keys=(1, 1, 1), since=since, complexity="O(1)", group="string",
        syntax=f"key {unit} value", access="OW update",
        summary=f"Set a key to a string that expires after a number of {unit}.",
    )(handler)  # fmt: skip


_declare_setex("SETEX", "2.0.0", "seconds", 1000)
_declare_setex("PSETEX", "2.6.0", "milliseconds", 1)


@command(
    "GET", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key", access="RO access", batch=Batch(get_run, any_keys=True),
)  # fmt: skip
def get(context: Context, args: list[bytes]) -> Reply:
    """Return the string at a key, or nil."""
    # What read_as does first, without the call: it takes as long as counting and noting the access.
    key, db = args[1], context.db
    value = db.values.get(key)
    if type(value) is bytes and key not in db.expires_ms:
        db.hits += 1
        db.touched[key] = db.time.s
        return value
    return db.read_as(key, STRING)


@command(
    "GETSET", arity=3, flags="write denyoom fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax="key value", access="RW access update",
)  # fmt: skip
def getset(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string and return the one before, or nil."""
    old = context.db.read_as(args[1], STRING)
    _store(context, args[1], args[2])
    return old


@command(
    "GETDEL", arity=2, flags="write fast", keys=(1, 1, 1), since="6.2.0", complexity="O(1)", group="string",
    syntax="key", access="RW access delete",
)  # fmt: skip
def getdel(context: Context, args: list[bytes]) -> Reply:
    """Remove a key and return its string, or nil."""
    key = args[1]
    old = context.db.read_as(key, STRING)
    if old is not None:
        remove_key(context, key)
    return old


@command(
    "GETEX", arity=-2, flags="write fast", keys=(1, 1, 1), since="6.2.0", complexity="O(1)", group="string",
    syntax=f"key [{EXPIRY_SYNTAX} | PERSIST]", access="RW access update",
)  # fmt: skip
def getex(context: Context, args: list[bytes]) -> Reply:
    """Return the string at a key, or nil, and change when the key expires."""
    key, db = args[1], context.db
    words = Arguments(args, 2)
    expiry: Expiry | None = None
    persist = False
    while words.left():
        if expiry is None and words.flag(b"PERSIST"):
            persist = True
            continue
        taken = None if persist else take_expiry(words)
        if taken is None or (expiry is not None and expiry[:2] != taken[:2]):
            raise SyntaxError_()
        expiry = taken
    value = db.read_as(key, STRING)
    if value is None:
        return None
    if expiry is not None:
        set_due(context, key, expiry_ms(context, expiry, "getex"))
    elif persist and db.clear_expiry(key):
        context.record(b"PERSIST", key)
        context.changed(key, "g", "persist")
    return value


def _string_or_none(db: Database, key: bytes) -> bytes | None:
    try:
        return db.read_as(key, STRING)
    except WrongType:
        return None


@command(
    "MGET", arity=-2, flags="readonly fast", keys=(1, -1, 1), since="1.0.0", complexity="O(N), N the keys",
    group="string", syntax="key [key ...]", access="RO access", tips="request_policy:multi_shard",
)  # fmt: skip
def mget(context: Context, args: list[bytes]) -> Reply:
    """Return the strings at keys; nil for keys without one."""
    return [_string_or_none(context.db, key) for key in args[1:]]


@command(
    "MSET", arity=-3, flags="write denyoom", keys=(1, -1, 2), since="1.0.1", complexity="O(N), N the keys",
    group="string", syntax="key value [key value ...]", access="OW update",
    tips="request_policy:multi_shard response_policy:all_succeeded",
)  # fmt: skip
def mset(context: Context, args: list[bytes]) -> Reply:
    """Set several keys to strings."""
    if len(args) % 2 == 0:
        raise WrongArity("mset")
    for key, value in zip(args[1::2], args[2::2], strict=True):
        _store(context, key, value)
    return "OK"


@command(
    "MSETNX", arity=-3, flags="write denyoom", keys=(1, -1, 2), since="1.0.1", complexity="O(N), N the keys",
    group="string", syntax="key value [key value ...]", access="OW insert",
)  # fmt: skip
def msetnx(context: Context, args: list[bytes]) -> Reply:
    """Set several keys to strings if none of them exists; return whether they were set."""
    if len(args) % 2 == 0:
        raise WrongArity("msetnx")
    if any(context.db.get(key) is not None for key in args[1::2]):
        return 0
    for key, value in zip(args[1::2], args[2::2], strict=True):
        _store(context, key, value)
    return 1


@command(
    "MSETEX", arity=-4, flags="write denyoom", since="8.4.0", complexity="O(N), N the keys", group="string",
    find_keys=CountedKeys(1, step=2),
    syntax=f"numkeys:integer key value [key value ...] [NX | XX] [{EXPIRY_SYNTAX} | KEEPTTL]",
    access="OW update", tips="request_policy:multi_shard response_policy:all_succeeded",
)  # fmt: skip
def msetex(context: Context, args: list[bytes]) -> Reply:
    """Set several keys to strings that expire at one time, or only if none, or each, of them exists.

    Reply: integer, 1 if they were set.
    """
    try:
        count = parse_integer(args[1])
    except NotAnInteger:
        count = 0
    if not 0 < count < 2**31:
        raise CommandError("ERR invalid numkeys value")
    end = 2 + 2 * count
    if len(args) < end:
        raise CommandError("ERR wrong number of key-value pairs")
    settings = _take_settings(Arguments(args, end), reads=False)
    expires_ms = None if settings.expiry is None else expiry_ms(context, settings.expiry, "msetex")
    keys, db = args[2:end:2], context.db
    if settings.condition is not None:
        wants_new = settings.condition == b"NX"
        if any((db.get(key) is None) != wants_new for key in keys):
            return 0
    for key, value in zip(keys, args[3:end:2], strict=True):
        _put(context, key, value, expires_ms, settings.keep_ttl)
        if key in db.followed:
            if expires_ms is not None:
                context.notify(key, "g", "expire")
            context.changed(key, "$", "set")
    return 1
