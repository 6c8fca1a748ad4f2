"""Messages in three forms: to be published, stored in a stream, and read."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from streamd.clients.topics.entry_ids import Id, format_id, parse_id
from streamd.clients.topics.filters import LENGTH_BYTES_MAX, check_topic

PROPERTY = b"u:"
PAIRS = b"u"  # all properties as a JSON list of pairs, where names repeat: a mapping of fields would lose them
_NONE: Mapping[str, str] = MappingProxyType({})
END_FIELD = "end"
EXPIRY_DIGITS_MAX = 18  # of an expiry in ms: 30 million years; a reader takes more for never
_QOS = {b"1": 1, b"2": 2}
NAME_QUICK = 1_000  # characters of a name that needs no further look if they are ASCII


class Message(NamedTuple):
    """A message to publish.

    publisher: its messages keep their order; iid: the publisher's name for this message, under which it is stored once
    however often it is published. expiry_s: for how long readers still get it. properties: text to text, or
    user_properties: pairs of text, whose order and repeated names are kept. Kept for brokers, without a meaning here:
    qos, retain, payload_format (1 for text), content_type, response_topic, correlation.
    """

    topic: str
    payload: bytes | str
    publisher: str | None = None
    iid: str | bytes | None = None
    expiry_s: float | None = None
    properties: Mapping[str, str] = _NONE
    qos: int = 0
    retain: bool = False
    user_properties: Sequence[tuple[str, str]] = ()
    payload_format: int = 0
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that was read.

    id: the entry ID in the stream of its shard and generation; `time` is the server's when it came. expiry_s: the
    seconds from then on for which readers get the message; None for as long as the log keeps it.
    """

    id: str
    topic: str
    publisher: str | None
    payload: bytes
    user_properties: tuple[tuple[str, str], ...]
    qos: int
    retain: bool
    generation: int
    shard: int
    expiry_s: float | None = None
    payload_format: int = 0
    content_type: str | None = None
    response_topic: str | None = None
    correlation: bytes | None = None

    @property
    def properties(self) -> dict[str, str]:
        """The user properties as a dict; of a repeated name the last value."""
        return dict(self.user_properties)

    @property
    def expires(self) -> datetime | None:
        """The time from which on readers no longer get the message; None for never, or after the year 9999."""
        try:
            return None if self.expiry_s is None else self.time + timedelta(seconds=self.expiry_s)
        except OverflowError:
            return None

    def left_s(self, at: datetime) -> float | None:
        """Return the seconds until the message expires, at a time with its zone: 0 if it has, None for never.

        Raises: ValueError, for a time without a zone.
        """
        if at.tzinfo is None or at.utcoffset() is None:
            raise ValueError(f"at {at.isoformat()}: of which time zone? Give datetime(..., tzinfo=...)")
        return None if self.expiry_s is None else max(0.0, self.expiry_s - (at - self.time).total_seconds())

    @property
    def time(self) -> datetime:
        """When the server took the message."""
        return datetime.fromtimestamp(parse_id(self.id)[0] / 1_000, UTC)

    @property
    def place(self) -> str:
        """A name that no other entry of the log has: `g3/0/1795248000000-0`."""
        return f"g{self.generation}/{self.shard}/{self.id}"


class Prepared(NamedTuple):
    """A checked message: the words behind the ID of its XADD, and the name that decides its shard.

    version: the version that a log has to have for it, see layout.VERSION. retain: it gets a number before it is
    written.
    """

    topic: bytes
    publisher: bytes | None
    iid: bytes | None
    words: tuple[bytes, ...]
    version: int = 1
    retain: bool = False


def prepare(message: Message) -> Prepared:
    """Return a message ready to be written. Raises: ValueError, whose text names the fault and the remedy."""
    text, payload, name, iid_text, expiry_s, properties, qos, retain, pairs, is_text, kind, answer, correlation = (
        message
    )
    topic = check_topic(text)
    if type(payload) is not bytes:
        payload = _payload(message, payload)
    publisher = iid = None
    words: tuple[bytes, ...]
    if name is None:
        words = (b"t", topic, b"p", payload)
    else:
        publisher = _name(message, "publisher", name)
        words = (b"t", topic, b"p", payload, b"c", publisher)
    if iid_text is not None:
        if publisher is None:
            raise _refused(message, "an iid, but no publisher; an iid is a publisher's name for a message: say both")
        iid = _name(message, "iid", iid_text)
    if expiry_s is not None or qos or retain or properties:
        words += tuple(_rarer_words(message))
    if not pairs and not is_text and kind is None and answer is None and correlation is None:
        return Prepared(topic, publisher, iid, words, 3, True) if retain else Prepared(topic, publisher, iid, words)
    more = tuple(_newer_words(message))
    version = 3 if retain else 1 if all(name.startswith(PROPERTY) for name in more[::2]) else 2
    return Prepared(topic, publisher, iid, words + more, version, bool(retain))


def pack(words: tuple[bytes, ...]) -> bytes:
    """Return words in RESP, one behind the other."""
    return _BULKS[len(words)] % tuple(chain.from_iterable(zip(map(len, words), words, strict=True)))


class _Bulks(dict[int, bytes]):
    def __missing__(self, words: int) -> bytes:
        return b"$%d\r\n%b\r\n" * words


_BULKS = _Bulks((words, b"$%d\r\n%b\r\n" * words) for words in range(16))


def _rarer_words(message: Message) -> Iterator[bytes]:
    """Yield the fields that few messages have."""
    if message.expiry_s is not None:
        yield from (b"e", b"%d" % _expiry_ms(message, message.expiry_s))
    if message.qos:
        if message.qos not in (1, 2):
            raise _refused(message, f"qos {message.qos!r}; it is 0, 1 or 2")
        yield from (b"q", b"%d" % message.qos)
    if message.retain:
        yield from (b"r", b"1")
    for name, value in message.properties.items():
        yield from _property(message, name, value)


def _expiry_ms(message: Message, expiry_s: float) -> int:
    try:
        expiry_ms = round(expiry_s * 1_000)
    except (TypeError, ValueError, OverflowError):
        expiry_ms = 0
    if not 1 <= expiry_ms < 10**EXPIRY_DIGITS_MAX:
        raise _refused(message, f"expiry_s {expiry_s!r}; give seconds above 0, or None for never")
    return expiry_ms


def _newer_words(message: Message) -> Iterator[bytes]:
    """Yield the fields of version 2, and properties that were given as pairs."""
    try:
        given: list[object] = list(message.user_properties)
        # A mapping would give its names: one of two letters looks like a pair.
        pairs = [(one[0], one[1]) for one in given if isinstance(one, tuple | list) and len(one) == 2]
    except TypeError:
        given, pairs = [message.user_properties], []
    if len(pairs) < len(given):
        raise _refused(message, f"user_properties {message.user_properties!r}; give pairs of name and value")
    if pairs and message.properties:
        raise _refused(message, "properties and user_properties; give one of them")
    fields = dict(_property(message, name, value) for name, value in pairs)
    for item in fields.items():
        yield from item
    if len(fields) < len(pairs):
        yield from (PAIRS, json.dumps(pairs, ensure_ascii=False, separators=(",", ":")).encode())
    if message.payload_format:
        if message.payload_format != 1:
            raise _refused(message, f"payload_format {message.payload_format!r}; it is 0, or 1 for text in UTF-8")
        yield from (b"pf", b"1")
    if message.content_type is not None:
        yield from (b"ct", _short(message, "content_type", _encoded(message, "content_type", message.content_type)))
    if message.response_topic is not None:
        if not isinstance(message.response_topic, str):
            raise _refused(message, f"response_topic of type {type(message.response_topic).__name__}; give text")
        yield from (b"rt", check_topic(message.response_topic))
    if message.correlation is not None:
        if not isinstance(message.correlation, bytes | bytearray | memoryview):
            raise _refused(message, f"correlation of type {type(message.correlation).__name__}; give bytes")
        yield from (b"cd", _short(message, "correlation", bytes(message.correlation)))


def _payload(message: Message, payload: object) -> bytes:
    if isinstance(payload, str):
        return payload.encode()
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise _refused(message, f"payload of type {type(payload).__name__}; give bytes or text")
    return bytes(payload)


def _property(message: Message, name: object, value: object) -> tuple[bytes, bytes]:
    if not isinstance(name, str) or not isinstance(value, str):
        raise _refused(message, f"property {name!r}: {value!r}; properties are text")
    return PROPERTY + _encoded(message, "property", name), _encoded(message, f"property {name!r}", value)


def _encoded(message: Message, what: str, text: object) -> bytes:
    if not isinstance(text, str):
        raise _refused(message, f"{what} of type {type(text).__name__}; give text")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _refused(message, f"{what} {text!r}: no character at position {error.start}")


def _short(message: Message, what: str, value: bytes) -> bytes:
    if len(value) > LENGTH_BYTES_MAX:
        raise _refused(message, f"{what} of {len(value):,} bytes; MQTT has at most {LENGTH_BYTES_MAX:,}")
    return value


def _name(message: Message, what: str, value: str | bytes) -> bytes:
    if type(value) is str and 1 <= len(value) <= NAME_QUICK and value.isascii():
        return value.encode()
    try:
        encoded = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError as error:
        raise _refused(message, f"{what} {value!r}: no character at position {error.start}")
    if not isinstance(encoded, bytes):
        raise _refused(message, f"{what} of type {type(value).__name__}; give text")
    if not 1 <= len(encoded) <= LENGTH_BYTES_MAX:
        raise _refused(message, f"{what} of {len(encoded):,} bytes; give 1 to {LENGTH_BYTES_MAX:,}")
    return encoded


def _refused(message: Message, why: str) -> ValueError:
    return ValueError(f"message to {message.topic[:60]!r}: {why}")


def is_expired(entry_id: Id, fields: Mapping[bytes, bytes], now_ms: int) -> bool:
    """Return whether a message has expired; its time is counted from its entry ID, so that no other clock matters."""
    expiry_ms = _expiry_of(fields)
    return expiry_ms is not None and entry_id[0] + expiry_ms <= now_ms


def _expiry_of(fields: Mapping[bytes, bytes]) -> int | None:
    expiry = fields.get(b"e")
    return int(expiry) if expiry is not None and expiry.isdigit() and len(expiry) <= EXPIRY_DIGITS_MAX else None


def to_entry(entry_id: Id, fields: Mapping[bytes, bytes], generation: int, shard: int) -> Entry:
    """Return the message in a stream's entry, which has a topic."""
    publisher = _text_of(fields.get(b"c"))
    topic = fields[b"t"].decode("utf-8", "replace")
    payload = fields.get(b"p")
    if payload is not None and len(fields) == (2 if publisher is None else 3):
        return Entry(format_id(entry_id), topic, publisher, payload, (), 0, False, generation, shard)
    expiry_ms = _expiry_of(fields)
    return Entry(
        format_id(entry_id),
        topic,
        publisher,
        payload or b"",
        _user_properties(fields),
        _QOS.get(fields.get(b"q", b"0"), 0),
        fields.get(b"r") == b"1",
        generation,
        shard,
        None if expiry_ms is None else expiry_ms / 1_000,
        int(fields.get(b"pf") == b"1"),
        _text_of(fields.get(b"ct")),
        _text_of(fields.get(b"rt")),
        fields.get(b"cd"),
    )


def _text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _user_properties(fields: Mapping[bytes, bytes]) -> tuple[tuple[str, str], ...]:
    listed = fields.get(PAIRS)
    if listed is not None:
        try:
            return tuple(_pair(one) for one in json.loads(listed))
        except (ValueError, TypeError, RecursionError):
            pass  # another program wrote it: the fields below say what there is
    return tuple(
        [
            (name[2:].decode("utf-8", "replace"), value.decode("utf-8", "replace"))
            for name, value in fields.items()
            if name[:2] == PROPERTY
        ]
    )


def _pair(found: object) -> tuple[str, str]:
    """Return a pair of a JSON list. Raises: ValueError."""
    if isinstance(found, list) and len(found) == 2:
        name, value = found
        if isinstance(name, str) and isinstance(value, str):
            (name + value).encode()  # half of a surrogate pair can be written in JSON, and is no text
            return name, value
    raise ValueError(f"no pair of text: {found!r}")


def as_messages(messages: Iterable[Message | Mapping[str, object] | tuple[str, bytes | str]]) -> list[Message]:
    """Return messages, given as such, as their arguments by name, or as pairs. Raises: ValueError."""
    found = []
    for number, one in enumerate(messages):
        if isinstance(one, Message):
            found.append(one)
        elif isinstance(one, Mapping):
            try:
                found.append(Message(**one))  # type: ignore[arg-type]
            except TypeError as error:
                raise ValueError(f"message {number}: {str(error).replace('Message.__new__() ', '')}")
        elif isinstance(one, tuple) and len(one) == 2:
            found.append(Message(*one))
        else:
            raise ValueError(f"message {number}: {type(one).__name__}; give a Message or a pair of topic and payload")
    return found
