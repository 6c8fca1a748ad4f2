"""The rights of a client to topics, by an access control list in mosquitto's format.

    topic read news/#                    before the first `user`: for clients without a user name
    user ann
    topic readwrite rooms/+/light        `read`, `write`, `readwrite` or `deny`; without one it is `readwrite`
    topic deny rooms/vault/#
    pattern write devices/%c/#           for every client: %c is its client ID, %u its user name

How a topic is decided, as mosquitto 2.0 does it; the first rule that says something ends it:

1. Nobody writes to `$SYS...` (but to `$SYS/broker/connection/+/state`, if a rule allows it), nobody reads or writes
   `$share...`, whatever the file says, and also without a file.
2. The client's `topic` rules: a `deny` that matches forbids, wherever it stands; one that grants allows.
3. When the file has any `pattern`, a client whose ID or user name has a `+` or `#` gets nothing more.
4. The `pattern` rules, in the same way: so a `pattern deny` takes away nothing that a `topic` rule grants. Those with
   %u are not for clients without a user name.
5. Anything else is forbidden.

A user's rules may stand in several places. A user without rules has those of the patterns only; the rules for clients
without a name are for those alone. An empty user name is none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from streamd.clients.mqtt.access.rule_files import BLANKS, FileFault, lines_of, shown
from streamd.clients.mqtt.codec.names import is_of_server
from streamd.clients.topics.filters import TopicFilter

# Decisions that one client's rights keep, for reading and for writing each: 0.1 MB where a client has that many topics.
DECISIONS_MAX: Final = 1_000
LEVELS_MAX: Final = 201  # as in mosquitto; a search for topics takes time by the square of it

_KINDS: Final = ("read", "write", "readwrite", "deny")
_PLACEHOLDER = re.compile("%[cu]")
_SHARED: Final = "$share/"
# A level that no rule names: no text of a rule has a NUL.
_ANY_LEVEL: Final = "\0"


class Rule(NamedTuple):
    """One line of a file; kind: `read`, `write`, `readwrite` or `deny`; filter: as it stands there, with %c and %u."""

    kind: str
    filter: TopicFilter


@dataclass(frozen=True, slots=True)
class Stage:
    """Filters that are asked together: `denied` first, then those that grant reading or writing."""

    denied: tuple[TopicFilter, ...] = ()
    read: tuple[TopicFilter, ...] = ()
    written: tuple[TopicFilter, ...] = ()

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> "Stage":
        """Return the stage of rules whose filters have no placeholders left."""
        known = list(rules)
        return cls(
            tuple(one for kind, one in known if kind == "deny"),
            tuple(one for kind, one in known if kind in ("read", "readwrite")),
            tuple(one for kind, one in known if kind in ("write", "readwrite")),
        )


_NO_RULES: Final = Stage()


class Rights:
    """The rules of one file, or of none: then everything is allowed but what is nobody's. It does not change."""

    def __init__(self, of_users: dict[str | None, list[Rule]] | None, patterns: Iterable[Rule] = ()) -> None:
        """of_users: the `topic` rules by user name, None for clients without one; None altogether without a file."""
        self.allows_all = of_users is None
        self._of_users = {username: Stage.of(rules) for username, rules in (of_users or {}).items()}
        self._patterns = list(patterns)

    def for_client(self, username: str | None, client_id: str) -> "ClientRights":
        """Return the rights of a client; an empty username is none. client_id: not empty, as the gateway gave it."""
        return ClientRights(self, username, client_id)

    def stages_for(self, username: str | None, client_id: str) -> tuple[Stage, ...]:
        """Return the stages of rules that decide about a client's topics, one after the other."""
        of_user = self._of_users.get(username, _NO_RULES)
        if not self._patterns or any(wildcard in (username or "") + client_id for wildcard in "+#"):
            return (of_user,)
        filled = (_fill(rule, username, client_id) for rule in self._patterns)
        return of_user, Stage.of(rule for rule in filled if rule is not None)


class ClientRights:
    """What one client may do. Decisions are kept: a topic that was asked for before costs one look into a dict.

    Not for several threads.
    """

    __slots__ = ("username", "client_id", "_rights", "_stages", "_readable", "_writable", "__weakref__")

    def __init__(self, rights: Rights, username: str | None, client_id: str) -> None:
        self.username = username or None
        self.client_id = client_id
        self.renew(rights)

    def renew(self, rights: Rights) -> None:
        """Go by the rules of another file from now on."""
        self._rights = rights
        self._stages: tuple[Stage, ...] | None = None
        self._readable: dict[bytes, bool] = {}
        self._writable: dict[bytes, bool] = {}

    def may_read(self, topic: bytes) -> bool:
        """Return whether the client may be sent messages of a topic (in UTF-8)."""
        known = self._readable.get(topic)
        return self._decide(topic, self._readable, is_write=False) if known is None else known

    def may_write(self, topic: bytes) -> bool:
        """Return whether the client may publish to a topic (in UTF-8)."""
        known = self._writable.get(topic)
        return self._decide(topic, self._writable, is_write=True) if known is None else known

    def may_subscribe(self, filter: str) -> bool:
        """Return whether there is a topic that matches a filter and that the client may read.

        mosquitto accepts every subscription, and a client that may read nothing of it never learns why nothing comes.
        Here it is told. Each message that is sent is still to be held against `may_read`.

        filter: may begin with `$share/<name>/`. Raises: ValueError, for one that is no filter.
        """
        if filter.startswith(_SHARED):
            filter = filter[len(_SHARED) :].partition("/")[2]
        wanted = TopicFilter(filter)
        if filter.startswith("$share"):
            return False
        if self._rights.allows_all:
            return True
        denied: tuple[TopicFilter, ...] = ()
        for stage in self._rules():
            denied += stage.denied
            if any(has_topic_outside(wanted, granted, denied) for granted in stage.read):
                return True
        return False

    def _rules(self) -> tuple[Stage, ...]:
        # Made when first asked for: a reload does not make those of all clients at once.
        if self._stages is None:
            self._stages = self._rights.stages_for(self.username, self.client_id)
        return self._stages

    def _decide(self, topic: bytes, decisions: dict[bytes, bool], *, is_write: bool) -> bool:
        if len(decisions) >= DECISIONS_MAX:
            decisions.clear()
        decisions[topic] = answer = self._look_up(topic, is_write=is_write)
        return answer

    def _look_up(self, topic: bytes, *, is_write: bool) -> bool:
        if topic.startswith(b"$share"):
            return False
        if is_write and topic.startswith(b"$SYS") and is_of_server(topic):
            return False
        if self._rights.allows_all:
            return True
        for stage in self._rules():
            if any(one.matches(topic) for one in stage.denied):
                return False
            if any(one.matches(topic) for one in (stage.written if is_write else stage.read)):
                return True
        return False


def has_topic_outside(wanted: TopicFilter, granted: TopicFilter, denied: Iterable[TopicFilter]) -> bool:
    """Return whether a topic matches both of two filters and none of those denied.

    Where both filters have a wildcard, the best level of a topic is one that no rule names: it matches only the denied
    filters that have a wildcard there, which match all other levels, too. So one topic of each length is to be tried.
    """
    if not wanted.overlaps(granted):
        return False
    both = [one.levels for one in (wanted, granted)]
    near = [one for one in denied if one.overlaps(wanted) and one.overlaps(granted)]
    # A topic with a level more than any filter is like all longer ones.
    longest = max(len(one.levels) for one in (wanted, granted, *near)) + 1
    fewest = max(len(levels) - (levels[-1] == "#") for levels in both)
    most = min(longest if levels[-1] == "#" else len(levels) for levels in both)
    for length in range(max(fewest, 1), most + 1):
        named = [[level for level in levels[:length] if level != "#"] for levels in both]
        topic = "/".join(_level_of_both(*(levels[i : i + 1] for levels in named)) for i in range(length))
        if topic and not any(one.matches(topic) for one in near):
            return True
    return False


def _level_of_both(one: list[str], other: list[str]) -> str:
    """Return the level that two filters name at one place, each empty behind its end."""
    return next((level for level in (*one, *other) if level != "+"), _ANY_LEVEL)


def _fill(rule: Rule, username: str | None, client_id: str) -> Rule | None:
    """Return the rule of a pattern for a client; None when it is not for that client, or no topic can match."""
    text = rule.filter.text
    if not _PLACEHOLDER.search(text):
        return rule
    if username is None and "%u" in text:
        return None
    names = {"%c": client_id, "%u": username or ""}
    try:
        return Rule(rule.kind, TopicFilter(_PLACEHOLDER.sub(lambda found: names[found[0]], text)))
    except ValueError:  # too long for a topic, or a name that no text can have
        return None


def read_rights(path: Path) -> Rights:
    """Return the rules of an ACL file. An empty file forbids everything.

    Lines that begin with # are comments; words are separated by blanks, not tabs. mosquitto takes `topic deny` for a
    grant of the topic `deny`; here such a line is wrong, and `topic readwrite deny` grants it.
    Raises: FileFault, for the first line that is wrong.
    """
    of_users: dict[str | None, list[Rule]] = {}
    patterns: list[Rule] = []
    username: str | None = None
    for number, line in lines_of(path):
        word, _, rest = line.lstrip(" ").partition(" ")
        rest = rest.strip(BLANKS)
        if not word or line.startswith("#"):
            continue
        if word == "user":
            if not rest:
                raise FileFault(path, number, "`user` without a name; write user NAME")
            username = rest
        elif word in ("topic", "pattern"):
            rule = _parse_rule(path, number, word, rest)
            (patterns if word == "pattern" else of_users.setdefault(username, [])).append(rule)
        else:
            fault = f"{shown(word)} is none of user, topic, pattern; a comment begins with # in the first column"
            raise FileFault(path, number, fault)
    return Rights(of_users, patterns)


def _parse_rule(path: Path, number: int, word: str, rest: str) -> Rule:
    """Return the rule behind `topic` or `pattern`. Raises: FileFault."""
    kind, blank, text = rest.partition(" ")
    if not blank:
        kind, text = "readwrite", rest
        if text in ("", *_KINDS):
            fault = f"{shown(f'{word} {text}'.rstrip())} has no filter; write {word} [read|write|readwrite|deny] FILTER"
            raise FileFault(path, number, fault)
    if kind not in _KINDS:
        fault = f"{shown(kind)} is none of {', '.join(_KINDS)}; write one of them before a filter that has blanks"
        raise FileFault(path, number, fault)
    try:
        topic_filter = TopicFilter(text.strip(BLANKS))
    except ValueError as error:
        raise FileFault(path, number, str(error))
    if len(topic_filter.levels) > LEVELS_MAX:
        fault = f"a filter of {len(topic_filter.levels):,} levels; use at most {LEVELS_MAX}"
        raise FileFault(path, number, fault)
    return Rule(kind, topic_filter)
