"""The names in a request: its keys with the access to each, and its channels."""

from functools import lru_cache
from typing import Final

from streamd.acl.decision import Named
from streamd.acl.selector import READ, WRITE
from streamd.acl.vocabulary import Vocabulary
from streamd.catalog.context import Command, CommandTable
from streamd.catalog.describe import access_of_keys, categories

_BITS: Final = {"access": READ, "insert": WRITE, "update": WRITE, "delete": WRITE}

_COMPARISONS: Final = {b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"}

# Commands whose words are channels, and whether these are patterns.
CHANNELS: Final = {"subscribe": False, "ssubscribe": False, "psubscribe": True, "publish": False, "spublish": False}


def vocabulary_of(commands: CommandTable) -> Vocabulary:
    """Return the commands and categories that rules can name."""
    named = [one for parent in commands.values() for one in (parent, *parent.subcommands.values())]
    return _vocabulary(tuple((one.name, tuple(categories(one))) for one in named))


@lru_cache(maxsize=4)
def _vocabulary(named: tuple[tuple[str, tuple[str, ...]], ...]) -> Vocabulary:
    """(All servers of a process have the same commands, unless a test adds one.)"""
    return Vocabulary(dict(named))


def keys_of(command: Command, request: list[bytes]) -> list[bytes]:
    """Return the keys of a request that has as many words as it must."""
    if command.find_keys is not None:
        return command.find_keys(request)
    first, last, step = command.keys
    if not first:
        return []
    return request[first : (last if last > 0 else len(request) + last) + 1 : step]


def accesses_of(command: Command, request: list[bytes]) -> list[list[str]]:
    """Return what a request does to each of its keys, in the words of COMMAND GETKEYSANDFLAGS. The last item
    holds for all further keys.
    """
    access = access_of_keys(command)
    words = [word.upper() for word in request]
    if command.name == "set":  # whether the old value is read depends on GET, and on what it must equal
        if b"GET" in words[3:]:
            return [["RW", "access", "update"]]
        return [["OW" if _COMPARISONS.isdisjoint(words[3:]) else "RW", "update"]]
    if command.name == "delex":
        return [["RM" if _COMPARISONS.isdisjoint(words[2:3]) else "RW", "delete"]]
    if command.name == "sort":
        return [access[0], access[-1]]  # between them stand the patterns of BY and GET, which name no keys themselves
    if command.name == "bitfield":  # whether it writes depends on what is in it
        return [["RO", "access"] if _only_gets(words) else ["RW", "access", "update"]]
    return access


def _only_gets(words: list[bytes]) -> bool:
    """Return whether a BITFIELD, in capitals, only reads; False also if its words are malformed."""
    at = 2
    while at < len(words):
        taken = {b"GET": 3, b"OVERFLOW": 2}.get(words[at], 0)
        if not taken or at + taken > len(words):
            return False
        at += taken
    return True


def bits_of(command: Command) -> list[int]:
    """Return the most that a command does to each of its keys, READ | WRITE."""
    return [_bits(words) for words in access_of_keys(command)]


def _bits(words: list[str]) -> int:
    return sum({_BITS[word] for word in words if word in _BITS})


def keys_and_bits(command: Command, request: list[bytes]) -> list[tuple[bytes, int]]:
    """Return the keys of a request, each with the access to it (bits of READ | WRITE)."""
    bits = [_bits(words) for words in accesses_of(command, request)]
    return [(key, bits[min(at, len(bits) - 1)]) for at, key in enumerate(keys_of(command, request))]


def channels_of(command: Command, request: list[bytes]) -> list[tuple[bytes, bool]]:
    """Return the channels of a request, each with whether it is a pattern."""
    is_pattern = CHANNELS.get(command.name)
    if is_pattern is None:
        return []
    return [(name, is_pattern) for name in (request[1:2] if command.name.endswith("publish") else request[1:])]


def named_by(vocabulary: Vocabulary, command: Command, request: list[bytes]) -> Named:
    """Return the names in a request, for acl.decision."""
    return Named(
        command.name,
        vocabulary.bit(command.name),
        "no_auth" in command.flags,
        request,
        lambda: keys_and_bits(command, request),
        lambda: channels_of(command, request),
    )
