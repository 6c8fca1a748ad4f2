"""Chaos for the MQTT gateway: `python -m tests.mqtt.chaos`, or `make mqtt-chaos`."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.mqtt.chaos.faulty_proxy import FAULTS
from tests.mqtt.chaos.processes import STORES
from tests.mqtt.chaos.run import Chaos, Options, Outcome

SHOWN_MAX = 5


def main() -> int:
    """Run it; return 0 if nothing was lost, duplicated or reordered, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mqtt.chaos",
        description="Devices publish over connections that break, gateway and server are killed: what is lost?",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="for so long messages are published (default: 60)")
    parser.add_argument("--devices", type=int, default=1_000, help="(default: 1000)")
    parser.add_argument("--rate", type=float, default=250.0, help="messages a second, of all devices (default: 250)")
    parser.add_argument("--seed", type=int, default=1, help="of everything that is chosen at random (default: 1)")
    parser.add_argument("--store", choices=STORES, default="streamd", help="behind the gateway (default: streamd)")
    parser.add_argument("--no-kills", action="store_true", help="only connections break")
    parser.add_argument("--kill-every", type=float, default=3.5, metavar="SECONDS", help="on average (default: 3.5)")
    parser.add_argument("--only-kill", choices=("gateway", "store"), help="kill nothing else")
    parser.add_argument("--no-share", action="store_true", help="no shared subscription")
    parser.add_argument("--broker", metavar="HOST:PORT", help="another broker, without kills; or the word mosquitto")
    parser.add_argument("--plant", choices=FAULTS, help="a fault that a proxy adds, which has to be found")
    parser.add_argument("--directory", type=Path, help="for data and records (default: a new one, kept after a fault)")
    parser.add_argument("--gateways", type=int, default=2, help="of the store (default: 2)")
    parser.add_argument("--gateway", default="", metavar="OPTIONS", help="further options of streamd mqtt")
    words = parser.parse_args()
    options = Options(
        words.seconds,
        words.devices,
        words.seed,
        words.rate,
        words.store,
        not words.no_kills,
        not words.no_share,
        words.only_kill,
        words.kill_every,
        words.broker,
        words.plant,
        gateway_options=tuple(words.gateway.split()),
        gateways=words.gateways,
    )
    directory = words.directory or Path(tempfile.mkdtemp(prefix="mqtt-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    outcome = run(Chaos(options, directory, lambda line: print(line, flush=True)))
    report(outcome)
    if outcome.is_good and words.directory is None:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"records: {directory}")
    return 0 if outcome.is_good else 1


def run(chaos: Chaos) -> Outcome:
    """Run it on the loop that is quickest; what it started is ended, too, when it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        import uvloop
    except ImportError:
        return asyncio.run(chaos.run())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(chaos.run())


def report(outcome: Outcome) -> None:
    """Print what was counted, the first faults with all that is known of their messages, and the verdict."""
    for name, count in outcome.counts.items():
        print(f"{count:10,}  {name}")
    for (kind, where), found in outcome.by_place().items():
        print(f"{kind} at {where}: {len(found):,}")
        for finding in found[:SHOWN_MAX]:
            print(f"    {finding.key}: {finding.text}")
    for key, lines in outcome.histories.items():
        print(f"history of {key}:")
        print("\n".join(f"  {line}" for line in lines))
    for fault in outcome.faults[: 4 * SHOWN_MAX]:
        print(f"fault: {fault}")
    if outcome.planted:
        print(f"planted {outcome.planted}")
    print(outcome)


if __name__ == "__main__":
    sys.exit(main())
