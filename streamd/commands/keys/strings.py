"""Commands on strings: reading and writing them whole."""

from typing import NamedTuple

from streamd.base.errors import InvalidExpire, SyntaxError_, WrongArity, WrongType
from streamd.catalog import Batch, Context, command
from streamd.catalog.arguments import INT64_MAX, Arguments, parse_integer
from streamd.commands.keys.runs import EX, get_run, is_plain_expiry, set_run
from streamd.data.keyspace import Database
from streamd.data.types import STRING
from streamd.resp.types import Reply

_EXPIRY = "EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds"


class _Expiry(NamedTuple):
    """An expiry in a request's form: `EX 10`."""

    option: bytes
    number: bytes


def _expiry_ms(context: Context, expiry: _Expiry, name: str) -> int:
    """Return the Unix milliseconds of an expiry. Raises: NotAnInteger, InvalidExpire."""
    number = parse_integer(expiry.number)
    seconds = expiry.option in (b"EX", b"EXAT")
    if number <= 0 or (seconds and number > INT64_MAX // 1000):
        raise InvalidExpire(name)
    due_ms = number * 1000 if seconds else number
    if expiry.option in (b"EX", b"PX"):
        due_ms += context.now_ms
    if due_ms > INT64_MAX:
        raise InvalidExpire(name)
    return due_ms


def _take_expiry(words: Arguments) -> _Expiry | None:
    for option in (b"EX", b"PX", b"EXAT", b"PXAT"):
        if words.flag(option, followed_by=1):
            return _Expiry(option, words.word())
    return None


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
    syntax=f"key value [NX | XX] [GET] [{_EXPIRY} | KEEPTTL]", access="RW access update variable_flags",
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
    expiry: _Expiry | None = None
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
            taken = None if keep_ttl else _take_expiry(words)
            if taken is None or (expiry is not None and expiry.option != taken.option):
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


@command(
    "SETEX", arity=4, flags="write denyoom", keys=(1, 1, 1), since="2.0.0", complexity="O(1)", group="string",
    syntax="key seconds value", access="OW update",
)  # fmt: skip
def setex(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string that expires after a number of seconds."""
    _store(context, args[1], args[3], _expiry_ms(context, _Expiry(b"EX", args[2]), "setex"))
    return "OK"


@command(
    "PSETEX", arity=4, flags="write denyoom", keys=(1, 1, 1), since="2.6.0", complexity="O(1)", group="string",
    syntax="key milliseconds value", access="OW update",
)  # fmt: skip
def psetex(context: Context, args: list[bytes]) -> Reply:
    """Set a key to a string that expires after a number of milliseconds."""
    _store(context, args[1], args[3], _expiry_ms(context, _Expiry(b"PX", args[2]), "psetex"))
    return "OK"


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
    syntax=f"key [{_EXPIRY} | PERSIST]", access="RW access update",
)  # fmt: skip
def getex(context: Context, args: list[bytes]) -> Reply:
    """Return the string at a key, or nil, and change when the key expires."""
    key, db = args[1], context.db
    words = Arguments(args, 2)
    expiry: _Expiry | None = None
    persist = False
    while words.left():
        if expiry is None and words.flag(b"PERSIST"):
            persist = True
            continue
        taken = None if persist else _take_expiry(words)
        if taken is None or (expiry is not None and expiry.option != taken.option):
            raise SyntaxError_()
        expiry = taken
    value = db.read_as(key, STRING)
    if value is None:
        return None
    if expiry is not None:
        expires_ms = _expiry_ms(context, expiry, "getex")
        if expires_ms <= context.now_ms:
            db.delete(key)
            context.record(b"DEL", key)
            context.changed(key, "g", "del")
        else:
            db.set_expiry(key, expires_ms)
            context.record(b"PEXPIREAT", key, b"%d" % expires_ms)
            context.changed(key, "g", "expire")
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
    tips="request_policy:multi_shard response_policy:agg_min",
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
