"""Topic names and topic filters of packets, checked; names once each, as devices send the same ones again and again."""

from streamd.clients.mqtt.codec.faults import against_protocol, malformed
from streamd.clients.mqtt.codec.fields import text_of
from streamd.clients.topics.filters import TopicFilter

_KNOWN_MAX = 10_000  # names that need no second look; a server with more topics looks again now and then
_SHARE = "$share/"
_known: dict[bytes, bytes] = {}


def checked_topic(topic: bytes) -> bytes:
    """Return a topic name, the same object for the same name. Raises: Fault."""
    known = _known.get(topic)
    if known is not None:
        return known
    text = text_of(topic)
    if not text:
        raise malformed("an empty topic name")
    if "+" in text or "#" in text:
        raise malformed("a topic name with a wildcard")
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    _known[topic] = topic
    return topic


def share_of(text: str) -> tuple[str | None, str]:
    """Return the share name of a filter, None for an ordinary one, and the filter that messages have to match."""
    if not text.startswith(_SHARE):
        return None, text
    name, _, inner = text[len(_SHARE) :].partition("/")
    return name, inner


def check_filter(text: str) -> bool:
    """Return whether a filter is one of a shared subscription. Raises: Fault."""
    name, inner = share_of(text)
    if name is not None and (not name or "+" in name or "#" in name):
        raise against_protocol(f"the share name of {text[:60]!r} is empty, or has a wildcard")
    try:
        TopicFilter(inner)
    except ValueError as error:
        raise malformed(str(error)[:200]) from None
    return name is not None
