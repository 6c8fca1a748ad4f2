"""The sessions that an MQTT gateway keeps in the store, a page at a time, and a whole one."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from streamd.clients.ui import mqtt_logs
from streamd.clients.ui.mqtt_applications import KIND, Application, application_of
from streamd.clients.ui.mqtt_logs import Lag, Log
from streamd.clients.ui.source import Request, Source, needed, pairs
from streamd.clients.ui.streams import ms_of

SESSIONS_PER_PAGE = 50
# Of one session so many fields are looked at, in so many requests, and so many of a kind are shown.
SCANNED = 500
SCANS_MAX = 20
LISTED_MAX = 500
_INDEX = "mqtt:sessions"
_APPLICATIONS = "mqtt:applications"
_GATEWAYS = "mqtt:gateways"
_STATES = {b"1": ("1", "PUBACK"), b"2": ("2", "PUBREC"), b"3": ("2", "PUBCOMP")}


@dataclass(frozen=True)
class Position:
    """How far a session has come in a log, as its record says; lag: None if that cannot be known."""

    log: str
    at: bytes
    lag: Lag | None


@dataclass(frozen=True)
class Session:
    """A session. ends_ms: None while its client is connected.

    reads_nothing: why its positions do not move, so that it is not behind; empty if they do, or that is not known.
    gateway: the one that its client is connected to; empty for none, or one that does not run. application: None for a
    device.
    """

    client: bytes
    user: bytes | None
    expiry_s: int
    ends_ms: int | None
    has_will: bool
    positions: list[Position]
    reads_nothing: str = ""
    gateway: str = ""
    application: Application | None = None

    @property
    def is_connected(self) -> bool:
        """Whether its client is connected to a gateway, which may have been killed since."""
        return self.ends_ms is None


@dataclass(frozen=True)
class Page:
    """Some of the sessions, at the server's time now_ms: those that end first come first.

    gateways: those that run, with address, process and host. following: the number of the first
    session of the next page, 0 at the end.
    """

    sessions: list[Session]
    number: int
    connected: int
    gateways: list[str]
    following: int
    now_ms: int


@dataclass
class Whole:
    """All of a session. left_out: of the fields of its record, those that were not looked at."""

    session: Session
    will_topic: str = ""
    subscriptions: list[tuple[bytes, int, str]] = field(default_factory=list)  # filter, QoS, options
    in_flight: list[tuple[int, str, str, bytes, bytes]] = field(default_factory=list)  # ..., stream, entry ID
    subscriptions_number: int = 0
    in_flight_number: int = 0
    left_out: int = 0
    now_ms: int = 0


def are_there(source: Source) -> bool | None:
    """Return whether a gateway runs, or has left sessions; None if the user may not know. Raises: SourceError."""
    gateways, number = source.ask_all([("HLEN", _GATEWAYS), ("ZCARD", _INDEX)])
    if isinstance(gateways, Exception) or isinstance(number, Exception):
        return None
    return gateways > 0 or number > 0


def find(source: Source, start: int, *, applications: bool = False) -> Page:
    """Return a page of the sessions, or only of those of applications. start: the number of its first one.

    Raises: SourceError.
    """
    index = _APPLICATIONS if applications else _INDEX
    replies = source.ask_all(
        [
            ("TIME",),
            ("HGETALL", _GATEWAYS),
            ("ZCARD", index),
            ("ZCOUNT", index, "+inf", "+inf"),
            ("ZRANGE", index, start, start + SESSIONS_PER_PAGE - 1),
        ]
    )
    now, runs, number, connected, clients = (needed(reply) for reply in replies)
    gateways = _gateways(source, runs)
    pointers = _pointers(source, clients)
    names = mqtt_logs.names(source) if clients else []
    logs = mqtt_logs.look_at(source, names)
    wanted = ["user", "expiry_s", "ends_ms", "will_name", "kind", *(f"at {name}" for name in names)]
    requests: list[Request] = [("HMGET", _key(client, pointer), *wanted) for client, pointer in pointers.items()]
    sessions, backends = [], set()
    for client, reply in zip(pointers, source.ask_all(requests), strict=True):
        user, expiry_s, ends_ms, will, kind, *at = needed(reply)
        if expiry_s is not None:  # else it has ended meanwhile
            positions = {name: one for name, one in zip(names, at, strict=True) if one is not None}
            one = _session(client, user, expiry_s, ends_ms, will, positions, logs)
            sessions.append(replace(one, gateway=_gateway_of(pointers[client], gateways)))
            if kind == KIND:
                backends.add(client)
    sessions = _with_reasons(source, sessions, pointers)
    sessions = _with_applications(source, sessions, backends, pointers, logs, ms_of(now))
    following = start + SESSIONS_PER_PAGE
    return Page(
        sessions, number, connected, sorted(gateways.values()), following if following < number else 0, ms_of(now)
    )


def _with_reasons(source: Source, sessions: list[Session], pointers: dict[bytes, bytes]) -> list[Session]:
    """Return the sessions, and of those that seem to be behind whether they read nothing."""
    behind = [one for one in sessions if any(at.lag is not None and at.lag.messages for at in one.positions)]
    requests: list[Request] = [
        ("HSCAN", _key(one.client, pointers[one.client]), 0, "MATCH", "s *", "COUNT", SCANNED) for one in behind
    ]
    reasons = {}
    for one, reply in zip(behind, map(needed, source.ask_all(requests)), strict=True):
        cursor, fields = reply
        if cursor == b"0":  # else there are more than were looked at
            reasons[one.client] = _reads_nothing([name[2:] for name in pairs(fields)])
    return [replace(one, reads_nothing=reasons.get(one.client, "")) for one in sessions]


def _with_applications(
    source: Source,
    sessions: list[Session],
    backends: set[bytes],
    pointers: dict[bytes, bytes],
    logs: dict[str, Log],
    now_ms: int,
) -> list[Session]:
    """Return the sessions, and of applications what they have to get. backends: the applications among them."""
    looked_at = [one for one in sessions if one.client in backends]
    requests: list[Request] = [
        ("HSCAN", _key(one.client, pointers[one.client]), 0, "COUNT", SCANNED) for one in looked_at
    ]
    found = {}
    for one, reply in zip(looked_at, map(needed, source.ask_all(requests)), strict=True):
        cursor, fields = reply
        found[one.client] = _application(one, pairs(fields), logs, cursor == b"0", now_ms)
    return [replace(one, application=found.get(one.client)) for one in sessions]


def _application(
    session: Session, fields: dict[bytes, bytes], logs: dict[str, Log], is_whole: bool, now_ms: int
) -> Application:
    return application_of(fields, {at.log: at.lag for at in session.positions}, logs, is_whole, now_ms)


def _reads_nothing(filters: list[bytes]) -> str:
    """Return why a session with these subscriptions, all that it has, reads no log by itself; empty if it does."""
    if any(not one.startswith(b"$share/") for one in filters):
        return ""
    return "shared subscriptions only" if filters else "no subscriptions"


def whole(source: Source, client: bytes) -> Whole | None:
    """Return a session; None without one. Raises: SourceError."""
    pointers = _pointers(source, [client])
    if client not in pointers:
        return None
    key, fields, cursor = _key(client, pointers[client]), {}, b"0"
    for _ in range(SCANS_MAX):
        cursor, some = source.ask("HSCAN", key, cursor, "COUNT", SCANNED)
        fields.update(pairs(some))
        if cursor == b"0":
            break
    if not fields:
        return None
    # What every record has may be beyond the fields that were looked at.
    known = ("user", "expiry_s", "ends_ms", "will", "will_name", "kind")
    now, runs, size, values = source.ask_all([("TIME",), ("HGETALL", _GATEWAYS), ("HLEN", key), ("HMGET", key, *known)])
    user, expiry_s, ends_ms, will, will_name, kind_of_client = needed(values)
    if expiry_s is None:
        return None
    positions = {name[3:].decode(): at for name, at in fields.items() if name.startswith(b"at ")}
    logs = mqtt_logs.look_at(source, list(positions)[: mqtt_logs.LOGS_MAX])
    found = Whole(_session(client, user, expiry_s, ends_ms, will_name, positions, logs), now_ms=ms_of(needed(now)))
    gateway = _gateway_of(pointers[client], _gateways(source, needed(runs)))
    found.session = replace(found.session, gateway=gateway)
    found.left_out = max(0, needed(size) - len(fields)) if cursor != b"0" else 0
    found.will_topic = _topic_of_will(will)
    for name, value in sorted(fields.items()):
        kind, _, rest = name.partition(b" ")
        if kind == b"s":
            found.subscriptions_number += 1
            if len(found.subscriptions) < LISTED_MAX:
                found.subscriptions.append(_subscription(rest, value))
        elif kind == b"i" and (flying := _flying(rest, value)) is not None:
            found.in_flight_number += 1
            if len(found.in_flight) < LISTED_MAX:
                found.in_flight.append(flying)
    found.in_flight.sort()
    if not found.left_out:
        filters = [name[2:] for name in fields if name.startswith(b"s ")]
        found.session = replace(found.session, reads_nothing=_reads_nothing(filters))
    if kind_of_client == KIND:
        application = _application(found.session, fields, logs, not found.left_out, found.now_ms)
        found.session = replace(found.session, application=application)
    return found


def _key(client: bytes, pointer: bytes) -> bytes:
    return b"mqtt:session:{%b}:%b" % (client, pointer.partition(b" ")[0])


def _pointers(source: Source, clients: list[bytes]) -> dict[bytes, bytes]:
    """Return for each client that has a session where that is, and who owns it."""
    requests: list[Request] = [("GET", b"mqtt:session:{%b}" % client) for client in clients]
    replies = source.ask_all(requests) if requests else []
    return {client: one for client, one in zip(clients, replies, strict=True) if isinstance(one, bytes)}


def _gateways(source: Source, registered: list[bytes]) -> dict[bytes, str]:
    """Return the gateways that run, by run. registered: runs and what is known of them, in turn."""
    known = dict(zip(registered[::2], registered[1::2], strict=True))
    requests: list[Request] = [("GET", b"mqtt:gateway:%b" % run) for run in known]
    found = {}
    for run, lease in zip(known, source.ask_all(requests) if requests else [], strict=True):
        said = _object(known[run])
        if isinstance(lease, bytes) and isinstance(said, dict):
            host = str(said.get("host", "")).partition(" ")[0]
            found[run] = (
                f"{said.get('name') or run.decode('ascii', 'replace')}, process {said.get('process')} on {host}"
            )
    return found


def _gateway_of(pointer: bytes, gateways: dict[bytes, str]) -> str:
    """Return the gateway that owns a session, in short; empty for none that runs."""
    run = pointer.partition(b" ")[2].partition(b".")[0]
    return gateways.get(run, "").partition(",")[0]


def _session(
    client: bytes,
    user: bytes | None,
    expiry_s: bytes,
    ends_ms: bytes | None,
    will: bytes | None,
    positions: dict[str, bytes],
    logs: dict[str, Log],
) -> Session:
    found = [
        Position(name, at, mqtt_logs.lag_of(logs[name], at) if name in logs else None) for name, at in positions.items()
    ]
    return Session(
        client, user, _number(expiry_s), None if ends_ms is None else _number(ends_ms), will is not None, found
    )


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) < 20 else 0


def _object(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _subscription(filter: bytes, value: bytes) -> tuple[bytes, int, str]:
    said = _object(value)
    if not isinstance(said, dict):
        return filter, 0, ""
    words = [name.removeprefix("is_").replace("_", " ") for name, one in said.items() if one is True]
    if "identifier" in said:
        words.append(f"identifier {said['identifier']}")
    return filter, said.get("qos", 0), ", ".join(words)


def _flying(packet_id: bytes, value: bytes) -> tuple[int, str, str, bytes, bytes] | None:
    """Return the packet identifier of a message in flight, its QoS, what is awaited, its stream and its entry ID."""
    words = value.split(b" ")
    if len(words) < 6 or not packet_id.isdigit():
        return None
    _, state, log, generation, shard, entry_id = words[:6]
    qos, awaited = _STATES.get(state[:1], ("?", "?"))
    return int(packet_id), qos, awaited, b"{%b/%b}:g%b" % (log, shard, generation), entry_id


def _topic_of_will(will: bytes | None) -> str:
    said = None if will is None else _object(will)
    return str(said[0]) if isinstance(said, list) and said else ""
