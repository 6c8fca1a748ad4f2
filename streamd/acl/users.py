"""All users: changed one by one, or as a whole by the lines of a file."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from streamd.acl.rule_errors import Brackets, Fault, RuleError
from streamd.acl.user import User, merged_rules
from streamd.acl.vocabulary import Vocabulary
from streamd.base.errors import CommandError, echoed

_BLANK: Final = b" \t\n\r\v\f\0"


class UserFileError(Exception):
    """Users that cannot be loaded; the message names places and faults, and no passwords."""


class UnreadableUserFileError(UserFileError):
    """The file of the users cannot be read."""


class Users:
    """Name -> user; always with one named `default`, the user of new clients.

    all_channels: whether new users may name all channels, the value of the option acl-pubsub-default.
    """

    def __init__(self, vocabulary: Vocabulary, all_channels: bool = False) -> None:
        self.vocabulary = vocabulary
        self.all_channels = all_channels
        self.default = self._new_default()
        self._users = {self.default.name: self.default}

    def _new(self, name: bytes) -> User:
        return User(name, self.vocabulary, self.all_channels)

    def _new_default(self) -> User:
        user = self._new(b"default")
        for rule in (b"+@all", b"~*", b"&*", b"on", b"nopass"):
            user.apply(rule)
        return user

    def __iter__(self) -> Iterator[User]:
        return iter(self._users.values())

    def get(self, name: bytes) -> User | None:
        """Return the user of this name, or None."""
        return self._users.get(name)

    def names(self) -> list[bytes]:
        """Return all names, in order."""
        return sorted(self._users)

    def lines(self) -> list[bytes]:
        """Return all users as lines of a file, in the order of their names."""
        return [b"user %b %b" % (name, self._users[name].text()) for name in self.names()]

    def lacking(self) -> list[bytes]:
        """Return the words of all users' rules that name commands that this server does not have, in order."""
        return sorted({word for user in self for selector in user.selectors for word in selector.lacking()})

    def changed(self, name: bytes, rules: Sequence[bytes]) -> User:
        """Return a copy of a user, or a new one, changed by rules; nothing is stored yet. Raises: CommandError."""
        try:
            merged = merged_rules(list(rules))
        except Brackets as error:
            raise CommandError(f"ERR Unmatched parenthesis in acl selector starting at '{_decoded(error.word)}'.")
        user = self._users.get(name)
        made = user.copy() if user is not None else self._new(name)
        made.starts_with_all_channels = self.all_channels
        for rule in merged:
            try:
                made.apply(rule)
            except RuleError as error:
                raise CommandError(f"ERR Error in ACL SETUSER modifier '{_decoded(rule)}': {error}")
        return made

    def put(self, made: User) -> User:
        """Store the result of `changed`; return the user."""
        user = self._users.setdefault(made.name, made)
        if user is not made:
            user.become(made)
        return user

    def remove(self, name: bytes) -> User | None:
        """Remove a user and return it, or None. (The user `default` stays: that is for the caller.)"""
        return self._users.pop(name, None)

    def set_default_password(self, password: bytes) -> None:
        """Give the user `default` this only password; an empty one: none is needed."""
        self.default.apply(b"resetpass")
        self.default.apply(b">" + password if password else b"nopass")

    # -- as a whole ---------------------------------------------------------------------------------------------------

    def read(self, lines: Iterable[bytes], place: str) -> dict[bytes, User]:
        """Return the users that lines of a file make, `default` among them. Raises: UserFileError.

        place: the name of the file, for the message.
        """
        found: dict[bytes, User] = {}
        errors: list[str] = []
        for number, line in enumerate(lines, 1):
            words = [word for word in line.strip(b" \t\r\n").split(b" ") if word]
            if words:
                errors += self._read_line(words, f"{place}:{number}", number, found)
        if errors:
            raise UserFileError(" ".join(errors))
        found.setdefault(b"default", self._new_default())
        return found

    def _read_line(self, words: list[bytes], place: str, number: int, found: dict[bytes, User]) -> list[str]:
        """Add the user of one line to `found`; return the fault of the line."""
        if words[0] != b"user" or len(words) < 2:
            return [f"{place} should start with user keyword followed by the username."]
        name = words[1]
        if not is_name(name):
            return [f"'{place}: username '{_decoded(name)}' contains invalid characters."]
        if name in found:
            return [f"WARNING: Duplicate user '{_decoded(name)}' found on line {number}."]
        found[name] = user = self._new(name)
        try:
            rules = merged_rules([word.strip(b"\t\r\n") for word in words[2:]])
        except Brackets:
            return [f"{place}: Unmatched parenthesis in selector definition."]
        errors, is_first = [], True
        for rule in rules:
            try:
                user.apply(rule)
            except RuleError as error:
                if error.fault is Fault.UNKNOWN:  # the name of a command is no secret
                    shown = _decoded(_without_secrets(rule))
                    errors.append(f"{place}: Error in applying operation '{shown}': {error}.")
                elif is_first:
                    errors.append(f"{place}: {error}.")
                    is_first = False
        return errors

    def replace(self, found: dict[bytes, User]) -> tuple[list[User], list[User]]:
        """Replace all users; those of the same name are changed in place. Return the users that are gone, and those
        that are new or differ.
        """
        before = self._users
        self._users = {name: before.get(name, user) for name, user in found.items()}
        changed: list[User] = []
        for name, user in self._users.items():
            made = found[name]
            if user is made or user.text() != made.text():
                user.become(made)
                changed.append(user)
        return [user for name, user in before.items() if name not in found], changed

    def add_configured(self, definitions: Iterable[Sequence[bytes]]) -> None:
        """Add the users of the configuration, each a name and rules. Raises: UserFileError."""
        names: set[bytes] = set()
        for name, *rules in definitions:
            who = f"the user named '{_decoded(name)}'"
            if not is_name(name):
                raise UserFileError(f"Spaces not allowed in ACL usernames: '{_decoded(name)}'")
            if name in names:
                raise UserFileError(f"Duplicate user found: {who}. A user can only be defined once in config files")
            names.add(name)
            user = self._new(name)
            if name == b"default":
                user.apply(b"reset")
            try:
                merged = merged_rules(rules)
            except Brackets:
                raise UserFileError(f"Unmatched parenthesis in acl selector of {who}")
            for rule in merged:
                try:
                    user.apply(rule)
                except RuleError as error:
                    named = f" '{_decoded(rule)}'" if error.fault is Fault.UNKNOWN else ""
                    raise UserFileError(f"Error loading ACL rule{named} for {who}: {error}")
            self.put(user)

    def differing(self, definitions: Iterable[Sequence[bytes]], password: bytes) -> dict[bytes, bytes | None]:
        """Return the users that differ from the configuration's definitions, with a password for `default`: each name,
        and its text or None if it is gone.
        """
        made = Users(self.vocabulary, self.all_channels)
        if password:
            made.set_default_password(password)
        made.add_configured(definitions)
        before, now = ({user.name: user.text() for user in users} for users in (made, self))
        return {name: now.get(name) for name in before | now if before.get(name) != now.get(name)}


def is_name(name: bytes) -> bool:
    """Return whether a name is valid for a user."""
    return len(name.translate(None, _BLANK)) == len(name)


def _without_secrets(rule: bytes) -> bytes:
    """Return a rule with stars for anything that looks like a password in a selector, where none belongs."""
    return b" ".join([word[:1] + b"***" if word[:1] in (b">", b"<", b"#", b"!") else word for word in rule.split(b" ")])


def _decoded(word: bytes) -> str:
    """Return a word for a message, which is one line in the log, too."""
    return echoed(word, len(word)).replace("\r", " ").replace("\n", " ")
