"""Values of options that are several words, or a word of a form of its own, by Redis's rules."""

import re
from collections.abc import Callable
from typing import Final

_UNITS: Final = {"": 1, "b": 1, "k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3}
_CLASSES: Final = {"normal": "normal", "slave": "replica", "replica": "replica", "pubsub": "pubsub"}
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_SECONDS: Final = re.compile(r"[0-9]{1,18}")


class ConfigError(ValueError):
    """A value that an option does not take; the message names the valid ones."""


def parse_memory(text: str) -> int | None:
    """Return a number of bytes, 0 for no digits, as in Redis; None for another text."""
    digits = text.rstrip("bBkKmMgG")
    unit = text[len(digits) :].lower()
    if not ((digits.isascii() and digits.isdigit()) or not digits) or unit not in _UNITS:
        return None
    kept = digits.lstrip("0")[:20]  # too large with these, too; Python refuses to read numbers of thousands of digits
    return int(kept or "0") * _UNITS[unit]


def _saves(text: str) -> str:
    """Pairs of seconds and changes."""
    words = text.split()
    if len(words) % 2 or not all(map(_NUMBER.fullmatch, words)):
        raise ConfigError("Invalid save parameters")
    for seconds, changes in zip(words[::2], words[1::2], strict=True):
        if int(seconds) < 1 or int(changes) < 0:
            raise ConfigError("Invalid save parameters")
    return text


def _limits(text: str) -> str:
    """For each class of clients: the class, a hard limit, a soft limit, seconds."""
    words = text.split()
    if len(words) % 4:
        raise ConfigError("Wrong number of arguments in buffer limit configuration.")
    limits = []
    for at in range(0, len(words), 4):
        kind, hard, soft, seconds = words[at : at + 4]
        if kind.lower() not in _CLASSES:
            raise ConfigError("Invalid client class specified in buffer limit configuration.")
        sizes = parse_memory(hard), parse_memory(soft)
        if None in sizes or not _SECONDS.fullmatch(seconds):
            raise ConfigError("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
        limits.append(f"{_CLASSES[kind.lower()]} {sizes[0]} {sizes[1]} {int(seconds)}")
    return " ".join(limits)


def _scores(text: str) -> str:
    """Three numbers from -2000 to 2000."""
    words = text.split()
    if len(words) != 3:
        raise ConfigError("wrong number of arguments")
    if not all(_NUMBER.fullmatch(word) and -2000 <= int(word) <= 2000 for word in words):
        raise ConfigError("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
    return " ".join(str(int(word)) for word in words)


def _percentiles(text: str) -> str:
    """Numbers from 0 to 100."""
    words = text.split()
    for word in words:
        if not re.fullmatch(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)", word):
            raise ConfigError("Invalid latency-tracking-info-percentiles parameters")
        if not 0 <= float(word) <= 100:
            raise ConfigError("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]")
    return " ".join(words)


def _share(text: str) -> str:
    """A number of bytes, or a percentage of maxmemory."""
    if re.fullmatch(r"[0-9]{1,18}%", text):
        if int(text[:-1]) > 100:
            raise ConfigError("percentage argument must be less or equal to 100")
        return text
    if parse_memory(text) is None:
        raise ConfigError("argument must be a memory or percent value")
    return str(parse_memory(text))


def _preload(text: str) -> str:
    if text and not re.fullmatch(r"(aof|rdb):.+", text, re.DOTALL):
        raise ConfigError("argument must be in the format '[aof|rdb]:[filename]'")
    return text


def _filename(text: str) -> str:
    if "/" in text or "\\" in text:
        raise ConfigError("dbfilename can't be a path, just a filename")
    return text


# By the kind of an option: what checks the text and returns it in one form.
PARSERS: Final[dict[str, Callable[[str], str]]] = {
    "filename": _filename,
    "limits": _limits,
    "percentiles": _percentiles,
    "preload": _preload,
    "saves": _saves,
    "scores": _scores,
    "share": _share,
}
# What each takes, as advice.
ADVICE: Final = {
    "filename": "give a name without slashes",
    "limits": "give normal, replica or pubsub, two numbers of bytes and seconds: replica 256mb 64mb 60",
    "percentiles": "give numbers, 0 to 100",
    "preload": "give aof:FILE or rdb:FILE",
    "saves": 'give pairs of seconds and changes (3600 1), or ""',
    "scores": "give three numbers, -2000 to 2000",
    "share": "give a number of bytes (1kb, 1mb, 1gb), or a percentage up to 100%",
}
