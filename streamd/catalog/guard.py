"""What the clients of one restricted user may have executed, as quickly as that can be said."""

from operator import itemgetter
from typing import Final

from streamd.acl.decision import OK, Decision, decide
from streamd.acl.selector import Selector
from streamd.acl.user import User
from streamd.acl.vocabulary import Vocabulary
from streamd.catalog.context import Command, CommandTable, QuickTable
from streamd.catalog.named import CHANNELS, bits_of, keys_of, named_by

# So many names of keys are remembered as allowed, by each of a few sorts of commands; and no long ones.
KNOWN_KEYS_MAX: Final = 16_384
KNOWN_KEY_BYTES_MAX: Final = 256

# A run is looked at so far ahead: if much of it has to be executed one by one, it is looked at again.
RUN_MAX: Final = 128

_SECOND: Final = itemgetter(1)
_NOTHING: Final[frozenset[bytes]] = frozenset()


class _Keys:
    """Keys that one of some selectors allows to be accessed in one way."""

    __slots__ = ("access", "known", "selectors")

    def __init__(self, selectors: tuple[Selector, ...], access: int) -> None:
        self.selectors = selectors
        self.access = access
        self.known: set[bytes] = set()

    def allows(self, key: bytes) -> bool:
        if key in self.known:
            return True
        for selector in self.selectors:
            if selector.allows_key(key, self.access):
                if len(key) <= KNOWN_KEY_BYTES_MAX:
                    if len(self.known) >= KNOWN_KEYS_MAX:
                        self.known.clear()
                    self.known.add(key)
                return True
        return False


class Guard:
    """The rules of one user, as they are now, prepared for looking at requests. (Where they change, there is a new
    guard; see `Access` in the engine.)

    quick: the commands of which some use is allowed, for `Context.quick`.
    known: of those whose words must be looked at, name -> first words that are allowed as the only key of a request; a
    command that is not in it may have any words.
    """

    __slots__ = ("_keys", "_many", "_plain", "_requests", "_vocabulary", "all_quick", "known", "quick", "user")

    def __init__(self, user: User, vocabulary: Vocabulary, commands: CommandTable, quick: QuickTable) -> None:
        self.user = user
        self._vocabulary = vocabulary
        self.known: dict[str, set[bytes] | frozenset[bytes]] = {}
        self._plain: set[str] = set()
        self._keys: dict[str, tuple[int, _Keys]] = {}  # of commands with one key: its place, and what is known
        self._many: dict[str, _Keys] = {}  # of commands with several, that do the same to all
        self._requests: set[tuple[bytes, ...]] = set()
        groups: dict[tuple[tuple[Selector, ...], int], _Keys] = {}
        allowed: set[str] = set()
        for command in commands.leaves():
            selectors = tuple(one for one in user.selectors if one.commands & vocabulary.bit(command.name))
            if "no_auth" in command.flags:
                selectors = tuple(user.selectors)
            if not selectors:
                continue
            allowed.add(command.name)
            if any(_is_plain(command, one) for one in selectors):
                self._plain.add(command.name)
                continue
            self.known[command.name] = _NOTHING
            if command.name in CHANNELS:
                continue
            bits = bits_of(command)
            keys = groups.setdefault((selectors, bits[0]), _Keys(selectors, bits[0]))
            first, last, _ = command.keys
            if first and first == last and command.find_keys is None:
                self._keys[command.name] = first, keys
                if first == 1:
                    self.known[command.name] = keys.known
            elif len(bits) == 1 and len(selectors) == 1:
                self._many[command.name] = keys
        self.all_quick = {name: command for name, command in quick.items() if command.name in allowed}
        self.quick: QuickTable = {}

    def allows(self, command: Command, request: list[bytes]) -> bool:
        """Return whether the user may have a request executed, which has as many words as it must."""
        name = command.name
        if name in self._plain:
            return True
        one = self._keys.get(name)
        if one is not None:
            if one[1].allows(request[one[0]]):
                return True
        else:
            many = self._many.get(name)
            if many is not None and self._allows_many(many, command, request):
                return True
        return self.decide(command, request).reason is OK

    def _allows_many(self, many: _Keys, command: Command, request: list[bytes]) -> bool:
        """Return whether all keys of a request are allowed; of one whose keys must be searched for, all its words are
        remembered: who waits in XREADGROUP says the same again and again.
        """
        if command.find_keys is None:
            keys = keys_of(command, request)
            return many.known.issuperset(keys) or all(map(many.allows, keys))
        words = tuple(request)
        if words in self._requests:
            return True
        if not all(map(many.allows, command.find_keys(request))):
            return False
        if sum(map(len, words)) <= KNOWN_KEY_BYTES_MAX:
            if len(self._requests) >= KNOWN_KEYS_MAX:
                self._requests.clear()
            self._requests.add(words)
        return True

    def decide(self, command: Command, request: list[bytes], every_key: int = 0) -> Decision:
        """Return what is refused, if anything; every_key: see acl.decision.decide."""
        return decide(self.user, named_by(self._vocabulary, command, request), every_key)

    def end_of_run(self, command: Command, requests: list[list[bytes]], at: int, end: int) -> int:
        """Return before which request, `end` or an earlier one, a run must end that begins at requests[at], which is
        allowed: in front of one of the same command that is not.
        """
        known = self.known.get(command.name)
        if known is None:
            return end
        end = min(end, at + RUN_MAX)
        try:
            if known.issuperset(map(_SECOND, requests if end - at == len(requests) else requests[at:end])):
                return end
        except IndexError:
            pass  # another command
        name = requests[at][0]
        for position in range(at, end):
            request = requests[position]
            if request[0] != name or not command.accepts(len(request)) or not self.allows(command, request):
                return position
        return end


def _is_plain(command: Command, selector: Selector) -> bool:
    """Return whether a selector that allows a command allows it with any words."""
    has_keys = bool(command.keys[0]) or command.find_keys is not None
    return (selector.all_keys or not has_keys) and (selector.all_channels or command.name not in CHANNELS)
