"""Latency: events that took longer than a threshold, and the times of commands, if they are tracked."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from typing import Final

# So many seconds of an event are kept, as in Redis.
SAMPLES_MAX: Final = 160
# Upper ends of the buckets of LATENCY HISTOGRAM, in nanoseconds: those that Redis's histogram has, 1.03 us times powers
# of two.
_BUCKETS_NS: Final = [int(1032.063 * 2**power) for power in range(31)]


class Event:
    """The slow seconds of one kind of event, each with its longest time; most_ms: the longest ever."""

    def __init__(self) -> None:
        # (Unix time in seconds, milliseconds)
        self.samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)
        self.most_ms = 0

    def add(self, unix_s: int, took_ms: int) -> None:
        """Note a time; the longest of each second is kept."""
        self.most_ms = max(self.most_ms, took_ms)
        if self.samples and self.samples[-1][0] == unix_s:
            self.samples[-1] = (unix_s, max(self.samples[-1][1], took_ms))
        else:
            self.samples.append((unix_s, took_ms))


class CommandTimes:
    """A histogram of one command's times."""

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_NS) + 1)
        self.calls = 0

    def add(self, took_ns: int, calls: int = 1) -> None:
        """Count calls that each took this long."""
        self.calls += calls
        self.counts[bisect_left(_BUCKETS_NS, took_ns)] += calls

    def buckets(self) -> dict[int, int]:
        """Return microseconds -> number of calls up to that time, for each bucket that is not empty."""
        rows, below = {}, 0
        for end_ns, count in zip([*_BUCKETS_NS, _BUCKETS_NS[-1] * 2], self.counts, strict=True):
            below += count
            if count:
                rows[end_ns // 1000] = below
        return rows

    def percentile_us(self, percent: float) -> float:
        """Return a percentile of the calls' times in microseconds: the end of its bucket."""
        wanted, below = self.calls * percent / 100, 0
        for end_ns, count in zip(_BUCKETS_NS, self.counts, strict=False):
            below += count
            if below >= wanted:
                return end_ns / 1000
        return _BUCKETS_NS[-1] / 500


class Latency:
    """The data of LATENCY. threshold_ms: 0 if no event is noted. is_tracking: whether commands' times are counted."""

    def __init__(self) -> None:
        self.threshold_ms = 0
        self.is_tracking = False
        self.events: dict[str, Event] = {}
        self.commands: dict[str, CommandTimes] = {}

    def count(self, name: str, took_ns: int, calls: int = 1) -> None:
        """Count calls of a command that each took this long."""
        times = self.commands.get(name)
        if times is None:
            times = self.commands[name] = CommandTimes()
        times.add(took_ns, calls)

    def note_event(self, is_fast: bool, took_ns: int, unix_s: int) -> None:
        """Note the time of a command if it is above the threshold."""
        if took_ns >= self.threshold_ms * 1_000_000:
            self.events.setdefault("fast-command" if is_fast else "command", Event()).add(unix_s, took_ns // 1_000_000)

    def reset(self, names: Iterable[str] = ()) -> int:
        """Forget the named events, or all; return their number."""
        wanted = [name for name in (list(names) or list(self.events)) if name in self.events]
        for name in dict.fromkeys(wanted):
            del self.events[name]
        return len(dict.fromkeys(wanted))


_ROWS: Final = 4
_LEVELS: Final = "_o#"


def graph(name: str, event: Event, now_s: int) -> str:
    """Return an event's samples as ASCII art, each with its age below."""
    values = [took_ms for _, took_ms in event.samples][-80:]
    low, high = min(values), max(values)
    lines = [f"{name} - high {high} ms, low {low} ms (all time high {event.most_ms} ms)", "-" * 80]
    steps = [round((value - low) / max(high - low, 1) * (_ROWS * len(_LEVELS) - 1)) for value in values]
    for row in reversed(range(_ROWS)):
        cells = [
            "|" if step // 3 > row else _LEVELS[step % 3] if step // 3 == row else " "
            for step in steps
        ]  # fmt: skip
        lines.append("".join(cells))
    ages = [_age(now_s - unix_s) for unix_s, _ in event.samples][-80:]
    lines.append("")
    for at in range(max(map(len, ages))):
        lines.append("".join(age[at] if at < len(age) else " " for age in ages))
    return "\n".join(lines) + "\n"


def _age(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{max(0, seconds)}s"


def diagnosis(latency: Latency, journal_policy: str) -> str:
    """Return a report on the events, with advice, for people."""
    if not latency.threshold_ms:
        return "Latency is not monitored. CONFIG SET latency-monitor-threshold <milliseconds> begins it.\n"
    if not latency.events:
        return f"No command took {latency.threshold_ms} ms or more since latency is monitored.\n"
    lines = []
    for number, (name, event) in enumerate(sorted(latency.events.items()), 1):
        times = [took_ms for _, took_ms in event.samples]
        mean = sum(times) / len(times)
        lines.append(
            f"{number}. {name}: {len(times)} latency spikes (average {mean:.0f} ms, worst {event.most_ms} ms). "
            f"Worst of the last ones: {max(times)} ms."
        )
    lines += [
        "",
        "- SLOWLOG GET names the commands; those that go through many keys or entries (KEYS, SORT, SMEMBERS, XRANGE",
        "  without COUNT) take as long as what they go through: ask for pages.",
        "- Scripts and transactions are executed as one: make them shorter.",
    ]
    if journal_policy == "always":
        lines.append("- appendfsync is always: each turn waits for the disk; see streamd_fsync_seconds of /metrics.")
    lines.append(
        "- Other processes on the machine may have taken the CPU: see used_cpu_* in INFO and the system's load."
    )
    return "\n".join(lines) + "\n"
