"""Entries that a gateway reads and has no receiver for, such as another gateway's."""

import socket
from statistics import median
from time import monotonic, sleep
from typing import Final, cast

import redis

from bench.client import load, request
from bench.mqtt_brokers import gateway_on
from bench.mqtt_readers import payload
from bench.mqtt_scale_figures import Figure, Meter
from bench.servers import Target
from streamd.clients.mqtt.store.logs import DEFAULT_LOG
from streamd.clients.topics import layout

RATE: Final = 10_000  # entries a second
_TURN_S: Final = 0.003  # in which a gateway gathers messages before it stores them
_SETTLE_S: Final = 1.0


def measure(kind: str, rounds: int, seconds: float) -> list[Figure]:
    """Return the CPU that an entry costs a gateway, and the store beyond what it costs without a gateway."""
    with Target(kind) as store:
        with gateway_on(store):  # makes the log
            pass
        batch = _batch(store)
        paced: list[tuple[float, float]] = []
        together: list[tuple[float, float]] = []
        alone: list[tuple[float, float]] = []
        with store.connect() as sock:
            for _ in range(rounds):
                alone.append((_paced(sock, batch, store, None, seconds)[0], _quick(sock, batch, store, None)[0]))
                with gateway_on(store) as gateway:
                    sleep(_SETTLE_S)
                    paced.append(_paced(sock, batch, store, gateway.processes[0], seconds))
                    together.append(_quick(sock, batch, store, gateway.processes[0]))
    more = [
        median(one[0] - base[at] for one, base in zip(found, alone, strict=True))
        for at, found in enumerate((paced, together))
    ]
    note = f"{RATE:,} a second, {len(batch)} together"
    return [
        Figure("another's entry: CPU of the gateway", median(one[1] for one in paced), "us", most=4, note=note),
        Figure("another's entry: CPU of the store beyond its own", more[0], "us", most=6, note=note),
        Figure("as fast as they come: CPU of the gateway", median(one[1] for one in together), "us"),
        Figure("as fast as they come: CPU of the store beyond its own", more[1], "us"),
    ]


def _batch(store: Target) -> list[bytes]:
    """Return the requests of one turn of another gateway: in the order of shards, as it stores them."""
    fields = redis.Redis(port=store.port).hgetall(layout.meta_key(DEFAULT_LOG))
    meta = layout.parse_meta(DEFAULT_LOG, cast(dict[bytes, bytes], fields))
    assert meta is not None
    generation = meta.current
    keys = layout.stream_keys(DEFAULT_LOG, generation)
    count = int(RATE * _TURN_S)
    names = sorted((b"foreign-%d" % number for number in range(count)), key=generation.shard_named)
    return [
        request(
            "XADD",
            keys[generation.shard_named(name)],
            "*",
            "t",
            b"foreign/%d" % at,
            "p",
            payload(0),
            "c",
            name,
            "q",
            "1",
        )
        for at, name in enumerate(names)
    ]


def _paced(
    sock: socket.socket, batch: list[bytes], store: Target, gateway: int | None, seconds: float
) -> tuple[float, float]:
    """Store batches at a rate; return the CPU of an entry in us, of the store and of the gateway."""
    meters = _meters(store, gateway)
    begun_s, turns = monotonic(), int(seconds / _TURN_S)
    for number in range(turns):
        early_s = begun_s + number * _TURN_S - monotonic()
        if early_s > 0:
            sleep(early_s)
        load(sock, batch)
    return _of_each(meters, turns * len(batch))


def _quick(sock: socket.socket, batch: list[bytes], store: Target, gateway: int | None) -> tuple[float, float]:
    """Store entries in hundreds, as fast as the store takes them."""
    meters = _meters(store, gateway)
    many = batch * (RATE // len(batch)) * 5
    load(sock, many, batch=10 * len(batch))
    return _of_each(meters, len(many))


def _meters(store: Target, gateway: int | None) -> list[Meter]:
    return [Meter([one]) for one in (store.process.pid, gateway) if one is not None]


def _of_each(meters: list[Meter], count: int) -> tuple[float, float]:
    sleep(_SETTLE_S)  # until the gateway has read all
    store_us, *others = (one.cpu_s / count * 1e6 for one in meters)
    return store_us, others[0] if others else 0.0
