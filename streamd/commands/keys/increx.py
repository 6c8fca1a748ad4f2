"""INCREX: add to a number within bounds, and set when it expires."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamd.base.errors import CommandError, NotAFloat, NotAnInteger, NotFinite, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import INT64_MAX, INT64_MIN, Arguments, parse_integer
from streamd.commands.keys.expiry import EXPIRY_SYNTAX, Expiry, expiry_ms, remove_key, take_expiry
from streamd.data.types import STRING
from streamd.resp.types import LongDouble, Reply

if TYPE_CHECKING:
    from fractions import Fraction


@dataclass(slots=True)
class _Asked:
    """The options of a request.

    increment: an integer or a fraction; None for 1. lower, upper: the words of LBOUND and UBOUND. is_new_only: whether
    the expiry is only for a key without one.
    """

    increment: "int | Fraction | None" = None
    is_float: bool = False
    lower: bytes | None = None
    upper: bytes | None = None
    saturates: bool = False
    expiry: Expiry | None = None
    persists: bool = False
    is_new_only: bool = False


def _take_options(words: Arguments) -> _Asked:
    """Parse the options. Raises: CommandError."""
    asked = _Asked()
    while words.left():
        if asked.increment is None and words.flag(b"BYINT", followed_by=1):
            asked.increment = words.integer(CommandError("ERR Increment is not an integer or out of range"))
        elif asked.increment is None and words.flag(b"BYFLOAT", followed_by=1):
            asked.increment, asked.is_float = _increment(words.word()), True
        elif not asked.saturates and words.flag(b"SATURATE"):
            asked.saturates = True
        elif asked.lower is None and words.flag(b"LBOUND", followed_by=1):
            asked.lower = words.word()
        elif asked.upper is None and words.flag(b"UBOUND", followed_by=1):
            asked.upper = words.word()
        elif asked.expiry is None and not asked.persists and not asked.is_new_only and words.flag(b"PERSIST"):
            asked.persists = True
        elif not asked.persists and not asked.is_new_only and words.flag(b"ENX"):
            asked.is_new_only = True
        else:
            taken = None if asked.persists or asked.expiry is not None else take_expiry(words)
            if taken is None:
                raise SyntaxError_()
            asked.expiry = taken
    return asked


def _increment(word: bytes) -> "Fraction":
    from streamd.base.long_double import number_of  # with `fractions`: a start need not wait for it

    try:
        return number_of(word)
    except NotAFloat:
        raise CommandError("ERR Increment is not a valid float")
    except NotFinite:
        raise CommandError("ERR BYFLOAT increment cannot be Infinity")


def _bound(word: bytes | None, name: str, is_float: bool) -> "int | Fraction | float | None":
    """Return a bound, or None without one. Raises: CommandError."""
    from streamd.base.long_double import number_of

    if word is None:
        return None
    try:
        return number_of(word) if is_float else parse_integer(word)
    except NotAFloat:
        raise CommandError(f"ERR {name} is not a valid float")
    except NotAnInteger:
        raise CommandError(f"ERR {name} is not an integer or out of range")
    except NotFinite:
        return float(word)


def _present(value: bytes | None, is_float: bool) -> "int | Fraction":
    """Return the number that a key holds. Raises: CommandError."""
    from streamd.base.long_double import number_of

    text = b"0" if value is None else value
    try:
        return number_of(text) if is_float else parse_integer(text)
    except NotFinite:
        raise CommandError("ERR value cannot be Infinity")


@command(
    "INCREX", arity=-2, flags="write denyoom fast", keys=(1, 1, 1), since="8.8.0", complexity="O(1)", group="string",
    syntax="key [BYFLOAT float:double | BYINT integer:integer] [SATURATE] [LBOUND lowerbound] [UBOUND upperbound] "
    f"[<{EXPIRY_SYNTAX} | PERSIST> [ENX]]",
    access="RW access update",
)  # fmt: skip
def increx(context: Context, args: list[bytes]) -> Reply:
    """Add to a number, 1 or as much as said, and set when it expires; a missing key counts as 0.

    A sum outside of the bounds is not stored, or with SATURATE the bound in its place.

    Reply: array of the number and of what was added to it: integers, with BYFLOAT numbers with fractions.
    """
    from fractions import Fraction

    from streamd.base.long_double import LARGEST, rounded, text_of_number

    key, db = args[1], context.db
    asked = _take_options(Arguments(args, 2))
    lower = _bound(asked.lower, "LBOUND", asked.is_float)
    if lower is None:
        lower = -LARGEST if asked.is_float else INT64_MIN
    upper = _bound(asked.upper, "UBOUND", asked.is_float)
    if upper is None:
        upper = LARGEST if asked.is_float else INT64_MAX
    if lower > upper:
        raise CommandError("ERR LBOUND can't be greater than UBOUND")
    if asked.is_new_only and asked.expiry is None:
        raise CommandError("ERR ENX flag requires an expiration")
    due_ms = None if asked.expiry is None else expiry_ms(context, asked.expiry, "increx")

    old = db.get_as(key, STRING)
    before = _present(old, asked.is_float)
    total = before + (1 if asked.increment is None else asked.increment)
    if asked.is_float:
        total = rounded(Fraction(total))
    if not lower <= total <= upper:
        if not asked.saturates:
            return (
                [LongDouble(text_of_number(Fraction(before))), LongDouble(b"0")] if asked.is_float else [int(before), 0]
            )
        bound = lower if total < lower else upper
        if isinstance(bound, float):
            raise CommandError("ERR applied increment would be Infinity")
        total = bound
    if asked.is_float:
        applied = rounded(Fraction(total - before))
        text = text_of_number(Fraction(total))
        _store(context, key, text, asked, due_ms)
        return [LongDouble(text), LongDouble(text_of_number(applied))]
    if not INT64_MIN <= total - before <= INT64_MAX:
        raise CommandError("ERR applied increment would overflow")
    _store(context, key, b"%d" % int(total), asked, due_ms)
    return [int(total), int(total - before)]


def _store(context: Context, key: bytes, text: bytes, asked: _Asked, due_ms: int | None) -> None:
    """Set a key to the text of a number, with its expiry, if it is to have another one."""
    db = context.db
    has_expiry = key in db.expires_ms
    if due_ms is not None and asked.is_new_only and has_expiry:
        due_ms = None
    if due_ms is not None and due_ms <= context.now_ms:
        remove_key(context, key)
        return
    db.put(key, text)
    if due_ms is not None:
        db.set_expiry(key, due_ms)
        context.record(b"SET", key, text, b"PXAT", b"%d" % due_ms)
    elif asked.persists:
        db.clear_expiry(key)
        context.record(b"SET", key, text)
    else:
        context.record(b"SET", key, text, b"KEEPTTL")
    context.changed(key, "$", "incrbyfloat" if asked.is_float else "incrby")
    if due_ms is not None:
        context.notify(key, "g", "expire")
    elif asked.persists and has_expiry:
        context.notify(key, "g", "persist")
