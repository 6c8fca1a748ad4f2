"""Topic names and topic filters of packets, checked; names once each, as devices send the same ones again and again."""

from streamd.clients.mqtt.codec.faults import against_protocol, malformed
from streamd.clients.mqtt.codec.fields import text_of
from streamd.clients.topics.filters import levels_of, parse_filter

# Names that need no second look; a server with more topics looks again now and then. Longer ones are always looked at,
# so that nobody makes a server hold many of 64 KiB.
KNOWN_MAX = 10_000
KNOWN_BYTES_MAX = 256
_SHARE = "$share/"
_STATE_OF_BRIDGE = parse_filter("$SYS/broker/connection/+/state")
known_topics: dict[bytes, bytes] = {}


def checked_topic(topic: bytes) -> bytes:
    """Return a topic name, the same object for the same name. Raises: Fault."""
    known = known_topics.get(topic)
    if known is not None:
        return known
    text = text_of(topic)
    if not text:
        raise malformed("an empty topic name")
    if "+" in text or "#" in text:
        raise malformed("a topic name with a wildcard")
    if len(topic) <= KNOWN_BYTES_MAX:
        if len(known_topics) >= KNOWN_MAX:
            known_topics.clear()
        known_topics[topic] = topic
    return topic


def is_of_server(topic: bytes) -> bool:
    """Return whether a topic begins with `$`, and is not the one in which a bridge says whether it is connected."""
    return topic[:1] == b"$" and not _STATE_OF_BRIDGE.matches(topic)


def share_of(text: str) -> tuple[str | None, str]:
    """Return the share name of a filter, None for an ordinary one, and the filter that messages have to match.

    `$share//a` has no share name: in 3.1.1, which has no shared subscriptions, it is an ordinary filter.
    """
    if not text.startswith(_SHARE):
        return None, text
    name, _, inner = text[len(_SHARE) :].partition("/")
    if not name or not inner or "+" in name or "#" in name:
        return None, text
    return name, inner


def check_filter(text: str, version: int = 5) -> bool:
    """Return whether a filter is one of a shared subscription. Raises: Fault."""
    try:
        levels_of(text)
    except ValueError as error:
        raise malformed(str(error)[:200]) from None
    is_shared = share_of(text)[0] is not None
    if version == 5 and not is_shared and text.startswith(_SHARE):
        raise against_protocol(f"{text[:60]!r} is to be $share/NAME/FILTER, and the name has no wildcard")
    return is_shared
