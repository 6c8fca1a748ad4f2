"""`python -m bench.leaks`: does memory of requests come back, as it does on redis-server?

python -m bench.leaks [--form pure|compiled] [--only TEXT] [--scale 0.1]
"""

import argparse
import sys
import time
from typing import Final, NamedTuple

from bench.leak_entries import ENTRIES, MORE_PERCENT_MAX, NAME, measure_beside
from bench.leak_shapes import MB, SHAPES, Refused, Shape
from bench.progress import said
from bench.servers import COMPILED, Target, redis_binary

# A server's memory may grow by so much more than redis-server's.
MORE_BYTES_MAX: Final = 10 * MB
# What a server gives back only once it is idle has so long.
_SETTLING_S: Final = 10.0
_SETTLING_BEFORE_S: Final = 3.0
_LOOK_S: Final = 0.1
# What may stay without being waited for.
_LITTLE_BYTES: Final = MB


class Memory(NamedTuple):
    """A server's memory before and after a shape, in bytes."""

    before: int
    after: int

    @property
    def growth(self) -> int:
        """Its growth."""
        return self.after - self.before


def measure(kind: str, shape: Shape, scale: float = 1.0) -> Memory | None:
    """Return a server's memory before and after a shape; None if the server lacks a command."""
    with Target(kind, shape.options) as target:
        try:
            shape.repeat(target, shape.before)  # what is loaded at a first use is no matter here
            before = _settled(target, 0, _SETTLING_BEFORE_S)
            kept = shape.repeat(target, shape.times(scale))
        except Refused:
            return None
        after = _settled(target, before + _LITTLE_BYTES, _SETTLING_S)
        for sock in kept:
            sock.close()
        return Memory(before, after)


def _settled(target: Target, enough_bytes: int, seconds: float) -> int:
    """Return the least memory of the next seconds, as soon as it is little enough."""
    until = time.monotonic() + seconds
    least = target.anonymous_bytes()
    while least > enough_bytes and time.monotonic() < until:
        time.sleep(_LOOK_S)
        least = min(least, target.anonymous_bytes())
    return least


def allowed_bytes(theirs: Memory | None) -> int:
    """Return the growth of memory allowed beside redis-server's; None without redis-server, or if it refuses."""
    return MORE_BYTES_MAX + (max(0, theirs.growth) if theirs is not None else 0)


def main() -> int:
    """Return 1 if a shape leaves more than allowed."""
    parser = argparse.ArgumentParser(prog="python -m bench.leaks", description=__doc__)
    parser.add_argument("--form", choices=("pure", "compiled"), default="pure")
    parser.add_argument("--only", default="", metavar="TEXT", help="shapes whose name contains this text")
    parser.add_argument("--scale", type=float, default=1.0, help="so many times the repetitions (default: 1)")
    arguments = parser.parse_args()
    if arguments.form == "compiled" and not COMPILED.is_file():
        parser.error("there is no compiled form: make compiled")
    shapes = [shape for shape in SHAPES if arguments.only.lower() in shape.name.lower()]
    has_redis = redis_binary("redis-server") is not None
    if not has_redis:
        print("redis-server is not on PATH: each shape may leave 10 MB")
    print(f"{'MB before and after':56}{'streamd':>18}{'redis-server':>18}{'grown by':>10}{'at most':>9}", flush=True)
    failed = []
    for shape in shapes:
        name = shape.title(arguments.scale)
        with said(name):
            ours = measure("streamd" if arguments.form == "pure" else "compiled", shape, arguments.scale)
            theirs = measure("redis-server", shape, arguments.scale) if has_redis else None
        most = allowed_bytes(theirs)
        growth = f"{ours.growth / MB:10.1f}{most / MB:9.1f}" if ours is not None else ""
        is_worse = ours is None or ours.growth > most
        print(f"{name:56}{_text(ours)}{_text(theirs)}{growth}{'  too much' if is_worse else ''}", flush=True)
        if is_worse:
            failed.append(name)
    if arguments.only.lower() in NAME.lower():
        name = f"{round(ENTRIES * arguments.scale):,} x {NAME}"
        with said(name):
            kind = "streamd" if arguments.form == "pure" else "compiled"
            beside = measure_beside(kind, round(ENTRIES * arguments.scale))
        is_worse = beside.percent > MORE_PERCENT_MAX
        print(
            f"{name:56}{beside.plain / MB:9.1f}{beside.named / MB:9.1f}{'':18}{beside.percent:+9.1f}%"
            f"{MORE_PERCENT_MAX:8.1f}%{'  too much' if is_worse else ''}",
            flush=True,
        )
        failed += [name] if is_worse else []
    print(f"leaving more than they may: {'; '.join(failed) or 'none'}")
    return 1 if failed else 0


def _text(memory: Memory | None) -> str:
    return f"{'refused':>18}" if memory is None else f"{memory.before / MB:9.1f}{memory.after / MB:9.1f}"


if __name__ == "__main__":
    sys.exit(main())
