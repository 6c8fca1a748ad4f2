"""What MQTT says of filters, as plainly as it can be written."""

from itertools import product


def matches(pattern: str, topic: str) -> bool:
    """Say whether a filter matches a topic."""
    if topic.startswith("$") and pattern[0] in "+#":
        return False
    return levels_match(pattern.split("/"), topic.split("/"))


def levels_match(pattern: list[str], topic: list[str]) -> bool:
    """Match level by level."""
    if pattern == ["#"]:
        return True
    if not pattern or not topic:
        return not pattern and not topic
    if pattern[0] not in ("+", topic[0]):
        return False
    return levels_match(pattern[1:], topic[1:]) or (pattern[1:] == ["#"] and len(topic) == 1)


def all_topics(levels: list[str], depth: int) -> list[str]:
    """Return every topic of up to so many levels."""
    topics = ("/".join(one) for length in range(1, depth + 1) for one in product(levels, repeat=length))
    return [topic for topic in topics if topic]
