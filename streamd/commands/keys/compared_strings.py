"""Commands that compare a whole string: DELEX and DIGEST."""

from collections.abc import Iterator
from typing import Final

from xxhash import xxh3_64

from streamd.base.errors import CommandError, WrongArity, WrongType
from streamd.catalog import Context, command
from streamd.commands.keys.comparisons import comparison_holds, digest, is_comparison
from streamd.commands.keys.expiry import remove_key
from streamd.data.types import STRING
from streamd.resp.types import Later, Reply, Sliced

# So many bytes are hashed at once, in about a tenth of a millisecond; a longer string in slices.
_HASHED_BYTES: Final = 1024 * 1024


@command(
    "DELEX", arity=-2, flags="write fast", keys=(1, 1, 1), since="8.4.0",
    complexity="O(1); O(N) for IFDEQ and IFDNE, N the bytes", group="string",
    syntax="key [IFEQ ifeq-value | IFNE ifne-value | IFDEQ ifdeq-digest | IFDNE ifdne-digest]",
    access="RW delete variable_flags",
)  # fmt: skip
def delex(context: Context, args: list[bytes]) -> Reply:
    """Remove a key, or only if its string, or the digest of that, equals or differs from a word.

    Reply: integer, 1 if it was removed.
    """
    if len(args) not in (2, 4):
        raise WrongArity("delex")
    key, db = args[1], context.db
    if len(args) == 4:
        try:
            value = db.read_as(key, STRING)
        except WrongType:
            raise CommandError("ERR Key should be of string type if conditions are specified")
        if value is None:
            return 0
        if not is_comparison(args[2]):
            raise CommandError("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
        if not comparison_holds((args[2].upper(), args[3]), value):
            return 0
    return int(remove_key(context, key))


def _steps(value: bytes) -> Iterator[Reply]:
    found = xxh3_64()
    for at in range(0, len(value), _HASHED_BYTES):
        found.update(value[at : at + _HASHED_BYTES])
        yield None
    yield found.hexdigest().encode()


@command(
    "DIGEST", arity=2, flags="readonly fast", keys=(1, 1, 1), since="8.4.0", complexity="O(N), N the bytes",
    group="string", syntax="key", access="RO access",
)  # fmt: skip
def digest_(context: Context, args: list[bytes]) -> Reply:
    """Return the digest of a string, the XXH3 hash of 64 bits as 16 hexadecimal digits, or nil."""
    value = context.db.read_as(args[1], STRING)
    if value is None:
        return None
    return digest(value) if len(value) <= _HASHED_BYTES else Sliced(Later(_steps(value)), len(value))
