"""Commands on keys of any type: existence, removal, search."""

from collections.abc import Iterator
from functools import partial
from itertools import islice

from streamd.base.glob import Matcher, compile_glob
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_cursor
from streamd.commands.keys.scan_pages import in_slices, take_options
from streamd.commands.long_replies import used_up
from streamd.data import positions
from streamd.data.keyspace import Database
from streamd.data.types import ROW_OVERHEAD, type_of
from streamd.resp.types import LongArray, Reply, Sliced

_SHARDS = "request_policy:multi_shard response_policy:agg_sum"
# Redis: so many expired keys a replica passes over before it returns one.
_RANDOM_TRIES_MAX = 100


@command(
    "UNLINK", arity=-2, flags="write fast", keys=(1, -1, 1), since="4.0.0", complexity="O(N), N the keys",
    group="generic", syntax="key [key ...]", access="RM delete", tips=_SHARDS,
)  # fmt: skip
@command(
    "DEL", arity=-2, flags="write", keys=(1, -1, 1), since="1.0.0", complexity="O(N), N the keys", group="generic",
    syntax="key [key ...]", access="RM delete", tips=_SHARDS,
)  # fmt: skip
def del_(context: Context, args: list[bytes]) -> Reply:
    """Remove keys; return the number of those that existed."""
    removed = 0
    db, state = context.db, context.state
    # A request may name a million keys, most of which are not there.
    for key in filter(db.values.__contains__, islice(args, 1, None)):
        if db.delete(key):
            removed += 1
            if state.records is not None:
                state.records.append((db.index, [b"DEL", key]))
            if key in db.followed:
                context.changed(key, "g", "del")
    state.dirty += removed
    return removed


@command(
    "EXISTS", arity=-2, flags="readonly fast", keys=(1, -1, 1), since="1.0.0", complexity="O(N), N the keys",
    group="generic", syntax="key [key ...]", access="RO", tips=_SHARDS,
)  # fmt: skip
def exists(context: Context, args: list[bytes]) -> Reply:
    """Return how many of the keys exist; a key named twice counts twice."""
    return context.db.count(args[1:])


@command(
    "TOUCH", arity=-2, flags="readonly fast", keys=(1, -1, 1), since="3.2.1", complexity="O(N), N the keys",
    group="generic", syntax="key [key ...]", access="RO", tips=_SHARDS,
)  # fmt: skip
def touch(context: Context, args: list[bytes]) -> Reply:
    """Return how many of the keys exist, and count an access to each."""
    return sum(context.db.read(key) is not None for key in args[1:])


@command(
    "TYPE", arity=2, flags="readonly fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="generic",
    syntax="key", access="RO",
)  # fmt: skip
def type_(context: Context, args: list[bytes]) -> Reply:
    """Return the type of the value at a key, or none."""
    value = context.db.inspect(args[1])
    return "none" if value is None else type_of(value).name


@command(
    "KEYS", arity=2, flags="readonly", since="1.0.0", complexity="O(N), N the keys in the database", group="generic",
    syntax="pattern", acl="keyspace dangerous", tips="request_policy:all_shards nondeterministic_output_order",
)  # fmt: skip
def keys(context: Context, args: list[bytes]) -> Reply:
    """Return all keys that match a pattern."""
    matches, db = compile_glob(args[1]), context.db
    if len(db) <= SLICED_ITEMS_MIN:
        return [key for key in db.keys() if matches(key)]  # noqa: SIM118
    every, gone = list(db.values), db.overdue()
    found: list[bytes] = []

    def look() -> Iterator[int]:
        for names in used_up(every):
            some = [key for key in names if matches(key) and key not in gone]
            found.extend(some)
            yield len(some)

    return Sliced(LongArray(look(), used_up(found)), ROW_OVERHEAD * len(every))


@command(
    "SCAN", arity=-2, flags="readonly", since="2.8.0",
    complexity="O(COUNT)", group="generic",
    syntax="cursor [MATCH pattern] [COUNT count] [TYPE type]",
    tips="nondeterministic_output request_policy:special response_policy:special",
)  # fmt: skip
def scan(context: Context, args: list[bytes]) -> Reply:
    """Return a page of the keys, and the cursor of the next page.

    A key that is there all the time is returned, and only once unless others are removed and added meanwhile.

    Reply: array of the next cursor, 0 at the end, and an array of keys.
    """
    cursor = parse_cursor(args[1])
    count, matches, type_name, _ = take_options(Arguments(args, 2), takes_type=True)
    db = context.db
    if len(db) > SLICED_ITEMS_MIN and count > SLICED_ITEMS_MIN and not context.in_unit:
        pieces = in_slices(partial(positions.page, db.values), partial(_shown, db, matches, type_name), cursor, count)
        return Sliced(LongArray(2, pieces), ROW_OVERHEAD * min(count, len(db)))
    cursor, page = positions.page(db.values, cursor, count)
    found = []
    for key in page:
        if matches is not None and not matches(key):
            continue
        value = db.peek(key)
        if value is not None and (type_name is None or type_of(value).name == type_name):
            found.append(key)
    return [b"%d" % cursor, found]


def _shown(db: Database, matches: Matcher | None, type_name: str | None, page: list[bytes]) -> list[bytes]:
    """Return the keys of a page that match. An expired key is left out, but not removed: a slice changes nothing."""
    return [
        key
        for key in page
        if (matches is None or matches(key))
        and (type_name is None or type_of(db.values[key]).name == type_name)
        and (key not in db.expires_ms or db.expires_ms[key] > db.time.ms)
    ]


@command(
    "RANDOMKEY", arity=1, flags="readonly", since="1.0.0",
    complexity="O(1)", group="generic",
    tips="request_policy:all_shards nondeterministic_output response_policy:special",
)  # fmt: skip
def randomkey(context: Context, args: list[bytes]) -> Reply:
    """Return a random key, or nil in an empty database."""
    db = context.db
    tries = 0
    while len(db):
        key = positions.some_row(db.values, context.state.random)
        if db.peek(key) is not None:
            return key
        tries += 1
        if db.keeps_expired and tries == _RANDOM_TRIES_MAX:
            return key  # as Redis does: on a replica all keys may have expired, and stay
    return None
