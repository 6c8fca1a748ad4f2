"""LATENCY: slow events, and the times of commands."""

from streamd.base.errors import CommandError, echoed
from streamd.catalog import Context, command, container
from streamd.connected.latency import diagnosis, graph
from streamd.resp.types import Reply, Verbatim

_LATENCY = "admin noscript loading stale"
_NODES = "request_policy:all_nodes"
_SPECIAL = "nondeterministic_output request_policy:all_nodes response_policy:special"

container(
    "LATENCY",
    since="2.8.13",
    group="server",
    help_lines=[
        "DOCTOR",
        "    Show what the events say, as text for people.",
        "GRAPH <event>",
        "    Show an event's samples as a picture of letters.",
        "HISTOGRAM [<command> ...]",
        "    Show how many calls took how long, without arguments of all commands; see latency-tracking.",
        "HISTORY <event>",
        "    Show times and milliseconds of an event: command or fast-command; see latency-monitor-threshold.",
        "LATEST",
        "    Show the latest sample of each event, and the most milliseconds ever.",
        "RESET [<event> ...]",
        "    Forget the samples of events, without arguments of all.",
    ],
)


def _name(word: bytes) -> str:
    return word.decode("utf-8", "surrogateescape")


@command("LATENCY LATEST", arity=2, flags=_LATENCY, since="2.8.13", complexity="O(1)", group="server", tips=_SPECIAL)
def latency_latest(context: Context, args: list[bytes]) -> Reply:
    """Return the latest sample of each event.

    Reply: array of [event, Unix time in seconds, milliseconds, the longest ever in milliseconds].
    """
    events = context.state.latency.events
    return [[name.encode(), *event.samples[-1], event.most_ms] for name, event in events.items()]


@command(
    "LATENCY HISTORY", arity=3, flags=_LATENCY, since="2.8.13", complexity="O(1)", group="server", syntax="event",
    tips=_SPECIAL,
)  # fmt: skip
def latency_history(context: Context, args: list[bytes]) -> Reply:
    """Return the samples of an event: array of [Unix time in seconds, milliseconds], oldest first."""
    event = context.state.latency.events.get(_name(args[2]))
    return [] if event is None else [[unix_s, took_ms] for unix_s, took_ms in event.samples]


@command(
    "LATENCY RESET", arity=-2, flags=_LATENCY, since="2.8.13", complexity="O(1)", group="server",
    syntax="[event [event ...]]", tips=f"{_NODES} response_policy:agg_sum",
)  # fmt: skip
def latency_reset(context: Context, args: list[bytes]) -> Reply:
    """Forget the samples of events; return the number of these events."""
    return context.state.latency.reset(map(_name, args[2:]))


@command(
    "LATENCY DOCTOR", arity=2, flags=_LATENCY, since="2.8.13", complexity="O(1)", group="server", tips=_SPECIAL,
)  # fmt: skip
def latency_doctor(context: Context, args: list[bytes]) -> Reply:
    """Return a report on the events, with advice, for people."""
    return Verbatim(diagnosis(context.state.latency, context.state.config.text("appendfsync")).encode())


@command(
    "LATENCY GRAPH", arity=3, flags=_LATENCY, since="2.8.13", complexity="O(1)", group="server", syntax="event",
    tips=_SPECIAL,
)  # fmt: skip
def latency_graph(context: Context, args: list[bytes]) -> Reply:
    """Return the samples of an event as ASCII art."""
    name = _name(args[2])
    event = context.state.latency.events.get(name)
    if event is None:
        raise CommandError(f"ERR No samples available for event '{echoed(args[2])}'")
    return Verbatim(graph(name, event, context.now_ms // 1000).encode("utf-8", "surrogateescape"))


@command(
    "LATENCY HISTOGRAM", arity=-2, flags=_LATENCY, since="7.0.0", complexity="O(N), N the commands", group="server",
    syntax="[command [command ...]]", tips=_SPECIAL,
)  # fmt: skip
def latency_histogram(context: Context, args: list[bytes]) -> Reply:
    """Return histograms of the commands' times, without arguments of all commands that were called.

    Reply: map of names to maps: calls, and histogram_usec, a map of microseconds to the number of calls.
    """
    times = context.state.latency.commands
    if len(args) == 2:
        names = list(times)
    else:
        commands = context.services.commands
        found = [one for word in args[2:] if (one := commands.find(word.lower())) is not None]
        names = [leaf.name for one in found for leaf in (one, *one.subcommands.values()) if leaf.name in times]
    return {
        name.encode(): {b"calls": times[name].calls, b"histogram_usec": dict(times[name].buckets())}
        for name in dict.fromkeys(names)
    }
