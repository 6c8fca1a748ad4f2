"""What the clients of one restricted user may have executed, as quickly as that can be said."""

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Final

from streamd.acl.beginnings import ASKS_EACH, Beginnings
from streamd.acl.decision import OK, Decision, decide
from streamd.acl.selector import READ, WRITE, Selector
from streamd.acl.user import User
from streamd.acl.vocabulary import Vocabulary
from streamd.base.limits import GUARDED_RUN_MAX
from streamd.catalog.context import Check, Command, CommandTable, Known, QuickTable
from streamd.catalog.counted_keys import CountedKeys
from streamd.catalog.named import CHANNELS, KEYS_BEFORE_LAST, bits_of, named_by

# So many names of keys are remembered as allowed, by each of a few sorts of commands; and no long ones.
KNOWN_KEYS_MAX: Final = 16_384
KNOWN_KEY_BYTES_MAX: Final = 256

# For so many names it is quicker to look how they begin than whether they are known.
_MANY: Final = 64

_FIRST: Final = itemgetter(0)
_SECOND: Final = itemgetter(1)

_Covers = Callable[[list[list[bytes]]], bool]

# In the place of READ | WRITE: a name is that of a channel.
_CHANNEL: Final = -1


class _Names:
    """Names of keys, or of channels, that one of some selectors allows to be used in one way.

    known: which of them were allowed. beginnings: how names begin that are allowed; begins: the same once as many are
    known as are remembered, nothing before.
    """

    __slots__ = ("_selectors", "_use", "beginnings", "begins", "known")

    def __init__(self, selectors: tuple[Selector, ...], use: int) -> None:
        """use: READ | WRITE, or _CHANNEL."""
        self._selectors = selectors
        self._use = use
        self.beginnings = Beginnings(
            () if use == _CHANNEL else (one for each in selectors for one in each.prefixes(use))
        )
        self.known: set[bytes] = set()
        self.begins: tuple[bytes, ...] = ()

    def allows(self, name: bytes) -> bool:
        known = self.known
        if name in known or name.startswith(self.begins):
            return True
        use = self._use
        for selector in self._selectors:
            if selector.allows_channel(name, False) if use == _CHANNEL else selector.allows_key(name, use):
                if len(known) >= KNOWN_KEYS_MAX:
                    # (Where most names are new, remembering them takes longer than looking how they begin.)
                    self.begins = self.beginnings.prefixes
                    if not self.begins:
                        known.clear()
                if len(name) <= KNOWN_KEY_BYTES_MAX and len(known) < KNOWN_KEYS_MAX:
                    known.add(name)
                return True
        return False

    def allow_all(self, names: list[bytes]) -> bool:
        """Return whether all of several names are allowed."""
        return ((ASKS_EACH or bool(self.begins)) and self.beginnings.are_of_all(names)) or all(map(self.allows, names))

    def cover(self, names: Sequence[bytes]) -> bool:
        """Return True only if all of several names are allowed; False also where each has to be looked at."""
        # (To look how they begin needs nothing but the names: so compiled it is quicker, and for many of them in either
        # form. Where more names come than are remembered, to look for them is mostly in vain, which the first says.)
        if ASKS_EACH or len(names) >= _MANY:
            return self.beginnings.are_of_all(names) or (not self.begins and self.known.issuperset(names))
        return self.known.issuperset(names) or self.beginnings.are_of_all(names)


class Guard:
    """The rules of one user, as they are now, prepared for looking at requests. (Where they change, there is a new
    guard; see `Access` in the engine.)

    quick: the commands of which some use is allowed, for `Context.quick`. known: of those whose words must be looked
    at, by name, how that is done; a command that is not in it may have any words. names: of some of these, by their
    names in lower and in upper case, which first words are known to be allowed, whatever stands behind them.

    All of these are empty until `allows` is asked first: of a thousand users whose rules change at once, only those
    cost anything who then say something. (Until then nothing is quick, so `allows` comes before all other questions.)
    """

    __slots__ = (
        "_commands",
        "_every_quick",
        "_heads",
        "_is_restricted",
        "_plain",
        "_vocabulary",
        "all_quick",
        "is_prepared",
        "known",
        "names",
        "quick",
        "user",
    )

    def __init__(
        self, user: User, vocabulary: Vocabulary, commands: CommandTable, quick: QuickTable, is_restricted: bool
    ) -> None:
        """is_restricted: see `fill`."""
        self.user = user
        self._vocabulary = vocabulary
        self._commands = commands
        self._every_quick = quick
        self._is_restricted = is_restricted
        self.is_prepared = False
        self.known: dict[str, Known] = {}
        self._plain: set[str] = set()  # commands that may have any words
        self._heads: set[tuple[bytes, ...]] = set()
        self.names: dict[bytes, set[bytes]] = {}
        self.all_quick: QuickTable = {}
        self.quick: QuickTable = {}

    def fill(self, is_restricted: bool) -> None:
        """Have all requests looked at one by one, or no more. (In place: the tables are in the clients' hands.)"""
        self._is_restricted = is_restricted
        if is_restricted:
            self.quick.clear()
        elif not self.quick:
            self.quick.update(self.all_quick)

    def _prepare_all(self) -> None:
        user, vocabulary, quick = self.user, self._vocabulary, self._every_quick
        groups: dict[tuple[tuple[Selector, ...], int], _Names] = {}
        alike: dict[tuple[_Names, int], Known] = {}
        for command in self._commands.leaves():
            selectors = tuple(one for one in user.selectors if one.commands & vocabulary.bit(command.name))
            if "no_auth" in command.flags:
                selectors = tuple(user.selectors)
            if any(_is_plain(command, one) for one in selectors):
                self._plain.add(command.name)
            elif selectors:
                self.known[command.name] = self._prepare(command, selectors, groups, alike)
        known, plain = self.known, self._plain
        for word, command in quick.items():
            name = command.name
            if name in known:
                self.all_quick[word] = command
                if command.keys[0] == 1:
                    self.names[word] = known[name].names
            elif name in plain:
                self.all_quick[word] = command
        self.is_prepared = True
        self.fill(self._is_restricted)

    def _prepare(
        self,
        command: Command,
        selectors: tuple[Selector, ...],
        groups: dict[tuple[tuple[Selector, ...], int], _Names],
        alike: dict[tuple[_Names, int], Known],
    ) -> Known:
        """Return a look at a command's keys, or its channel; what several selectors allow together is decided. Commands
        that do the same to one key at one place have one look, for most do.
        """

        def names(use: int) -> _Names:
            found = groups.get((selectors, use))
            if found is None:
                found = groups[selectors, use] = _Names(selectors, use)
            return found

        if command.name in CHANNELS:
            if not command.name.endswith("publish"):
                return Known()
            return Known(_check_one(1, names(_CHANNEL)), names(_CHANNEL).known)
        uses = bits_of(command)
        first, last, step = command.keys
        if command.name == "set":
            both = names(READ | WRITE)
            return Known(_check_set(names(WRITE), both), both.known, _covers_one(1, both), both.cover)
        if first and first == last and command.find_keys is None:
            one = names(uses[0])
            look = alike.get((one, first))
            if look is None:
                known = one.known if first == 1 else set[bytes]()
                look = alike[one, first] = Known(_check_one(first, one), known, _covers_one(first, one), one.cover)
            return look
        if len(selectors) > 1:
            return Known()
        if command.name == "sort":
            uses = [uses[0], uses[-1]]  # between them stand the patterns of BY and GET
        ways = [names(use) for use in uses]
        find = command.find_keys or itemgetter(slice(first, None if last == -1 else last + 1, step))
        if len(ways) > 1:
            check = _check_several(find, ways)
        else:
            check = _check_counted(find, ways[0]) if isinstance(find, CountedKeys) else _check_many(find, ways[0])
        if command.name in KEYS_BEFORE_LAST:
            return Known(self._remembering(check))
        if len(ways) > 1 or not isinstance(find, (itemgetter, CountedKeys)):
            return Known(check)
        if command.find_keys is None and (first, last, step) == (1, -1, 1):
            return Known(_check_words(ways[0]), covers=_covers_words(find, ways[0]), is_wide=True)
        return Known(check, covers=_covers_many(find, ways[0]))

    def _remembering(self, check: Check) -> Check:
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
        if not self.is_prepared:
            self._prepare_all()
        known = self.known.get(command.name)
        if known is None:
            return command.name in self._plain or self.decide(command, request).reason is OK
        return known.check(request) or self.decide(command, request).reason is OK

    def decide(self, command: Command, request: list[bytes], every_key: int = 0) -> Decision:
        """Return what is refused, if anything; every_key: see acl.decision.decide."""
        return decide(self.user, named_by(self._vocabulary, command, request), every_key)

    def look_ahead(self, command: Command, requests: list[list[bytes]], at: int, since: int) -> tuple[int, int]:
        """Look at a run's requests together, from requests[at] on, as many as there were since requests[since]: that
        takes half as long as one after the other.

        Returns: before which request all of this command are allowed, and from where to count; 0 and the number of all
        requests if that cannot be told: then each is looked at, up to the next of another command.
        """
        end = min(2 * at - since, at + GUARDED_RUN_MAX)
        known = self.known.get(command.name)
        if known is None:
            return end, since
        run = requests[at:end]
        # (Compiled, each word is asked: the first of another command says so, too.)
        if not ASKS_EACH and known.is_wide and [*map(_FIRST, run)].count(run[0][0]) < len(run):
            return 0, at  # what they have in common is not enough
        if command.batch is None and known.covers(run):
            return end, since
        return 0, len(requests)

    def end_of_run(self, command: Command, requests: list[list[bytes]], at: int) -> int:
        """Return before which request a run must end that begins at requests[at], which is allowed: in front of one of
        the same command that is not.
        """
        end = len(requests)
        known = self.known.get(command.name)
        if known is None:
            return end
        run = requests[at:] if at else requests
        if ASKS_EACH and known.covers(run):
            return end
        try:
            if known.names.issuperset(map(_SECOND, run)):
                return end
        except IndexError:
            pass  # another command
        if not ASKS_EACH and known.covers(run):
            return end
        return self._end_of_allowed(command, requests, at)

    def count_allowed(self, command: Command, requests: list[list[bytes]], at: int, count: int) -> int:
        """Return how many of `count` requests are allowed that begin at requests[at], which is."""
        return self._end_of_allowed(command, requests[at : at + count], 0)

    def _end_of_allowed(self, command: Command, requests: list[list[bytes]], at: int) -> int:
        end, name = len(requests), requests[at][0]
        for position in range(at, end):
            request = requests[position]
            if request[0] != name or not command.accepts(len(request)) or not self.allows(command, request):
                return position
        return end


def _check_one(place: int, names: _Names) -> Check:
    known = names.known

    def check(request: list[bytes]) -> bool:
        name = request[place]
        return name in known or name.startswith(names.begins) or names.allows(name)

    return check


def _check_set(writing: _Names, both: _Names) -> Check:
    """Return a check of SET, which reads only with GET."""
    known = both.known

    def check(request: list[bytes]) -> bool:
        key = request[1]
        if key in known or both.allows(key):
            return True
        return writing.allows(key) and (len(request) == 3 or b"GET" not in map(bytes.upper, request[3:]))

    return check


def _check_many(find_keys: Callable[[list[bytes]], list[bytes]], names: _Names) -> Check:
    are_known = names.known.issuperset

    def check(request: list[bytes]) -> bool:
        named = find_keys(request)
        return are_known(named) or names.allow_all(named)

    return check


def _check_words(names: _Names) -> Check:
    """Return a check of a command all of whose words but the first are keys."""
    are_known, begin_all = names.known.issuperset, names.beginnings.are_of_all_words

    def check(request: list[bytes]) -> bool:
        if (ASKS_EACH or names.begins) and begin_all([request]):
            return True
        named = request[1:]
        return are_known(named) or names.allow_all(named)

    return check


def _check_counted(find_keys: CountedKeys, names: _Names) -> Check:
    """Return a check of a command that says how many keys it has: mostly one."""
    many = _check_many(find_keys, names)
    if find_keys.target:
        return many
    at, known = find_keys.at, names.known

    def check(request: list[bytes]) -> bool:
        if request[at] == b"1" and len(request) > at + 1:
            return request[at + 1] in known or names.allows(request[at + 1])
        return many(request)

    return check


def _check_several(find_keys: Callable[[list[bytes]], list[bytes]], uses: list[_Names]) -> Check:
    """uses: what is done to the keys that are found; the last is done to all that are more."""
    rest, count = uses[-1], len(uses)

    def check(request: list[bytes]) -> bool:
        named = find_keys(request)
        for use, key in zip(uses, named, strict=False):
            if not use.allows(key):
                return False
        return len(named) <= count or all(map(rest.allows, named[count:]))

    return check


def _covers_one(place: int, names: _Names) -> _Covers:
    """Return a look at requests of one key each."""
    find_key, cover = itemgetter(place), names.cover

    def covers(requests: list[list[bytes]]) -> bool:
        try:
            # (What is quicker, in either form.)
            return cover([request[place] for request in requests] if ASKS_EACH else [*map(find_key, requests)])
        except IndexError:
            return False  # one is of another command

    return covers


def _covers_words(find_keys: Callable[[list[bytes]], list[bytes]], names: _Names) -> _Covers:
    """Return a look at requests all of whose words but the first are keys, to all of which the same is done."""
    begin_all, are_known = names.beginnings.are_of_all_words, names.known.issuperset

    def covers(requests: list[list[bytes]]) -> bool:
        if ASKS_EACH and begin_all(requests):
            return True
        if not names.begins and all(map(are_known, map(find_keys, requests))):
            return True
        return not ASKS_EACH and begin_all(requests)

    return covers


def _covers_many(find_keys: Callable[[list[bytes]], list[bytes]], names: _Names) -> _Covers:
    """Return a look at requests of several keys each, to all of which the same is done."""
    cover = names.cover

    def covers(requests: list[list[bytes]]) -> bool:
        try:
            return cover([*chain.from_iterable(map(find_keys, requests))])
        except IndexError:
            return False

    return covers


def _is_plain(command: Command, selector: Selector) -> bool:
    """Return whether a selector that allows a command allows it with any words."""
    has_keys = bool(command.keys[0]) or command.find_keys is not None
    return (selector.all_keys or not has_keys) and (selector.all_channels or command.name not in CHANNELS)
