"""`python -m bench.replica`: the CPU that one replica costs its primary, beside redis-server.

python -m bench.replica [--only TEXT] [--pairs N] [--starts N] [--redis FILE] [--write]

Each kind of server has two primaries with a journal, of which one has a replica. Both get the same requests in turn,
and a run ends when the replica has acknowledged all of them. Only the CPU of the primaries counts. The ratio is the
median of the pairs' ratios.
"""

import argparse
import datetime
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.client import ask
from bench.measure import redis_benchmark
from bench.progress import said
from bench.servers import Target, forms, redis_binary
from bench.workloads import EVERYSEC, PLAIN

DOCUMENT = Path("bench/NOTES.md")
BEGIN_MARK, END_MARK = "<!-- python -m bench.replica writes from here -->", "<!-- to here, the costs of a replica -->"
# A rewrite would fall to one server of a pair.
OPTIONS = (*EVERYSEC, "--auto-aof-rewrite-percentage", "0")
LINK_S_MAX = 30.0
# The primary has a core of its own: a second process at work beside it makes the same work take more of its time.
OWN_CORE, OTHER_CORE = 0, 1


@dataclass(frozen=True)
class Load:
    """Requests of one row. most: the ratio wanted at most, None for redis-server's."""

    name: str
    clients: int
    pipeline: int
    requests: int
    most: float | None


LOADS = (
    Load("XADD, 16 clients, pipeline 50", 16, 50, 300_000, 1.10),
    Load("XADD, 1 client", 1, 1, 20_000, None),
)


@dataclass(frozen=True)
class Costs:
    """Microseconds of a primary's CPU for each request, without a replica and with one, a pair at a time."""

    alone: list[float]
    followed: list[float]

    @property
    def ratio(self) -> float:
        """The median over the pairs."""
        return median(with_one / without for without, with_one in zip(self.alone, self.followed, strict=True))


Found = dict[Load, dict[str, Costs]]


def primary_and_replica(stack: ExitStack, kind: str, binary: Path | None) -> Target:
    """Return a primary that has one replica, linked."""
    options = (*OPTIONS, "--repl-diskless-sync-delay", "0") if kind == "redis-server" else OPTIONS
    primary = stack.enter_context(Target(kind, options, binary=binary))
    of = ("--replicaof", "127.0.0.1", str(primary.port))
    replica = stack.enter_context(Target(kind, (*options, *of), binary=binary))
    primary.stay_on(OWN_CORE)
    replica.stay_on(OTHER_CORE)
    until = time.monotonic() + LINK_S_MAX
    with primary.connect() as sock:
        while b"state=online" not in bytes(ask(sock, "INFO", "replication")):  # type: ignore[arg-type, call-overload]
            if time.monotonic() > until:
                raise SystemExit(f"bench: the replica of {kind} is not linked after {LINK_S_MAX:.0f} s")
            time.sleep(0.05)
    return primary


def level(target: Target, replicas: int) -> None:
    """Return when the replicas have acknowledged all."""
    with target.connect() as sock:
        ask(sock, "SET", "level", "1")
        if ask(sock, "WAIT", replicas, 60_000) != replicas:
            raise SystemExit(f"bench: the replica of {target.kind} does not keep up")


def cost(target: Target, load: Load, replicas: int) -> float:
    """Return microseconds of the primary's CPU for each request."""
    with target.connect() as sock:
        ask(sock, "DEL", PLAIN[1])
    level(target, replicas)
    before_s = target.cpu_s()
    redis_benchmark(target, load.requests, load.clients, load.pipeline, PLAIN, OTHER_CORE)
    level(target, replicas)
    return (target.cpu_s() - before_s) / load.requests * 1e6


def measure(kinds: Sequence[str], loads: Sequence[Load], binary: Path | None, starts: int, pairs: int) -> Found:
    """Return the costs of each load on each kind of server. starts: how often all servers are started anew."""
    found: Found = {load: {kind: Costs([], []) for kind in kinds} for load in loads}
    for start in range(starts):
        with ExitStack() as stack:
            servers = {}
            for kind in kinds:
                file = binary if kind == "redis-server" else None
                alone = stack.enter_context(Target(kind, OPTIONS, binary=file))
                alone.stay_on(OWN_CORE)
                servers[kind] = alone, primary_and_replica(stack, kind, file)
            for number in range(pairs):
                for load in loads:
                    for kind, (alone, followed) in servers.items():
                        with said(f"{load.name} on {kind}, start {start + 1}, pair {number + 1} of {pairs}"):
                            costs = found[load][kind]
                            if number % 2 == 0:
                                costs.alone.append(cost(alone, load, 0))
                            costs.followed.append(cost(followed, load, 1))
                            if number % 2 == 1:
                                costs.alone.append(cost(alone, load, 0))
    return found


_SHOWN = {"streamd": "streamd, pure", "compiled": "streamd, compiled"}


def table(found: Found, starts: int, pairs: int) -> list[str]:
    """Return the lines of the document."""
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    lines = [
        f"`python -m bench.replica` of {date}, {os.cpu_count()} cores, medians of {starts * pairs} pairs:",
        "",
        "| CPU of the primary for a request | server | without a replica | with one | ratio | wanted |",
        "|---|---|---|---|---|---|",
    ]
    for load, each in found.items():
        for kind, costs in each.items():
            most = load.most
            if most is None and "redis-server" in each:
                most = each["redis-server"].ratio
            wanted = "–" if most is None or kind == "redis-server" else f"<= {most:.2f}"
            without, with_one = median(costs.alone), median(costs.followed)
            lines.append(
                f"| {load.name} | {_SHOWN.get(kind, kind)} | {without:.2f} us | {with_one:.2f} us "
                f"| {costs.ratio:.2f} | {wanted} |"
            )
    return lines


def main() -> int:
    """Measure, print a table in Markdown, and write it into the document on request."""
    parser = argparse.ArgumentParser(prog="python -m bench.replica", description="what a replica costs its primary")
    parser.add_argument("--only", default="", help="measure the loads whose name contains this text")
    parser.add_argument("--kind", default="", help="streamd, compiled or redis-server alone")
    parser.add_argument("--pairs", type=int, default=7, help="pairs after each start")
    parser.add_argument("--starts", type=int, default=3, help="starts of all servers")
    parser.add_argument("--redis", type=Path, help="a redis-server that is not on PATH")
    parser.add_argument("--write", action="store_true", help=f"write the table into {DOCUMENT}")
    arguments = parser.parse_args()
    if redis_binary("redis-benchmark") is None:
        raise SystemExit("bench: redis-benchmark is not on PATH; install your system's redis-tools package")
    kinds = [kind for kind in forms() if arguments.kind in ("", kind)]
    loads = [load for load in LOADS if arguments.only.lower() in load.name.lower()]
    found = measure(kinds, loads, arguments.redis, arguments.starts, arguments.pairs)
    lines = table(found, arguments.starts, arguments.pairs)
    print("\n".join(lines))
    if arguments.write:
        text = DOCUMENT.read_text(encoding="utf-8")
        before, behind = text.split(BEGIN_MARK)[0], text.split(END_MARK)[1]
        DOCUMENT.write_text("\n".join((before + BEGIN_MARK, "", *lines, "", END_MARK)) + behind, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
