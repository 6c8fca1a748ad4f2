"""Sessions in the store: a hash for each, a string that says where it is and whose, and an index of them all.

mqtt:session:{<client>}          string: the epoch, and the owner: <run of a gateway>.<number>, or - for nobody
mqtt:session:{<client>}:<epoch>  hash: the fields below
mqtt:sessions                    sorted set: client identifiers by the time at which the session ends, +inf for later
mqtt:applications                sorted set: those of `mqtt:sessions` that are applications, with the same times
mqtt:wills                       sorted set: client identifiers by the time at which a will with a delay is published
mqtt:user:{<user>}               set: the client identifiers of a user's sessions

A gateway writes to the hash only while it owns the session. The epoch rises when it lets go, and when another gateway
takes the session from it: the hash gets another name, so that what an older owner still writes does not reach it.

version          of this layout, 2: a gateway refuses a later one, and takes up those of version 1
uid              the session's own name; another session of the same client has another
user             whose it is; no field for an anonymous client
kind             `application` if the client was one at its last CONNECT; no field for a device
expiry_s         how long it outlives a connection; 4294967295 for ever
ends_ms          when it ends, in Unix milliseconds of the store; while a client is connected no field
last             the last packet identifier that was given
will, will_name  the message to publish, in JSON; the name under which it is stored once
will_ms          when to publish it, if the connection has ended
lost_ms          when the session was taken up from a gateway that had ended without a word
unsure_ms        the same time, once its client has come and left again before it had all messages until then
s <filter>       a subscription, in JSON
w <filter>       the retained messages that a subscription is still to get, in JSON; empty when it has got all
waiting          the same of all subscriptions, as earlier versions wrote it when a connection ended
at <log>         the position in a log
retries          of an application: how often its packs in flight were sent again, in JSON by shared subscription, with
                 an empty name for its own subscriptions
i <number>       a message in flight: its state, with r where its PUBLISH has RETAIN, its place, and the share that it
                 belongs to
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.session.outgoing import Sent, State
from streamd.clients.mqtt.store.link import Words
from streamd.clients.mqtt.store.positions import Place, Position
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.topics.steps import Command, Commit, Steps, Watch

VERSION: Final = b"2"
APPLICATION: Final = "application"
INDEX: Final = "mqtt:sessions"
APPLICATIONS: Final = "mqtt:applications"
WILLS: Final = "mqtt:wills"


class NewerRecord(ValueError):
    """A later version of the gateway has written the session."""


class Shared(NamedTuple):
    """A message in flight that belongs to a shared subscription."""

    place: Place
    share: str


Flying = Place | Shared


@dataclass(slots=True)
class Subscribed:
    """A subscription. since: the positions, by log, from which on it counts, where the session is behind them."""

    filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int | None = None
    since: dict[str, Position] | None = None
    is_ordered: bool = False  # of a shared subscription: `share=ordered`

    def to_text(self) -> str:
        """Return its text in the record."""
        said: dict[str, Any] = {"qos": self.qos}
        for name in ("no_local", "retain_as_published", "identifier", "is_ordered"):
            if getattr(self, name):
                said[name] = getattr(self, name)
        if self.since:
            said["since"] = {name: position.to_text() for name, position in self.since.items()}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_text(cls, filter: str, text: bytes) -> Subscribed:
        """Return the subscription of a text."""
        said = json.loads(text)
        since = said.pop("since", None)
        if since is not None:
            since = {name: Position.from_text(one) for name, one in since.items()}
        return cls(filter, since=since, **said)


@dataclass(slots=True)
class Waiting:
    """The retained messages that a new subscription is still to get.

    since: where it began, by log; what is newer comes from the log. place: the topic of the last one that it got.
    qos_min: those of a lower QoS do not wait for a client that is away. is_begun: its SUBACK has been sent.
    """

    filter: str
    qos: int
    identifier: int | None
    since: dict[str, Position]
    place: bytes | None = None
    qos_min: int = 0
    is_begun: bool = True

    def takes(self, entry: Stored) -> bool:
        """Return whether a retained message is one of them."""
        since = self.since.get(entry.log)
        if since is None or not since.has_passed(entry.generation, entry.shard, entry.entry_id):
            return False
        return min(self.qos, entry.qos) >= self.qos_min


class Pointer(NamedTuple):
    """Where a session is, and who owns it. owner: None for nobody: its client is not connected."""

    epoch: int
    owner: str | None

    def to_text(self) -> str:
        """Return its text in the store."""
        return f"{self.epoch} {self.owner or '-'}"

    @classmethod
    def from_text(cls, text: bytes) -> Pointer:
        """Return the pointer of a text. Raises: ValueError."""
        epoch, _, owner = text.decode().partition(" ")
        return cls(int(epoch), None if owner == "-" else owner)

    @property
    def run(self) -> str | None:
        """The run of the gateway that owns the session."""
        return None if self.owner is None else self.owner.partition(".")[0]


class Found(NamedTuple):
    """What the store has of a session. fields: of its hash, names and values in turn."""

    pointer: Pointer | None
    fields: list[bytes]


@dataclass(slots=True)
class Record:
    """A session as it is stored.

    in_flight: in the order of the first deliveries, which numbers has, by packet identifier.
    """

    client_id: str
    uid: str = field(default_factory=lambda: secrets.token_hex(8))
    user: str | None = None
    expiry_s: int = 0
    ends_ms: int | None = None
    pointer: Pointer = field(default_factory=lambda: Pointer(0, None))
    lost_ms: int | None = None
    unsure_ms: int = 0
    last_packet_id: int = 0
    will: Will | None = None
    will_ms: int | None = None
    will_name: str = ""
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)
    positions: dict[str, Position] = field(default_factory=dict)
    in_flight: list[Sent[Flying]] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    has_old_waiting: bool = False  # an earlier version wrote some of these
    retries: dict[str, int] = field(default_factory=dict)
    is_application: bool = False

    @property
    def key(self) -> str:
        """The key of its hash."""
        return data_key(self.client_id, self.pointer.epoch)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether its time is over."""
        return self.ends_ms is not None and self.ends_ms <= now_ms


def pointer_key(client_id: str) -> str:
    """Return the key of the string that says where a session is."""
    return f"mqtt:session:{{{client_id}}}"


def data_key(client_id: str, epoch: int) -> str:
    """Return the key of a session's hash."""
    return f"mqtt:session:{{{client_id}}}:{epoch}"


def user_key(user: str) -> str:
    """Return the key of the set of a user's sessions."""
    return f"mqtt:user:{{{user}}}"


def parse_record(client_id: str, found: Found) -> Record | None:
    """Return the record that was found; None without one. Raises: NewerRecord."""
    reply, pointer = found.fields, found.pointer
    if not reply or pointer is None:
        return None
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    if fields.get(b"version") != VERSION:
        raise NewerRecord(f"the session of client {client_id!r} was written by a newer gateway: upgrade streamd")
    user, ends = fields.get(b"user"), fields.get(b"ends_ms")
    will, will_ms = fields.get(b"will"), fields.get(b"will_ms")
    record = Record(
        client_id,
        fields[b"uid"].decode(),
        None if user is None else user.decode(),
        int(fields[b"expiry_s"]),
        None if ends is None else int(ends),
        pointer,
        None if (lost := fields.get(b"lost_ms")) is None else int(lost),
        int(fields.get(b"unsure_ms", b"0")),
        int(fields.get(b"last", b"0")),
        None if will is None else will_from_text(will),
        None if will_ms is None else int(will_ms),
        fields.get(b"will_name", b"").decode(),
    )
    record.is_application = fields.get(b"kind") == APPLICATION.encode()
    if b"waiting" in fields:
        record.has_old_waiting = True
        record.waiting = {filter: _waiting_of(filter, said) for filter, *said in json.loads(fields[b"waiting"])}
    if b"retries" in fields:
        record.retries = json.loads(fields[b"retries"])
    flying: list[tuple[int, Sent[Flying]]] = []
    for name, value in fields.items():
        kind, _, rest = name.partition(b" ")
        if kind == b"s":
            text = rest.decode()
            record.subscriptions[text] = Subscribed.from_text(text, value)
        elif kind == b"at":
            record.positions[rest.decode()] = Position.from_text(value.decode())
        elif kind == b"i":
            flying.append(_flying_of(int(rest), value.decode()))
        elif kind == b"w" and value:
            text = rest.decode()
            record.waiting[text] = _waiting_of(text, json.loads(value))
    record.waiting = {filter: one for filter, one in record.waiting.items() if filter in record.subscriptions}
    record.in_flight = [one for _, one in sorted(flying, key=lambda pair: pair[0])]
    record.numbers = {one.packet_id: number for number, one in flying}
    return record


def flying_text(number: int, sent: Sent[Flying]) -> str:
    """Return the text of a message in flight; number: its place in the order of first deliveries."""
    flying = sent.place
    place, share = (flying.place, flying.share) if isinstance(flying, Shared) else (flying, "")
    return f"{number} {int(sent.state)}{'r' if sent.retain else ''} {place.to_text()} {share}"


def _flying_of(packet_id: int, text: str) -> tuple[int, Sent[Flying]]:
    number, state, rest = text.split(" ", 2)
    place_text, _, share = rest.rpartition(" ")
    place = Place.from_text(place_text)
    flying = Shared(place, share) if share else place
    return int(number), Sent(packet_id, flying, State(int(state.rstrip("r"))), state.endswith("r"))


def retries_to_text(retries: dict[str, int]) -> str:
    """Return the text of how often packs were sent again."""
    return json.dumps(retries, ensure_ascii=False, separators=(",", ":"))


def waiting_fields(waiting: Waiting) -> list[str]:
    """Return the field, and its text, of the retained messages that a subscription is still to get."""
    since = {name: position.to_text() for name, position in waiting.since.items()}
    place = None if waiting.place is None else waiting.place.decode()
    said = (waiting.qos, waiting.identifier, since, place)
    return [waiting_field(waiting.filter), json.dumps(said, ensure_ascii=False, separators=(",", ":"))]


def waiting_field(filter: str) -> str:
    """Return the field of the retained messages that a subscription is still to get."""
    return f"w {filter}"


def _waiting_of(filter: str, said: Any) -> Waiting:
    qos, identifier, since, place = said
    positions = {name: Position.from_text(one) for name, one in since.items()}
    return Waiting(filter, qos, identifier, positions, None if place is None else place.encode(), 1)


def will_to_text(will: Will) -> str:
    """Return a will's text in the record."""
    properties = [
        [number, base64.b64encode(value).decode() if isinstance(value, bytes) else value, isinstance(value, bytes)]
        for number, value in will.properties.items()
    ]
    payload = base64.b64encode(will.payload).decode()
    return json.dumps([will.topic.decode(), payload, will.qos, bool(will.retain), properties], ensure_ascii=False)


def will_from_text(text: bytes) -> Will:
    """Return the will of a text."""
    topic, payload, qos, retain, said = json.loads(text)
    properties = {}
    for number, value, is_binary in said:
        if is_binary:
            value = base64.b64decode(value)
        elif isinstance(value, list):
            value = tuple(tuple(one) for one in value)
        properties[number] = value
    return Will(topic.encode(), base64.b64decode(payload), qos, retain, properties)


def indexing(client_id: str, ends: int | str, *, is_application: bool) -> list[Words]:
    """Return the commands that note when a session ends; ends: in Unix milliseconds, or +inf for later."""
    commands: list[Words] = [("ZADD", INDEX, ends, client_id)]
    if is_application:
        commands.append(("ZADD", APPLICATIONS, ends, client_id))
    return commands


def leaving_index(client_id: str) -> list[Words]:
    """Return the commands that take a session out of the indexes."""
    return [("ZREM", APPLICATIONS, client_id), ("ZREM", INDEX, client_id)]


def creation(record: Record) -> list[Words]:
    """Return the commands that write a new session; the last reply is the pointer of the one that is there then.

    The index comes first, so that nothing is forgotten.
    """
    words: list[bytes | str | int] = ["HSET", record.key, "version", VERSION, "uid", record.uid]
    words += ["expiry_s", record.expiry_s]
    if record.user is not None:
        words += ["user", record.user]
    if record.is_application:
        words += ["kind", APPLICATION]
    if record.will is not None:
        words += ["will", will_to_text(record.will), "will_name", record.will_name]
    for name, position in record.positions.items():
        words += [f"at {name}", position.to_text()]
    commands = indexing(record.client_id, "+inf", is_application=record.is_application)
    if record.user is not None:
        commands.append(("SADD", user_key(record.user), record.client_id))
    key = pointer_key(record.client_id)
    return [*commands, words, ("SET", key, record.pointer.to_text(), "NX"), ("GET", key)]


def removal(client_id: str, pointer: Pointer, user: str | None, keys: list[str]) -> list[Words]:
    """Return the commands with which its owner removes a session and the keys that belong to it.

    The pointer comes last: until then nobody else begins a session of this client.
    """
    commands: list[Words] = [("UNLINK", key) for key in (data_key(client_id, pointer.epoch), *keys)]
    if user is not None:
        commands.append(("SREM", user_key(user), client_id))
    commands += leaving_index(client_id)
    return [*commands, ("DELEX", pointer_key(client_id), "IFEQ", pointer.to_text())]


def taking(client_id: str, pointer: Pointer, owner: str) -> tuple[Pointer, Words]:
    """Return the pointer of a session at rest that gets an owner, and the command; no reply to it means it has moved.

    It stays where it is.
    """
    new = Pointer(pointer.epoch, owner)
    return new, ("SET", pointer_key(client_id), new.to_text(), "IFEQ", pointer.to_text())


def taking_over(sessions: list[tuple[str, Pointer]], owner: str) -> Steps[list[tuple[str, Pointer]]]:
    """Take sessions from other owners, each together with its place; return those that they still had.

    Pointer and place change as one, and only if the older owner has not let go meanwhile: then the session stays where
    it was.
    """
    keys = [pointer_key(client_id) for client_id, _ in sessions]
    places = [data_key(client_id, pointer.epoch) for client_id, pointer in sessions]
    replies = yield Watch(keys, [*(("GET", key) for key in keys), *(("EXISTS", place) for place in places)])
    commands: list[Command] = []
    taken: list[tuple[str, Pointer]] = []
    for (client_id, pointer), text, exists in zip(sessions, replies, replies[len(sessions) :], strict=False):
        if exists and text == pointer.to_text().encode():
            new = Pointer(pointer.epoch + 1, owner)
            place = data_key(client_id, pointer.epoch)
            commands.append(("SET", pointer_key(client_id), new.to_text()))
            commands.append(("RENAME", place, data_key(client_id, new.epoch)))
            taken.append((client_id, new))
    if not taken or (yield Commit(commands)) is not None:
        return taken
    if len(sessions) == 1:
        return []
    half = len(sessions) // 2  # one of them has moved amid this
    first = yield from taking_over(sessions[:half], owner)
    return [*first, *(yield from taking_over(sessions[half:], owner))]


def resting(client_id: str, pointer: Pointer, changes: Iterable[Words]) -> list[Words]:
    """Return the commands with which its owner lets go of a session, together with the last changes of its hash.

    The epoch rises: the store may execute older writes once more, when it was killed before it had answered them. If
    that happens to these, the session has moved on, and `misplaced` says what they have left beside it.
    """
    rest = Pointer(pointer.epoch + 1, None)
    key, place, new_place = pointer_key(client_id), data_key(client_id, pointer.epoch), data_key(client_id, rest.epoch)
    let_go: list[Words] = [("SET", key, rest.to_text(), "IFEQ", pointer.to_text()), ("RENAMENX", place, new_place)]
    return [("MULTI",), *changes, *let_go, ("EXEC",)]


def misplaced(client_id: str, pointer: Pointer, replies: list[Any]) -> list[str]:
    """Return the keys of hashes that may be there of late writes, and that no session has."""
    for reply in replies:
        if type(reply) is list and len(reply) > 1 and reply[-2] is None:
            epochs = (pointer.epoch, pointer.epoch + 1) if reply[-1] == 1 else (pointer.epoch,)
            return [data_key(client_id, epoch) for epoch in epochs]
    return []
