"""Paired measuring: the same work on each server in turn, and medians of the ratios within a round."""

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from bench.progress import said
from bench.servers import Target, redis_binary

PERCENTILE = re.compile(r"^\s*([0-9.]+)% <= ([0-9.]+) milliseconds", re.MULTILINE)
THROUGHPUT = re.compile(r"throughput summary: ([0-9.]+) requests per second")


@dataclass
class Sample:
    """The figures of one run of a workload on one server.

    rate: operations per second; cpu_us: server CPU microseconds per operation; p50_ms, p999_ms: latency, 0 unknown.
    """

    rate: float
    cpu_us: float
    p50_ms: float = 0.0
    p999_ms: float = 0.0


def mean_of(samples: Sequence[Sample]) -> Sample:
    """Return the means of some samples, and of the latencies the median and the worst."""
    return Sample(
        fmean(one.rate for one in samples),
        fmean(one.cpu_us for one in samples),
        median(one.p50_ms for one in samples),
        max(one.p999_ms for one in samples),
    )


@dataclass
class Result:
    """A workload's samples per server, a round at a time."""

    name: str
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def median(self, kind: str, figure: str) -> float:
        """Return the median of a figure on one server; 0 if that server is missing."""
        values = [getattr(sample, figure) for sample in self.samples.get(kind, [])]
        return median(values) if values else 0.0

    def ratio(self, figure: str, kind: str = "streamd", other: str = "redis-server") -> float | None:
        """Return the median over the rounds of `kind` / `other`, or None if one was not measured."""
        pairs = zip(self.samples.get(kind, []), self.samples.get(other, []), strict=False)
        ratios = [getattr(a, figure) / getattr(b, figure) for a, b in pairs if getattr(b, figure)]
        return median(ratios) if ratios else None


Work = Callable[[Target], Sample]


def alternate(name: str, targets: Sequence[Target], work: Work, rounds: int) -> Result:
    """Run `work` on every target, in alternating order."""
    result = Result(name, {target.kind: [] for target in targets})
    for number in range(rounds):
        order = targets if number % 2 == 0 else list(reversed(targets))
        for target in order:
            with said(f"{name}, round {number + 1} of {rounds} on {target.kind}"):
                result.samples[target.kind].append(work(target))
    return result


def timed(target: Target, operations: int, action: Callable[[], None]) -> Sample:
    """Time `action`, which does this many operations."""
    cpu, start = target.cpu_s(), time.perf_counter()
    action()
    elapsed, cpu = time.perf_counter() - start, target.cpu_s() - cpu
    return Sample(operations / elapsed, cpu / operations * 1e6)


def redis_benchmark(
    target: Target,
    requests: int,
    clients: int,
    pipeline: int,
    words: Sequence[str],
    core: int | None = None,
    space: int = 10**9,
) -> Sample:
    """Run redis-benchmark with the words of one command, on one core if given. `__rand_int__` becomes a random number
    below `space`, in 12 digits.
    """
    binary = redis_binary("redis-benchmark")
    assert binary is not None
    command = ["taskset", "-c", str(core)] if core is not None else []
    command += [
        str(binary), "-h", "127.0.0.1", "-p", str(target.port), "-n", str(requests), "-c", str(clients),
        "-P", str(pipeline), "-r", str(space), *words,
    ]  # fmt: skip
    cpu = target.cpu_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    cpu = target.cpu_s() - cpu
    throughput = THROUGHPUT.search(done.stdout)
    if throughput is None:
        raise SystemExit(f"bench: redis-benchmark on {target.kind}: {done.stderr.strip() or done.stdout[-300:]}")
    percentiles = [(float(share), float(ms)) for share, ms in PERCENTILE.findall(done.stdout)]
    return Sample(
        float(throughput.group(1)),
        cpu / requests * 1e6,
        next((ms for share, ms in percentiles if share >= 50), 0.0),
        next((ms for share, ms in percentiles if share >= 99.9), 0.0),
    )
