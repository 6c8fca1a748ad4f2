"""Topics below $SYS with the names of mosquitto's: what a gateway tells subscribers about itself.

They are retained messages of QoS 0 that no log has. A value is sent again when it has changed.
"""

from __future__ import annotations

import asyncio
import math
import os
import resource
import sys
from typing import TYPE_CHECKING, Final

from streamd.clients.mqtt.gateway.survey import Survey, survey
from streamd.clients.mqtt.store.records import INDEX
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.mqtt.version import VERSION
from streamd.clients.topics.entry_ids import BEGIN

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway

_ROOT: Final = "$SYS/broker/"
# The averages of a load, and the minutes that they look back.
_SPANS: Final = (("1min", 1), ("5min", 5), ("15min", 15))
_ANSWER_S: Final = 5.0


class Load:
    """The moving averages of one counter, in counts a minute."""

    def __init__(self) -> None:
        self._count = 0
        self._averages = dict.fromkeys((name for name, _ in _SPANS), 0.0)

    def moved(self, count: int, passed_s: float) -> dict[str, float]:
        """Return the averages after a span, at whose end the counter is `count`."""
        rate = (count - self._count) * 60.0 / passed_s
        self._count = count
        for name, minutes in _SPANS:
            kept = math.exp(-passed_s / 60.0 / minutes)
            self._averages[name] = rate + kept * (self._averages[name] - rate)
        return self._averages


class SysTopics:
    """The topics of a gateway. interval_s: between two looks at what they tell."""

    def __init__(self, gateway: Gateway, interval_s: float) -> None:
        self._gateway, self._interval_s = gateway, interval_s
        self._shown: dict[str, str] = {}
        self._loads: dict[str, Load] = {}
        self._most_clients = 0
        self._begun_s = self._last_s = gateway.loop.time()

    async def run(self) -> None:
        """Send what has changed since `publish`, again and again."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.publish()

    async def publish(self) -> None:
        """Send the values that have changed."""
        values = self._counted() | self._loaded() | await self._looked_up()
        for name, value in values.items():
            if self._shown.get(name) != value:
                self._shown[name] = value
                self._show(name, value)

    def _show(self, name: str, value: str) -> None:
        entry = Stored("", 0, 0, BEGIN, (_ROOT + name).encode(), value.encode(), [])
        entry.is_retained = True
        self._gateway.retained.show(entry)
        self._gateway.delivery.show(entry)

    def _counted(self) -> dict[str, str]:
        counters = self._gateway.counters
        return {
            "version": f"streamd version {VERSION}",
            "uptime": f"{int(self._gateway.loop.time() - self._begun_s)} seconds",
            "messages/received": str(counters.messages_received),
            "messages/sent": str(counters.messages_sent),
            "publish/messages/received": str(counters.publishes_received),
            "publish/messages/sent": str(counters.publishes_sent),
            "publish/messages/dropped": str(counters.publishes_dropped),
            "publish/bytes/received": str(counters.publish_bytes_received),
            "publish/bytes/sent": str(counters.publish_bytes_sent),
            "bytes/received": str(counters.bytes_received),
            "bytes/sent": str(counters.bytes_sent),
            "clients/expired": str(counters.sessions_expired),
            "retained messages/count": str(len(self._gateway.retained)),
            "heap/current": str(memory := _memory_bytes()),
            "heap/maximum": str(max(memory, _memory_bytes_max())),  # the kernel counts this one less often
        }

    def _loaded(self) -> dict[str, str]:
        counters = self._gateway.counters
        now_s = self._gateway.loop.time()
        passed_s, self._last_s = now_s - self._last_s, now_s
        values = {}
        for name, count in {
            "messages/received": counters.messages_received,
            "messages/sent": counters.messages_sent,
            "publish/received": counters.publishes_received,
            "publish/sent": counters.publishes_sent,
            "publish/dropped": counters.publishes_dropped,
            "bytes/received": counters.bytes_received,
            "bytes/sent": counters.bytes_sent,
            "sockets": counters.connections,
            "connections": counters.connects,
        }.items():
            load = self._loads.setdefault(name, Load())
            # (At the start no time has passed.)
            for span, average in load.moved(count, max(passed_s, 0.001)).items():
                values[f"load/{name}/{span}"] = f"{average:.2f}"
        return values

    async def _looked_up(self) -> dict[str, str]:
        """Return what a look at the clients and at the store finds; while the store is away, nothing of that."""
        found = await survey(self._gateway)
        values = {
            "clients/connected": str(found.clients),
            "clients/active": str(found.clients),
            "subscriptions/count": str(found.subscriptions),
            "shared_subscriptions/count": str(found.shared_subscriptions),
        }
        try:
            sessions, messages = await asyncio.wait_for(self._ask_store(), _ANSWER_S)
        except TimeoutError:
            return values
        return values | self._of_clients(found, sessions) | _of_messages(messages)

    async def _ask_store(self) -> tuple[int | None, int | None]:
        """Return the number of sessions, and of messages in the logs; None for those that the store does not tell."""
        gateway = self._gateway
        if not gateway.link.is_up:
            return None, None
        keys = [
            key for log in gateway.logs.all for one in log.handle.meta.generations for key in log.keys_of(one)
        ]  # fmt: skip
        sessions, *lengths = await gateway.history.ask(("ZCARD", INDEX), *[("XLEN", key) for key in keys])
        known = [one for one in lengths if isinstance(one, int)]
        return (
            sessions if isinstance(sessions, int) else None,
            sum(known) if len(known) == len(lengths) else None,
        )

    def _of_clients(self, found: Survey, sessions: int | None) -> dict[str, str]:
        if sessions is None:
            return {}
        away = max(0, sessions - found.recorded)
        self._most_clients = max(self._most_clients, away + found.clients)
        return {
            "clients/total": str(away + found.clients),
            "clients/maximum": str(self._most_clients),
            "clients/disconnected": str(away),
            "clients/inactive": str(away),
        }


def _of_messages(messages: int | None) -> dict[str, str]:
    if messages is None:
        return {}
    return {"messages/stored": str(messages), "store/messages/count": str(messages)}


def _memory_bytes() -> int:
    """Return the resident memory of this process."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _memory_bytes_max()


def _memory_bytes_max() -> int:
    """Return the most resident memory that this process had."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1_024
