"""A session in words for people and programs, with the same names whether it comes from a gateway or the store."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.session.outgoing import Sent, State
from streamd.clients.mqtt.store.records import Flying, Record, Shared, Subscribed
from streamd.clients.mqtt.store.share_records import share_name
from streamd.clients.topics.entry_ids import format_id

# A client may have 65,535 messages in flight: of a longer list the beginning is told, and the number.
LISTED_MAX: Final = 1_000
RELEASED: Final = "PUBCOMP awaited"
_STATES: Final = {
    State.PUBLISHED_1: "PUBACK awaited",
    State.PUBLISHED_2: "PUBREC awaited",
    State.RELEASED: RELEASED,
}


def describe(record: Record) -> dict[str, Any]:
    """Return a session as an object of JSON."""
    return {
        "client": record.client_id,
        "user": record.user,
        "expiry_s": record.expiry_s,
        "ends": None if record.ends_ms is None else moment(record.ends_ms),
        "subscriptions": [_subscription(one) for one in list(record.subscriptions.values())[:LISTED_MAX]],
        "subscriptions_number": len(record.subscriptions),
        "positions": {name: one.to_text() for name, one in record.positions.items()},
        "in_flight": [_flying(one) for one in record.in_flight[:LISTED_MAX]],
        "in_flight_number": len(record.in_flight),
        "will": None if record.will is None else _will(record.will, record.will_ms),
        "is_application": record.is_application,
        "application": _application(record) if record.is_application else None,
    }


def _application(record: Record) -> dict[str, Any]:
    """Return what a record says of an application's packs: not how many messages they had taken."""
    in_flight = Counter(one.place.share if isinstance(one.place, Shared) else "" for one in record.in_flight)
    names = ["", *sorted((in_flight.keys() | record.retries.keys()) - {""})]
    return of_packs(
        [(name, in_flight[name], None, record.retries.get(name, 0)) for name in names], record.subscriptions
    )


def of_packs(packs: Sequence[tuple[str, int, int | None, int]], subscriptions: Iterable[str]) -> dict[str, Any]:
    """Return an application's packs as an object of JSON.

    packs: the name of the shared subscription of each, an empty one for the client's own subscriptions; how many of its
    messages are not acknowledged; how many it has taken, None if that is not known; how often it was sent again.
    """
    shares = {share_name(one): one for one in subscriptions if one.startswith("$share/")}
    takens = [taken for _, _, taken, _ in packs if taken is not None]
    return {
        "unacknowledged": sum(number for _, number, _, _ in packs),
        "taken": sum(takens) if takens else None,
        "retries": max(retries for _, _, _, retries in packs),
        "packs": [
            {"share": shares.get(name, name) or None, "unacknowledged": number, "taken": taken, "retries": retries}
            for name, number, taken, retries in packs
        ],
    }


def _subscription(one: Subscribed) -> dict[str, Any]:
    said: dict[str, Any] = {"filter": one.filter, "qos": one.qos}
    for name in ("no_local", "retain_as_published", "identifier", "is_ordered"):
        if getattr(one, name):
            said[name] = getattr(one, name)
    return said


def _flying(sent: Sent[Flying]) -> dict[str, Any]:
    place = sent.place.place if isinstance(sent.place, Shared) else sent.place
    said: dict[str, Any] = {
        "packet": sent.packet_id,
        "qos": 1 if sent.is_qos_1 else 2,
        "state": _STATES[sent.state],
        "log": place.log,
        "stream": f"{{{place.log}/{place.shard}}}:g{place.generation}",
        "entry": format_id(place.entry_id),
    }
    if isinstance(sent.place, Shared):
        said["share"] = sent.place.share
    return said


def _will(will: Will, will_ms: int | None) -> dict[str, Any]:
    return {
        "topic": will.topic.decode("utf-8", "replace"),
        "qos": int(will.qos),
        "retain": bool(will.retain),
        "bytes": len(will.payload),
        "delay_s": will.properties.get(Property.WILL_DELAY_INTERVAL, 0),
        "due": None if will_ms is None else moment(will_ms),
    }


def moment(ms: float) -> str:
    """Return Unix milliseconds as 2026-01-31T14:05:00Z."""
    try:
        return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%dT%H:%M:%S}Z"
    except (ValueError, OverflowError, OSError):
        return str(ms)
