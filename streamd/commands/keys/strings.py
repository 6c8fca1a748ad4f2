"""Commands on strings: reading and writing them whole."""

from streamd.base.errors import InvalidExpire, SyntaxError_, WrongArity, WrongType
from streamd.catalog import Batch, Context, command
from streamd.catalog.arguments import INT64_MAX, Arguments, parse_integer
from streamd.commands.keys.expiry import EXPIRY_SYNTAX, Expiry, set_due, take_expiry
from streamd.commands.keys.runs import EX, get_run, is_plain_expiry, set_run
from streamd.data.keyspace import Database
from streamd.data.types import STRING
from streamd.resp.types import Reply


def _expiry_ms(context: Context, expiry: Expiry, name: str) -> int:
    """Return the Unix milliseconds of an expiry. Raises: NotAnInteger, InvalidExpire."""
    unit_ms, relative, word = expiry
    number = parse_integer(word)
    if not 0 < number <= INT64_MAX // unit_ms:
        raise InvalidExpire(name)
    due_ms = number * unit_ms + (context.now_ms if relative else 0)
    if due_ms > INT64_MAX:
        raise InvalidExpire(name)
    return due_ms


def _store(context: Context, key: bytes, value: bytes, expires_ms: int | None = None, keep_ttl: bool = False) -> None:
    db, state = context.db, context.state
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
    if key in db.followed:
        context.changed(key, "$", "set")
        if expires_ms is not None:
            context.notify(key, "g", "expire")


@command(
    "SET", arity=-3, flags="write denyoom", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="string",
    syntax=f"key value [NX | XX] [GET] [{EXPIRY_SYNTAX} | KEEPTTL]", access="RW access update variable_flags",
    batch=Batch(set_run, any_keys=True),
)  # fmt: skip
def set_(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string, over any value.

    Reply: OK; nil when NX or XX kept it from being set. With GET: the old string, or nil.
    Raises: SyntaxError_, NotAnInteger, InvalidExpire, WrongType (with GET).
    """
    key, value = args[1], args[2]
    if len(args) == 3:
        _store(context, key, value)
        return "OK"
    if len(args) == 5 and args[3] in EX and is_plain_expiry(args[4]):
        # As below, for what most clients send.
        _store(context, key, value, context.state.time.ms + int(args[4]) * 1000)
        return "OK"
    words = Arguments(args, 3)
    condition: bytes | None = None
    expiry: Expiry | None = None
    get = keep_ttl = False
    while words.left():
        option = words.peek()
        if option in (b"NX", b"XX") and condition in (None, option):
            condition = option
            words.word()
        elif words.flag(b"GET"):
            get = True
        elif option == b"KEEPTTL" and expiry is None:
            keep_ttl = True
            words.word()
        else:
            taken = None if keep_ttl else take_expiry(words)
            if taken is None or (expiry is not None and expiry[:2] != taken[:2]):
                raise SyntaxError_()
            expiry = taken
    expires_ms = None if expiry is None else _expiry_ms(context, expiry, "set")
    db = context.db
    old = db.read_as(key, STRING) if get else db.get(key)
    if condition is not None and (old is None) != (condition == b"NX"):
        return old if get else None
    _store(context, key, value, expires_ms, keep_ttl)
    return old if get else "OK"


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
        _store(context, args[1], args[3], _expiry_ms(context, (unit_ms, True, args[2]), name.lower()))
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
        context.db.delete(key)
        context.record(b"DEL", key)
        context.changed(key, "g", "del")
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
        set_due(context, key, _expiry_ms(context, expiry, "getex"))
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
