"""Commands that move or copy keys: RENAME, RENAMENX, COPY, MOVE, SWAPDB."""

from streamd.base.errors import CommandError, NoSuchDatabase, NoSuchKey, NotAnInteger, SameObject, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_database, parse_integer
from streamd.data.types import type_of
from streamd.resp.types import Reply


def _rename(context: Context, args: list[bytes], overwrite: bool) -> bool:
    old_key, new_key, db = args[1], args[2], context.db
    if db.get(old_key) is None:
        raise NoSuchKey()
    if old_key == new_key:
        return overwrite
    before = db.get(new_key)
    if before is not None and not overwrite:
        return False
    expires_ms = db.expires_ms.get(old_key)
    value = db.remove(old_key)
    assert value is not None
    db.place(new_key, value, expires_ms)
    context.record(b"RENAME", old_key, new_key)
    context.changed(old_key, "g", "rename_from")
    context.changed(new_key, "g", "rename_to")
    context.notify_overwritten(new_key, before, value)
    return True


@command(
    "RENAME", arity=3, flags="write", keys=(1, 2, 1), since="1.0.0", complexity="O(1)", group="generic",
    syntax="key newkey", access="RW access delete; OW update",
)  # fmt: skip
def rename(context: Context, args: list[bytes]) -> Reply:
    """Give a key another name, over what that name held."""
    _rename(context, args, overwrite=True)
    return "OK"


@command(
    "RENAMENX", arity=3, flags="write fast", keys=(1, 2, 1), since="1.0.0", complexity="O(1)", group="generic",
    syntax="key newkey", access="RW access delete; OW insert",
)  # fmt: skip
def renamenx(context: Context, args: list[bytes]) -> Reply:
    """Give a key another name if that is free; return whether it was."""
    return int(_rename(context, args, overwrite=False))


@command(
    "COPY", arity=-3, flags="write denyoom", keys=(1, 2, 1), since="6.2.0", complexity="O(N), N the size of the value",
    group="generic", syntax="source destination [DB destination-db] [REPLACE]", access="RO access; OW update",
)  # fmt: skip
def copy(context: Context, args: list[bytes]) -> Reply:
    """Copy a value to another key; return whether it was copied."""
    source, target, db = args[1], args[2], context.db
    databases = context.state.keyspace.databases
    target_db, replace = db, False
    words = Arguments(args, 3)
    while words.left():
        if words.flag(b"REPLACE"):
            replace = True
        elif words.flag(b"DB", followed_by=1):
            target_db = databases[parse_database(words.word(), len(databases))]
        else:
            raise SyntaxError_()
    if target_db is db and source == target:
        raise SameObject()
    value = db.read(source)
    if value is None:
        return 0
    before = target_db.get(target)
    if before is not None and not replace:
        return 0
    target_db.place(target, type_of(value).copy(value), db.expires_ms.get(source))
    context.record(b"COPY", source, target, b"DB", b"%d" % target_db.index, b"REPLACE")
    target_db.touch(target)
    if context.state.notify_flags:
        context.state.notify("g", "copy_to", target, target_db.index)
    context.notify_overwritten(target, before, value, target_db)
    return 1


@command(
    "MOVE", arity=3, flags="write fast", keys=(1, 1, 1), since="1.0.0", complexity="O(1)", group="generic",
    syntax="key db", access="RW access update",
)  # fmt: skip
def move(context: Context, args: list[bytes]) -> Reply:
    """Move a key to another database if it is free there; return whether it was moved."""
    key, db = args[1], context.db
    databases = context.state.keyspace.databases
    target_db = databases[parse_database(args[2], len(databases))]
    if target_db is db:
        raise SameObject()
    if db.get(key) is None or target_db.get(key) is not None:
        return 0
    expires_ms = db.expires_ms.get(key)
    value = db.remove(key)
    assert value is not None
    target_db.place(key, value, expires_ms)
    context.record(b"MOVE", key, b"%d" % target_db.index)
    db.touch(key)
    target_db.touch(key)
    if context.state.notify_flags:
        context.state.notify("g", "move_from", key, db.index)
        context.state.notify("g", "move_to", key, target_db.index)
    return 1


@command(
    "SWAPDB", arity=3, flags="write fast", since="4.0.0", acl="keyspace dangerous",
    complexity="O(N), N the clients that watch or wait for keys of the two", group="server",
    syntax="index1:integer index2:integer",
)  # fmt: skip
def swapdb(context: Context, args: list[bytes]) -> Reply:
    """Exchange the contents of two databases."""
    keyspace = context.state.keyspace
    numbers = []
    for word, which in zip(args[1:], ("first", "second"), strict=True):
        try:
            number = parse_integer(word)
        except NotAnInteger:
            number = 2**31
        if not -(2**31) <= number < 2**31:
            raise CommandError(f"ERR invalid {which} DB index")
        numbers.append(number)
    if not all(0 <= number < len(keyspace.databases) for number in numbers):
        raise NoSuchDatabase()
    if numbers[0] != numbers[1]:
        keyspace.swap(*numbers)
    context.record(b"SWAPDB", *(b"%d" % number for number in numbers))
    return "OK"
