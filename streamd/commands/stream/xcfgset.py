"""XCFGSET: set how long and how many idempotent IDs a stream remembers."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
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
    forgotten = stream.idmp.configure(duration_s, maxsize)
    if forgotten is not None:
        context.db.trash.add(forgotten)
        context.record(
            b"XCFGSET",
            key,
            b"IDMP-DURATION",
            b"%d" % stream.idmp.duration_s,
            b"IDMP-MAXSIZE",
            b"%d" % stream.idmp.maxsize,
        )
    return "OK"


@applies("XCFGSET")
def apply_settings(applying: Applying, words: list[bytes]) -> None:
    """Set a stream's idempotence window, and forget all idempotent IDs if that changes it."""
    duration_s, maxsize = parse_settings(Arguments(words, 2), "IDMP-DURATION", "IDMP-MAXSIZE")
    applying.stream(words[1]).idmp.configure(duration_s, maxsize)


@applies("XIDMPSETTINGS")
def apply_rewritten_settings(applying: Applying, words: list[bytes]) -> None:
    """Set a stream's idempotence window, and forget nothing."""
    idmp = applying.stream(words[1]).idmp
    idmp.duration_s, idmp.maxsize = map(int, words[2:])


@applies("XIDMPCOUNTERS")
def apply_rewritten_counters(applying: Applying, words: list[bytes]) -> None:
    """Set how many iids were ever added, and how many duplicates answered."""
    idmp = applying.stream(words[1]).idmp
    idmp.iids_added, idmp.iids_duplicates = map(int, words[2:])
