"""Compares a server with hardly any memory for entries with one that has all in memory, over random histories."""

import argparse
import logging
import sys
import time
from collections import Counter

from tests.cold.property.histories import as_text, replay, shorten, write_and_run

# Without these a run has shown nothing.
NEEDED = ("files", "blocks read", "absences", "merges", "evictions", "restarts", "rewrites")


def main() -> int:
    """Return 0 if no difference was found, and cold entries were read."""
    parser = argparse.ArgumentParser(prog="python -m tests.cold.property", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long new histories begin")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="the first history")
    parser.add_argument("--histories", type=int, default=sys.maxsize, help="how many at most")
    parser.add_argument("--steps", type=int, default=200, help="of each history")
    parser.add_argument("--differences", type=int, default=5, help="stop when so many were found")
    options = parser.parse_args()
    logging.disable()  # starts tell of what kills have left
    began_s = time.monotonic()
    counts: Counter[str] = Counter()
    found, seed = 0, options.seed
    while True:
        outcome = write_and_run(seed, options.steps)
        assert outcome.pair is not None
        counts.update(outcome.pair.counts)
        counts["histories"] += 1
        if outcome.difference is not None:
            found += 1
            print(f"-- seed {seed}, {len(outcome.history)} steps\n{outcome.difference[-3000:]}", flush=True)
            history = shorten(seed, outcome.history)
            print(f"{as_text(history)}\n{replay(seed, history).difference}\n", flush=True)
        is_over = time.monotonic() - began_s >= options.minutes * 60 or counts["histories"] >= options.histories
        if found >= options.differences or is_over:
            break
        seed += 1
    said = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
    print(f"seeds {options.seed} to {seed}: {said}; {found} differences, {time.monotonic() - began_s:.0f} s")
    missing = [name for name in NEEDED if not counts[name]]
    if missing and counts["histories"] >= 10:
        print(f"this run has shown nothing: no {', no '.join(missing)}", file=sys.stderr)
        return 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
