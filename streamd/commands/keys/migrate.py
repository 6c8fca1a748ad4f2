"""MIGRATE: keys sent to another server, and removed here once it has them."""

import re
from collections.abc import Iterator
from typing import Final

from streamd.base.errors import CommandError, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.catalog.counted_keys import KeysBehindWord
from streamd.catalog.transfer import Target, TargetAway, TargetRefused
from streamd.data.types import KeyValue
from streamd.rdb.payload import ask_for, payload_of
from streamd.resp.types import Reply

# Timeouts of 0 and below stand for this one, as in Redis.
_TIMEOUT_MS: Final = 1000
# A port as C's atoi reads it.
_PORT: Final = re.compile(rb"\s*([+-]?\d{1,9})")


def _keys(request: list[bytes]) -> list[bytes]:
    """Return the key at its place, or the keys behind KEYS, for which the place must be empty."""
    at = 6
    while at < len(request) - 1:
        option = request[at].upper()
        if option == b"KEYS":
            return [] if request[3] else request[at + 1 :]
        at += {b"AUTH": 2, b"AUTH2": 3}.get(option, 1)
    return [request[3]]


class _Options:
    """The options of a MIGRATE. keys: those behind KEYS, None without it."""

    __slots__ = ("copies", "credentials", "keys", "replaces")

    def __init__(self, words: Arguments) -> None:
        """Take all words. Raises: SyntaxError_."""
        self.copies = self.replaces = False
        self.credentials: list[bytes] = []
        self.keys: list[bytes] | None = None
        while words.left():
            if words.flag(b"COPY"):
                self.copies = True
            elif words.flag(b"REPLACE"):
                self.replaces = True
            elif words.flag(b"AUTH", followed_by=1):
                self.credentials = [words.word()]
            elif words.flag(b"AUTH2", followed_by=2):
                self.credentials = [words.word(), words.word()]
            elif words.flag(b"KEYS"):
                self.keys = [words.word() for _ in range(words.left())]
            else:
                raise SyntaxError_()


@command(
    "MIGRATE", arity=-6, flags="write", keys=(3, 3, 1), since="2.6.0", acl="keyspace dangerous", group="generic",
    complexity="O(N), N the size of the values, which are sent over the network",
    find_keys=KeysBehindWord(b"KEYS", -2, _keys), access="RW access delete; RW access delete incomplete",
    tips="nondeterministic_output",
    syntax='host port <key | ""> destination-db timeout [COPY] [REPLACE] '
    "[AUTH password | AUTH2 username password] [KEYS key [key ...]]",
)  # fmt: skip
def migrate(context: Context, args: list[bytes]) -> Reply:
    """Send keys to another server, and remove those here that it has then.

    No other client is served meanwhile, as in Redis: the timeout bounds each step. Raises: CommandError.
    """
    options = _Options(Arguments(args, 6))
    if options.keys is not None and args[3]:
        raise CommandError("ERR When using MIGRATE KEYS option, the key argument must be set to the empty string")
    timeout_ms, database = parse_integer(args[5]), parse_integer(args[4])
    db = context.db
    values: list[tuple[bytes, KeyValue]] = []
    for key in [args[3]] if options.keys is None else options.keys:
        value = db.read(key)
        if value is not None:
            values.append((key, value))
    if not values:
        return "NOKEY"
    for _, value in values:
        ask_for(value)

    port = _PORT.match(args[2])
    number = 0 if port is None else int(port[1])
    target = Target(args[1], number, options.credentials, database, timeout_ms if timeout_ms > 0 else _TIMEOUT_MS)
    refusal: CommandError | None = None
    replies = context.services.transfer(target, _restores(context, values, options.replaces))
    for (key, _), line in zip(values, replies, strict=True):
        if line != b"+OK":
            if line[:1] != b"-":
                raise TargetAway("reading to target instance")
            refusal = refusal or TargetRefused(line[1:])
        elif not options.copies and db.delete(key):
            context.record(b"DEL", key)
            context.changed(key, "g", "del")
    if refusal is not None:
        raise refusal
    return "OK"


def _restores(context: Context, values: list[tuple[bytes, KeyValue]], replaces: bool) -> Iterator[list[bytes]]:
    """Yield the request for each value that stores it at the target."""
    for key, value in values:
        due_ms = context.db.expires_ms.get(key)
        ttl_ms = 0 if due_ms is None else max(1, due_ms - context.now_ms)
        yield [b"RESTORE", key, b"%d" % ttl_ms, payload_of(value), *([b"REPLACE"] if replaces else [])]
