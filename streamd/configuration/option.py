"""One option: its name, its values, and the texts that stand for these."""

import re
from typing import Final, NamedTuple

from streamd.configuration.listed_values import PARSERS, ConfigError, parse_memory

Value = int | bool | str


class Option(NamedTuple):
    """One option: its Redis name, its values, and when it can be set.

    `kind` is one of integer, memory (a number of bytes; accepts 1kb, 1mb, 1gb), boolean, choice, text,
    events (classes of keyspace events), path, name (of a file, without a path), octal (permissions), protocols
    (versions of TLS), or one of listed_values.
    """

    name: str
    kind: str
    default: Value
    help: str
    minimum: int = 0
    maximum: int = 2**63 - 1
    choices: tuple[str, ...] = ()
    mutable: bool = True
    flag: bool = False  # offered on the command line
    or_zero: bool = False  # 0 is a value as well, below the minimum

    def parse(self, text: str) -> Value:
        """Return the value of `text`. Raises: ConfigError, with Redis's wording."""
        if self.kind == "boolean":
            if text.lower() not in ("yes", "no"):
                raise ConfigError("argument must be 'yes' or 'no'")
            return text.lower() == "yes"
        if self.kind == "choice":
            if text.lower() not in self.choices:
                raise ConfigError(f"argument(s) must be one of the following: {', '.join(self.choices)}")
            return text.lower()
        if self.kind == "protocols":
            return _parse_protocols(text)
        if self.kind == "octal":
            if not text or text.strip("01234567") or int(text, 8) > self.maximum:
                raise ConfigError(f"argument must be an octal number of at most {self.maximum:o}")
            return int(text, 8)
        if self.kind in ("integer", "memory"):
            number = _parse_memory(text) if self.kind == "memory" else _parse_integer(text)
            if not (self.minimum <= number <= self.maximum or (self.or_zero and number == 0)):
                zero = "0 or " if self.or_zero else ""
                raise ConfigError(f"argument must be {zero}between {self.minimum} and {self.maximum} inclusive")
            return number
        if self.kind == "events":
            return _parse_events(text)
        if self.kind == "name":
            return _parse_name(text)
        if self.kind in PARSERS:
            return PARSERS[self.kind](text)
        if self.kind == "path" and "\0" in text:
            raise ConfigError("argument can't hold NUL bytes")
        return text

    def format(self, value: Value) -> str:
        """Return the text that `parse` makes `value` of."""
        if self.kind == "boolean":
            return "yes" if value else "no"
        return f"{value:o}" if self.kind == "octal" else str(value)

    def shown(self, value: Value) -> str:
        """Return `value` as CONFIG GET shows it."""
        text = self.format(value)
        return _shown_events(text) if self.kind == "events" else text


_INTEGER = re.compile(r"-?[1-9][0-9]{0,18}|0")


def _parse_integer(text: str) -> int:
    """Return a signed 64-bit integer, written as Redis takes it."""
    if _INTEGER.fullmatch(text) is None or not -(2**63) <= int(text) < 2**63:
        raise ConfigError("argument couldn't be parsed into an integer")
    return int(text)


def _parse_name(text: str) -> str:
    """Return a name that a line of the manifest can hold as it is."""
    if not text or text in (".", ".."):
        raise ConfigError("argument can't be empty")
    if "/" in text or "\\" in text:
        raise ConfigError("argument can't be a path, just a name")
    if not text.isprintable():
        raise ConfigError("argument can't hold control characters")
    return text


def _parse_protocols(text: str) -> str:
    """Return the enabled versions of TLS; empty: all secure ones."""
    known = {"tlsv1.2": "TLSv1.2", "tlsv1.3": "TLSv1.3"}
    words = text.split()
    if any(word.lower() not in known for word in words):
        raise ConfigError("argument must be of TLSv1.2 and TLSv1.3: older versions are not spoken")
    return " ".join(known[word.lower()] for word in words)


# The classes of keyspace events, in the order that CONFIG GET shows; A stands for all of the first line.
_ALL_EVENTS: Final = "g$lshzxetda"
_OTHER_EVENTS: Final = "nocKEmSTIV"
# Those that CONFIG GET leaves out behind A, as Redis does.
_HIDDEN_EVENTS: Final = frozenset("noc")
EVENT_LETTERS: Final = "Ag$lshzxeKEtmdnocaSTIV"


def _parse_events(text: str) -> str:
    """Return the classes without repetition and in order, with `A` in place of all the classes that it stands for."""
    wanted = set(text.replace("A", _ALL_EVENTS))
    if not wanted <= {*_ALL_EVENTS, *_OTHER_EVENTS}:
        raise ConfigError(f"Invalid event class character. Use '{EVENT_LETTERS}'.")
    main = "A" if wanted.issuperset(_ALL_EVENTS) else "".join(kind for kind in _ALL_EVENTS if kind in wanted)
    return main + "".join(kind for kind in _OTHER_EVENTS if kind in wanted)


def _shown_events(text: str) -> str:
    if not text.startswith("A"):
        return text
    return "".join(kind for kind in text if kind not in _HIDDEN_EVENTS)


def _parse_memory(text: str) -> int:
    number = parse_memory(text)
    if number is None:
        raise ConfigError("argument must be a memory value")
    return number
