"""Chaos from end to end: `python -m tests.mqtt.chaos.whole`, or `make mqtt-chaos-whole`."""

import argparse
import asyncio
import signal
import sys
import tempfile
from pathlib import Path

from tests.mqtt.chaos.checker import DUPLICATED, FOREIGN, LOST, REORDERED
from tests.mqtt.chaos.processes import STORES
from tests.mqtt.chaos.whole.run import Whole
from tests.spark.commands.run import Outcome, Plan

SHOWN_MAX = 10


def main() -> int:
    """Run it; return 0 if nothing was lost, duplicated or reordered, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mqtt.chaos.whole",
        description="Readings of devices, a backend, Spark, and its commands to the devices, while all are killed.",
    )
    parser.add_argument("--devices", type=int, default=10_000, help="(default: 10000)")
    parser.add_argument("--rate", type=float, default=100.0, help="readings a second of all devices (default: 100)")
    parser.add_argument("--seconds", type=float, default=120.0, help="for so long readings are sent (default: 120)")
    parser.add_argument("--kill-every", type=float, default=8.0, metavar="SECONDS", help="on average (default: 8)")
    parser.add_argument("--gateways", type=int, default=2, help="(default: 2)")
    parser.add_argument("--store", choices=STORES, default="streamd", help="(default: streamd)")
    parser.add_argument("--per-batch", type=int, default=1_000, help="readings of a micro-batch at most")
    parser.add_argument("--seed", type=int, default=1, help="(default: 1)")
    parser.add_argument("--directory", type=Path, help="for data and records (default: a new one)")
    words = parser.parse_args()
    directory = words.directory or Path(tempfile.mkdtemp(prefix="mqtt-whole-"))
    directory.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        (), devices=words.devices, rate=words.rate, per_batch=words.per_batch, store=words.store, seed=words.seed
    )
    whole = Whole(
        plan, directory, lambda line: print(line, flush=True), words.seconds, words.kill_every, words.gateways
    )
    outcome = run(whole)
    report(outcome)
    print(f"records: {directory}")
    return 0 if outcome.is_good else 1


def run(whole: Whole) -> Outcome:
    """Run it on the loop that is quickest; what it started is ended, too, when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        import uvloop
    except ImportError:
        return asyncio.run(whole.run())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(whole.run())


def report(outcome: Outcome) -> None:
    """Print what was counted, the first faults, and the verdict."""
    for name, count in sorted(outcome.counts.items()):
        print(f"{count:10,}  {name}")
    print(f"{outcome.recognised:10,}  commands that Spark wrote again, and the store recognised")
    for finding in outcome.findings[:SHOWN_MAX]:
        print(f"{finding.kind} at {finding.where}: {finding.key}: {finding.text}")
    for fault in outcome.faults[:SHOWN_MAX]:
        print(f"fault: {fault}")
    found = {kind: sum(one.kind == kind for one in outcome.findings) for kind in (LOST, DUPLICATED, REORDERED, FOREIGN)}
    print(", ".join(f"{kind} {count}" for kind, count in found.items()) + f", other faults {len(outcome.faults)}")


if __name__ == "__main__":
    sys.exit(main())
