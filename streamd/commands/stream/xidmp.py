"""XIDMP: a stream's idempotence window, its settings and counters, in the words of the feature's proposal."""

from streamd.base.errors import CommandError
from streamd.catalog import Context, command, container
from streamd.catalog.applying import Applying, applies
from streamd.catalog.arguments import Arguments
from streamd.commands.stream.group_effects import need_stream
from streamd.commands.stream.options import parse_settings
from streamd.resp.types import Reply

container(
    "XIDMP",
    since="8.6.0",
    group="stream",
    help_lines=[
        "CFGGET <key> [DURATION] [MAXSIZE]",
        "    Show how many seconds, and how many idempotent IDs per producer, <key> remembers.",
        "CFGSET <key> [DURATION <seconds>] [MAXSIZE <entries>]",
        "    Set them, and forget all idempotent IDs of <key>.",
        "STATS <key>",
        "    Show how many producers and idempotent IDs <key> remembers, and how many it ever added and found again.",
    ],
)


@command(
    "XIDMP CFGGET",
    arity=-3,
    flags="readonly fast",
    keys=(2, 2, 1),
    since="8.6.0",
    complexity="O(1)",
    syntax="key [DURATION] [MAXSIZE]",
    access="RO",
)
def xidmp_cfgget(context: Context, args: list[bytes]) -> Reply:
    """Return the settings of a stream's idempotence window.

    Reply: map of `duration` (seconds) and `maxsize` (entries), those that were asked for or both.
    Raises: NoSuchKey; WrongType; CommandError.
    """
    idmp = need_stream(context.stream(args[2])).idmp
    wanted = set()
    for word in args[3:]:
        if word.upper() not in (b"DURATION", b"MAXSIZE"):
            raise CommandError(f"ERR Unknown parameter '{word.decode('utf-8', 'surrogateescape')}'")
        wanted.add(word.lower())
    settings = {b"duration": idmp.duration_s, b"maxsize": idmp.maxsize}
    return {name: value for name, value in settings.items() if not wanted or name in wanted}


@command(
    "XIDMP CFGSET",
    arity=-3,
    flags="write fast",
    keys=(2, 2, 1),
    since="8.6.0",
    complexity="O(1)",
    syntax="key [DURATION duration] [MAXSIZE maxsize]",
    access="RW update",
)
def xidmp_cfgset(context: Context, args: list[bytes]) -> Reply:
    """Set a stream's idempotence window and forget all its idempotent IDs, also when nothing differs.

    Raises: NoSuchKey; WrongType; CommandError.
    """
    key = args[2]
    idmp = need_stream(context.stream(key)).idmp
    duration_s, maxsize = parse_settings(Arguments(args, 3), "DURATION", "MAXSIZE")
    context.db.trash.add(idmp.reconfigure(duration_s, maxsize))
    context.record(b"XIDMP", b"CFGSET", key, b"DURATION", b"%d" % idmp.duration_s, b"MAXSIZE", b"%d" % idmp.maxsize)
    return "OK"


@applies("XIDMP CFGSET")
def apply_settings(applying: Applying, words: list[bytes]) -> None:
    """Set a stream's idempotence window and forget all its idempotent IDs."""
    _, _, key, _, duration_s, _, maxsize = words
    applying.stream(key).idmp.reconfigure(int(duration_s), int(maxsize))


@command(
    "XIDMP STATS",
    arity=3,
    flags="readonly fast",
    keys=(2, 2, 1),
    since="8.6.0",
    complexity="O(1)",
    syntax="key",
    access="RO",
)
def xidmp_stats(context: Context, args: list[bytes]) -> Reply:
    """Return the counters of a stream's idempotence window, as XINFO STREAM counts them.

    Reply: map of `producers-tracked` (XINFO STREAM: `pids-tracked`), `iids-tracked`, `iids-added`, `iids-duplicates`.
    Raises: NoSuchKey; WrongType.
    """
    idmp = need_stream(context.stream(args[2])).idmp
    return {
        b"producers-tracked": idmp.pids_tracked,
        b"iids-tracked": idmp.iids_tracked,
        b"iids-added": idmp.iids_added,
        b"iids-duplicates": idmp.iids_duplicates,
    }
