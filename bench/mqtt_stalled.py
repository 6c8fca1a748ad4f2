"""Backends with persistent sessions of which one stalls: what the others notice."""

import asyncio
from statistics import median
from typing import Final

from bench.mqtt_brokers import gateway_on
from bench.mqtt_readers import Reader, come_all, until_got
from bench.mqtt_scale_figures import Figure, run
from bench.servers import Target
from streamd.clients.mqtt.bench.connecting import Opener, close_all
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.publisher import Publisher
from streamd.clients.mqtt.bench.tally import Tally

BACKENDS: Final = 50
_UNDER_WAY: Final = 20  # messages of the publisher, in closed loop
_STALL_S: Final = 1.0  # until the stalled backend's window and sockets are full
_RUN: Final = 1
_SEQUENCE_AT: Final = 8  # of a payload's stamp: behind run and publisher


def measure(kind: str, rounds: int, seconds: float) -> list[Figure]:
    """Return the rate of the other backends while one stalls, over their rate while none does."""
    with Target(kind) as store, gateway_on(store) as gateway:
        return run(_measure(gateway.port, rounds, seconds))


async def _measure(port: int, rounds: int, seconds: float) -> list[Figure]:
    topic = b"backends/all"
    backends = [Reader(f"backend-{number}", topic, _SEQUENCE_AT) for number in range(BACKENDS)]
    await come_all(backends, port)
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    load, tally = Load("p2p", port=port, clients=1, prefix="backends"), Tally()
    publisher = Publisher(load, tally, lost, "backends-publisher", topic, _RUN, 0)
    await Opener(load).open_all([publisher])
    others = backends[1:]
    for _ in range(_UNDER_WAY):
        publisher.publish(0.0)
    await asyncio.sleep(_STALL_S)
    silent: list[float] = []
    unread: list[float] = []
    rates: list[float] = []
    for _ in range(rounds):
        for stalls, found in ((backends[0].fall_silent, silent), (backends[0].pause, unread)):
            before = await _rate(others, seconds)
            stalls()
            await asyncio.sleep(_STALL_S)
            during = await _rate(others, seconds)
            backends[0].resume()
            await _until_level(backends)
            behind = await _rate(others, seconds)
            found.append(2 * during / (before + behind))
            rates.append(before)
    publisher.stop()
    await asyncio.sleep(_STALL_S)
    await until_got(backends, tally.sent)
    await close_all(load, [publisher])
    faults = sum(one.lost + one.again for one in backends)
    note = f"{BACKENDS} persistent sessions, one topic, QoS 1, one publisher in closed loop with {_UNDER_WAY} under way"
    return [
        Figure("a backend's rate while none stalls", median(rates), "/s", note=note),
        Figure("others' rate while one acknowledges nothing", median(silent), "x", least=0.95),
        Figure("others' rate while one reads nothing", median(unread), "x", least=0.95),
        Figure("messages lost or doubled", faults, most=0),
    ]


async def _rate(readers: list[Reader], seconds: float) -> float:
    """Return how many messages a second each reader gets."""
    loop = asyncio.get_running_loop()
    before, begun_s = sum(one.got for one in readers), loop.time()
    await asyncio.sleep(seconds)
    return (sum(one.got for one in readers) - before) / (loop.time() - begun_s) / len(readers)


async def _until_level(backends: list[Reader]) -> None:
    """Wait until the one that stalled is as far as the others."""
    while backends[0].next < min(one.next for one in backends[1:]) - _UNDER_WAY:
        await asyncio.sleep(0.02)
