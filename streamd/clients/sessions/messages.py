"""Stored messages: MQTT's fields as JSON, in the form that the broker's other programs read."""

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from streamd.clients.sessions.session_keys import PACKET_ID_MAX, UTF8_BYTES_MAX, check_integer, check_text

EXPIRY_S_MAX: Final = 4_294_967_295  # MQTT's four bytes
SUBSCRIPTION_ID_MAX: Final = 268_435_455
_TIME_MS_MAX: Final = 99_999_999_999_999  # so many digits a number keeps in the scripts

PUBLISH: Final = "PUBLISH"
PUBREL: Final = "PUBREL"

_LOGGER: Final = logging.getLogger("streamd.sessions")


@dataclass(frozen=True, slots=True)
class Message:
    """One PUBLISH for one subscriber.

    topic, payload, qos, retain: as in MQTT 3.
    expiry_s, payload_format, content_type, response_topic, correlation, user_properties, subscription_ids: as in
        MQTT 5; None and () are left out. expiry_s replaces the store's `ttl_s`. `get` returns what is left of it.
    time_ms: Unix milliseconds of when the broker took it; None: when it is added.
    packet_id, packet_type: set by the store, `PUBLISH` or, behind `mark_pubrel`, `PUBREL`.
    """

    topic: str
    payload: bytes = b""
    qos: int = 1
    retain: bool = False
    expiry_s: int | None = None
    payload_format: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    subscription_ids: tuple[int, ...] = ()
    time_ms: int | None = None
    packet_id: int = 0
    packet_type: str = PUBLISH

    def check(self) -> None:
        """Check all stored fields. Raises: ValueError."""
        check_topic("a topic", self.topic)
        if not isinstance(self.payload, bytes):
            raise ValueError(f"a payload is bytes, not {type(self.payload).__name__}")
        check_integer("QoS", self.qos, 0, 2)
        if not isinstance(self.retain, bool):
            raise ValueError(f"retain is True or False, not {self.retain!r}")
        if self.expiry_s is not None:
            check_integer("a message's expiry in seconds", self.expiry_s, 1, EXPIRY_S_MAX)
        if self.payload_format is not None:
            check_integer("a payload's format", self.payload_format, 0, 1)
        if self.content_type is not None:
            check_text("a content type", self.content_type, is_empty_good=True)
        if self.response_topic is not None:
            check_topic("a response topic", self.response_topic)
        if self.correlation is not None and not (
            isinstance(self.correlation, bytes) and len(self.correlation) <= UTF8_BYTES_MAX
        ):
            raise ValueError(f"correlation data are at most {UTF8_BYTES_MAX} bytes")
        for pair in self.user_properties:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ValueError(f"a user property is a name and a value, not {pair!r}")
            for text in pair:
                check_text("a user property", text, is_empty_good=True)
        for number in self.subscription_ids:
            check_integer("a subscription identifier", number, 1, SUBSCRIPTION_ID_MAX)
        if self.time_ms is not None:
            check_integer("a message's time in milliseconds", self.time_ms, 0, _TIME_MS_MAX)


class Damaged(NamedTuple):
    """A stored value that is no message. packet_id: None if its key names none. reason: what is wrong with it."""

    key: str
    packet_id: int | None
    reason: str


class Messages(list[Message]):
    """A session's messages in the order in which they were added. damaged: the stored values that are left out."""

    __slots__ = ("damaged",)

    def __init__(self, messages: Iterable[Message], damaged: Sequence[Damaged]) -> None:
        super().__init__(messages)
        self.damaged = tuple(damaged)


def check_topic(what: str, topic: str) -> None:
    """Check a topic that a message is published to. Raises: ValueError."""
    check_text(what, topic)
    if "#" in topic or "+" in topic:
        raise ValueError(f"{what} has no wildcards: {topic!r}")


def to_fields(message: Message, client_id: str, now_ms: int) -> dict[str, Any]:
    """Return the stored fields of a checked message, for JSON; the script adds its packet ID."""
    fields: dict[str, Any] = {
        "clientId": client_id,
        "topic": message.topic,
        "time": now_ms if message.time_ms is None else message.time_ms,
        "qos": message.qos,
        "packetType": PUBLISH,
        "payload": b64encode(message.payload).decode(),
        "retain": message.retain,
    }
    for name, value in (
        ("msgExpiryInterval", message.expiry_s),
        ("payloadFormatIndicator", message.payload_format),
        ("contentType", message.content_type),
        ("responseTopic", message.response_topic),
    ):
        if value is not None:
            fields[name] = value
    if message.correlation is not None:
        fields["correlationData"] = b64encode(message.correlation).decode()
    # Left out when empty: Lua does not know an empty list from an empty map.
    if message.user_properties:
        fields["userProperties"] = message.user_properties
    if message.subscription_ids:
        fields["subscriptionIds"] = message.subscription_ids
    return fields


def to_json(fields: list[dict[str, Any]]) -> str:
    """Return messages in the form that the script takes."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def from_json(text: bytes | str, left_ms: int = -1) -> Message:
    """Return a stored message, of this library or of another broker. Raises: ValueError.

    left_ms: the milliseconds that are left of its own expiry, which it then has in seconds, rounded up, at least 1. If
    negative, the message does not expire, and has the expiry that is stored.
    Some brokers write `topicName` and `retained` for `topic` and `retain`.
    """
    try:
        fields = json.loads(text)
        correlation = fields.get("correlationData")
        expiry_s = fields.get("msgExpiryInterval")
        if expiry_s is not None and left_ms >= 0:
            expiry_s = max(1, -(-left_ms // 1000))
        return Message(
            topic=_topic_of(fields),
            payload=b64decode(fields.get("payload") or ""),
            qos=check_integer("QoS", fields["qos"], 0, 2),
            retain=bool(fields.get("retained") or fields.get("retain")),
            expiry_s=expiry_s,
            payload_format=fields.get("payloadFormatIndicator"),
            content_type=fields.get("contentType"),
            response_topic=fields.get("responseTopic"),
            correlation=None if correlation is None else b64decode(correlation),
            user_properties=tuple((name, value) for name, value in fields.get("userProperties", ())),
            subscription_ids=tuple(fields.get("subscriptionIds", ())),
            time_ms=fields.get("time"),
            packet_id=check_integer("a packet ID", fields["packetId"], 1, PACKET_ID_MAX),
            packet_type=fields.get("packetType", PUBLISH),
        )
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"no message of a session: {text[:200]!r}") from error


def _topic_of(fields: dict[str, Any]) -> str:
    topic = fields["topicName"] if "topicName" in fields else fields["topic"]
    if not isinstance(topic, str):
        raise ValueError(f"a topic is text, not {topic!r}")
    return topic


def messages_of(client_id: str, reply: Sequence[Sequence[Any]]) -> Messages:
    """Return a session's messages. Values that are none are left out, named in the result, and logged.

    reply: the stored values, the milliseconds that are left of each (negative: it has no expiry), and their keys.
    """
    messages, damaged = [], []
    for text, left_ms, key in zip(*reply, strict=True):
        try:
            messages.append(from_json(text, left_ms))
        except ValueError as error:
            name = key if isinstance(key, str) else key.decode(errors="backslashreplace")
            digits = name.rpartition("_")[2]
            packet_id = int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 5 else None
            damaged.append(Damaged(name, packet_id, str(error)))
    for one in damaged:
        _LOGGER.warning(
            "client %r: the message with packet ID %s is left out: %s", client_id, one.packet_id, one.reason
        )
    return Messages(messages, damaged)
