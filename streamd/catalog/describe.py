"""The replies of COMMAND INFO and COMMAND DOCS for a command, in the shapes of redis-server 7.0.15."""

from typing import TYPE_CHECKING, Final

from streamd.acl.categories import CATEGORIES
from streamd.catalog import Command
from streamd.catalog.counted_keys import CountedKeys, KeysBehindWord
from streamd.resp.types import Reply, SetReply

if TYPE_CHECKING:
    from streamd.catalog.syntax import Argument

# Redis lists flags, like categories, in the order of their bits.
_FLAGS: Final = str.split(
    "write readonly denyoom module admin pubsub noscript blocking loading stale skip_monitor skip_slowlog asking fast "
    "no_auth may_replicate no_mandatory_keys no_async_loading no_multi movablekeys allow_busy script_runner"
)
_CATEGORY_OF_GROUP: Final = {
    "generic": "keyspace",
    "string": "string",
    "bitmap": "bitmap",
    "hash": "hash",
    "list": "list",
    "set": "set",
    "sorted-set": "sortedset",
    "stream": "stream",
    "connection": "connection",
    "transactions": "transaction",
    "scripting": "scripting",
}
_CATEGORIES_OF_FLAG: Final = {
    "readonly": ("read",),
    "write": ("write",),
    "admin": ("admin", "dangerous"),
    "pubsub": ("pubsub",),
    "blocking": ("blocking",),
}


def describe(command: Command) -> list[Reply]:
    """Return the ten elements of COMMAND INFO."""
    flags = set(command.flags)
    if command.find_keys is not None:
        flags.add("movablekeys")
    return [
        command.name.encode(),
        command.arity,
        SetReply([flag for flag in _FLAGS if flag in flags]),
        *command.keys,
        SetReply([f"@{name}" for name in categories(command)]),
        SetReply([tip.encode() for tip in command.tips.split()]),
        SetReply(_key_specs(command)),
        [describe(one) for one in command.subcommands.values()] or SetReply([]),
    ]


def categories(command: Command) -> list[str]:
    """Return the ACL categories of a command, without the `@`."""
    acl = _CATEGORY_OF_GROUP.get(command.group, "") if command.acl is None else command.acl
    found = {*acl.split(), "fast" if "fast" in command.flags else "slow"}
    for flag in command.flags if "no_mandatory_keys" not in command.flags else ():  # a script reads what it likes
        found.update(_CATEGORIES_OF_FLAG.get(flag, ()))
    return [name for name in CATEGORIES if name in found]


def access_of_keys(command: Command) -> list[list[str]]:
    """Return the flags of each key specification; a single one holds for all keys."""
    if not command.access:
        return [["RW", "update"] if "write" in command.flags else ["RO", "access"]]
    return [part.split() for part in command.access.split(";")]


def _key_specs(command: Command) -> list[Reply]:
    """Return the key specifications: keys at their places, keys behind their number, behind a keyword, or elsewhere."""
    first, last, step = command.keys
    access = access_of_keys(command)
    if not first and command.find_keys is None:
        return []
    if not first and not isinstance(command.find_keys, CountedKeys):
        # As many keys as further words behind the keyword.
        keyword = {b"keyword": b"STREAMS", b"startfrom": 4 if command.arity == -7 else 1}
        return [_key_spec([*access[0], "incomplete"], b"keyword", keyword, b"range", _range(-1, 1, 2))]
    specs = []
    for at, flags in enumerate(access):
        index = first + at
        is_last = at == len(access) - 1
        if isinstance(command.find_keys, CountedKeys) and is_last:
            behind = {b"keynumidx": 0, b"firstkey": 1, b"keystep": command.find_keys.step}
            specs.append(_key_spec(flags, b"index", {b"index": command.find_keys.at}, b"keynum", behind))
        elif isinstance(command.find_keys, KeysBehindWord) and is_last:
            keyword = {b"keyword": command.find_keys.keyword, b"startfrom": command.find_keys.start}
            specs.append(_key_spec(flags, b"keyword", keyword, b"range", _range(-1, 1, 0)))
        elif index > last > 0:
            specs.append(_key_spec(flags, b"unknown", {}, b"unknown", {}))
        else:
            # The last key is counted from the first one, or from the end when negative.
            distance = (last - index if last >= 0 else last) if is_last else 0
            if command.find_keys is not None:
                distance = 0
            specs.append(_key_spec(flags, b"index", {b"index": index}, b"range", _range(distance, step, 0)))
    return specs


def _range(last: int, step: int, limit: int) -> Reply:
    return {b"lastkey": last, b"keystep": step, b"limit": limit}


def _key_spec(flags: list[str], begin: bytes, begin_spec: Reply, find: bytes, find_spec: Reply) -> Reply:
    return {
        b"flags": SetReply(list(flags)),
        b"begin_search": {b"type": begin, b"spec": begin_spec},
        b"find_keys": {b"type": find, b"spec": find_spec},
    }


def document(command: Command) -> dict[bytes, Reply]:
    """Return the map of COMMAND DOCS."""
    from streamd.catalog.syntax import parse_syntax  # with the first one who asks: a start need not wait for it

    docs: dict[bytes, Reply] = {
        b"summary": command.summary.rstrip(".").encode(),
        b"since": command.since.encode(),
        b"group": command.group.encode(),
        b"complexity": command.complexity.encode(),
    }
    arguments = _documented_arguments(parse_syntax(command.syntax), len(access_of_keys(command)))
    if arguments:
        docs[b"arguments"] = arguments
    if command.subcommands:
        docs[b"subcommands"] = {one.name.encode(): document(one) for one in command.subcommands.values()}
    return docs


def _documented_arguments(arguments: "list[Argument]", key_specs: int, keys_before: int = 0) -> list[Reply]:
    documented = []
    for argument in arguments:
        docs: dict[bytes, Reply] = {b"name": argument.name.encode(), b"type": argument.kind.encode()}
        if argument.kind == "key":
            docs[b"key_spec_index"] = min(keys_before, key_specs - 1)
            keys_before += 1
        if argument.token:
            docs[b"token"] = argument.token.encode()
        flags = [name for name in ("optional", "multiple", "multiple_token") if getattr(argument, name)]
        if flags:
            docs[b"flags"] = SetReply(list(flags))
        if argument.members:
            docs[b"arguments"] = _documented_arguments(argument.members, key_specs, keys_before)
        documented.append(docs)
    return documented
