"""A row's figures on streamd and on redis-server, and the bounds that they exceed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.slopes.probe import Probe, Unanswered
from bench.slopes.row import FACTOR, GROWTH, Row

# Redis's time may be exceeded ten times, and by this: what a request costs in Python, and what a tick of the cron adds.
TIMES_REDIS = 10
FLOOR_US = 500.0
# The first use after a load meets cold caches, once: there is no second measurement to take the least of.
FIRST_FLOOR_US = 2_000.0
# Off the processor's caches everything costs more: growth is allowed so many times.
TOLERANCE = 2.5
WAIT_MS = 20.0
# Nobody waits for longer than a request computes.
PINGED_FROM_US = WAIT_MS * 1e3 * 0.8


@dataclass(slots=True)
class Figures:
    """Least costs in microseconds: at N, at eight times N, and there at the first use after a load."""

    small_us: float = 0.0
    large_us: float = 0.0
    first_us: float = 0.0


@dataclass(slots=True)
class Finding:
    """A row with its figures, and the bounds that these exceed."""

    row: Row
    ours: Figures = field(default_factory=Figures)
    theirs: Figures | None = None
    wait_ms: float = 0.0
    faults: list[str] = field(default_factory=list)


def judge(row: Row, ours: Probe, theirs: Probe | None, rounds: int, part: int, reload: bool) -> Finding:
    """Measure a row; once more, and with more rounds, if it exceeds a bound. part: sizes are divided by it."""
    found = _judge(row, ours, theirs, rounds, part, reload)
    if found.faults:
        again = _judge(row, ours, theirs, 3 * rounds, part, reload)
        found = again if len(again.faults) <= len(found.faults) else found
    return found


def _judge(row: Row, ours: Probe, theirs: Probe | None, rounds: int, part: int, reload: bool) -> Finding:
    found = Finding(row)
    try:
        found.ours, head = _figures(row, ours, rounds, part, reload)
        if head.startswith(b"-") and not row.refused:
            found.faults.append(f"refused: {head.splitlines()[0].decode(errors='replace')[:80]}")
        if found.ours.large_us > PINGED_FROM_US:
            found.wait_ms = min(_wait_ms(row, ours, part) for _ in range(2))
        ours_refused = head.startswith(b"-")
    except Unanswered as fault:
        found.faults.append(str(fault))
        return found
    if theirs is not None:
        try:
            found.theirs, head = _figures(row, theirs, rounds, part, reload)
            if head.startswith(b"-") and not ours_refused:
                found.theirs = None
        except Unanswered as fault:
            if not str(fault).startswith("prepared"):
                raise
    found.faults += _exceeded(found)
    return found


def _figures(row: Row, probe: Probe, rounds: int, part: int, reload: bool) -> tuple[Figures, bytes]:
    figures, head = Figures(), b""
    sizes = (row.n // part, row.n * FACTOR // part)
    for n in sizes:
        probe.prepare(row.prepare, n)
        if n == sizes[1] and reload and "key" in row.grows:
            probe.execute("DEBUG RELOAD", n)
            probe.settle()
        costs = []
        for number in range(rounds):
            if number and row.fresh:
                probe.prepare(row.prepare, n)
            probe.execute(row.before, n)
            cost_us, head = probe.cost_us(row.request, n)
            costs.append(cost_us)
            if number and cost_us > 300_000:
                break
        if n == sizes[1]:
            figures.large_us, figures.first_us = min(costs), costs[0]
        else:
            figures.small_us = min(costs)
    return figures, head


def _wait_ms(row: Row, probe: Probe, part: int) -> float:
    n = row.n * FACTOR // part
    if row.fresh:
        probe.prepare(row.prepare, n)
    probe.execute(row.before, n)
    return probe.longest_wait_ms(row.request, n)


def _exceeded(found: Finding) -> list[str]:
    """Return which bounds are exceeded, in words."""
    ours, theirs, order = found.ours, found.theirs, found.row.order
    faults = []
    allowed = TOLERANCE * GROWTH[order] * max(ours.small_us, FLOOR_US / GROWTH[order])
    if ours.large_us > allowed:
        faults.append(f"grows {ours.large_us / ours.small_us:.1f} times, O({order})")
    if theirs is not None:
        if ours.large_us > TIMES_REDIS * theirs.large_us + FLOOR_US:
            faults.append(f"{ours.large_us / theirs.large_us:.0f} times Redis's time")
        if ours.first_us > TIMES_REDIS * theirs.first_us + FIRST_FLOOR_US:
            faults.append(f"the first use {ours.first_us / theirs.first_us:.0f} times Redis's")
    if not found.row.whole and found.wait_ms > WAIT_MS:
        faults.append(f"others wait {found.wait_ms:.0f} ms")
    return faults


def table(found: Sequence[Finding]) -> list[str]:
    """Return findings as lines: costs at N and 8 N, after a load, Redis's, the longest wait, and exceeded bounds."""
    lines = [f"{'us':>10}{'8 x':>10}{'first':>10}{'redis':>10}{'8 x':>10}{'first':>10}{'wait ms':>9}"]
    for one in found:
        line = _columns(one.ours) + (_columns(one.theirs) if one.theirs else f"{'-':>10}" * 3)
        row = f"{one.row.request[:70]}  [{one.row.prepare[:50]}]"
        lines.append(f"{line}{one.wait_ms:9.1f}  {row}" + (f"  -- {'; '.join(one.faults)}" if one.faults else ""))
    return lines


def _columns(figures: Figures) -> str:
    return f"{figures.small_us:10.0f}{figures.large_us:10.0f}{figures.first_us:10.0f}"
