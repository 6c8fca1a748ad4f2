"""A quick check of the requests of one restricted user's clients against the rules of that user."""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Final

from streamd.acl.beginnings import ASKS_EACH, Beginnings
from streamd.acl.decision import OK, Decision, decide
from streamd.acl.selector import READ, WRITE, Selector
from streamd.acl.user import User
from streamd.acl.vocabulary import Vocabulary
from streamd.catalog.context import Command, CommandTable, QuickTable
from streamd.catalog.named import CHANNELS, bits_of, named_by

# So many names of keys are remembered as allowed, by each of a few sorts of commands; and no long ones.
KNOWN_KEYS_MAX: Final = 16_384
KNOWN_KEY_BYTES_MAX: Final = 256

_SECOND: Final = itemgetter(1)

# In the place of READ | WRITE: a name is that of a channel.
_CHANNEL: Final = -1


class _Names:
    """Names of keys, or of channels, that one of some selectors allows to be used in one way.

    known: names that were allowed before. beginnings: a name that begins with one of them is allowed.
    """

    __slots__ = ("_selectors", "_use", "beginnings", "known")

    def __init__(self, selectors: tuple[Selector, ...], use: int) -> None:
        """use: READ | WRITE, or _CHANNEL."""
        self._selectors = selectors
        self._use = use
        self.beginnings = Beginnings(
            () if use == _CHANNEL else [one for each in selectors for one in each.prefixes(use)]
        )
        self.known: set[bytes] = set()

    def allows(self, name: bytes) -> bool:
        """Return whether a name is allowed, and remember it if it is."""
        known = self.known
        if name in known:
            return True
        begins = name.startswith(self.beginnings.prefixes)
        if not begins and not any(self._matches(one, name) for one in self._selectors):
            return False
        if len(known) >= KNOWN_KEYS_MAX and not begins:
            known.clear()
        if len(known) < KNOWN_KEYS_MAX and len(name) <= KNOWN_KEY_BYTES_MAX:
            known.add(name)
        return True

    def _matches(self, selector: Selector, name: bytes) -> bool:
        if self._use == _CHANNEL:
            return selector.allows_channel(name, False)
        return selector.allows_key(name, self._use)

    def allow_all(self, names: Sequence[bytes]) -> bool:
        """Return whether all of several names are allowed."""
        if len(names) == 1:
            return self.allows(names[0])
        known, begin_all = self.known, self.beginnings.are_of_all
        # (Compiled, to look how they begin is quicker than to look for them, and they need not be remembered.)
        if (ASKS_EACH and begin_all(names)) or known.issuperset(names):
            return True
        if ASKS_EACH or not begin_all(names):
            return all(map(self.allows, names))
        if len(known) + len(names) <= KNOWN_KEYS_MAX and len(max(names, key=len)) <= KNOWN_KEY_BYTES_MAX:
            known.update(names)
        return True


class _Look:
    """A check of the requests of one command: it finds their names, and whether the user may use them.

    uses: the uses of the names by the command, in their order; the last one holds for all further names.
    """

    __slots__ = ("_find", "_uses")

    def __init__(self, find: Callable[[list[bytes]], list[bytes]], uses: list[_Names]) -> None:
        self._find = find
        self._uses = uses

    def allows(self, request: list[bytes]) -> bool:
        """Return whether a request is allowed. False: it has to be decided."""
        names, uses = self._find(request), self._uses
        if len(uses) == 1:
            return uses[0].allow_all(names)
        return all(one.allows(name) for name, one in zip(names, chain(uses, repeat(uses[-1])), strict=False))


class Guard:
    """The present rules of one user, prepared for checks of requests. (When the rules change, there is a new guard; see
    `Access` in the engine.)

    quick: commands of which some use is allowed, for `Context.quick`. names: by the names of the commands whose words
    must be checked, the first words that are known to be allowed, with any words behind them; a quick command without
    names may have any words.

    Both are empty until the first call of `allows`: when the rules of a thousand users change at once, only users
    that then send requests cost anything. (Until then no command is quick, so `allows` is called before the rest.)
    """

    __slots__ = (
        "_commands",
        "_firsts",
        "_every_quick",
        "_looks",
        "_slow",
        "_vocabulary",
        "all_quick",
        "is_prepared",
        "names",
        "plain",
        "quick",
        "user",
    )

    def __init__(
        self,
        user: User,
        vocabulary: Vocabulary,
        commands: CommandTable,
        quick: QuickTable,
        slow: Sequence[bytes] | None,
    ) -> None:
        """slow: see `fill`."""
        self.user = user
        self._vocabulary = vocabulary
        self._commands = commands
        self._every_quick = quick
        self._slow = slow
        self.is_prepared = False
        self._looks: dict[str, _Look] = {}
        self._firsts: dict[str, _Names] = {}  # of commands whose first word is the only name
        self.plain: set[str] = set()  # commands that may have any words
        self.names: dict[str, set[bytes]] = {}
        self.all_quick: QuickTable = {}
        self.quick: QuickTable = {}

    def fill(self, slow: Sequence[bytes] | None) -> None:
        """Have requests with these words checked one by one, None: all requests. (In place, since the clients hold the
        tables.)
        """
        self._slow = slow
        fill_quick(self.quick, self.all_quick, slow)

    def _prepare_all(self) -> None:
        user, vocabulary = self.user, self._vocabulary
        found: dict[tuple[tuple[Selector, ...], int], _Names] = {}
        for command in self._commands.leaves():
            selectors = tuple(one for one in user.selectors if one.commands & vocabulary.bit(command.name))
            if "no_auth" in command.flags:
                selectors = tuple(user.selectors)
            if any(_is_plain(command, one) for one in selectors):
                self.plain.add(command.name)
            elif selectors:
                self._prepare(command, selectors, found)
        for word, command in self._every_quick.items():
            if command.name in self.names or command.name in self.plain:
                self.all_quick[word] = command
        self.is_prepared = True
        self.fill(self._slow)

    def _prepare(
        self,
        command: Command,
        selectors: tuple[Selector, ...],
        found: dict[tuple[tuple[Selector, ...], int], _Names],
    ) -> None:
        """Prepare a look at a command's keys, or channel; with several selectors, several keys are left to `decide`."""
        self.names[command.name] = set()
        first, last, step = command.keys
        find = command.find_keys or itemgetter(slice(first, None if last == -1 else last + 1, step))
        uses = bits_of(command)
        is_one = first == last and command.find_keys is None
        if command.name in CHANNELS:
            if not command.name.endswith("publish"):
                return
            find, uses, is_one, first = itemgetter(slice(1, 2)), [_CHANNEL], True, 1
        elif len(selectors) > 1 and not is_one:
            return
        elif command.name == "sort":
            uses = [uses[0], uses[-1]]  # between them stand the patterns of BY and GET
        elif command.name == "set":
            uses = [READ | WRITE]  # it reads only with GET, which is decided where the key may only be written
        for use in uses:
            if (selectors, use) not in found:
                found[selectors, use] = _Names(selectors, use)
        names = [found[selectors, use] for use in uses]
        self._looks[command.name] = _Look(find, names)
        if is_one and first == 1:
            self._firsts[command.name] = names[0]
            self.names[command.name] = names[0].known

    def allows(self, command: Command, request: list[bytes]) -> bool:
        """Return whether the user may run a request that fits the command's arity."""
        if not self.is_prepared:
            self._prepare_all()
        name = command.name
        look = self._looks.get(name)
        if look is not None and look.allows(request):
            return True
        return name in self.plain or self.decide(command, request).reason is OK

    def decide(self, command: Command, request: list[bytes], every_key: int = 0) -> Decision:
        """Return the decision on a request: its refusal, or OK; every_key: see acl.decision.decide."""
        return decide(self.user, named_by(self._vocabulary, command, request), every_key)

    def allows_keys(self, command: Command, keys: Sequence[bytes]) -> bool:
        """Return True only if the user may run requests with these keys as first words; False also where each of the
        requests has to be checked.
        """
        names = self._firsts.get(command.name)
        return names.allow_all(keys) if names is not None else command.name in self.plain

    def end_of_run(self, command: Command, requests: list[list[bytes]], at: int, end: int) -> int:
        """Return the index of the first of requests[at:end] that ends a run, as it is refused or of another command;
        `end` if none does.
        """
        try:
            if self.allows_keys(command, [*map(_SECOND, requests[at:end])]):
                return end
        except IndexError:
            pass  # another command
        name = requests[at][0]
        for position in range(at, end):
            request = requests[position]
            if request[0] != name or not command.accepts(len(request)) or not self.allows(command, request):
                return position
        return end


def fill_quick(quick: QuickTable, every: QuickTable, slow: Sequence[bytes] | None) -> None:
    """Fill a table with all that may be quick but the words in `slow`, with nothing for None."""
    quick.clear()
    if slow is not None:
        quick.update(every)
        for word in slow:
            quick.pop(word, None)


def _is_plain(command: Command, selector: Selector) -> bool:
    """Return whether a selector that allows a command allows it with any words."""
    has_keys = bool(command.keys[0]) or command.find_keys is not None
    return (selector.all_keys or not has_keys) and (selector.all_channels or command.name not in CHANNELS)
