"""SORT: sorts the elements of a list, set or sorted set, also by values of keys that are named after them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from streamd.acl.selector import READ
from streamd.base.errors import CommandError, SyntaxError_, WrongType
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_double
from streamd.commands.keys.results import store_result
from streamd.data.element_list import ElementList
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.types import LIST, STRING
from streamd.resp.types import Reply

_NO_NUMBER = "ERR One or more scores can't be converted into double"


@dataclass(slots=True)
class _Asked:
    """The options of a request; gets: patterns of returned values, the element itself without any."""

    by: bytes | None = None
    offset: int = 0
    count: int = -1
    gets: list[bytes] = field(default_factory=list)
    descending: bool = False
    as_words: bool = False
    target: bytes | None = None

    @property
    def sorts(self) -> bool:
        """Whether elements are sorted: not with a pattern without an asterisk."""
        return self.by is None or b"*" in self.by


def _check_every_key(context: Context, args: list[bytes], option: str) -> None:
    """Check whether the client may read all keys: patterns may name any. Raises: CommandError."""
    guard = context.guard
    if guard is not None:
        command = context.services.commands[args[0].lower()]
        if guard.decide(command, args, every_key=READ).reason != "ok":
            raise CommandError(f"ERR {option} option of SORT denied due to insufficient ACL permissions.")


def _parse(context: Context, args: list[bytes], stores: bool) -> _Asked:
    asked = _Asked()
    words = Arguments(args, 2)
    while words.left():
        if words.flag(b"ASC"):
            asked.descending = False
        elif words.flag(b"DESC"):
            asked.descending = True
        elif words.flag(b"ALPHA"):
            asked.as_words = True
        elif words.flag(b"LIMIT", followed_by=2):
            asked.offset, asked.count = words.integer(), words.integer()
        elif stores and words.flag(b"STORE", followed_by=1):
            asked.target = words.word()
        elif words.flag(b"BY", followed_by=1):
            asked.by = words.word()
            if asked.sorts:
                _check_every_key(context, args, "BY")
        elif words.flag(b"GET", followed_by=1):
            _check_every_key(context, args, "GET")
            asked.gets.append(words.word())
        else:
            raise SyntaxError_()
    return asked


def _looked_up(context: Context, pattern: bytes, element: bytes) -> bytes | None:
    """Return the value of the key that a pattern names for an element, or of the field behind `->`; or None."""
    if pattern == b"#":
        return element
    head, asterisk, tail = pattern.partition(b"*")
    if not asterisk:
        return None
    # An arrow is one only behind the asterisk, and in front of a name.
    name, arrow, hash_field = tail.partition(b"->")
    if not (arrow and hash_field):
        name, hash_field = tail, b""
    value = context.db.read(head + element + name)
    if hash_field:
        return value.get(hash_field) if isinstance(value, Hash) else None
    if not isinstance(value, bytes | GrowingString):
        return None
    assert STRING.plain is not None
    return STRING.plain(value)


def _elements(context: Context, key: bytes, asked: _Asked) -> list[bytes]:
    value = context.db.read(key)
    if value is None:
        return []
    if isinstance(value, SortedSet):
        members = value.members(0, len(value))
        return members[::-1] if asked.descending and not asked.sorts else members
    if isinstance(value, ElementList | MemberSet):
        elements = list(value)
        if isinstance(value, ElementList) and asked.descending and not asked.sorts:
            elements.reverse()
        # What has no order gets one where it is stored, and for scripts, which are to do the same each time.
        if not asked.sorts and isinstance(value, MemberSet) and (asked.target is not None or context.is_script):
            elements.sort(reverse=asked.descending)
        return elements
    raise WrongType()


def _sort(context: Context, elements: list[bytes], asked: _Asked) -> list[bytes]:
    """Return the elements in the wanted order. Raises: CommandError.

    Equal numbers are ordered by the elements' bytes; equal words keep their order.
    """
    pattern = asked.by

    def weight(element: bytes) -> bytes | None:
        return element if pattern is None else _looked_up(context, pattern, element)

    key: Callable[[bytes], tuple[object, ...]]
    if asked.as_words:

        def key(element: bytes) -> tuple[object, ...]:
            word = weight(element)
            return (word is not None, word or b"")

    else:
        error = CommandError(_NO_NUMBER)

        def key(element: bytes) -> tuple[object, ...]:
            word = weight(element)
            return (0.0 if word is None else parse_double(word, error), element)

    return sorted(elements, key=key, reverse=asked.descending)


def _run(context: Context, args: list[bytes], stores: bool) -> Reply:
    asked = _parse(context, args, stores)
    elements = _elements(context, args[1], asked)
    if asked.sorts:
        elements = _sort(context, elements, asked)
    start = max(0, asked.offset)
    elements = elements[start:] if asked.count < 0 else elements[start : start + asked.count]
    found: list[bytes | None] = list(elements)
    if asked.gets:
        found = [_looked_up(context, pattern, element) for element in elements for pattern in asked.gets]
    if asked.target is None:
        return found
    words = ElementList([word or b"" for word in found])
    return store_result(context, asked.target, LIST, words, "l", "sortstore", changes=len(words))


def _keys(request: list[bytes]) -> list[bytes]:
    """Return the key that is sorted, and the one behind the last STORE."""
    found, at = [request[1]], 2
    while at < len(request) - 1:
        option = request[at].upper()
        if option == b"STORE":
            found[1:] = [request[at + 1]]
        at += {b"STORE": 2, b"BY": 2, b"GET": 2, b"LIMIT": 3}.get(option, 1)
    return found


_SYNTAX = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"
_COMPLEXITY = "O(N*log(N)), N the elements"
_CATEGORIES = "set sortedset list dangerous"


@command(
    "SORT", arity=-2, flags="write denyoom", keys=(1, 1, 1), since="1.0.0", complexity=_COMPLEXITY, group="generic",
    acl=_CATEGORIES, syntax=f"{_SYNTAX} [STORE destination]", access="RO access; RO access; OW update", find_keys=_keys,
)  # fmt: skip
def sort(context: Context, args: list[bytes]) -> Reply:
    """Return the sorted elements of a list, set or sorted set, or store them at a key."""
    return _run(context, args, stores=True)


@command(
    "SORT_RO", arity=-2, flags="readonly", keys=(1, 1, 1), since="7.0.0", complexity=_COMPLEXITY, group="generic",
    acl=_CATEGORIES, syntax=_SYNTAX, access="RO access; RO access", find_keys=lambda request: [request[1]],
)  # fmt: skip
def sort_ro(context: Context, args: list[bytes]) -> Reply:
    """Return the sorted elements of a list, set or sorted set."""
    return _run(context, args, stores=False)
