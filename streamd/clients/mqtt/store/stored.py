"""Messages as the gateway stores them in a log, and as it reads them."""

import json
from collections.abc import Mapping

from streamd.clients.mqtt.codec.encoding import PublishHead
from streamd.clients.mqtt.codec.packets import NO_PROPERTIES, Properties, PropertyValue
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.positions import Place
from streamd.clients.topics.entry_ids import Id
from streamd.clients.topics.messages import EXPIRY_DIGITS_MAX, pack, to_entry
from streamd.clients.topics.numbers import Number, Rank, parse_number, rank_of

_PLAIN_FIELDS = (4, 6, 8)  # topic and payload; and the publisher; and the QoS
_QOS = {b"1": 1, b"2": 2}
_LEFT_S_MAX = 2**32 - 1
_HEADS_MAX = 32  # forms of one message that are kept ready


class Stored:
    """An entry of a log that is a message.

    fields: of the entry, names and values in turn. properties: what is handed on of a message of MQTT 5, without its
    expiry. expires_ms: in Unix milliseconds of the store, None for never. number: of a retained message.
    """

    __slots__ = (
        "_heads",
        "entry_id",
        "expires_ms",
        "fields",
        "generation",
        "is_retained",
        "log",
        "number",
        "payload",
        "properties",
        "publisher",
        "qos",
        "shard",
        "topic",
    )

    def __init__(
        self, log: str, generation: int, shard: int, entry_id: Id, topic: bytes, payload: bytes, fields: list[bytes]
    ) -> None:
        self.log, self.generation, self.shard, self.entry_id = log, generation, shard, entry_id
        self.topic, self.payload, self.fields = topic, payload, fields
        self.publisher: bytes | None = None
        self.qos = 0
        self.is_retained = False
        self.number: Number | None = None
        self.expires_ms: int | None = None
        self.properties: Properties = NO_PROPERTIES
        self._heads: dict[int | tuple[object, ...], PublishHead] | None = None

    @property
    def place(self) -> Place:
        """Its place in the log."""
        return Place(self.log, self.generation, self.shard, self.entry_id)

    @property
    def rank(self) -> Rank:
        """Its rank among the retained messages of its topic."""
        return rank_of(self.number, self.generation, self.entry_id, self.shard)

    def is_expired(self, now_ms: int) -> bool:
        """Return whether its expiry has passed."""
        return self.expires_ms is not None and self.expires_ms <= now_ms

    def head(
        self, version: int, qos: int, retain: bool, now_ms: int, more: tuple[tuple[int, PropertyValue], ...] = ()
    ) -> PublishHead:
        """Return the part that the packets to all receivers of one kind share. more: properties of this delivery."""
        if version < 5:
            key: int | tuple[object, ...] = qos << 1 | retain
        elif self.expires_ms is None:
            key = (version, qos, retain, more)
        else:
            key = (version, qos, retain, more, self._left_s(now_ms))
        heads = self._heads
        if heads is None:
            heads = self._heads = {}
        head = heads.get(key)
        if head is None:
            values = self.properties
            if version == 5 and (more or self.expires_ms is not None):
                values = self.values(now_ms, more)
            if len(heads) >= _HEADS_MAX:
                heads.clear()
            head = heads[key] = PublishHead(self.topic, self.payload, qos, retain, version, values)
        return head

    def values(self, now_ms: int, more: tuple[tuple[int, PropertyValue], ...] = ()) -> dict[int, PropertyValue]:
        """Return the properties of a delivery, with what is left of the expiry."""
        values = {**self.properties, **_joined(self.properties, more)}
        if self.expires_ms is not None:
            values[Property.MESSAGE_EXPIRY_INTERVAL] = self._left_s(now_ms)
        return values

    def _left_s(self, now_ms: int) -> int:
        """Return the seconds that are left, rounded up; 0 only for a message that is sent again.

        Other programs may write expiries of more than 136 years; MQTT has four bytes for the seconds.
        """
        assert self.expires_ms is not None
        now_ms = max(now_ms, self.entry_id[0])  # the clock of the store may be ahead
        return min(max(0, -(-(self.expires_ms - now_ms) // 1_000)), _LEFT_S_MAX)


def _joined(values: Properties, more: tuple[tuple[int, PropertyValue], ...]) -> dict[int, PropertyValue]:
    """Return the added properties; user properties follow those that the message has."""
    found = dict(more)
    pairs = found.get(Property.USER_PROPERTY)
    if pairs is not None:
        found[Property.USER_PROPERTY] = values.get(Property.USER_PROPERTY, ()) + pairs  # type: ignore[operator]
    return found


def parse_stored(log: str, generation: int, shard: int, entry_id: Id, fields: list[bytes]) -> Stored | None:
    """Return the message in an entry; None if it has no topic, as the end entry of a generation."""
    if len(fields) in _PLAIN_FIELDS and fields[0] == b"t" and fields[2] == b"p":
        stored = Stored(log, generation, shard, entry_id, fields[1], fields[3], fields)
        if len(fields) == 4:
            return stored
        if fields[4] == b"c":
            stored.publisher = fields[5]
            if len(fields) == 6:
                return stored
            if fields[6] == b"q":
                stored.qos = _QOS.get(fields[7], 0)
                return stored
    found = dict(zip(fields[::2], fields[1::2], strict=True))
    topic = found.get(b"t")
    if topic is None:
        return None
    stored = Stored(log, generation, shard, entry_id, topic, found.get(b"p", b""), fields)
    stored.publisher = found.get(b"c")
    qos = found.get(b"q")
    stored.qos = 0 if qos is None else _QOS.get(qos, 0)
    if found.get(b"r") == b"1":
        stored.is_retained = True
        stored.number = parse_number(found.get(b"n"))
    expiry = found.get(b"e")
    if expiry is not None and expiry.isdigit() and len(expiry) <= EXPIRY_DIGITS_MAX:
        stored.expires_ms = entry_id[0] + int(expiry)
    plain = 3 + (qos is not None) + stored.is_retained + (stored.number is not None) + (stored.expires_ms is not None)
    if len(found) > plain:
        stored.properties = _properties(entry_id, found, generation, shard)
    return stored


def _properties(entry_id: Id, found: Mapping[bytes, bytes], generation: int, shard: int) -> Properties:
    entry = to_entry(entry_id, found, generation, shard)
    values: dict[int, PropertyValue] = {}
    pf = found.get(b"pf")
    if pf in (b"0", b"1"):
        values[Property.PAYLOAD_FORMAT_INDICATOR] = int(pf)
    if entry.content_type is not None:
        values[Property.CONTENT_TYPE] = entry.content_type
    if entry.response_topic is not None:
        values[Property.RESPONSE_TOPIC] = entry.response_topic
    if entry.correlation is not None:
        values[Property.CORRELATION_DATA] = entry.correlation
    if entry.user_properties:
        values[Property.USER_PROPERTY] = entry.user_properties
    return values


_PACKED = b"$1\r\nt\r\n$%d\r\n%b\r\n$1\r\np\r\n$%d\r\n%b\r\n$1\r\nc\r\n$%d\r\n%b\r\n"
_PACKED_QOS = {qos: _PACKED + b"$1\r\nq\r\n$1\r\n%d\r\n" % qos for qos in (1, 2)}

# How many words the fields of an entry are, names and values in turn, and these words in RESP.
PackedFields = tuple[int, bytes]


def packed_fields(
    topic: bytes, payload: bytes, publisher: bytes, qos: int, retain: bool, values: Properties
) -> PackedFields:
    """Return the fields of the entry of a message, as `topics` has them."""
    if not retain and not values:
        lengths_and_values = len(topic), topic, len(payload), payload, len(publisher), publisher
        return (8, _PACKED_QOS[qos] % lengths_and_values) if qos else (6, _PACKED % lengths_and_values)
    words = [b"t", topic, b"p", payload, b"c", publisher]
    if qos:
        words += (b"q", b"1" if qos == 1 else b"2")
    if retain:
        words += (b"r", b"1")
    if values:
        _add_properties(words, values)
    return len(words), pack(tuple(words))


def _add_properties(words: list[bytes], values: Properties) -> None:
    for number, value in values.items():
        if number == Property.MESSAGE_EXPIRY_INTERVAL:
            assert isinstance(value, int)
            words += (b"e", b"%d" % max(1, value * 1_000))
        elif number == Property.PAYLOAD_FORMAT_INDICATOR:
            words += (b"pf", b"1" if value else b"0")
        elif number == Property.CONTENT_TYPE:
            assert isinstance(value, str)
            words += (b"ct", value.encode())
        elif number == Property.RESPONSE_TOPIC:
            assert isinstance(value, str)
            words += (b"rt", value.encode())
        elif number == Property.CORRELATION_DATA:
            assert isinstance(value, bytes)
            words += (b"cd", value)
        elif number == Property.USER_PROPERTY:
            assert isinstance(value, tuple)
            last = {name.encode(): text.encode() for name, text in value}  # type: ignore[misc]
            for name, text in last.items():
                words += (b"u:" + name, text)
            if len(last) < len(value):
                words += (b"u", json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


# Properties that need entries of version 2: see topics.layout.
_OF_VERSION_2 = {
    Property.PAYLOAD_FORMAT_INDICATOR,
    Property.CONTENT_TYPE,
    Property.RESPONSE_TOPIC,
    Property.CORRELATION_DATA,
}


def version_of(values: Properties, retain: bool) -> int:
    """Return the version of a log's entries that a message with these properties needs."""
    if retain:
        return 3
    if any(number in _OF_VERSION_2 for number in values):
        return 2
    pairs = values.get(Property.USER_PROPERTY)
    return 2 if pairs is not None and len({one[0] for one in pairs}) < len(pairs) else 1  # type: ignore
