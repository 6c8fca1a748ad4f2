"""DEBUG: commands for tests of servers and of clients."""

import re
from typing import Final

from streamd.base.errors import CommandError, SubcommandSyntax
from streamd.catalog import Context, command
from streamd.resp.types import BigNumber, Push, Raw, Reply, SetReply, Verbatim

# One reply of each kind, for those who write a client.
_REPLIES: Final[dict[bytes, Reply]] = {
    b"STRING": b"Hello World",
    b"INTEGER": 12345,
    b"DOUBLE": 3.141,
    b"NULL": None,
    b"ARRAY": [0, 1, 2],
    b"SET": SetReply([0, 1, 2]),
    b"MAP": {0: False, 1: True, 2: False},
    b"PUSH": Push([b"server-cpu-usage", 42]),
    b"VERBATIM": Verbatim(b"This is a verbatim\nstring"),
    b"TRUE": True,
    b"FALSE": False,
    b"BIGNUM": BigNumber(b"1234567999999999999999999999999999999"),
}
_ATTRIBUTE: Final = b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n"
_BEHIND_ATTRIBUTE: Final = b"Some real reply following the attribute"


def _is_true(word: bytes) -> bool:
    return re.match(rb"\s*[+-]?0*[1-9]", word) is not None


def _protocol(context: Context, kind: bytes) -> Reply:
    """Return a reply of a kind. Raises: CommandError."""
    if kind == b"ATTRIB":
        if context.client.protocol == 2 or context.is_script:
            return _BEHIND_ATTRIBUTE
        return Raw(_ATTRIBUTE + b"$%d\r\n%b\r\n" % (len(_BEHIND_ATTRIBUTE), _BEHIND_ATTRIBUTE))
    if kind == b"PUSH" and context.client.protocol == 2:
        raise CommandError("ERR RESP2 is not supported by this command")
    if kind not in _REPLIES:
        raise CommandError(
            "ERR Wrong protocol type name. Please use one of the following: "
            "string|integer|double|null|array|set|map|attrib|push|verbatim|true|false"
        )
    return _REPLIES[kind]


@command(
    "DEBUG", arity=-2, flags="admin noscript loading stale", since="1.0.0", complexity="Depends on subcommand.",
    group="server",
    syntax="SLEEP seconds | SET-ACTIVE-EXPIRE <0 | 1> | RELOAD | LOADAOF | PROTOCOL type | ERROR text | "
    "SET-DISABLE-DENY-SCRIPTS <0 | 1> | QUICKLIST-PACKED-THRESHOLD size",
)  # fmt: skip
def debug(context: Context, args: list[bytes]) -> Reply:
    """Sleep (SLEEP), stop removing expired keys in the background (SET-ACTIVE-EXPIRE 0), or load the journal.

    RELOAD rewrites the journal and loads it, LOADAOF loads it as it is. PROTOCOL replies with a value of the named
    kind, ERROR with an error of this text.
    After SET-DISABLE-DENY-SCRIPTS 1 scripts may call commands that are not for them. QUICKLIST-PACKED-THRESHOLD is
    accepted for Redis's own tests: lists have a single form.
    """
    subcommand = args[1].upper()
    if subcommand == b"SLEEP" and len(args) == 3:
        try:
            seconds = float(args[2])
        except ValueError:
            seconds = 0.0
        if seconds > 0:
            context.services.sleep(seconds)
    elif subcommand == b"SET-ACTIVE-EXPIRE" and len(args) == 3:
        context.state.active_expire = _is_true(args[2])
    elif subcommand == b"SET-DISABLE-DENY-SCRIPTS" and len(args) == 3:
        context.state.scripts_may_all = _is_true(args[2])
        context.state.restrict()
    elif subcommand == b"PROTOCOL" and len(args) == 3:
        return _protocol(context, args[2].upper())
    elif subcommand == b"ERROR" and len(args) == 3:
        raise CommandError(args[2].decode("utf-8", "surrogateescape"))
    elif subcommand in (b"RELOAD", b"LOADAOF"):
        if context.state.journal is None:
            raise CommandError("ERR there is no journal to load: the server was started with appendonly no")
        context.state.journal.reload(rewrite=subcommand == b"RELOAD")
    elif subcommand != b"QUICKLIST-PACKED-THRESHOLD" or len(args) != 3:
        raise SubcommandSyntax(args)
    return "OK"
