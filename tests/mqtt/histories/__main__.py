"""Random histories on a broker: `python -m tests.mqtt.histories run`, and `replay FILE`, which plays a recorded one."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.mqtt.histories.brokers import BROKERS, Broker, kind_of
from tests.mqtt.histories.generator import history
from tests.mqtt.histories.runner import Played
from tests.mqtt.histories.steps import Step, parse, to_text

BATCH = 48


def main() -> int:
    """Play them; return 0 if each came to what the model says, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mqtt.histories", description="histories against a model")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="play random histories")
    run.add_argument("--count", type=int, default=200, help="of histories (default: 200)")
    run.add_argument("--seed", type=int, default=1, help="of the first; each next one has the next (default: 1)")
    run.add_argument("--kills", action="store_true", help="kill the gateway in some of them")
    run.add_argument("--faults", type=int, default=3, help="end behind so many histories with faults (default: 3)")
    run.add_argument("--not-shortened", action="store_true", help="do not look for a shorter one with the same fault")
    run.add_argument("--directory", type=Path, default=Path("build/histories"), help="for those with faults")
    replay = commands.add_parser("replay", help="play a recorded history")
    replay.add_argument("file", type=Path)
    replay.add_argument("--times", type=int, default=1, help="play it so often, or until there is a fault")
    for command in (run, replay):
        command.add_argument(
            "--broker", default="streamd", help=f"one of {', '.join(BROKERS)}, or HOST:PORT (default: streamd)"
        )
    words = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    directory = Path(tempfile.mkdtemp(prefix="mqtt-histories-"))
    broker = Broker(words.broker, directory)
    try:
        broker.start()
        return asyncio.run(play_random(broker, words) if words.command == "run" else play_file(broker, words))
    finally:
        broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


async def play_random(broker: Broker, words: argparse.Namespace) -> int:
    """Play random histories, write down those with faults."""
    began, steps_done, wrong = time.monotonic(), 0, 0
    for first in range(words.seed, words.seed + words.count, BATCH):
        seeds = range(first, min(first + BATCH, words.seed + words.count))
        histories = [history(seed, may_kill=words.kills) for seed in seeds]
        for seed, steps, played in zip(seeds, histories, await broker.play_all(histories), strict=True):
            steps_done += len(steps)
            if not played.faults:
                continue
            wrong += 1
            print(f"seed {seed}: {played.faults[0]}", flush=True)
            if not words.not_shortened:
                shorter, again = await broker.shortest(steps, kind_of(played.faults))
                if again.faults:
                    steps, played = shorter, again
                else:
                    print(f"seed {seed}: does not come again")
            record(words.directory / f"{words.broker}-{seed}.txt", steps, played)
            if wrong >= words.faults:
                return 1
    seconds = time.monotonic() - began
    print(f"{words.count} histories, {steps_done:,} steps, {wrong} with faults ({seconds:.0f} s)")
    return 1 if wrong else 0


def record(path: Path, steps: list[Step], played: Played) -> None:
    """Write a history down, so that it can be replayed: what happened stands in it as comments."""
    path.parent.mkdir(parents=True, exist_ok=True)
    happened = "".join(f"# {line}\n" for line in played.lines)
    path.write_text(f"{to_text(steps)}\n# what happened:\n{happened}")
    print(f"  {len(steps)} steps: {path}")
    print("".join(f"    {line}\n" for line in played.lines), flush=True)


async def play_file(broker: Broker, words: argparse.Namespace) -> int:
    """Play a recorded history."""
    steps = parse(words.file.read_text())
    for _ in range(words.times):
        played = await broker.play(steps)
        if played.faults:
            break
    print("\n".join(played.lines))
    print("as the model says" if not played.faults else f"{len(played.faults)} faults")
    return 1 if played.faults else 0


if __name__ == "__main__":
    sys.exit(main())
