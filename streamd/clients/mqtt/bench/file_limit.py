"""The limit of open files, raised as far as the system lets this process raise it."""

from contextlib import suppress

# Of the interpreter, the event loop and the standard streams.
_OTHERS = 40


class TooFewFiles(OSError):
    """The hard limit does not suffice."""


def make_room(connections: int) -> None:
    """Raise the soft limit so that this many connections can be open. Raises: TooFewFiles."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHERS
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise TooFewFiles(
            f"{connections:,} connections take {wanted:,} open files, and the hard limit is {hard:,}:"
            " raise it (ulimit -Hn), or ask for fewer"
        )
    with suppress(ValueError):  # macOS says unlimited and means less; there connecting fails, and says so
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else hard, hard))
