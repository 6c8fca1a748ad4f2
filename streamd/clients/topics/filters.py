"""Topics, and the filters that match them as MQTT does."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

LENGTH_BYTES_MAX = 65_535  # MQTT has two bytes for the length of a topic


@lru_cache(maxsize=16_384)
def check_topic(topic: str) -> bytes:
    """Return a valid topic in UTF-8. Raises: ValueError, with the place of the fault and the reason."""
    encoded = _check_text("topic", topic)
    for wildcard in "+#":
        if wildcard in topic:
            raise ValueError(
                f"topic {topic!r}: wildcard {wildcard} at position {topic.index(wildcard)}; "
                "a message has one topic: wildcards belong into filters"
            )
    return encoded


class TopicFilter:
    """A filter of topics: `+` stands for one level; `#`, only as the last level, for any number of them, also none.

    Levels may be empty: `a//b` has three. A wildcard at the beginning does not match topics that begin with `$`.

        TopicFilter("devices/+/temperature").matches("devices/d7/temperature")    # True

    Raises: ValueError, with the place of the fault in the text, and a valid form.
    Source: MQTT 5.0, section 4.7.
    """

    __slots__ = ("text", "levels", "is_all", "_pattern")

    def __init__(self, text: str) -> None:
        self.levels = levels_of(text)
        self.text = text
        self.is_all = text == "#"
        self._pattern: re.Pattern[bytes] | None = None  # made when it is needed: it costs more than all the rest

    def matches(self, topic: str | bytes) -> bool:
        """Return whether a topic (bytes: in UTF-8) matches."""
        encoded = topic if isinstance(topic, bytes) else topic.encode("utf-8", "surrogatepass")
        if self._pattern is None:
            self._pattern = re.compile(self._expression().encode("utf-8"), re.DOTALL)
        return self._pattern.fullmatch(encoded) is not None

    def overlaps(self, other: "TopicFilter") -> bool:
        """Return whether a topic can match both."""
        for one, two in ((self.levels[0], other.levels[0]), (other.levels[0], self.levels[0])):
            if one in ("+", "#") and two.startswith("$"):
                return False
        for number in range(max(len(self.levels), len(other.levels)) + 1):
            here, there = self.levels[number : number + 1], other.levels[number : number + 1]
            if ("#",) in (here, there):
                # `/#` matches the level above, too, but the empty text is no topic.
                return number != 1 or bool(here and there) or "" not in (self.levels[0], other.levels[0])
            if not here or not there:
                return here == there
            if here != there and ("+",) not in (here, there):
                return False
        raise AssertionError("both end")

    def _expression(self) -> str:
        parts = []
        for number, level in enumerate(self.levels):
            slash = "/" if number else ""
            if level == "#":
                parts.append("(?:/.*)?" if number else ".*")
            else:
                parts.append(slash + ("[^/]*" if level == "+" else re.escape(level)))
        guard = r"(?!\$)" if self.levels[0] in ("+", "#") else ""
        return guard + "".join(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicFilter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TopicFilter({self.text!r})"


@lru_cache(maxsize=1_024)
def parse_filter(text: str) -> TopicFilter:
    """Return the filter of a text; equal texts are parsed once. Raises: ValueError."""
    return TopicFilter(text)


def names_for(filter: str, logs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of the logs that may have messages for a filter; logs: the filters of each.

    A log with the filter `#` takes what no other log takes.
    """
    wanted = parse_filter(filter)
    if any(_is_within(filter, one) for filters in logs.values() for one in filters if one != "#"):
        logs = {name: filters for name, filters in logs.items() if "#" not in filters}
    return [name for name, filters in logs.items() if any(wanted.overlaps(parse_filter(one)) for one in filters)]


def _is_within(filter: str, other: str) -> bool:
    """Return whether the text of a filter shows that each of its topics matches another one, too."""
    return filter == other or (other.endswith("/#") and (filter == other[:-2] or filter.startswith(other[:-1])))


def levels_of(text: str) -> tuple[str, ...]:
    """Return the levels of a valid filter, without the cost of a TopicFilter.

    Raises: ValueError, as TopicFilter does.
    """
    _check_text("topic filter", text)
    levels = tuple(text.split("/"))
    position = 0
    for number, level in enumerate(levels):
        if "#" in level or "+" in level:
            _check_level(levels, number, position)
        position += len(level) + 1
    return levels


def _check_level(levels: tuple[str, ...], number: int, position: int) -> None:
    level = levels[number]
    if level == "+" or (level == "#" and number == len(levels) - 1):
        return
    where = f"topic filter {'/'.join(levels)!r}: "
    for wildcard in "#+":
        if wildcard in level and level != wildcard:
            at = position + level.index(wildcard)
            raise ValueError(
                f"{where}{wildcard} at position {at} is only a part of its level; a wildcard is a whole level: "
                f"write {'/'.join((*levels[:number], wildcard))!r}"
            )
    raise ValueError(
        f"{where}# at position {position} is not the last level; "
        f"end the filter there: {'/'.join(levels[: number + 1])!r}, or write + for one level"
    )


def _check_text(what: str, text: str) -> bytes:
    if not isinstance(text, str):
        raise ValueError(f"a {what} is text, not {type(text).__name__}: decode it as UTF-8")
    if not text:
        raise ValueError(f"the {what} is empty: it needs at least one character")
    if "\0" in text:
        raise ValueError(f"{what} {text[:40]!r}: NUL at position {text.index(chr(0))}; leave it out")
    try:
        encoded = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} {text[:40]!r}: no character at position {error.start}; it cannot be said in UTF-8")
    if len(encoded) > LENGTH_BYTES_MAX:
        raise ValueError(
            f"{what} {text[:40]!r}...: {len(encoded):,} bytes; at most {LENGTH_BYTES_MAX:,} can be said: shorten it"
        )
    return encoded
