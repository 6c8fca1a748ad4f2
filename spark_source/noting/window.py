"""Checks before a sink's first write that the server can recognise rows, for long enough."""

from spark_source.connecting.connection import Server, Session
from spark_source.connecting.stream_info import as_dict, stream_info
from spark_source.errors import OptionError, StreamdError, StreamMissing, WindowTooSmall
from spark_source.noting.markers import transact
from spark_source.settings.options import WriteOptions

SETUP_GROUP = "spark-setup"  # lives for one transaction: making a group is the one way to make an empty stream


def choose_mode(server: Server, options: WriteOptions) -> str:
    """Return the value of exactlyOnce (idmp, marker or none); for `auto` idmp if the server supports it, else marker.

    Raises: OptionError when the server does not support the mode.
    """
    wanted = options.exactly_once
    if wanted in ("marker", "none"):
        return wanted
    if server.has_command("XCFGSET"):
        return "idmp"
    if wanted == "idmp":
        raise OptionError(
            f"exactlyOnce=idmp needs XADD with IDMP (streamd, Redis 8.6), which {server.options.endpoint} does not "
            "have: set exactlyOnce=marker, or none to accept duplicates"
        )
    if options.identity == "key":
        raise OptionError(
            f"identity=key needs XADD with IDMP (streamd, Redis 8.6), which {server.options.endpoint} does not have: "
            "leave identity out to write with exactlyOnce=marker"
        )
    return "marker"


def ensure_window(server: Server, stream: str, options: WriteOptions, shown: str | None = None) -> None:
    """Make a missing stream with the wanted window, or check that an existing stream's window suffices.

    A stream's window is changed only while it is empty: a change clears it, for other producers as well. WATCH guards
    against a write in between. `shown` is the stream's name for messages.

    Raises: WindowTooSmall, StreamMissing, StreamdError.
    """
    shown = shown or stream
    for _ in range(20):
        if server.patiently(lambda session: _try_window(session, stream, shown, options), stream):
            return
    raise StreamdError(f"the window of stream {shown} cannot be set, others keep writing to it: run XCFGSET yourself")


def _try_window(session: Session, stream: str, shown: str, options: WriteOptions) -> bool:
    session.call("WATCH", stream)
    try:
        info = stream_info(session, stream)
        if info is None:
            if options.window_setup == "check":
                raise StreamMissing(
                    f"stream {shown} does not exist and windowSetup=check: create it, or set windowSetup=auto"
                )
            made: list[list[str | bytes | int]] = [
                ["MULTI"],
                ["XGROUP", "CREATE", stream, SETUP_GROUP, "$", "MKSTREAM"],
                ["XGROUP", "DESTROY", stream, SETUP_GROUP],
                _configure(stream, options.window_s, options.window_size),
            ]
            return transact(session, made)
        window = as_dict(session.call("XINFO", "STREAM", stream))
        duration, size, tracked = (_number(window, name) for name in ("idmp-duration", "idmp-maxsize", "iids-tracked"))
        if duration >= options.window_s and size >= options.window_size:
            return True
        wanted = (max(duration, options.window_s), max(size, options.window_size))
        if options.window_setup != "force" and (tracked or options.window_setup == "check"):
            raise WindowTooSmall(
                f"the window of stream {shown} is {duration} s and {size} iids, this sink needs "
                f"{options.window_s} s and {options.window_size}: run XCFGSET {shown} IDMP-DURATION {wanted[0]} "
                f"IDMP-MAXSIZE {wanted[1]} when no producer has to retry, "
                "set windowSetup=force, or ask for less by windowSeconds and windowMaxSize"
            )
        return transact(session, [["MULTI"], _configure(stream, *wanted)])
    finally:
        if not session.closed:
            session.call("UNWATCH")


def _configure(stream: str, duration_s: int, size: int) -> list[str | bytes | int]:
    return ["XCFGSET", stream, "IDMP-DURATION", duration_s, "IDMP-MAXSIZE", size]


def _number(found: dict, name: str) -> int:
    value = found.get(name)
    return value if isinstance(value, int) else 0
