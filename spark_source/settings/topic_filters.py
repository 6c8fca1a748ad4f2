"""Topic filters as MQTT has them: `+` for one level, `#` for all that follow."""

import re

LENGTH_BYTES_MAX = 65_535


class TopicFilter:
    """A filter of topics. Raises: ValueError, which names the fault in its text."""

    def __init__(self, text: str) -> None:
        if not text or "\0" in text or len(text.encode()) > LENGTH_BYTES_MAX:
            raise ValueError(f"it has 1 to {LENGTH_BYTES_MAX} bytes, none of them NUL")
        levels = text.split("/")
        if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels):
            raise ValueError("a wildcard is a whole level: a/+/b or a/#")
        if "#" in levels[:-1]:
            raise ValueError("# is the last level")
        self.text = text
        parts = [r"(?!\$)" if levels[0] in ("+", "#") else ""]
        for number, level in enumerate(levels):
            slash = "/" if number else ""
            if level == "#":
                parts.append("(?:/.*)?" if number else ".*")
            else:
                parts.append(slash + ("[^/]*" if level == "+" else re.escape(level)))
        self.matches = re.compile("".join(parts).encode(), re.DOTALL).fullmatch


def parse_topic_filter(text: str) -> str:
    """Return the text of a topic filter. Raises: ValueError."""
    return TopicFilter(text).text
