"""The patterns that filters match with the values of an entry's field."""

import re
from functools import lru_cache
from typing import Final

from streamd.base.errors import CommandError
from streamd.base.glob import Matcher, compile_bytes, compile_glob
from streamd.base.kept import SHORT_BYTES_MAX, Kept

# What a topic's length can say in MQTT.
_TOPIC_BYTES_MAX: Final = 65_535
_GLOB_SPECIAL: Final = re.compile(rb"[*?\[\\]")


class Pattern:
    """A pattern of one field's values.

    kind: MQTT (a topic filter: `+` is one level, `#` all levels that follow), GLOB (as in KEYS) or EQ. levels: the
    levels of a topic filter, None for other kinds. literal: the one value that matches, None if several may.
    takes_plain: whether all values match except perhaps those that begin with `$`.
    """

    __slots__ = ("kind", "levels", "literal", "matches", "takes_plain", "text")

    def __init__(self, kind: bytes, text: bytes) -> None:
        """Raises: CommandError, with the fault of a topic filter."""
        self.kind = kind
        self.text = text
        self.levels: list[bytes] | None = None
        self.literal: bytes | None = None
        self.takes_plain = (kind, text) in ((b"MQTT", b"#"), (b"GLOB", b"*"))
        self.matches: Matcher
        if kind == b"MQTT":
            self.levels = _checked_levels(text)
            if b"+" not in text and b"#" not in text:
                self.literal = text
            self.matches = (topic_matcher if len(text) <= SHORT_BYTES_MAX else long_topic_matcher)(self.levels)
        elif kind == b"GLOB":
            if not _GLOB_SPECIAL.search(text):
                self.literal = text
            self.matches = compile_glob(text)
        else:
            self.literal = text
        if self.literal is not None:
            self.matches = self.literal.__eq__


class EntryFilter:
    """A filter that lets an entry through if one field's value matches a pattern; an entry without the field fails.

    If an entry has the field several times, the last value counts, as for clients that make a map of the entry.
    """

    __slots__ = ("field", "pattern")

    def __init__(self, field: bytes, pattern: Pattern) -> None:
        self.field = field
        self.pattern = pattern

    @property
    def words(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The words of the filter in a request, from FIELD on."""
        return b"FIELD", self.field, self.pattern.kind, self.pattern.text


def value_of(fields: list[bytes], field: bytes) -> bytes | None:
    """Return the last value of a field; None if it is not there. `fields` has fields and values in turn."""
    for at in range(len(fields) - 2, -1, -2):
        if fields[at] == field:
            return fields[at + 1]
    return None


def entry_filter(field: bytes, kind: bytes, text: bytes) -> EntryFilter:
    """Return a filter; equal ones are mostly made once. `kind` is in upper case. Raises: CommandError."""
    size = len(field) + len(text)
    if size <= SHORT_BYTES_MAX:
        return _short_filter(field, kind, text)
    return _long.get((field, kind, text), size, lambda: _filter(field, kind, text))


def _filter(field: bytes, kind: bytes, text: bytes) -> EntryFilter:
    return EntryFilter(field, Pattern(kind, text))


_short_filter: Final = lru_cache(maxsize=1024)(_filter)
_long: Final[Kept[EntryFilter]] = Kept()


def _checked_levels(text: bytes) -> list[bytes]:
    """Return the levels of a topic filter. Raises: CommandError. Source: MQTT 5.0, section 4.7."""
    if not text or len(text) > _TOPIC_BYTES_MAX or b"\0" in text:
        raise CommandError("ERR a topic filter has 1 to 65535 bytes, none of them 0")
    levels = text.split(b"/")
    for level in levels:
        if len(level) > 1 and (b"+" in level or b"#" in level):
            raise CommandError("ERR a wildcard of a topic filter is a whole level: write a/+/b or a/#")
    if b"#" in levels[:-1]:
        raise CommandError("ERR # is the last level of a topic filter: end it there, or write + for one level")
    return levels


def topic_matcher(levels: list[bytes]) -> Matcher:
    """Return a function whose result is true for the topics that match a topic filter with these levels."""
    parts = [rb"(?!\$)" if levels[0] in (b"+", b"#") else b""]
    for number, level in enumerate(levels):
        slash = b"/" if number else b""
        if level == b"#":
            parts.append(b"(?:/.*)?" if number else b".*")
        else:
            parts.append(slash + (b"[^/]*" if level == b"+" else re.escape(level)))
    return compile_bytes(b"".join(parts), re.DOTALL).fullmatch


def long_topic_matcher(levels: list[bytes]) -> Matcher:
    """Return the function as `topic_matcher` does, for many or long levels, which would take long to compile."""
    is_open, begins_wild = levels[-1] == b"#", levels[0] in (b"+", b"#")
    wanted = levels[:-1] if is_open else levels

    def matches(topic: bytes) -> bool:
        if begins_wild and topic[:1] == b"$":
            return False
        names = topic.split(b"/")
        if len(names) < len(wanted) or (len(names) > len(wanted) and not is_open):
            return False
        return all(level in (b"+", name) for level, name in zip(wanted, names, strict=False))

    return matches
