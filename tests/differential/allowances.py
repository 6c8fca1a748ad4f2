"""What replies may differ in: the rows of docs/differences.md, and nothing else.

FIELDS of a reply are left out, or compared with a tolerance. Requests that are UNFIT are not sent: their reply depends
on the moment at which a server looks at its clock, or on chance. RULES accept one particular pair of replies to one
particular request.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from streamd.connected.client import Client
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import SortedSet
from streamd.data.timed_hash import TimedHash
from streamd.stream.entry_id import ID_MAX
from streamd.stream.stream import Stream
from tests.differential.replies import Reply

# How far apart in milliseconds two times may be that are the same but for when the servers read their clocks. All times
# that requests name are further from each other.
TOLERANCE_MS = 120_000

_NO_NUMBER = -(2**64)  # what no request says


# -- fields -----------------------------------------------------------------------------------------------------------

NODE_FIELDS = {b"radix-tree-keys", b"radix-tree-nodes"}
TIME_FIELDS = {b"seen-time", b"active-time", b"idle", b"inactive"}
# Commands that reply a time, and its unit in milliseconds.
TIMES = {b"ttl": 1000, b"pttl": 1, b"expiretime": 1000, b"pexpiretime": 1}
TIMES_OF_FIELDS = {b"h" + name: unit_ms for name, unit_ms in TIMES.items()}
# Commands whose replies, or what comes second in them, have no order.
UNORDERED = {
    *(b"hkeys", b"hrandfield", b"hvals", b"keys", b"smembers", b"sinter", b"sunion", b"sdiff", b"spop", b"srandmember")
}
UNORDERED_SECOND = {b"hscan", b"scan", b"sscan", b"zscan"}

# A hash with times has its fields in another order, since Redis puts those first that end first.
PAIRS = {b"hgetall"}

FIELDS = {"radix-tree-*", "times", "order of keys and members"}


def same(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Return whether both replies to a request say the same, but for what may differ."""
    if theirs == ours:
        return True
    command = request[0].lower()
    sub = request[1].lower() if len(request) > 1 else b""
    if command == b"xinfo" and sub in (b"stream", b"groups", b"consumers"):
        return _same_info(sub, theirs, ours)
    if command == b"xpending" and theirs.items is not None and ours.items is not None:
        return len(request) > 3 and _same_rows(theirs.items, ours.items, 2)
    if command == b"xreadgroup" and b"CLAIM" in map(bytes.upper, request) and _same_claimed(theirs, ours):
        return True
    if command in TIMES:
        return _close(theirs, ours, TIMES[command])
    if command in TIMES_OF_FIELDS and theirs.items is not None and ours.items is not None:
        unit_ms = TIMES_OF_FIELDS[command]
        return _all_same(theirs.items, ours.items, lambda one, other: _close(one, other, unit_ms))
    if command in PAIRS and theirs.items is not None and ours.items is not None:
        return theirs.kind == ours.kind and _sorted_pairs(theirs.items) == _sorted_pairs(ours.items)
    if command in UNORDERED:
        return _sorted(theirs) == _sorted(ours)
    if command in UNORDERED_SECOND and theirs.items is not None and ours.items is not None:
        theirs, ours = _without_negative_zero(theirs), _without_negative_zero(ours)  # (of ZSCAN)
        return len(theirs.items or ()) == 2 and [*map(_sorted, theirs.items or ())] == [*map(_sorted, ours.items or ())]
    return any(rule(request, theirs, ours) for rule in RULES.values())


def _same_claimed(theirs: Reply, ours: Reply) -> bool:
    """Compare entries of a claiming XREADGROUP, the third of whose elements is their idle time."""
    if theirs.items is None or ours.items is None:
        return theirs == ours
    if len(theirs.items) == len(ours.items) == 4 and theirs.items[2].kind == b":":
        return _same_rows([theirs], [ours], 2)
    return theirs.kind == ours.kind and _all_same(theirs.items, ours.items, _same_claimed)


def _same_info(sub: bytes, theirs: Reply, ours: Reply) -> bool:
    """Compare two replies of XINFO, by field."""
    if theirs.items is None or ours.items is None:
        return theirs == ours
    return _same_fields(theirs, ours) if sub == b"stream" else _all_same(theirs.items, ours.items, _same_fields)


def _same_fields(theirs: Reply, ours: Reply) -> bool:
    left = list(ours.fields())
    right = list(theirs.fields())
    if theirs.kind != ours.kind or [name for name, _ in left] != [name for name, _ in right]:
        return False
    for (name, value), (_, other) in zip(left, right, strict=True):
        if name in NODE_FIELDS:
            continue
        if name in TIME_FIELDS:
            if not _close(value, other, 1):
                return False
        elif name in (b"groups", b"consumers") and value.items is not None and other.items is not None:
            if not _all_same(other.items, value.items, _same_fields):
                return False
        elif name == b"pending" and value.items is not None and other.items is not None:
            # Of the group: ID, consumer, time, count. Of a consumer: ID, time, count.
            if not _same_rows(other.items, value.items, -2):
                return False
        elif value != other:
            return False
    return True


def _all_same(theirs: list[Reply], ours: list[Reply], same_item: Callable[[Reply, Reply], bool]) -> bool:
    return len(theirs) == len(ours) and all(map(same_item, theirs, ours))


def _same_rows(theirs: list[Reply], ours: list[Reply], time_at: int) -> bool:
    """Compare arrays in each of which one element is a time."""

    def same_row(one: Reply, other: Reply) -> bool:
        left, right = list(one.items or ()), list(other.items or ())
        if not left or len(left) != len(right):
            return False
        return _close(left.pop(time_at), right.pop(time_at), 1) and left == right

    return _all_same(theirs, ours, same_row)


def _close(theirs: Reply, ours: Reply, unit_ms: int) -> bool:
    """Return whether two integers are times of so many milliseconds that may be the same; -1 and -2 are none."""
    if theirs.kind != b":" or ours.kind != b":":
        return theirs == ours
    one, other = int(theirs.text), int(ours.text)
    return one == other or (one >= 0 <= other and abs(one - other) * unit_ms <= TOLERANCE_MS)


def _sorted_pairs(items: list[Reply]) -> list[tuple[bytes, bytes]]:
    return sorted(zip((item.text for item in items[::2]), (item.text for item in items[1::2]), strict=True))


def _sorted(reply: Reply) -> tuple[bytes, list[tuple]]:
    return reply.kind, sorted(map(_contents, reply.items or ()))


def _contents(reply: Reply) -> tuple:
    return reply.text, tuple(map(_contents, reply.items or ()))


# -- requests that are not sent ---------------------------------------------------------------------------------------


def is_unfit(request: list[bytes], client: Client, alone: bool) -> bool:
    """Return whether a request would be answered by the clock, or by chance.

    alone: nothing goes with it that may put another stream under the key.
    """
    words = [word.upper() for word in request]
    if any(unfit(words) for unfit in UNFIT.values()):
        return True
    value = client.db.values.get(request[1]) if len(request) > 2 else None
    if not alone or client.waiter is not None or client.transaction is not None:
        if words[0] in _RELATIVE and not {b"GT", b"LT"}.isdisjoint(words):
            return True
        value = None
    return any(unfit(words, value, client) for unfit in UNFIT_NOW.values())


def _takes_clock(words: list[bytes], value: object, client: Client) -> bool:
    """Whether an ID would come from the clock: `*` is sent only behind an ID of the far future."""
    last_id = value.last_id if isinstance(value, Stream) else 0
    return words[0] == b"XADD" and b"*" in words[2:] and last_id >> 64 <= client.now_ms + TOLERANCE_MS


def _stores_where_one_waits(words: list[bytes], value: object, client: Client) -> bool:
    """Whether a result may come to a key of another type for which a pop waits: that wakes nobody there."""
    said = words if words[0].startswith(b"EVAL") else words[:1]
    return any(word.endswith(b"STORE") for word in said) and (bool(client.db.waiting) or client.transaction is not None)


# Commands that give a time from now on, and its unit in milliseconds.
_RELATIVE = {b"EXPIRE": 1000, b"PEXPIRE": 1, b"HEXPIRE": 1000, b"HPEXPIRE": 1}


def _moves_a_time_a_little(words: list[bytes], value: object, client: Client) -> bool:
    """Whether a time is compared with one that it equals but for when the servers read their clocks."""
    if words[0] not in _RELATIVE or {b"GT", b"LT"}.isdisjoint(words):
        return False
    due_ms = client.now_ms + _number(words[2]) * _RELATIVE[words[0]]
    others = [client.db.expires_ms.get(words[1])] if value is None or not isinstance(value, TimedHash) else []
    others += value.times.due_ms.values() if isinstance(value, TimedHash) else []
    return any(other is not None and abs(other - due_ms) <= TOLERANCE_MS for other in others)


def _ranges_by_word(words: list[bytes], value: object, client: Client) -> bool:
    """Whether members of several scores are looked for by their words: what is found then is not said."""
    if not any(word.endswith(b"BYLEX") or word == b"ZLEXCOUNT" for word in words):
        return False
    sets = [one for word in words if isinstance(one := client.db.values.get(word.lower()), SortedSet)]
    return any(len(set(one.scores.values())) > 1 for one in sets)


def _may_go_on(words: list[bytes], value: object, client: Client) -> bool:
    """Whether SCAN may leave out keys of a table of more than eight rows: without COUNT it looks at about ten."""
    return words[0] == b"SCAN" and not _behind(words, b"COUNT") and len(client.db.values) > 8


def _moves_a_group_while_one_waits(words: list[bytes], value: object, client: Client) -> bool:
    """Whether XGROUP SETID may make entries readable for a waiting CLAIM, which Redis executes again now and then."""
    return words[:2] == [b"XGROUP", b"SETID"] and (bool(client.db.waiting) or client.transaction is not None)


def _records_an_old_name(words: list[bytes], value: object, client: Client) -> bool:
    """Whether XIDMPRECORD would note a name whose time may have passed: Redis forgets it with its next job."""
    if words[0] != b"XIDMPRECORD" or len(words) < 5:
        return False
    return _number(words[4].partition(b"-")[0]) < client.now_ms


def _has_no_id_left(words: list[bytes], value: object, client: Client) -> bool:
    """Whether a named XADD is refused for want of an ID: Redis counts its producer then."""
    return words[0] == b"XADD" and _is_full(value) and not {b"IDMP", b"IDMPAUTO"}.isdisjoint(words[2:])


def _is_full(value: object) -> bool:
    return isinstance(value, Stream) and value.last_id == ID_MAX


def _leaves_a_set_as_it_is(words: list[bytes], value: object, client: Client) -> bool:
    """Whether SORT shows a set in the order that it happens to have: the pattern of BY has no asterisk."""
    if words[0] not in (b"SORT", b"SORT_RO") or not any(b"*" not in word for word in _behind(words, b"BY")):
        return False
    return value is None or isinstance(value, MemberSet)


def _number(word: bytes) -> int:
    try:
        return int(word)
    except ValueError:
        return _NO_NUMBER


def _soon(words: Iterable[bytes], limit: int = TOLERANCE_MS) -> bool:
    return any(0 < _number(word) <= limit for word in words)


def _behind(words: list[bytes], *options: bytes) -> list[bytes]:
    return [words[at + 1] for at in range(len(words) - 1) if words[at] in options]


def _ends_soon(words: list[bytes]) -> bool:
    if words[0] in (b"EXPIRE", b"SETEX", b"HEXPIRE"):
        return _soon(words[2:3], 60)
    if words[0] in (b"PEXPIRE", b"PSETEX", b"HPEXPIRE"):
        return _soon(words[2:3], 60_000)
    if words[0] in (b"SET", b"GETEX", b"MSETEX", b"INCREX", b"HSETEX", b"HGETEX"):
        return _soon(_behind(words, b"EX"), 60) or _soon(_behind(words, b"PX"), 60_000)
    if words[0] in _WAITS_BEHIND and len(words) > 1:
        return 0 < _fraction(words[_WAITS_BEHIND[words[0]]]) * 1000 <= TOLERANCE_MS
    return words[0] in (b"XREAD", b"XREADGROUP") and _soon(_behind(words, b"BLOCK"))


# Where the seconds stand that a pop waits.
_WAITS_BEHIND = {
    **dict.fromkeys((b"BLPOP", b"BRPOP", b"BRPOPLPUSH", b"BLMOVE", b"BZPOPMIN", b"BZPOPMAX"), -1),
    **dict.fromkeys((b"BLMPOP", b"BZMPOP"), 1),
}


def _fraction(word: bytes) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0


def _claims_twice(words: list[bytes]) -> bool:
    """Whether a stream may be claimed from twice in one millisecond."""
    if words[0] != b"XREADGROUP" or b"CLAIM" not in words or b"STREAMS" not in words:
        return False
    behind = words[words.index(b"STREAMS") + 1 :]
    keys = behind[: len(behind) // 2]
    return len(set(keys)) < len(keys)


def _measures_idle(words: list[bytes]) -> bool:
    if words[0] in (b"XCLAIM", b"XAUTOCLAIM"):
        return _soon(words[4:5]) or _soon(_behind(words, b"IDLE"))
    return words[0] == b"XPENDING" and _soon(_behind(words, b"IDLE"))


def _asks_for_several(words: list[bytes]) -> bool:
    return words[:2] == [b"CONFIG", b"GET"] and any(set(word) & set(b"*?[") for word in words[2:])


def _goes_on(words: list[bytes]) -> bool:
    at = {b"SCAN": 1, b"HSCAN": 2, b"ZSCAN": 2, b"SSCAN": 2}.get(words[0], len(words))
    return _number(words[at]) not in (0, _NO_NUMBER) if at < len(words) else False


def _chooses(words: list[bytes]) -> bool:
    """Whether a server would choose: all members, none, or those of a key that nobody writes are no choice."""
    if words[0] not in (b"SPOP", b"SRANDMEMBER", b"ZRANDMEMBER", b"HRANDFIELD") or words[1:2] == [b"NOTHING"]:
        return False
    return len(words) < 3 or _number(words[2]) < 0 or 0 < _number(words[2]) < 100


UNFIT: dict[str, Callable[[list[bytes]], bool]] = {
    "times": lambda words: _ends_soon(words) or _measures_idle(words) or _claims_twice(words),
    "cursors": _goes_on,
    "CONFIG GET of several": _asks_for_several,
    "random choices": _chooses,
    "SYNC": lambda words: words[0] in (b"SYNC", b"PSYNC"),
}

UNFIT_NOW: dict[str, Callable[[list[bytes], object, Client], bool]] = {
    "cursors": _may_go_on,
    "times": lambda words, value, client: (
        _takes_clock(words, value, client) or _moves_a_time_a_little(words, value, client)
    ),
    "ranges by words": _ranges_by_word,
    "a group that is set back": _moves_a_group_while_one_waits,
    "a result over another type": _stores_where_one_waits,
    "a name without an ID": _has_no_id_left,
    "end of a name's time, `XADD ... IDMP`": _records_an_old_name,
    "order of keys and members": _leaves_a_set_as_it_is,
}

# -- pairs of replies -------------------------------------------------------------------------------------------------


def _negative_zero(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a reply shows -0 for a score, as Redis does where it is not kept in a listpack, and streamd 0."""
    shows_scores = request[0].upper().startswith((b"Z", b"BZ", b"EVAL"))
    return shows_scores and _without_negative_zero(theirs) == _without_negative_zero(ours)


def _without_negative_zero(reply: Reply) -> Reply:
    if reply.items is not None:
        return replace(reply, items=[_without_negative_zero(item) for item in reply.items])
    return replace(reply, text=b"0") if reply.text == b"-0" else reply


# Names of encodings, the most compact first.
_ENCODINGS = [b"int", b"intset", b"embstr", b"listpack", b"listpackex", b"quicklist", b"skiplist", b"hashtable", b"raw"]


def _was_larger(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether Redis names a less compact encoding, as it does of a value that was larger or was changed in place."""
    if [word.upper() for word in request[:2]] != [b"OBJECT", b"ENCODING"]:
        return False
    if theirs.text not in _ENCODINGS or ours.text not in _ENCODINGS:
        return False
    return _ENCODINGS.index(theirs.text) > _ENCODINGS.index(ours.text)


def _names_keys_all_the_same(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a user's read that is malformed was refused for its keys, where Redis found none."""
    return refuses_a_key(request, ours) and theirs.kind == b"-" and theirs.text.startswith(b"ERR ")


# Where the number of keys stands in a request.
_NUMBERS_AT = {
    **dict.fromkeys((b"EVAL", b"EVAL_RO", b"EVALSHA", b"EVALSHA_RO", b"FCALL", b"FCALL_RO"), 2),
    **dict.fromkeys((b"ZUNIONSTORE", b"ZINTERSTORE", b"ZDIFFSTORE", b"BLMPOP", b"BZMPOP"), 2),
    **dict.fromkeys((b"ZUNION", b"ZINTER", b"ZDIFF", b"ZINTERCARD", b"ZMPOP"), 1),
    **dict.fromkeys((b"LMPOP", b"SINTERCARD", b"SUNIONCARD", b"SDIFFCARD"), 1),
}


def _finds_keys_of_no_number(request: list[bytes], theirs: Reply, ours: Reply) -> bool:
    """Whether a user was refused for keys behind a word that is no number for the command, such as 01."""
    if not finds_keys(request, theirs):
        return False
    return ours.kind == b"-" and not ours.text.startswith(b"NOPERM")


def finds_keys(request: list[bytes], theirs: Reply) -> bool:
    """Whether Redis refused a request for keys behind a word that is no number."""
    at = _NUMBERS_AT.get(request[0].upper(), 0)
    if not at or len(request) <= at or theirs.kind + theirs.text != b"-NOPERM No permissions to access a key":
        return False
    return request[at] != b"%d" % _number(request[at])


def refuses_a_key(request: list[bytes], ours: Reply) -> bool:
    """Whether a user's read is refused for its keys."""
    if request[0].upper() not in (b"XREAD", b"XREADGROUP"):
        return False
    return ours.kind == b"-" and ours.text == b"NOPERM No permissions to access a key"


RULES: dict[str, Callable[[list[bytes], Reply, Reply], bool]] = {
    "a score of -0": _negative_zero,
    "OBJECT ENCODING": _was_larger,
    "keys of a malformed XREADGROUP": _names_keys_all_the_same,
    "keys behind a word that is no number": _finds_keys_of_no_number,
}

ALLOWED = {*FIELDS, *UNFIT, *UNFIT_NOW, *RULES}
