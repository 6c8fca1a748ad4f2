"""The errors a client sees, with Redis's exact texts."""

from typing import ClassVar, Final, Self

# A script raises errors with any code: longer codes than this are cut where they are counted.
CODE_CHARACTERS_MAX: Final = 128
# A code ends where the line sent ends a word; and INFO has a meaning for `:` and `#`, so Redis writes these as `_`.
_IN_A_CODE: Final = str.maketrans("\r\n:#", "  __")


def echoed(word: bytes, bytes_max: int = 128) -> str:
    """Return a client's word as an error echoes it: up to the first zero byte, like a C string."""
    return word[:bytes_max].partition(b"\0")[0].decode("utf-8", "surrogateescape")


def error_code(line: str) -> str:
    """Return the first word of an error's line for statistics: printable characters only, shortened."""
    code = line[:CODE_CHARACTERS_MAX].translate(_IN_A_CODE).partition(" ")[0]
    return "".join(filter(str.isprintable, code))


def reason_of(error: BaseException) -> str:
    """Return an exception as one line: the system's message for an OSError, otherwise class and message."""
    text = getattr(error, "strerror", None) or " ".join(f"{type(error).__name__}: {error}".split())
    return str(text).encode("utf-8", "backslashreplace").decode()


class CommandError(Exception):
    """An error reply; `str(error)` is the line behind the `-`, its code first.

    is_counted: whether the statistics have counted it.
    """

    is_counted = False

    def as_reply(self) -> Self:
        """Return the error as a value to keep, without its traceback, whose frames hold the request and the reply."""
        self.__traceback__ = self.__context__ = None
        return self


class FixedError(CommandError):
    """An error whose line is always the same."""

    line: ClassVar[str] = ""

    def __init__(self) -> None:
        super().__init__(self.line)


class ProtocolError(CommandError):
    """Input that is no request; it is answered and the connection is closed."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"ERR Protocol error: {detail}")


class WrongType(FixedError):
    line = "WRONGTYPE Operation against a key holding the wrong kind of value"


class SyntaxError_(FixedError):
    line = "ERR syntax error"


class NotAnInteger(FixedError):
    line = "ERR value is not an integer or out of range"


class NoSuchKey(FixedError):
    line = "ERR no such key"


class WrongArity(CommandError):
    """Too few or too many words; `name` is as in `COMMAND INFO`, `xinfo|stream` for a subcommand."""

    def __init__(self, name: str) -> None:
        super().__init__(f"ERR wrong number of arguments for '{name}' command")


class InvalidStreamId(FixedError):
    line = "ERR Invalid stream ID specified as stream command argument"


class InvalidRangeStart(FixedError):
    line = "ERR invalid start ID for the interval"


class InvalidRangeEnd(FixedError):
    line = "ERR invalid end ID for the interval"


class UnknownSubcommand(CommandError):
    """`word` is echoed as the client sent it; `advice` says what to do in place of asking for HELP."""

    def __init__(self, container: str, word: str, advice: str = "") -> None:
        super().__init__(f"ERR unknown subcommand '{word[:128]}'. {advice or f'Try {container.upper()} HELP.'}")


class SubcommandSyntaxError(CommandError):
    """Arguments of a subcommand that do not fit together; `args` is the request, echoed as the client sent it."""

    def __init__(self, args: list[bytes]) -> None:
        word = args[1][:128].decode("utf-8", "surrogateescape")
        container = args[0].upper().decode("utf-8", "surrogateescape")
        super().__init__(f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP.")


class NoGroup(CommandError):
    """A missing consumer group; `text` is the command's own wording."""

    def __init__(self, text: str) -> None:
        super().__init__(f"NOGROUP {text}")


class BusyGroup(FixedError):
    line = "BUSYGROUP Consumer Group name already exists"


class NoSuchDatabase(FixedError):
    line = "ERR DB index is out of range"


class OutOfRange(FixedError):
    """An integer that does not fit into 32 bits."""

    line = "ERR value is out of range, value must between -2147483648 and 2147483647"


class InvalidExpire(CommandError):
    """An expiry that is not in the future of the epoch, or too far away; `name` is the command, lower case."""

    def __init__(self, name: str) -> None:
        super().__init__(f"ERR invalid expire time in '{name}' command")


class WrongPassword(FixedError):
    line = "WRONGPASS invalid username-password pair or user is disabled."


class NoPermission(CommandError):
    """A request that its user's rules forbid.

    user: the user's name. reason: command, key or channel; name: what is refused. context: the origin of the request:
    toplevel, multi (it was queued), exec (it was allowed when it was queued) or lua.
    """

    def __init__(self, user: str, reason: str, name: str, context: str) -> None:
        if reason == "command":
            refusal = f"User {user} has no permissions to run the '{name}' command"
        else:
            refusal = f"No permissions to access a {reason}"
        if context == "lua":
            text = f"ERR ACL failure in script: {refusal}"
        elif context == "exec":
            text = (
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This "
                f"command is no longer allowed for the following reason: {_OF_QUEUED[reason]}"
            )
        else:
            text = f"NOPERM {refusal}"
        super().__init__(text)


_OF_QUEUED = {
    "command": "no permission to execute the command or subcommand",
    "key": "no permission to touch the specified keys",
    "channel": "no permission to access one of the channels used as arguments",
}


class SameObject(FixedError):
    line = "ERR source and destination objects are the same"


class WouldOverflow(FixedError):
    line = "ERR increment or decrement would overflow"


class StringTooLong(FixedError):
    line = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"


class NotAFloat(FixedError):
    line = "ERR value is not a valid float"


class NotFinite(FixedError):
    line = "ERR increment would produce NaN or Infinity"


class SubcommandSyntax(CommandError):
    """A subcommand with too many words; `request`: the words that the client sent."""

    def __init__(self, request: list[bytes]) -> None:
        container, word = map(echoed, request[:2])
        super().__init__(
            f"ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container.upper()} HELP."
        )


class InvalidCursor(FixedError):
    line = "ERR invalid cursor"


class BusyScript(FixedError):
    line = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."


class BusyFunction(FixedError):
    line = "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."


class RoleChanged(FixedError):
    """The end of a wait at a server that becomes a replica."""

    line = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"


class BadKeysNumber(FixedError):
    """A word for the number of a function's keys that is no integer."""

    line = "ERR Bad number of keys provided"


class NoScript(FixedError):
    line = "NOSCRIPT No matching script. Please use EVAL."
