"""The errors a client sees, with Redis's exact texts."""


class CommandError(Exception):
    """An error reply; `str(error)` is the line behind the `-`, its code first."""


class ProtocolError(CommandError):
    """Input that is no request; it is answered and the connection is closed."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"ERR Protocol error: {detail}")


class WrongType(CommandError):
    def __init__(self) -> None:
        super().__init__("WRONGTYPE Operation against a key holding the wrong kind of value")


class SyntaxError_(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR syntax error")


class NotAnInteger(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR value is not an integer or out of range")


class NoSuchKey(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR no such key")


class WrongArity(CommandError):
    """Too few or too many words; `name` is as in `COMMAND INFO`, `xinfo|stream` for a subcommand."""

    def __init__(self, name: str) -> None:
        super().__init__(f"ERR wrong number of arguments for '{name}' command")


class InvalidStreamId(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR Invalid stream ID specified as stream command argument")


class InvalidRangeStart(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR invalid start ID for the interval")


class InvalidRangeEnd(CommandError):
    def __init__(self) -> None:
        super().__init__("ERR invalid end ID for the interval")


class UnknownSubcommand(CommandError):
    """`word` is echoed as the client sent it."""

    def __init__(self, container: str, word: str) -> None:
        super().__init__(f"ERR unknown subcommand '{word[:128]}'. Try {container.upper()} HELP.")


class NoGroup(CommandError):
    """A consumer group that is not there; `text` is the command's own wording."""

    def __init__(self, text: str) -> None:
        super().__init__(f"NOGROUP {text}")


class BusyGroup(CommandError):
    def __init__(self) -> None:
        super().__init__("BUSYGROUP Consumer Group name already exists")
