"""Gateways x stores: the CPU of a message with one of each, and with two."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any, Final

from bench.mqtt_brokers import NotStarted, gateway_on
from bench.mqtt_scale_figures import Figure
from bench.servers import Target

RATE: Final = 2_000  # messages a second of each gateway
_PAIRS: Final = 500  # of each gateway
_TIMEOUT_S: Final = 120
_LOST: Final = 1  # the load generator's exit code when messages were lost

# Gateways and stores; the gateways share a store, or each has its own.
SHAPES: Final = ((1, 1), (2, 1), (2, 2))
LOADS: Final = (
    (f"{RATE:,} messages/s a gateway", ("--rate", str(RATE))),
    ("closed loop, 1 under way", ()),
)


def measure(kind: str, rounds: int, seconds: float) -> list[Figure]:
    """Return CPU of a message and messages a second of each shape and load, and what two gateways cost over one."""
    found: dict[tuple[tuple[int, int], str], list[tuple[float, float]]] = {}
    refused: dict[tuple[int, int], str] = {}
    for number in range(rounds):
        for shape in SHAPES if number % 2 == 0 else reversed(SHAPES):
            if shape in refused:
                continue
            try:
                for name, words in LOADS:
                    measured = _turn(kind, shape, words, seconds)
                    found.setdefault((shape, name), []).append(measured)
            except NotStarted as error:
                refused[shape] = f"the second gateway ended with exit code {error.exit_code}"
    figures = []
    for name, _ in LOADS:
        one = found[(1, 1), name]
        for shape in SHAPES:
            turns = found.get((shape, name))
            called = f"{_called(shape)}, {name}"
            if turns is None:
                figures.append(Figure(f"{called}: CPU over that of one", None, "x", most=1.2, note=refused[shape]))
                continue
            figures += [
                Figure(f"{called}: CPU of a message", median(turn[0] for turn in turns), "us"),
                Figure(f"{called}: messages", median(turn[1] for turn in turns), "/s"),
            ]
            if shape != (1, 1):
                ratio = median(a[0] / b[0] for a, b in zip(turns, one, strict=True))
                figures.append(Figure(f"{called}: CPU over that of one", ratio, "x", most=1.2))
    return figures


def _called(shape: tuple[int, int]) -> str:
    return " on ".join(
        f"{count} {what}{'' if count == 1 else 's'}" for count, what in zip(shape, ("gateway", "store"), strict=True)
    )


def _turn(kind: str, shape: tuple[int, int], words: Sequence[str], seconds: float) -> tuple[float, float]:
    """Run the load on each gateway of a shape; return CPU of a message in us, and messages a second of all."""
    gateways, stores = shape
    with ExitStack() as stack:
        targets = [stack.enter_context(Target(kind)) for _ in range(stores)]
        brokers = [stack.enter_context(gateway_on(targets[number % stores])) for number in range(gateways)]
        running = []
        for number, gateway in enumerate(brokers):
            ids = gateway.processes + [one.process.pid for one in targets[number : number + 1]]
            running.append(_started(gateway.port, ids, words, seconds, number))
        values = [_figures_of(one) for one in running]
    messages = sum((one["in_per_s"] + one["out_per_s"]) / 2 for one in values)
    return sum(one["cpu_cores"] for one in values) / messages * 1e6, messages


def _started(port: int, ids: Sequence[int], words: Sequence[str], seconds: float, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "streamd.clients.mqtt.bench", "p2p", "--port", str(port), "--json", *words]
    command += ["--pairs", str(_PAIRS), "--seconds", str(seconds), "--prefix", f"bench{number}", "--warm-up", "2"]
    for one in ids:
        command += ["--process", str(one)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _figures_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    if process.returncode not in (0, _LOST):
        raise SystemExit(f"bench: the load generator: {errors.strip()}")
    values: dict[str, Any] = json.loads(out)
    return values
