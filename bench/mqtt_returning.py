"""Persistent sessions that leave, miss many messages, and return all at once."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final

import redis

from bench.mqtt_brokers import gateway_on
from bench.mqtt_readers import Reader, come_all, leave_all, payload, until_got
from bench.mqtt_scale_figures import Figure, Meter, peak_of, run
from bench.servers import Target
from streamd.clients.mqtt.store.logs import DEFAULT_LOG
from streamd.clients.topics import Message, TopicLog

WINDOW: Final = 20  # the default of many clients
WINDOWED_MAX: Final = 100  # messages of each session, with that window
# A thousand sessions have 64 KB each: of what they have not acknowledged, and of output that they have not read.
GROWTH_MB_MAX: Final = 64
_MANY: Final = 1_000  # messages that are stored, and entries that are read, at once
_PAIRS, _RATE = 100, 1_000.0  # of the live load
_STEADY_S: Final = 4.0
_SETTLE_S: Final = 2.0  # in which the records of sessions are written


class Drain:
    """What it took until sessions that returned had their messages: a message's CPU in us, and all seconds."""

    def __init__(self, messages: int, seconds: float, store_us: float, gateway_us: float) -> None:
        self.messages, self.seconds = messages, seconds
        self.store_us, self.gateway_us = store_us, gateway_us

    @property
    def per_s(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def measure(kind: str, sessions: int, messages: int) -> list[Figure]:
    """Return the figures of sessions that return without other clients, beside live ones, and with a small window."""
    each = messages // sessions
    with Target(kind) as store, gateway_on(store) as gateway:
        ids = store.process.pid, gateway.processes[0]
        figures = run(_measure(ids, store.port, gateway.port, sessions, each))
    with Target(kind) as store, gateway_on(store, ("--in-flight-max", str(WINDOW))) as gateway:
        ids = store.process.pid, gateway.processes[0]
        drain = run(_measure_window(ids, store.port, gateway.port, sessions, min(each, WINDOWED_MAX)))
    note = f"{drain.messages:,} messages, at most {WINDOW} of a session in flight"
    return [
        *figures,
        Figure("with a small window: drained", drain.per_s, "/s", note=note),
        Figure("with a small window: CPU of a message", drain.store_us + drain.gateway_us, "us"),
    ]


async def _leave_and_miss(
    sessions: int, store_port: int, gateway_port: int, each: int
) -> tuple[list[Reader], TopicLog]:
    """Return sessions that are away, with messages for them in a log."""
    readers = [Reader(f"returning-{number}", b"returning/%06d" % number) for number in range(sessions)]
    await come_all(readers, gateway_port)
    await leave_all(readers)
    await asyncio.sleep(_SETTLE_S)
    log = TopicLog.open(redis.Redis(port=store_port), DEFAULT_LOG)
    await asyncio.to_thread(_store, log, readers, 0, each)
    return readers, log


async def _drain(ids: tuple[int, int], readers: Sequence[Reader], gateway_port: int, each: int) -> Drain:
    """Let all sessions return; return what it takes until they have their messages."""
    count, begun_s = len(readers) * each, monotonic()
    store_meter, gateway_meter = Meter(ids[:1]), Meter(ids[1:])
    await come_all(readers, gateway_port)
    seconds = await until_got(readers, each) - begun_s
    return Drain(count, seconds, store_meter.cpu_s / count * 1e6, gateway_meter.cpu_s / count * 1e6)


async def _measure_window(ids: tuple[int, int], store_port: int, gateway_port: int, sessions: int, each: int) -> Drain:
    readers, _ = await _leave_and_miss(sessions, store_port, gateway_port, each)
    return await _drain(ids, readers, gateway_port, each)


async def _measure(ids: tuple[int, int], store_port: int, gateway_port: int, sessions: int, each: int) -> list[Figure]:
    readers, log = await _leave_and_miss(sessions, store_port, gateway_port, each)
    replayed = await asyncio.to_thread(_replay_rate, log, sessions * each)
    with peak_of(ids[1]) as peak:
        drain = await _drain(ids, readers, gateway_port, each)
    growth_mb = (peak.most - peak.before) / 1e6
    await leave_all(readers)
    await asyncio.sleep(_SETTLE_S)
    await asyncio.to_thread(_store, log, readers, each, 2 * each)
    alone, meanwhile = await _beside_live(readers, gateway_port, 2 * each)
    faults = sum(one.lost + one.again for one in readers)
    return [
        Figure(
            "time until all is drained", drain.seconds, "s", note=f"{drain.messages:,} messages, {sessions:,} sessions"
        ),
        Figure("drained", drain.per_s, "/s"),
        Figure("the topics library's replay of the same log", replayed, "/s", note="one reader, 1,000 entries a call"),
        Figure("drained over that replay", drain.per_s / replayed, "x", least=0.5),
        Figure("CPU of a message, gateway and store", drain.store_us + drain.gateway_us, "us", most=15),
        Figure("CPU of a message, store", drain.store_us, "us"),
        Figure("memory of the gateway before", peak.before / 1e6, "MB"),
        Figure("memory of the gateway, growth at its peak", growth_mb, "MB", most=GROWTH_MB_MAX),
        Figure("live clients' rate meanwhile over before", meanwhile[0] / alone[0], "x", least=0.9),
        Figure("live clients' delivery, before", alone[1], "ms", note=f"{_PAIRS} pairs, {_RATE:,.0f} messages/s"),
        Figure("live clients' delivery, meanwhile", meanwhile[1], "ms"),
        Figure("messages lost or doubled", faults, most=0),
    ]


def _store(log: TopicLog, readers: Sequence[Reader], start: int, end: int) -> None:
    """Store messages start to end of each reader, of all readers in turn."""
    names = [one.topic.decode() for one in readers]
    batch: list[Message] = []
    for sequence in range(start, end):
        data = payload(sequence)
        for name in names:
            batch.append(Message(name, data, publisher=name, qos=1))
            if len(batch) == _MANY:
                log.publish_many(batch)
                batch.clear()
    if batch:
        log.publish_many(batch)


def _replay_rate(log: TopicLog, count: int) -> float:
    """Return how many entries a second the topics library reads of a log that has so many."""
    iterator, seen, begun_s = log.iterator(), 0, monotonic()
    while seen < count:
        entries, iterator, state = log.next(iterator, _MANY)
        seen += len(entries)
        if state == "live" and seen < count:
            raise SystemExit(f"bench: the log has {seen:,} of {count:,} messages")
    return count / (monotonic() - begun_s)


class _Live:
    """A steady load in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def between(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return deliveries a second, and milliseconds of a delivery, between two times; this ends the load."""
        out, _ = self._process.communicate("", timeout=120)
        lines = [tuple(map(float, line.split())) for line in out.splitlines()]
        self._lines = lines
        return self.rate(start_s, end_s)

    def rate(self, start_s: float, end_s: float) -> tuple[float, float]:
        """Return the same once more, of an ended load."""
        first = max((one for one in self._lines if one[0] <= start_s), default=self._lines[0])
        last = min((one for one in self._lines if one[0] >= end_s), default=self._lines[-1])
        count = last[1] - first[1]
        return count / (last[0] - first[0]), (last[2] - first[2]) / count * 1e3 if count else 0.0


@contextmanager
def _live(port: int) -> Iterator[_Live]:
    command = [sys.executable, "-m", "bench.mqtt_live", "--port", str(port)]
    command += ["--pairs", str(_PAIRS), "--rate", str(_RATE)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield _Live(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def _beside_live(
    readers: Sequence[Reader], port: int, count: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return rate and delivery time of live clients before readers return, and until these have had their messages."""
    with _live(port) as live:
        await asyncio.sleep(_STEADY_S)
        steady_s = monotonic()
        await asyncio.sleep(_STEADY_S)
        begun_s = monotonic()
        await come_all(readers, port)
        ended_s = await until_got(readers, count)
        await asyncio.sleep(_STEADY_S / 2)
        meanwhile = await asyncio.to_thread(live.between, begun_s, ended_s)
        return live.rate(steady_s, begun_s), meanwhile
