"""The metrics of a gateway in Prometheus's text format; no label is a client's, so that their number has a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric, ProcessCollector, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from streamd.clients.mqtt.gateway.survey import Applied, Survey, survey
from streamd.clients.mqtt.gateway.unread import Unread
from streamd.clients.mqtt.store.link import StoreFault
from streamd.clients.mqtt.store.records import INDEX
from streamd.clients.mqtt.version import VERSION

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.latency import Latency

_ANSWER_S: Final = 2.0
_SLICE: Final = 100  # applications between two turns of others
_VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5"}

# The name of a counter -> (its metric, what it says).
_COUNTERS: Final = {
    "connections": ("connections_received", "Sockets that were accepted."),
    "connects": ("connects", "CONNECTs that were accepted."),
    "connects_refused": ("connects_refused", "CONNECTs that were refused."),
    "takeovers": ("takeovers", "Connections that another one of the same client has ended."),
    "keep_alive_timeouts": ("keep_alive_timeouts", "Connections that were closed, as nothing came from the client."),
    "faults": ("faults", "Connections that were closed because of what the client sent."),
    "messages_received": ("packets_received", "Packets received."),
    "messages_sent": ("packets_sent", "Packets sent."),
    "packets_dropped": ("packets_dropped", "Packets that were not worked on, as their connection was ended first."),
    "publishes_received": ("publishes_received", "Messages received."),
    "publishes_sent": ("publishes_sent", "Messages sent to subscribers."),
    "publishes_refused": ("publishes_refused", "Messages that were not stored: no right, a limit, a store fault."),
    "publishes_dropped": ("publishes_dropped", "Messages that were larger than a subscriber takes."),
    "messages_without_receiver": (
        "messages_without_receiver",
        "Messages with an expiry to whose topic no client was subscribed when they came.",
    ),
    "messages_expired": ("messages_expired", "Times that a session or group did not get a message: it had expired."),
    "subscribes_refused": ("subscribes_refused", "Filters of SUBSCRIBEs that were refused."),
    "publish_bytes_received": ("publish_bytes_received", "Bytes of the payloads of messages received."),
    "publish_bytes_sent": ("publish_bytes_sent", "Bytes of the payloads of messages sent."),
    "bytes_received": ("bytes_received", "Bytes received."),
    "bytes_sent": ("bytes_sent", "Bytes sent."),
    "wills_published": ("wills_published", "Wills that were published."),
    "gaps": ("gaps", "Times that a session came too late: messages were removed before it read them."),
    "pack_retries": ("pack_retries", "Packs of applications that were not acknowledged in time, and were sent again."),
    "pack_drops": ("pack_drops", "Messages of applications that were not acknowledged in time, and were dropped."),
    "sessions_ended": ("sessions_ended", "Sessions that have ended."),
    "sessions_expired": ("sessions_expired", "Sessions that have ended because their time was over."),
}  # fmt: skip


class _Families(Collector):
    """A registry of some families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


async def expose(gateway: Gateway) -> bytes:
    """Return the metrics of this moment."""
    found = await survey(gateway)
    families = [*_of_gateway(gateway), *_of_clients(found), *_of_store(gateway, await _sessions(gateway))]
    families += _of_applications(gateway, found.applications, await _left_s(gateway, found.applications))
    return generate_latest(_Families([*families, *ProcessCollector(registry=None).collect()]))


def _family(name: str, kind: str, text: str, *samples: tuple[dict[str, str], float]) -> Metric:
    metric = Metric(f"streamd_mqtt_{name}", text, kind)
    for labels, value in samples:
        metric.add_sample(f"streamd_mqtt_{name}" + ("_total" if kind == "counter" else ""), labels, float(value))
    return metric


def _gauge(name: str, text: str, value: float) -> Metric:
    return _family(name, "gauge", text, ({}, value))


def _of_gateway(gateway: Gateway) -> Iterator[Metric]:
    yield _family("info", "gauge", "What runs.", ({"version": VERSION}, 1))
    yield _gauge("start_time_seconds", "When it was started, as Unix time.", gateway.started_s)
    yield _gauge("connections", "Open sockets.", gateway.counters.connections_now)
    yield _gauge("connections_max", "The option --connections-max.", gateway.limits.connections_max)
    yield _gauge("connections_paused", "Sockets that are not read from, until the store keeps up.", len(gateway.paused))
    yield _gauge("retained_messages", "Topics with a retained message.", len(gateway.retained))
    for name, (metric, text) in _COUNTERS.items():
        yield _family(metric, "counter", text, ({}, getattr(gateway.counters, name)))
    yield _histogram(
        "acknowledge_seconds",
        "From a PUBLISH until the store has answered, and its acknowledgement leaves; of a batch its oldest message.",
        gateway.counters.acknowledging,
    )
    yield _histogram(
        "deliver_seconds",
        "From when a message was stored until it was sent to the subscribers that keep up.",
        gateway.counters.delivering,
    )


def _histogram(name: str, text: str, latency: Latency) -> Metric:
    family = HistogramMetricFamily(f"streamd_mqtt_{name}", text)
    family.add_metric([], latency.buckets(), latency.sum_s)
    return family


def _of_clients(found: Survey) -> Iterator[Metric]:
    by_version = [({"version": text}, found.versions[version]) for version, text in _VERSIONS.items()]
    yield _family("clients", "gauge", "Clients that are connected, by their version of MQTT.", *by_version)
    by_listener = [({"listener": kind}, number) for kind, number in sorted(found.listeners.items())]
    yield _family("listener_connections", "gauge", "Open sockets, by listener.", *by_listener)
    yield _gauge("connections_full", "Connections whose client does not read what it is sent.", found.full)
    yield _gauge("subscriptions", "Subscriptions of connected clients.", found.subscriptions)
    yield _gauge("shared_subscriptions", "Those of them that are shared.", found.shared_subscriptions)
    yield _gauge("in_flight", "Messages of QoS 1 and 2 that connected clients have not acknowledged.", found.in_flight)
    behind = [({"log": name}, one) for name, one in found.behind.items()]
    for name, text, value in (
        ("sessions_behind", "Connected sessions that are behind the tail of a log.", lambda one: one.sessions),
        ("sessions_replaying", "Those of them that read from the store.", lambda one: one.replaying),
        (
            "sessions_lag_messages_max",
            "How many messages the furthest of them is behind, without those that read from the store.",
            lambda one: one.messages,
        ),
        (
            "sessions_lag_seconds_max",
            "For how long at most the next message of a session has waited for it.",
            lambda one: one.lag_ms / 1_000,
        ),
    ):
        yield _family(name, "gauge", text, *((labels, value(one)) for labels, one in behind))


def _of_applications(gateway: Gateway, found: Applied, left_s: dict[str, float]) -> Iterator[Metric]:
    yield _gauge("applications", "Connected clients that are applications.", len(found.sessions))
    yield _gauge(
        "applications_unacknowledged", "Messages in their packs that are not acknowledged.", found.unacknowledged
    )
    yield _gauge(
        "applications_retries_max", "How often the pack that was sent again most often was sent again.", found.retries
    )
    yield _gauge(
        "applications_lag_seconds_max",
        "For how long at most the next message of one of them has waited for it.",
        found.lag_ms / 1_000,
    )
    away = gateway.away
    if away.number is not None:
        yield _gauge("applications_away", "Of the keeper: applications that are not connected.", away.number)
    left = [({"log": name, "of": "connected"}, one) for name, one in sorted(left_s.items())]
    left += [({"log": name, "of": "away"}, one) for name, one in sorted((away.left_s or {}).items())]
    yield _family(
        "applications_retention_left_seconds_min",
        "gauge",
        "How long a log keeps all that its applications have to get: this gateway's, and of the keeper those away.",
        *left,
    )
    retention = [({"log": log.name}, log.handle.meta.retention_s) for log in gateway.logs.all]
    yield _family("retention_seconds", "gauge", "How long a log keeps messages.", *retention)


def _of_store(gateway: Gateway, sessions: int | None) -> Iterator[Metric]:
    yield _gauge("store_up", "1: the store can be used.", gateway.link.is_up)
    replays = gateway.delivery.replays
    yield _family(
        "reads_refused",
        "gauge",
        "1: the store refuses to be read, of new messages by the tail, or of past ones for sessions that are behind.",
        ({"of": "tail"}, gateway.tail.refusals.text is not None),
        ({"of": "past"}, any(one.refusals.text is not None for one in replays.values())),
    )
    yield _gauge("store_requests_waiting", "Requests without an answer.", gateway.link.waiting)
    yield _gauge("publish_backlog", "Messages received that are not stored yet.", gateway.publishing.backlog)
    yield _gauge("tail_lag", "Messages stored by this gateway that its tail has not read yet.", gateway.tail.lag)
    yield _family("stored", "counter", "Messages stored.", ({}, gateway.publishing.stored))
    read = [({"log": name}, replay.read) for name, replay in replays.items()]
    yield _family("replayed", "counter", "Older messages read from the store, for sessions that are behind.", *read)
    if sessions is not None:
        yield _gauge("sessions", "Sessions that the store keeps, of clients that are connected or not.", sessions)


async def _left_s(gateway: Gateway, found: Applied) -> dict[str, float]:
    """Return how long each log keeps what connected applications have to get; nothing if the store does not say."""
    if not found.sessions or not gateway.link.is_up:
        return {}
    unread = Unread(gateway)
    for at, session in enumerate(found.sessions):
        unread.note_session(session)
        if at % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
    try:
        return await asyncio.wait_for(unread.left_s(), _ANSWER_S)
    except (TimeoutError, StoreFault):
        return {}


async def _sessions(gateway: Gateway) -> int | None:
    """Return the number of sessions in the store; None if it does not say."""
    if not gateway.link.is_up:
        return None
    try:
        (number,) = await asyncio.wait_for(gateway.history.ask(("ZCARD", INDEX)), _ANSWER_S)
    except TimeoutError:
        return None
    return number if isinstance(number, int) else None
