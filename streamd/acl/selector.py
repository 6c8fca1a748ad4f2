"""A selector: one set of rules of a user, which a request must satisfy as a whole."""

import re
from collections.abc import Iterable
from typing import Final

from streamd.acl.rule_errors import Fault, RuleError
from streamd.acl.vocabulary import Vocabulary
from streamd.base.glob_table import GlobTable

READ: Final = 1
WRITE: Final = 2

_BLANK: Final = re.compile(rb"[\s\0]")
_PREFIXES: Final = {READ | WRITE: b"~", READ: b"%R~", WRITE: b"%W~"}
# `orders:*`: the most common pattern, and the start of a word is found faster than what a regular expression matches.
_PREFIX_PATTERN: Final = re.compile(rb"[^*?\[\\]*\*")
# Of so many of these each is asked; more are looked up.
PREFIXES_MAX: Final = 32

# Of keys that may be used in one way: how they begin, the other patterns, and these as a table once one is compared.
_Use = tuple[tuple[bytes, ...], list[bytes], GlobTable[None] | None]


class Selector:
    """A set of rules.

    commands: a set, in the bits of the vocabulary. first_words: for commands outside of it, the allowed first arguments
    (`+select|0`), by the name of the command. keys: pattern -> READ | WRITE. channels: patterns.
    """

    __slots__ = (
        "_channel_table",
        "_first_rule",
        "_rules",
        "_uses",
        "_vocabulary",
        "all_channels",
        "all_keys",
        "channels",
        "commands",
        "first_words",
        "keys",
    )

    def __init__(self, vocabulary: Vocabulary, all_channels: bool = False) -> None:
        self._vocabulary = vocabulary
        self.commands = 0
        self.first_words: dict[str, list[bytes]] = {}
        self.all_keys = False
        self.keys: dict[bytes, int] = {}
        self.all_channels = all_channels
        self.channels: dict[bytes, None] = {}
        # The rules for commands: all or none, then what is named -> + or -, in the order that they hold in.
        self._first_rule = b"-@all"
        self._rules: dict[bytes, bytes] = {}
        self._uses: dict[int, _Use] = {}
        self._channel_table: GlobTable[None] | None = None

    def copy(self) -> "Selector":
        """Return another selector with the same rules."""
        made = Selector(self._vocabulary, self.all_channels)
        made.commands = self.commands
        made._first_rule, made._rules = self._first_rule, dict(self._rules)
        made.first_words = {name: list(words) for name, words in self.first_words.items()}
        made.all_keys = self.all_keys
        made.keys = dict(self.keys)
        made.channels = dict(self.channels)
        return made

    # -- rules --------------------------------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Change the selector by one rule. Raises: RuleError, and then nothing is changed."""
        word = rule.lower()
        self._uses, self._channel_table = {}, None
        if word in (b"allkeys", b"~*", b"resetkeys"):
            self.all_keys = word != b"resetkeys"
            self.keys = {}
        elif word in (b"allchannels", b"&*", b"resetchannels"):
            self.all_channels = word != b"resetchannels"
            self.channels = {}
        elif word in (b"allcommands", b"+@all", b"nocommands", b"-@all"):
            allow = word in (b"allcommands", b"+@all")
            self.commands = self._vocabulary.everything if allow else 0
            self.first_words = {}
            self._first_rule, self._rules = b"+@all" if allow else b"-@all", {}
        elif rule[:1] in (b"~", b"%"):
            self._add_keys(rule)
        elif rule[:1] == b"&":
            self._add_channels(rule[1:])
        elif word[:1] in (b"+", b"-"):
            self._apply_to_commands(word, rule)
        else:
            raise RuleError(Fault.SYNTAX)

    def _apply_to_commands(self, word: bytes, rule: bytes) -> None:
        if word[1:2] == b"@":
            self._change_category(word[2:].decode("latin-1"), word[:1] == b"+")
        elif word[:1] == b"+" and b"|" in word:
            self._allow_with_word(word[1:].decode("latin-1"), rule)
        else:
            name = word[1:].decode("latin-1")
            if name not in self._vocabulary:
                raise RuleError(Fault.UNKNOWN)
            self._change(self._vocabulary.changed_by(name), [name], word[:1] == b"+")
        named = word[1:]
        for other in [one for one in self._rules if one == named or one.startswith(named + b"|")]:
            del self._rules[other]
        self._rules[named] = word[:1]

    def _add_keys(self, rule: bytes) -> None:
        if self.all_keys:
            raise RuleError(Fault.ALL_KEYS)
        access, pattern = READ | WRITE, rule[1:]
        if rule[:1] == b"%":
            letters, _, pattern = rule[1:].partition(b"~")
            access = sum({b"R": READ, b"W": WRITE}.get(letter, 0) for letter in _letters(letters))
            if not access or sorted(_letters(letters)) not in ([b"R"], [b"W"], [b"R", b"W"]):
                raise RuleError(Fault.SYNTAX)
        if _BLANK.search(pattern):
            raise RuleError(Fault.SYNTAX)
        self.keys[pattern] = self.keys.get(pattern, 0) | access

    def _add_channels(self, pattern: bytes) -> None:
        if self.all_channels:
            raise RuleError(Fault.ALL_CHANNELS)
        if _BLANK.search(pattern):
            raise RuleError(Fault.SYNTAX)
        self.channels[pattern] = None

    def _change_category(self, category: str, allow: bool) -> None:
        vocabulary = self._vocabulary
        if category not in vocabulary.members:
            raise RuleError(Fault.UNKNOWN)
        self._change(vocabulary.changed_by_category[category], vocabulary.names_in(vocabulary.members[category]), allow)

    def _change(self, commands: int, names: Iterable[str], allow: bool) -> None:
        """Allow or forbid commands, and drop the allowed first words of the named ones."""
        self.commands = self.commands | commands if allow else self.commands & ~commands
        for name in names if self.first_words else ():
            self.first_words.pop(name, None)

    def _allow_with_word(self, name: str, rule: bytes) -> None:
        """Allow a subcommand, or a command with one word behind it."""
        vocabulary = self._vocabulary
        command, _, word = name.rpartition("|")
        if command not in vocabulary:
            raise RuleError(Fault.UNKNOWN)
        if "|" in command:
            raise RuleError(Fault.FIRST_WORD_OF_SUBCOMMAND)
        if not word or _BLANK.search(rule):
            raise RuleError(Fault.SYNTAX)
        if command in vocabulary.containers:
            if name not in vocabulary:
                raise RuleError(Fault.UNKNOWN)
            self._change(vocabulary.changed_by(name), [name], True)
            return
        words = self.first_words.setdefault(command, [])
        if word.encode("latin-1") not in [one.lower() for one in words]:
            words.append(rule.rpartition(b"|")[2])

    # -- what it allows -----------------------------------------------------------------------------------------------

    def allows_command(self, name: str, bit: int, request: list[bytes]) -> bool:
        """Return whether a command is allowed; `bit` is that of the vocabulary."""
        if self.commands & bit:
            return True
        words = self.first_words.get(name)
        return words is not None and len(request) > 1 and request[1].lower() in [word.lower() for word in words]

    def allows_key(self, key: bytes, access: int) -> bool:
        """Return whether one pattern allows a key to be read, written, or both; `access` 0: to be named at all."""
        if self.all_keys:
            return True
        prefixes, patterns, others = self._prepared(access)
        if key.startswith(prefixes):
            return True
        if not patterns:
            return False
        if others is None:
            # (Mostly what may be read may be written, too: then there is one table for all uses.)
            alike = [table for _, same, table in self._uses.values() if table is not None and same == patterns]
            others = alike[0] if alike else table_of(patterns)
            self._uses[access] = prefixes, patterns, others
        return others.matches(key)

    def prefixes(self, access: int) -> tuple[bytes, ...]:
        """Return prefixes of keys with this access, or None if there are many."""
        return self._prepared(access)[0]

    def _prepared(self, access: int) -> "_Use":
        found = self._uses.get(access)
        if found is None:
            patterns = [pattern for pattern, allowed in self.keys.items() if allowed & access == access]
            prefixes = [pattern[:-1] for pattern in patterns if _PREFIX_PATTERN.fullmatch(pattern)]
            if len(prefixes) > PREFIXES_MAX:
                prefixes = []
            elif prefixes:
                patterns = [pattern for pattern in patterns if not _PREFIX_PATTERN.fullmatch(pattern)]
            found = self._uses[access] = tuple(prefixes), patterns, None
        return found

    def allows_every_key(self, access: int) -> bool:
        """Return whether all keys have this access."""
        return self.all_keys or self.keys.get(b"*", 0) & access == access != 0

    def allows_channel(self, channel: bytes, is_pattern: bool) -> bool:
        """Return whether a channel is allowed; a pattern of channels only if a rule has the same."""
        if self.all_channels or is_pattern:
            return self.all_channels or channel in self.channels
        if self._channel_table is None:
            self._channel_table = table_of(self.channels)
        return self._channel_table.matches(channel)

    # -- as text ------------------------------------------------------------------------------------------------------

    def keys_text(self) -> bytes:
        """Return the rules for keys."""
        if self.all_keys:
            return b"~*"
        return b" ".join(_PREFIXES[access] + pattern for pattern, access in self.keys.items())

    def channels_text(self) -> bytes:
        """Return the rules for channels."""
        return b"&*" if self.all_channels else b" ".join(b"&" + pattern for pattern in self.channels)

    def lacking(self) -> list[bytes]:
        """Return the words of rules that name commands that this server does not have."""
        lacking = self._vocabulary.lacking
        names = [(word, word.decode("latin-1")) for word in self._rules]
        return [word for word, name in names if name in lacking or name.partition("|")[0] in lacking]

    def text(self) -> bytes:
        """Return rules that turn a new selector into this one."""
        channels = [self.channels_text()] if self.all_channels else [b"resetchannels", self.channels_text()]
        return b" ".join(part for part in (self.keys_text(), *channels, self.commands_text()) if part)

    def commands_text(self) -> bytes:
        """Return the rules for commands, as they were given, without those that later rules override."""
        return b" ".join([self._first_rule, *(sign + name for name, sign in self._rules.items())])


def _letters(word: bytes) -> list[bytes]:
    return [word[at : at + 1].upper() for at in range(len(word))]


def table_of(patterns: Iterable[bytes]) -> GlobTable[None]:
    """Return a matcher that tells whether one of some patterns, all different, matches a text."""
    table: GlobTable[None] = GlobTable()
    for pattern in patterns:
        table.add(pattern, None)
    return table
