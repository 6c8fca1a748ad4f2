"""XGROUP: create, change and destroy consumer groups and their consumers."""

from streamd.base.errors import BusyGroup, CommandError, SubcommandSyntaxError
from streamd.catalog import Context, command, container
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.stream.filter_words import take_filter
from streamd.commands.stream.group_effects import group_of, record_position, record_seen
from streamd.resp.types import Reply
from streamd.stream.entry_id import ID_MAX, format_id, parse_id
from streamd.stream.groups.group import Group
from streamd.stream.search.patterns import EntryFilter, entry_filter
from streamd.stream.stream import Stream

container(
    "XGROUP",
    since="5.0.0",
    group="stream",
    help_lines=[
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ],
)


def _parse_options(args: list[bytes], creating: bool) -> tuple[bool, int | None, EntryFilter | None]:
    """Return (MKSTREAM, ENTRIESREAD, FILTER) from the words behind the ID. Raises: CommandError."""
    make_stream, entries_read, wanted, at = False, -1, None, 5
    while at < len(args):
        option = args[at].upper()
        if creating and option == b"MKSTREAM":
            make_stream = True
            at += 1
        elif creating and option == b"FILTER" and wanted is None:
            words = Arguments(args, at + 1)
            wanted = take_filter(words)
            at = words.at
        elif option == b"ENTRIESREAD" and at + 1 < len(args):
            entries_read = parse_integer(args[at + 1])
            if entries_read < -1:
                raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
            at += 2
        else:
            raise SubcommandSyntaxError(args)
    return make_stream, None if entries_read == -1 else entries_read, wanted


def _existing(stream: Stream | None) -> Stream:
    if stream is None:
        raise CommandError(
            "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the "
            "MKSTREAM option to create an empty stream automatically."
        )
    return stream


def _group(context: Context, args: list[bytes]) -> tuple[Stream, Group]:
    """Return the stream and the group named in a request. Raises: CommandError, NoGroup, WrongType."""
    stream = _existing(context.stream(args[2]))
    return stream, group_of(stream, args[2], args[3])


def _capped(stream: Stream | None, entries_read: int | None) -> int | None:
    """Return ENTRIESREAD, at most the number of entries ever added, as Redis does since 8.2.2."""
    return None if entries_read is None else min(entries_read, 0 if stream is None else stream.entries_added)


def _start_id(word: bytes, stream: Stream | None) -> int:
    """Return the ID that a new group starts behind."""
    if word == b"$":
        return 0 if stream is None else stream.last_id
    return parse_id(word)


def _position(word: bytes, stream: Stream) -> int:
    """Return the ID that SETID gives a group."""
    if word in (b"-", b"+"):
        return 0 if word == b"-" else ID_MAX
    return _start_id(word, stream)


def _add_group(
    stream: Stream, name: bytes, last_id: int, entries_read: int | None, wanted: EntryFilter | None = None
) -> None:
    if stream.groups is None:
        stream.groups = {}
    stream.groups[name] = Group(last_id, entries_read, wanted)


def _entries_read_words(entries_read: int | None) -> list[bytes]:
    return [] if entries_read is None else [b"ENTRIESREAD", b"%d" % entries_read]


@command(
    "XGROUP CREATE",
    arity=-5,
    flags="write denyoom",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(1)",
    syntax="key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read] [FILTER FIELD field <MQTT | GLOB | EQ> pattern]",
    access="RW insert",
)
def xgroup_create(context: Context, args: list[bytes]) -> Reply:
    """Create a consumer group that starts behind an ID.

    With a filter, entries that it does not let through are never delivered, nor pending: the group has read them.

    Raises: CommandError; BusyGroup; WrongType.
    """
    make_stream, entries_read, wanted = _parse_options(args, creating=True)
    key, name = args[2], args[3]
    stream = context.stream(key)
    if not make_stream:
        stream = _existing(stream)
    if len(args) > (8 if wanted is None else 13):
        raise SubcommandSyntaxError(args)
    last_id = _start_id(args[4], stream)
    if stream is not None and stream.groups and name in stream.groups:
        raise BusyGroup()
    entries_read = _capped(stream, entries_read)

    mkstream_words = []
    if stream is None:
        stream = context.create_stream(key)
        context.db.touch(key)
        mkstream_words = [b"MKSTREAM"]
    _add_group(stream, name, last_id, entries_read, wanted)

    context.record(
        b"XGROUP", b"CREATE", key, name, format_id(last_id), *mkstream_words, *_entries_read_words(entries_read)
    )
    if wanted is not None:
        context.record(b"XGROUPFILTER", key, name, *wanted.words[1:], changes=0)
    context.notify(key, "t", "xgroup-create")
    return "OK"


@command(
    "XGROUP DESTROY",
    arity=4,
    flags="write",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(N) where N is the number of entries in the group's pending entries list (PEL).",
    syntax="key group",
    access="RW delete",
)
def xgroup_destroy(context: Context, args: list[bytes]) -> Reply:
    """Destroy a consumer group and return 1, or 0 if no group has that name.

    Raises: CommandError; WrongType.
    """
    key, name = args[2], args[3]
    stream = _existing(context.stream(key))
    if not stream.groups or name not in stream.groups:
        return 0

    context.db.trash.add(stream.groups.pop(name))

    context.record(b"XGROUP", b"DESTROY", key, name)
    context.notify(key, "t", "xgroup-destroy")
    context.db.signal(key)
    return 1


@command(
    "XGROUP SETID",
    arity=-5,
    flags="write",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(1)",
    syntax="key group <id | $> [ENTRIESREAD entries-read]",
    access="RW update",
)
def xgroup_setid(context: Context, args: list[bytes]) -> Reply:
    """Set the ID that a consumer group has read up to.

    Raises: CommandError; NoGroup; WrongType.
    """
    _, entries_read, _ = _parse_options(args, creating=False)
    stream, group = _group(context, args)
    if len(args) > 7:
        raise SubcommandSyntaxError(args)
    last_id = _position(args[4], stream)
    entries_read = _capped(stream, entries_read)

    group.last_id = last_id
    group.entries_read = entries_read

    record_position(context, args[2], args[3], group)
    context.notify(args[2], "t", "xgroup-setid")
    return "OK"


@command(
    "XGROUP CREATECONSUMER",
    arity=5,
    flags="write denyoom",
    keys=(2, 2, 1),
    since="6.2.0",
    complexity="O(1)",
    syntax="key group consumer",
    access="RW insert",
)
def xgroup_createconsumer(context: Context, args: list[bytes]) -> Reply:
    """Create a consumer in a group and return 1, or 0 when it is there.

    Raises: CommandError; NoGroup; WrongType.
    """
    key, group_name, name = args[2:]
    _, group = _group(context, args)
    if name in group.consumers:
        return 0

    consumer, _ = group.consumer(name, context.now_ms)

    context.record(b"XGROUP", b"CREATECONSUMER", key, group_name, name)
    record_seen(context, key, group_name, consumer)
    context.notify(key, "t", "xgroup-createconsumer")
    return 1


@command(
    "XGROUP DELCONSUMER",
    arity=5,
    flags="write",
    keys=(2, 2, 1),
    since="5.0.0",
    complexity="O(N) with N being the number of the consumer's pending entries.",
    syntax="key group consumer",
    access="RW delete",
)
def xgroup_delconsumer(context: Context, args: list[bytes]) -> Reply:
    """Remove a consumer from a group and return how many pending entries went with it.

    Raises: CommandError; NoGroup; WrongType.
    """
    key, group_name, name = args[2:]
    _, group = _group(context, args)
    if name not in group.consumers:
        return 0

    dropped: list[object] = []
    pending = group.remove_consumer(name, dropped)
    context.db.trash.add_parts(dropped)

    context.record(b"XGROUP", b"DELCONSUMER", key, group_name, name)
    context.notify(key, "t", "xgroup-delconsumer")
    return pending


# -- from a journal ----------------------------------------------------------------------------------------------------


@applies("XGROUP CREATE")
def apply_group(applying: Applying, words: list[bytes]) -> None:
    """Create a group; a count of entries read in a journal is taken as it is."""
    make_stream, entries_read, _ = _parse_options(words, creating=True)
    key, name = words[2], words[3]
    stream = applying.stream_or_new(key) if make_stream else applying.stream(key)
    if stream.groups and name in stream.groups:
        raise CannotApply("there is such a group already")
    _add_group(stream, name, _start_id(words[4], stream), entries_read)


@applies("XGROUPFILTER")
def apply_filter(applying: Applying, words: list[bytes]) -> None:
    """Set the filter of a group that was created just before."""
    _, group = applying.group(words[1], words[2])
    group.wanted = entry_filter(words[3], words[4], words[5])


@applies("XGROUP DESTROY")
def apply_end_of_group(applying: Applying, words: list[bytes]) -> None:
    """Destroy a group."""
    stream, _ = applying.group(words[2], words[3])
    assert stream.groups is not None
    del stream.groups[words[3]]


@applies("XGROUP SETID")
def apply_position(applying: Applying, words: list[bytes]) -> None:
    """Set how far a group has read."""
    _, entries_read, _ = _parse_options(words, creating=False)
    stream, group = applying.group(words[2], words[3])
    group.last_id, group.entries_read = _position(words[4], stream), entries_read


@applies("XGROUP CREATECONSUMER")
def apply_consumer(applying: Applying, words: list[bytes]) -> None:
    """Create a consumer; a note has the time when it was seen."""
    _, group = applying.group(words[2], words[3])
    if words[4] not in group.consumers:
        group.consumer(words[4], 0)


@applies("XGROUP DELCONSUMER")
def apply_end_of_consumer(applying: Applying, words: list[bytes]) -> None:
    """Remove a consumer with its pending entries."""
    _, group = applying.group(words[2], words[3])
    group.remove_consumer(words[4], [])


@applies("XGROUPSEEN")
def apply_seen(applying: Applying, words: list[bytes]) -> None:
    """Set when a consumer was seen, and when it last got an entry."""
    _, group = applying.group(words[1], words[2])
    consumer, _ = group.consumer(words[3], 0)
    consumer.seen_ms = int(words[4])
    consumer.active_ms = None if words[5] == b"-1" else int(words[5])
