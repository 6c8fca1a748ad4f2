"""DUMP and RESTORE: a key's value as bytes, in the form that Redis reads and writes."""

from collections.abc import Iterator
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_
from streamd.base.limits import SLICED_ITEMS_MIN
from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.catalog.arguments import INT64_MAX, Arguments, parse_integer
from streamd.commands.stream.iid_times import record_window
from streamd.data.types import KeyValue, type_of
from streamd.rdb.bytes import BadData, BadFooter
from streamd.rdb.payload import ask_for, check_size, payload_in_steps, payload_of, value_in
from streamd.resp.types import Later, Reply, Sliced
from streamd.stream.stream import Stream

# So many elements of a large value are looked at to tell its size.
_SAMPLES: Final = 16


@command(
    "DUMP", arity=2, flags="readonly", keys=(1, 1, 1), since="2.6.0", complexity="O(N), N the size of the value",
    group="generic", syntax="key", access="RO access", tips="nondeterministic_output",
)  # fmt: skip
def dump(context: Context, args: list[bytes]) -> Reply:
    """Return the value of a key as bytes for RESTORE, here or in Redis; nil without a key.

    The bytes of a large value are made in slices, from a copy or snapshot of it.
    """
    value = context.db.read(args[1])
    if value is None:
        return None
    kind = type_of(value)
    if kind.elements(value) <= SLICED_ITEMS_MIN:
        ask_for(value)
        return payload_of(value)
    check_size(value)
    copied: KeyValue = (kind.snapshot or kind.copy)(value)
    return Sliced(Later(_steps(copied)), kind.memory_bytes(copied, _SAMPLES))


def _steps(value: KeyValue) -> Iterator[Reply]:
    try:
        yield from payload_in_steps(value)
    except CommandError as error:  # it is too large, or a block is damaged
        yield error.as_reply()


class _Options:
    """The options of a RESTORE, behind its payload.

    replaces: the key may be there. is_absolute: the time to live is a Unix time. idle_s: None if it is not given.
    """

    __slots__ = ("idle_s", "is_absolute", "replaces")

    def __init__(self, words: Arguments) -> None:
        """Take all words. Raises: CommandError."""
        self.replaces = self.is_absolute = False
        self.idle_s: int | None = None
        frequency: int | None = None
        while words.left():
            if words.flag(b"REPLACE"):
                self.replaces = True
            elif words.flag(b"ABSTTL"):
                self.is_absolute = True
            elif frequency is None and words.flag(b"IDLETIME", followed_by=1):
                self.idle_s = words.integer()
                if self.idle_s < 0:
                    raise CommandError("ERR Invalid IDLETIME value, must be >= 0")
            elif self.idle_s is None and words.flag(b"FREQ", followed_by=1):
                # (It is checked, and belongs to a policy that streamd has not.)
                frequency = words.integer()
                if not 0 <= frequency <= 255:
                    raise CommandError("ERR Invalid FREQ value, must be >= 0 and <= 255")
            else:
                raise SyntaxError_()


@command(
    "RESTORE", arity=-4, flags="write denyoom", keys=(1, 1, 1), since="2.6.0", acl="keyspace dangerous",
    complexity="O(N), N the size of the value", group="generic", access="OW update",
    syntax="key ttl serialized-value [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]",
)  # fmt: skip
def restore(context: Context, args: list[bytes]) -> Reply:
    """Store the value that DUMP returned, here or from Redis, at a key.

    A key whose time has passed already is removed. Raises: CommandError.
    """
    key, payload, db = args[1], args[3], context.db
    options = _Options(Arguments(args, 4))
    before = db.get(key)
    if before is not None and not options.replaces:
        raise CommandError("BUSYKEY Target key name already exists.")
    due_ms = parse_integer(args[2])
    if due_ms < 0:
        raise CommandError("ERR Invalid TTL value, must be >= 0")
    try:
        value = value_in(payload, context.new_stream, context.now_ms)
    except BadFooter:
        raise CommandError("ERR DUMP payload version or checksum are wrong")
    except BadData:
        raise CommandError("ERR Bad data format")
    if due_ms and not options.is_absolute:
        due_ms += context.now_ms
    if due_ms and not context.now_ms < due_ms <= INT64_MAX:
        # (A time that does not fit has passed for Redis, too.)
        if before is not None:
            db.delete(key)
            context.record(b"DEL", key)
            context.changed(key, "g", "del")
        return "OK"
    db.place(key, value, due_ms or None)
    if options.idle_s is not None:
        db.used_s[key] = db.time.s - options.idle_s
    context.record(b"RESTORE", key, b"%d" % due_ms, payload, b"REPLACE", b"ABSTTL")
    if type(value) is Stream:
        record_window(context, key, value)
    context.changed(key, "g", "restore")
    context.notify_overwritten(key, before, value)
    return "OK"


@applies("RESTORE")
def apply_restore(applying: Applying, words: list[bytes]) -> None:
    """Store a value in place of any that is there; its time must be absolute."""
    key, due_ms, payload = words[1], parse_integer(words[2]), words[3]
    options = _Options(Arguments(words, 4))
    if due_ms and not options.is_absolute:
        raise CannotApply("its time to live counts from a time that is not known")
    try:
        value = value_in(payload, applying.new_stream)
    except (BadFooter, BadData) as error:
        raise CannotApply(f"its payload is not readable: {error}")
    applying.db.place(key, value, due_ms or None)
