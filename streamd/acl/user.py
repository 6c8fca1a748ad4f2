"""A user: passwords, and rules."""

import re
from typing import Final

from streamd.acl.rule_errors import Brackets, Fault, RuleError
from streamd.acl.selector import Selector
from streamd.acl.vocabulary import Vocabulary

_HASH: Final = re.compile(rb"[0-9a-f]{64}")
_MAY_BE_CUT: Final = (b">", b"<", b"#", b"!")


def hash_of(password: bytes) -> bytes:
    """Return the stored form of a password: its SHA-256, in hexadecimal digits."""
    from hashlib import sha256  # a start without passwords need not wait for OpenSSL's

    return sha256(password).hexdigest().encode()


class User:
    """One user.

    passwords: the hashes, in the order of their rules. needs_no_password: every password is right.
    sanitize: "sanitize-payload" or "skip-sanitize-payload", only kept to be shown.
    selectors: rules change the first one; further ones are added whole. One that allows a request is enough.
    """

    def __init__(self, name: bytes, vocabulary: Vocabulary, all_channels: bool = False) -> None:
        """all_channels: the value of the option acl-pubsub-default."""
        self.name = name
        self._vocabulary = vocabulary
        self.starts_with_all_channels = all_channels
        self.is_enabled = False
        self.needs_no_password = False
        self.sanitize = "sanitize-payload"
        self.passwords: dict[bytes, None] = {}
        self.selectors = [Selector(vocabulary, all_channels)]

    def __repr__(self) -> str:
        return f"User({self.name!r})"  # nothing of its passwords

    def copy(self) -> "User":
        """Return another user with the same name and rules."""
        made = User(self.name, self._vocabulary, self.starts_with_all_channels)
        made.become(self)
        return made

    def become(self, other: "User") -> None:
        """Take over everything of another user except the name."""
        self.is_enabled = other.is_enabled
        self.needs_no_password = other.needs_no_password
        self.sanitize = other.sanitize
        self.passwords = dict(other.passwords)
        self.selectors = [selector.copy() for selector in other.selectors]

    # -- logging in ---------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether new clients are this user without AUTH, if it is the user `default`."""
        return self.is_enabled and self.needs_no_password

    def accepts(self, password: bytes) -> bool:
        """Return whether a password is right, in constant time."""
        from hmac import compare_digest  # as above

        hashed = hash_of(password)
        found = False
        for known in self.passwords:
            found = compare_digest(hashed, known) or found
        return self.is_enabled and (found or self.needs_no_password)

    # -- what is allowed ----------------------------------------------------------------------------------------------

    @property
    def is_unrestricted(self) -> bool:
        """Whether one selector allows everything."""
        everything = self._vocabulary.everything
        return any(one.all_keys and one.all_channels and one.commands == everything for one in self.selectors)

    # -- rules --------------------------------------------------------------------------------------------------------

    def apply(self, rule: bytes) -> None:
        """Change the user by one rule. Raises: RuleError."""
        if rule[:1] not in _MAY_BE_CUT and b"\0" in rule and rule[:1] not in b"~%&":
            rule = rule.partition(b"\0")[0]
            if not rule:
                raise RuleError(Fault.SYNTAX)
        word = rule.lower()
        if not rule:
            return
        if word in (b"on", b"off"):
            self.is_enabled = word == b"on"
        elif word in (b"skip-sanitize-payload", b"sanitize-payload"):
            self.sanitize = word.decode()
        elif word in (b"nopass", b"resetpass"):
            self.needs_no_password = word == b"nopass"
            self.passwords = {}
        elif rule[:1] in (b">", b"#"):
            self.passwords[_hash_in(rule)] = None
            self.needs_no_password = False
        elif rule[:1] in (b"<", b"!"):
            hashed = _hash_in(rule)
            if hashed not in self.passwords:
                raise RuleError(Fault.NO_SUCH_PASSWORD)
            del self.passwords[hashed]
        elif rule[:1] == b"(" and rule[-1:] == b")":
            self.selectors.append(self._selector(rule[1:-1]))
        elif word == b"clearselectors":
            del self.selectors[1:]
        elif word == b"reset":
            self.become(User(self.name, self._vocabulary, self.starts_with_all_channels))
        else:
            self.selectors[0].apply(rule)

    def _selector(self, rules: bytes) -> Selector:
        made = Selector(self._vocabulary, self.starts_with_all_channels)
        for word in rules.split():
            if word.endswith(b")"):
                raise RuleError(Fault.SYNTAX)  # in a file that would end the selector
            made.apply(word)
        return made

    # -- as text ------------------------------------------------------------------------------------------------------

    def flags(self) -> list[str]:
        """Return the user's flags, in words that are rules."""
        words = ["on" if self.is_enabled else "off", "nopass" if self.needs_no_password else "", self.sanitize]
        return [word for word in words if word]

    def text(self) -> bytes:
        """Return rules that turn a new user into this one."""
        words = [*(flag.encode() for flag in self.flags()), *(b"#" + hashed for hashed in self.passwords)]
        first, *others = self.selectors
        return b" ".join([*words, first.text(), *(b"(%b)" % selector.text() for selector in others)])


def _hash_in(rule: bytes) -> bytes:
    """Return the hash in a rule for a password. Raises: RuleError."""
    if rule[:1] in (b">", b"<"):
        return hash_of(rule[1:])
    if not _HASH.fullmatch(rule[1:]):
        raise RuleError(Fault.NO_HASH)
    return rule[1:]


def merged_rules(words: list[bytes]) -> list[bytes]:
    """Return rules with the words of each selector in brackets joined into one rule. Raises: Brackets."""
    merged: list[bytes] = []
    opened: list[bytes] = []
    for word in words:
        if opened:
            opened.append(word)
        elif word[:1] == b"(" and word[-1:] != b")":
            opened = [word]
        else:
            merged.append(word)
            continue
        if len(opened) > 1 and word[-1:] == b")":
            merged.append(b" ".join(opened))
            opened = []
    if opened:
        raise Brackets(opened[0])
    return merged
