"""Parses a command's syntax, in the notation of Redis's documentation, into COMMAND DOCS's tree of arguments.

    key [NX | XX] [EX seconds | KEEPTTL] <MAXLEN | MINID> [= | ~] threshold STREAMS key [key ...] id [id ...]

A word without lower-case letters is a token, sent as it stands; other words are arguments. A token takes the words or
the `<group>` behind it. `[...]` may be left out, `|` separates alternatives, `x [x ...]` is one x or more, and
`TOKEN x [TOKEN x ...]` as well, each behind a token of its own. The type of an argument follows from its name, or from
a suffix: `start:integer`.
"""

import re
from dataclasses import dataclass, field
from typing import Final

_WORDS: Final = re.compile(r"[\[\]<>|]|[^\s\[\]<>|]+")
_TYPES: Final = {
    name: kind
    for kind, names in {
        "key": "key newkey source destination",
        "pattern": "pattern",
        "unix-time": "unix-time-seconds unix-time-milliseconds",
        "integer": "seconds milliseconds count cursor index db destination-db timeout increment decrement offset "
        "numreplicas client-id protover ms entries-read entries-added duration maxsize entries bytes",
    }.items()
    for name in names.split()
}
_SYMBOLS: Final = {"*": "auto-id", "$": "new-id", "=": "equal", "~": "approximately", ">": "new"}
_KINDS: Final = ("integer", "double", "string", "key", "pattern", "unix-time")


@dataclass(slots=True)
class Argument:
    """One node of the tree; `kind` is Redis's type: key, string, integer, ..., pure-token, oneof or block.

    multiple: it may be there several times; multiple_token: each time with its token.
    """

    name: str
    kind: str
    token: str = ""
    optional: bool = False
    multiple: bool = False
    multiple_token: bool = False
    members: "list[Argument]" = field(default_factory=list)


def parse_syntax(syntax: str) -> list[Argument]:
    """Return the arguments of a command. Raises: ValueError for a broken notation, which is a mistake of ours."""
    words = _WORDS.findall(syntax)
    parser = _Parser(words)
    arguments = parser.alternatives()
    if parser.at < len(words):
        raise ValueError(f"unbalanced {words[parser.at]!r} in {syntax!r}")
    return arguments.members if arguments.kind == "block" else [arguments]


class _Parser:
    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    def alternatives(self) -> Argument:
        """Parse up to the end of the group: one sequence, or several of which one is chosen."""
        choices = [self._sequence()]
        while self.at < len(self.words) and self.words[self.at] == "|":
            self.at += 1
            choices.append(self._sequence())
        if len(choices) == 1:
            return _block(choices[0])
        members = [choice[0] if len(choice) == 1 else _block(choice) for choice in choices]
        return Argument("-".join(member.name for member in members[:3]), "oneof", members=members)

    def _sequence(self) -> list[Argument]:
        found: list[Argument] = []
        while self.at < len(self.words) and self.words[self.at] not in ("]", ">", "|"):
            word = self.words[self.at]
            self.at += 1
            if word == "[":
                self._optional(found)
            elif word == "<":
                found.append(_only(self._group(">")))
            elif _is_token(word):
                found.append(self._token(word))
            else:
                found.append(_plain(word))
        return found

    def _group(self, closing: str) -> Argument:
        inside = self.alternatives()
        if self.at >= len(self.words) or self.words[self.at] != closing:
            raise ValueError(f"no {closing!r} in {' '.join(self.words)!r}")
        self.at += 1
        return inside

    def _optional(self, before: list[Argument]) -> None:
        """Parse the part behind a `[`: an optional argument, or the repetition of the arguments before it."""
        repeated = self._repeated_names()
        if repeated:
            if [one.name for one in before[-len(repeated) :]] != repeated:
                raise ValueError(f"{repeated} does not repeat what is before it in {' '.join(self.words)!r}")
            block = _only(_block(before[-len(repeated) :]))
            block.multiple = True
            before[-len(repeated) :] = [block]
            return
        inside = _only(self._group("]"))
        inside.optional = True
        before.append(inside)

    def _repeated_names(self) -> list[str]:
        """Take `x y ...]` and return its names; take nothing when something else is in the brackets."""
        end = self.at
        while end < len(self.words) and self.words[end] not in "[]<>|":
            end += 1
        words = self.words[self.at : end]
        if not words or words[-1] != "...":
            return []
        self.at = end + 1
        return [word.partition(":")[0] for word in words[:-1]]

    def _token(self, token: str) -> Argument:
        """Parse the arguments of a token: the words behind it, with their repetitions, or a group."""
        if self.at < len(self.words) and self.words[self.at] == "<":
            self.at += 1
            taken = _only(self._group(">"))
            taken.token = token
            return taken
        found: list[Argument] = []
        repeats_token = False
        while self.at < len(self.words):
            word = self.words[self.at]
            if word == "[" and found:
                self.at += 1
                before = len(found)
                names = self._repeats()
                if names == [token, *(one.name for one in found)]:
                    self._repeated_names()
                    repeats_token = True
                    break
                if not names:
                    self.at -= 1
                    break
                self._optional(found)
                assert len(found) <= before
            elif word in "[]<>|" or _is_token(word):
                break
            else:
                self.at += 1
                found.append(_plain(word))
        if not found:
            return Argument(_name_of(token), "pure-token", token)
        taken = _only(_block(found))
        if taken.multiple:
            taken = _block([taken])
        taken.token = token
        if repeats_token:
            taken.multiple = taken.multiple_token = True
        return taken

    def _repeats(self) -> list[str]:
        """Return the names of a repetition `x y ...]` at this place, [] for other brackets; take nothing."""
        at = self.at
        names = self._repeated_names()
        self.at = at
        return names


def _is_token(word: str) -> bool:
    return not re.search("[a-z]", word)


def _name_of(token: str) -> str:
    return _SYMBOLS.get(token, token.lower())


def _plain(word: str) -> Argument:
    name, _, kind = word.rpartition(":")
    if name and kind in _KINDS:
        return Argument(name, kind)
    return Argument(word, _TYPES.get(word, "string"))


def _block(members: list[Argument]) -> Argument:
    return Argument("-".join(member.name for member in members[:3]), "block", members=members)


def _only(block: Argument) -> Argument:
    """Return the only member of a block without a token, which takes the block's place; else the argument itself."""
    if block.kind == "block" and len(block.members) == 1 and not block.token:
        return block.members[0]
    return block
