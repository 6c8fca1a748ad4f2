"""The values of options as text, with a reader and a one-line error for each kind."""

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from spark_source.errors import OptionError

T = TypeVar("T")
D = TypeVar("D")

LARGEST = 2**63 - 1

SECRET = (
    "password", "passwordEnv", "passwordFile", "sentinelPassword", "sentinelPasswordEnv", "sentinelPasswordFile",
    "sslKeyPassword",
)  # fmt: skip
"""Options whose values no message repeats. A user may give the password itself where its variable or file belongs."""

EXACT = (
    "username", "password", "sentinelUsername", "sentinelPassword", "sslKeyPassword", "stream", "streamPattern",
    "streamRegex", "streamColumn", "idempotencyKey", "fieldColumns",
)  # fmt: skip
"""Options whose values keep blanks at their ends, which belong to the name or the password."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|min|h|d)?")
_DURATION_S = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


class Values:
    """The given options by their documented names, with a reader for each kind of value."""

    def __init__(self, given: dict[str, str], names: tuple[str, ...]) -> None:
        self.given = given
        self.names = names

    def get(self, name: str, parse: Callable[[str], T], allowed: str, default: D) -> T | D:
        """Return an option's value as `parse` makes it; a ValueError of `parse` becomes the error of one line."""
        assert name in self.names, name
        if name not in self.given:
            return default
        text = self.given[name] if name in EXACT else self.given[name].strip()
        try:
            return parse(text)
        except ValueError as error:
            detail = f" ({error})" if isinstance(error, OptionError) else ""
            value = "***" if text and name in SECRET else shown(text)
            raise OptionError(f"{name}={value} is not allowed: give {allowed}{detail}") from None

    def has(self, name: str) -> bool:
        return name in self.given

    def text(self, name: str) -> str | None:
        return self.get(name, not_empty, "a text that is not empty", None)

    def choice(self, name: str, *allowed: str) -> str:
        """Return one of `allowed`, the first by default."""

        def parse(text: str) -> str:
            for word in allowed:
                if word.lower() == text.lower():
                    return word
            raise ValueError

        return self.get(name, parse, " | ".join(allowed), allowed[0])

    def flag(self, name: str, default: bool) -> bool:
        def parse(text: str) -> bool:
            return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else refuse()

        return self.get(name, parse, "true | false", default)

    def integer(self, name: str, low: int, high: int, default: int) -> int:
        found = self.count(name, low, high)
        return default if found is None else found

    def count(self, name: str, low: int, high: int = LARGEST) -> int | None:
        def parse(text: str) -> int:
            value = int(text) if re.fullmatch(r"[0-9]+", text) else refuse()
            return value if low <= value <= high else refuse()

        allowed = f"a whole number of at least {low}" if high == LARGEST else f"a whole number from {low} to {high}"
        return self.get(name, parse, allowed, None)

    def seconds(self, name: str, default: float) -> float:
        def parse(text: str) -> float:
            match = _DURATION.fullmatch(text.lower())
            return float(match[1]) * _DURATION_S[match[2]] if match else refuse()

        return self.get(name, parse, "a duration such as 500ms, 30s, 15m or 2h (a bare number is seconds)", default)

    def exclusive(self, *names: str) -> None:
        given = [name for name in names if name in self.given]
        if len(given) > 1:
            raise OptionError(f"{given[0]} and {given[1]} cannot be given together: leave one of them out")


def refuse() -> NoReturn:
    raise ValueError


def shown(text: str) -> str:
    """Return a value for a message: a password inside an address is left out."""
    if "@" in text:
        text = "***@" + text.rpartition("@")[2]
    return text if len(text) <= 80 else text[:77] + "..."


def not_empty(text: str) -> str:
    if not text:
        raise ValueError
    return text


def split_names(text: str) -> tuple[str, ...]:
    """Return names that commas separate, in a list also with blanks beside them; a single name keeps its blanks.

    Raises: ValueError.
    """
    names = tuple(name.strip() for name in text.split(",")) if "," in text else (text,)
    if not all(names) or len(set(names)) < len(names):
        raise ValueError
    return names
