"""What the clients of one restricted user may have executed, as quickly as that can be said."""

from collections.abc import Callable
from operator import itemgetter, methodcaller
from typing import Final

from streamd.acl.decision import OK, Decision, decide
from streamd.acl.selector import READ, WRITE, Selector
from streamd.acl.user import User
from streamd.acl.vocabulary import Vocabulary
from streamd.catalog.context import Command, CommandTable, Known, QuickTable
from streamd.catalog.named import CHANNELS, KEYS_BEFORE_LAST, bits_of, named_by

# So many names of keys are remembered as allowed, by each of a few sorts of commands; and no long ones.
KNOWN_KEYS_MAX: Final = 16_384
KNOWN_KEY_BYTES_MAX: Final = 256

# In the place of READ | WRITE: a name is that of a channel.
_CHANNEL: Final = -1

_SECOND: Final = itemgetter(1)
_NOTHING: Final = Known()

# Whether a request is allowed, going by what is prepared for its command. False: that has to be decided.
_Check = Callable[[list[bytes]], bool]


class _Names:
    """Names of keys, or of channels, that one of some selectors allows to be used in one way.

    known: which of them were allowed; once these are as many as are remembered, also how names begin that are allowed.
    """

    __slots__ = ("_prefixes", "_selectors", "_use", "known")

    def __init__(self, selectors: tuple[Selector, ...], use: int) -> None:
        """use: READ | WRITE, or _CHANNEL."""
        self._selectors = selectors
        self._use = use
        self._prefixes = () if use == _CHANNEL else tuple(one for each in selectors for one in each.prefixes(use))
        self.known = Known()

    def allows(self, name: bytes) -> bool:
        known = self.known
        if name in known.names or name.startswith(known.prefixes):
            return True
        use = self._use
        for selector in self._selectors:
            if selector.allows_channel(name, False) if use == _CHANNEL else selector.allows_key(name, use):
                if len(known.names) >= KNOWN_KEYS_MAX:
                    # (Where most names are new, remembering them takes longer than looking how they begin.)
                    known.prefixes = self._prefixes
                    if not self._prefixes:
                        known.names.clear()
                if len(name) <= KNOWN_KEY_BYTES_MAX and len(known.names) < KNOWN_KEYS_MAX:
                    known.names.add(name)
                return True
        return False


class Guard:
    """The rules of one user, as they are now, prepared for looking at requests. (Where they change, there is a new
    guard; see `Access` in the engine.)

    quick: the commands of which some use is allowed, for `Context.quick`. known: of those whose words must be looked
    at, name -> what is known of the first word, where that is the only key or channel of a request; a command that is
    not in it may have any words.
    """

    __slots__ = ("_checks", "_heads", "_vocabulary", "all_quick", "known", "quick", "user")

    def __init__(self, user: User, vocabulary: Vocabulary, commands: CommandTable, quick: QuickTable) -> None:
        self.user = user
        self._vocabulary = vocabulary
        self.known: dict[str, Known] = {}
        # None: any words. Commands that are not in it have to be decided.
        self._checks: dict[str, _Check | None] = {}
        self._heads: set[tuple[bytes, ...]] = set()
        groups: dict[tuple[tuple[Selector, ...], int], _Names] = {}
        for command in commands.leaves():
            selectors = tuple(one for one in user.selectors if one.commands & vocabulary.bit(command.name))
            if "no_auth" in command.flags:
                selectors = tuple(user.selectors)
            if any(_is_plain(command, one) for one in selectors):
                self._checks[command.name] = None
            elif selectors:
                self.known[command.name] = _NOTHING
                self._prepare(command, selectors, groups)
        allowed = self.known.keys() | self._checks.keys()
        self.all_quick = {name: command for name, command in quick.items() if command.name in allowed}
        self.quick: QuickTable = {}

    def _prepare(
        self, command: Command, selectors: tuple[Selector, ...], groups: dict[tuple[tuple[Selector, ...], int], _Names]
    ) -> None:
        """Prepare a look at a command's keys, or its channel; what several selectors allow together is decided."""

        def names(use: int) -> _Names:
            return groups.setdefault((selectors, use), _Names(selectors, use))

        if command.name in CHANNELS:
            if command.name.endswith("publish"):
                self._checks[command.name] = _check_one(1, names(_CHANNEL))
                self.known[command.name] = names(_CHANNEL).known
            return
        uses = bits_of(command)
        first, last, step = command.keys
        if command.name == "set":
            self._checks["set"] = _check_set(names(WRITE), names(READ | WRITE))
            self.known["set"] = names(READ | WRITE).known
        elif first and first == last and command.find_keys is None:
            self._checks[command.name] = _check_one(first, names(uses[0]))
            if first == 1:
                self.known[command.name] = names(uses[0]).known
        elif len(selectors) == 1:
            find = command.find_keys or itemgetter(slice(first, None if last == -1 else last + 1, step))
            if command.name == "sort":
                uses = [uses[0], uses[-1]]  # between them stand the patterns of BY and GET
            check = _check_many(find, [names(use) for use in uses])
            self._checks[command.name] = self._remembering(check) if command.name in KEYS_BEFORE_LAST else check

    def _remembering(self, check: _Check) -> _Check:
        """Return a check that remembers requests but for their last word, which is no key: who reads a stream, or waits
        for a group, says the same again and again, with another ID.
        """
        heads = self._heads

        def remembering(request: list[bytes]) -> bool:
            head = tuple(request[:-1])
            if head in heads:
                return True
            if not check(request):
                return False
            if sum(map(len, head)) <= KNOWN_KEY_BYTES_MAX:
                if len(heads) >= KNOWN_KEYS_MAX:
                    heads.clear()
                heads.add(head)
            return True

        return remembering

    def allows(self, command: Command, request: list[bytes]) -> bool:
        """Return whether the user may have a request executed, which has as many words as it must."""
        check = self._checks.get(command.name, _undecided)
        return check is None or check(request) or self.decide(command, request).reason is OK

    def decide(self, command: Command, request: list[bytes], every_key: int = 0) -> Decision:
        """Return what is refused, if anything; every_key: see acl.decision.decide."""
        return decide(self.user, named_by(self._vocabulary, command, request), every_key)

    def end_of_run(self, command: Command, requests: list[list[bytes]], at: int) -> int:
        """Return before which request a run must end that begins at requests[at], which is allowed: in front of one of
        the same command that is not.
        """
        end = len(requests)
        known = self.known.get(command.name)
        if known is None:
            return end
        try:
            if known.names.issuperset(map(_SECOND, requests[at:] if at else requests)):
                return end
        except IndexError:
            pass  # another command
        name = requests[at][0]
        for position in range(at, end):
            request = requests[position]
            if request[0] != name or not command.accepts(len(request)) or not self.allows(command, request):
                return position
        return end


def _undecided(request: list[bytes]) -> bool:
    return False


def _check_one(place: int, names: _Names) -> _Check:
    known = names.known

    def check(request: list[bytes]) -> bool:
        return request[place] in known.names or names.allows(request[place])

    return check


def _check_set(writing: _Names, both: _Names) -> _Check:
    """Return a check of SET, which reads only with GET."""
    known = both.known

    def check(request: list[bytes]) -> bool:
        key = request[1]
        if key in known.names or both.allows(key):
            return True
        return writing.allows(key) and (len(request) == 3 or b"GET" not in map(bytes.upper, request[3:]))

    return check


def _check_many(find_keys: Callable[[list[bytes]], list[bytes]], uses: list[_Names]) -> _Check:
    """uses: what is done to the keys that are found; the last is done to all that are more."""
    rest, count = uses[-1], len(uses)
    known = rest.known

    def check_alike(request: list[bytes]) -> bool:
        named = find_keys(request)
        if known.names.issuperset(named):
            return True
        if known.prefixes:
            begins = methodcaller("startswith", known.prefixes)
            return all(map(begins, named)) or all(map(rest.allows, named))
        return all(map(rest.allows, named))

    def check(request: list[bytes]) -> bool:
        named = find_keys(request)
        for use, key in zip(uses, named, strict=False):
            if not use.allows(key):
                return False
        return len(named) <= count or all(map(rest.allows, named[count:]))

    return check if count > 1 else check_alike


def _is_plain(command: Command, selector: Selector) -> bool:
    """Return whether a selector that allows a command allows it with any words."""
    has_keys = bool(command.keys[0]) or command.find_keys is not None
    return (selector.all_keys or not has_keys) and (selector.all_channels or command.name not in CHANNELS)
