"""The retained messages of an MQTT gateway, a page at a time."""

from dataclasses import dataclass

from streamd.clients.ui import mqtt_logs
from streamd.clients.ui.mqtt_logs import id_of
from streamd.clients.ui.source import Request, Source, SourceError, needed

MESSAGES_PER_PAGE = 50
# Where few topics match, each HSCAN looks at more of them, and after so many the page says how to go on.
SCANNED_MAX = 1_000
SCANS_MAX = 20
# A longer message is not fetched, and no more than this of all messages of a page.
MESSAGE_BYTES_MAX = 65_536
PAGE_BYTES_MAX = 2 << 20


@dataclass(frozen=True)
class Message:
    """A retained message. payload: None if it is too long for a page; stream, entry_id: where it was stored."""

    topic: bytes
    size_bytes: int
    payload: bytes | None
    stream: bytes
    entry_id: bytes

    @property
    def ms(self) -> int:
        """When it was stored."""
        found = id_of(self.entry_id)
        return 0 if found is None else found[0]


@dataclass(frozen=True)
class Page:
    """Some of the retained messages of a log. cursor: of the next page, "0" at the end. number: of all."""

    log: str
    messages: list[Message]
    cursor: str
    number: int


def logs(source: Source) -> list[str]:
    """Return the logs with retained messages. Raises: SourceError."""
    names = mqtt_logs.names(source)
    # (One of the fields is the gateway's position.)
    sizes = source.ask_all([("HLEN", _key(name)) for name in names])
    return [name for name, size in zip(names, sizes, strict=True) if isinstance(size, int) and size > 1]


def find(source: Source, log: str, match: bytes, cursor: str) -> Page:
    """Return a page of the messages whose topics match a glob pattern, or contain a word. Raises: SourceError."""
    key = _key(log)
    pattern = match if any(sign in match for sign in (b"*", b"?", b"[")) else b"*" + match + b"*"
    words: list[str | bytes] = ["MATCH", pattern] if match else []
    topics: list[bytes] = []
    scanned = MESSAGES_PER_PAGE
    for _ in range(SCANS_MAX):
        reply = source.ask("HSCAN", key, cursor, *words, "COUNT", scanned, "NOVALUES")
        cursor = reply[0].decode()
        topics += [topic for topic in reply[1] if topic]  # the field without a name is the gateway's position
        scanned = scanned if reply[1] else min(4 * scanned, SCANNED_MAX)
        if cursor == "0" or len(topics) >= MESSAGES_PER_PAGE:
            break
    topics = sorted(set(topics))
    (size,) = source.ask_all([("HLEN", key)])
    return Page(log, _messages(source, log, topics), cursor, max(0, needed(size) - 1))


def _messages(source: Source, log: str, topics: list[bytes]) -> list[Message]:
    key = _key(log)
    sizes = [needed(size) for size in source.ask_all([("HSTRLEN", key, topic) for topic in topics])]
    left = PAGE_BYTES_MAX
    requests: list[Request] = []
    fetched = []
    for topic, size in zip(topics, sizes, strict=True):
        if size <= min(left, MESSAGE_BYTES_MAX):
            left -= size
            requests.append(("HGET", key, topic))
            fetched.append(topic)
    texts = dict(zip(fetched, source.ask_all(requests), strict=True))
    found = []
    for topic, size in zip(topics, sizes, strict=True):
        text = texts.get(topic)
        if isinstance(text, bytes):
            found.append(_message(log, topic, text))
        elif size:
            found.append(Message(topic, size, None, b"", b""))
    return found


def _message(log: str, topic: bytes, text: bytes) -> Message:
    words = _words(text)
    if len(words) < 3:
        raise SourceError(f"the retained message of topic {topic.decode('utf-8', 'replace')!r} cannot be read")
    generation, shard, entry_id, *fields = words
    payload = dict(zip(fields[::2], fields[1::2], strict=False)).get(b"p", b"")
    stream = b"{%b/%b}:g%b" % (log.encode(), shard, generation)
    return Message(topic, len(payload), payload, stream, entry_id)


def _words(text: bytes) -> list[bytes]:
    """Return the words of a request in RESP, which is how a gateway keeps a message; [] for anything else."""
    found, at = [], text.find(b"\r\n") + 2
    while 1 < at < len(text):
        end = text.find(b"\r\n", at)
        if end < 0 or not text[at + 1 : end].isdigit():
            return []
        size = int(text[at + 1 : end])
        found.append(text[end + 2 : end + 2 + size])
        at = end + 4 + size
    return found


def _key(name: str) -> str:
    return f"{{{name}}}:retained"
