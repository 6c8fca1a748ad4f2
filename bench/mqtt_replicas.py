"""`python -m bench.mqtt_replicas`: a gateway that waits for its store's replica, beside one that does not."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import Final

import redis

from bench.mqtt_brokers import gateway_on
from bench.servers import Target

ROUNDS: Final = 3
SECONDS: Final = 5
_TIMEOUT_S: Final = 120
_LINKED_S: Final = 30
_JOURNAL: Final = ("--appendonly", "yes")
LOADS: Final = {
    "closed loop, 200 pairs": ("--pairs", "200"),
    "one pair": ("--pairs", "1"),
    "200 pairs, 1,000/s": ("--pairs", "200", "--rate", "1000"),
}


def _turn(words: tuple[str, ...], replicas: int) -> tuple[float, float]:
    """Return messages a second, and milliseconds until PUBACK."""
    with ExitStack() as stack:
        store = stack.enter_context(Target("streamd", _JOURNAL))
        replica = stack.enter_context(Target("streamd", (*_JOURNAL, "--replicaof", "127.0.0.1", str(store.port))))
        client = redis.Redis(port=replica.port)
        until_s = time.monotonic() + _LINKED_S
        while client.info("replication")["master_link_status"] != "up":
            if time.monotonic() > until_s:
                raise SystemExit("bench: the replica is not linked")
            time.sleep(0.02)
        gateway = stack.enter_context(gateway_on(store, ("--replicas", str(replicas))))
        command = [sys.executable, "-m", "streamd.clients.mqtt.bench", "p2p", "--port", str(gateway.port), "--json"]
        command += [*words, "--seconds", str(SECONDS), "--warm-up", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    values = json.loads(done.stdout)
    return values["in_per_s"], values["acknowledged_ms"]["mean"]


def main() -> None:
    """Print a line for each load."""
    for name, words in LOADS.items():
        turns = {replicas: [_turn(words, replicas) for _ in range(ROUNDS)] for replicas in (0, 1)}
        rates, waits = ({n: median(one[at] for one in found) for n, found in turns.items()} for at in (0, 1))
        print(
            f"{name}: {rates[0]:,.0f} messages/s, PUBACK after {waits[0]:.1f} ms;"
            f" with --replicas 1 {rates[1]:,.0f}/s ({rates[1] / rates[0]:.2f}), {waits[1]:.1f} ms",
            flush=True,
        )


if __name__ == "__main__":
    main()
