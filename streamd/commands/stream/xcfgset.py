"""XCFGSET: set how long and how many idempotent IDs a stream remembers."""

from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments
from streamd.commands.stream.group_effects import need_stream
from streamd.commands.stream.options import parse_settings
from streamd.resp.types import Reply


@command(
    "XCFGSET",
    arity=-2,
    flags="write fast",
    keys=(1, 1, 1),
    since="8.6.0",
    complexity="O(1)",
    syntax="key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries]",
    access="RW update",
)
def xcfgset(context: Context, args: list[bytes]) -> Reply:
    """Set a stream's idempotence window; a value that differs forgets all idempotent IDs.

    Raises: NoSuchKey; WrongType; CommandError.
    """
    key = args[1]
    stream = need_stream(context.stream(key))
    duration_s, maxsize = parse_settings(Arguments(args, 2), "IDMP-DURATION", "IDMP-MAXSIZE")
    if stream.idmp.configure(duration_s, maxsize):
        context.record(
            b"XCFGSET",
            key,
            b"IDMP-DURATION",
            b"%d" % stream.idmp.duration_s,
            b"IDMP-MAXSIZE",
            b"%d" % stream.idmp.maxsize,
        )
    return "OK"
