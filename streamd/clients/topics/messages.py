"""Messages in three forms: to be published, stored in a stream, and read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from streamd.clients.topics.entry_ids import Id, format_id, parse_id
from streamd.clients.topics.filters import LENGTH_BYTES_MAX, check_topic

PROPERTY = b"u:"
_NONE: Mapping[str, str] = MappingProxyType({})
END_FIELD = "end"
NAME_QUICK = 1_000  # characters of a name that needs no further look if they are ASCII


class Message(NamedTuple):
    """A message to publish.

    publisher: its messages keep their order; iid: the publisher's name for this message, under which it is stored once
    however often it is published. expiry_s: for how long readers still get it; properties: text to text. qos, retain:
    kept for brokers, without a meaning here.
    """

    topic: str
    payload: bytes | str
    publisher: str | None = None
    iid: str | bytes | None = None
    expiry_s: float | None = None
    properties: Mapping[str, str] = _NONE
    qos: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that was read.

    id: the entry ID in the stream of its shard and generation; `time` is the server's when it came.
    """

    id: str
    topic: str
    publisher: str | None
    payload: bytes
    properties: dict[str, str]
    qos: int
    retain: bool
    generation: int
    shard: int

    @property
    def time(self) -> datetime:
        """When the server took the message."""
        return datetime.fromtimestamp(parse_id(self.id)[0] / 1_000, UTC)

    @property
    def place(self) -> str:
        """A name that no other entry of the log has: `g3/0/1795248000000-0`."""
        return f"g{self.generation}/{self.shard}/{self.id}"


class Prepared(NamedTuple):
    """A checked message: the words behind the ID of its XADD, and the name that decides its shard."""

    topic: bytes
    publisher: bytes | None
    iid: bytes | None
    words: tuple[bytes, ...]


def prepare(message: Message) -> Prepared:
    """Return a message ready to be written. Raises: ValueError, whose text names the fault and the remedy."""
    text, payload, name, iid_text, expiry_s, properties, qos, retain = message
    topic = check_topic(text)
    if isinstance(payload, str):
        payload = payload.encode()
    elif not isinstance(payload, bytes):
        if not isinstance(payload, bytearray | memoryview):
            raise _refused(message, f"payload of type {type(payload).__name__}; give bytes or text")
        payload = bytes(payload)
    words: tuple[bytes, ...] = (b"t", topic, b"p", payload)
    publisher = iid = None
    if name is not None:
        publisher = _name(message, "publisher", name)
        words = (b"t", topic, b"p", payload, b"c", publisher)
    if iid_text is not None:
        if publisher is None:
            raise _refused(message, "an iid, but no publisher; an iid is a publisher's name for a message: say both")
        iid = _name(message, "iid", iid_text)
    if expiry_s is not None or qos or retain or properties:
        words += tuple(_rarer_words(message))
    return Prepared(topic, publisher, iid, words)


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
        expiry_ms = round(message.expiry_s * 1_000)
        if expiry_ms < 1:
            raise _refused(message, f"expiry_s {message.expiry_s!r}; give seconds above 0, or None for never")
        yield from (b"e", b"%d" % expiry_ms)
    if message.qos:
        if message.qos not in (1, 2):
            raise _refused(message, f"qos {message.qos!r}; it is 0, 1 or 2")
        yield from (b"q", b"%d" % message.qos)
    if message.retain:
        yield from (b"r", b"1")
    for name, value in message.properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _refused(message, f"property {name!r}: {value!r}; properties are text")
        yield from (PROPERTY + name.encode(), value.encode())


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
    expiry = fields.get(b"e")
    return expiry is not None and expiry.isdigit() and entry_id[0] + int(expiry) <= now_ms


def to_entry(entry_id: Id, fields: Mapping[bytes, bytes], generation: int, shard: int) -> Entry:
    """Return the message in a stream's entry, which has a topic."""
    publisher = fields.get(b"c")
    return Entry(
        format_id(entry_id),
        fields[b"t"].decode("utf-8", "replace"),
        None if publisher is None else publisher.decode("utf-8", "replace"),
        fields.get(b"p", b""),
        {
            name[len(PROPERTY) :].decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for name, value in fields.items()
            if name.startswith(PROPERTY)
        },
        int(fields.get(b"q", b"0")),
        fields.get(b"r") == b"1",
        generation,
        shard,
    )


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
