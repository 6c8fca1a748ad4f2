"""A figure of `bench.mqtt_scale` with its target, and what the measurements read from processes meanwhile."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from streamd.clients.mqtt.bench import processes

T = TypeVar("T")
LOOK_S: Final = 0.1


@dataclass(frozen=True)
class Figure:
    """What was measured. most, least: its target. value: None if it could not be measured.

    note: what the figure depends on, or why it is not available.
    """

    name: str
    value: float | None
    unit: str = ""
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def wanted(self) -> str:
        """The target as the table shows it."""
        if self.most is None and self.least is None:
            return ""
        limit = self.most if self.least is None else self.least
        assert limit is not None
        return f"{'<=' if self.least is None else '>='} {text(limit, self.unit)}"

    @property
    def verdict(self) -> str:
        """Whether the target was met."""
        if not self.wanted or self.value is None:
            return "" if self.value is not None else "not available"
        is_met = self.value <= self.most if self.most is not None else self.value >= (self.least or 0)
        return "met" if is_met else "**missed**"


def text(value: float, unit: str = "") -> str:
    """Return a figure with its unit."""
    if abs(value) >= 1_000 or value == int(value):
        return f"{value:,.0f} {unit}".rstrip()
    return f"{value:.2f} {unit}".rstrip()


class Meter:
    """The CPU of some processes from now on."""

    def __init__(self, ids: Iterable[int]) -> None:
        self._ids = list(ids)
        self._cpu_s, self._at_s = processes.cpu_s(self._ids), monotonic()

    @property
    def cpu_s(self) -> float:
        """The CPU seconds that they have taken."""
        return processes.cpu_s(self._ids) - self._cpu_s

    @property
    def seconds(self) -> float:
        """The seconds that have passed."""
        return monotonic() - self._at_s


class Peak:
    """The memory of a process at the begin, and the largest of what a thread has seen since."""

    def __init__(self, process: int) -> None:
        self._process = process
        self.before = self.most = processes.anonymous_bytes([process])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self.most = max(self.most, processes.anonymous_bytes([self._process]))

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()


@contextmanager
def peak_of(process: int) -> Iterator[Peak]:
    """Follow the memory of a process within the block."""
    peak = Peak(process)
    try:
        yield peak
    finally:
        peak.stop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on uvloop, if that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
