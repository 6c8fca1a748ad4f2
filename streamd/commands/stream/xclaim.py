"""XCLAIM: give pending entries of a group to another consumer."""

from collections.abc import Iterator
from itertools import islice
from operator import lt

from streamd.base.errors import CommandError, InvalidStreamId, NotAnInteger
from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.stream.group_effects import (
    decoded,
    need_consumer,
    need_group,
    record_owned,
    record_position,
    record_removed,
    record_seen,
)
from streamd.commands.stream.options import parse_ids
from streamd.resp.types import Raw, Reply
from streamd.stream.entry_id import format_id, parse_id
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import again
from streamd.stream.log.entry_log import Log


class _Options:
    """The options of an XCLAIM, behind its IDs."""

    __slots__ = ("count", "force", "just_id", "last_id", "time_ms")

    def __init__(self, words: Arguments, now_ms: int) -> None:
        self.time_ms: int | None = None
        self.count = -1
        self.force = False
        self.just_id = False
        self.last_id = 0
        while words.left():
            if words.flag(b"FORCE"):
                self.force = True
            elif words.flag(b"JUSTID"):
                self.just_id = True
            elif words.flag(b"IDLE", 1):
                self.time_ms = now_ms - words.integer(CommandError("ERR Invalid IDLE option argument for XCLAIM"))
            elif words.flag(b"TIME", 1):
                self.time_ms = words.integer(CommandError("ERR Invalid TIME option argument for XCLAIM"))
            elif words.flag(b"RETRYCOUNT", 1):
                self.count = words.integer(CommandError("ERR Invalid RETRYCOUNT option argument for XCLAIM"))
            elif words.flag(b"LASTID", 1):
                self.last_id = parse_id(words.word())
            else:
                raise CommandError(f"ERR Unrecognized XCLAIM option '{decoded(words.word())}'")


def _all_there(log: Log, ids: list[int]) -> bool:
    """Return whether `ids`, which were once there, are several entries that still are, by ascending IDs."""
    if len(ids) < 2 or ids[0] >= ids[-1]:
        return False
    if not log.may_wait:
        return log.ids_between(ids[0], ids[-1], len(ids) + 1) == ids  # they follow each other, as mostly
    return all(map(lt, ids, islice(ids, 1, None))) and len(log.held(ids)) == len(ids)


def _read(
    log: Log, group: Group, ids: list[int], options: _Options, until_ms: int | None
) -> tuple[set[int], dict[int, list[bytes]]]:
    """Read what a claim needs of a log that may wait, before anything is changed.

    Returns the IDs that are there, and the RESP of those entries that are to be returned. Raises: Absent.
    """
    is_pending = group.pending.__contains__
    is_held = log.holding(filter(is_pending, ids))
    needed = [*_needed(group, ids, options, until_ms)]
    log.require_ids(needed)
    with log.at_once():
        there = {one for one in ids if (is_held(one) if is_pending(one) else options.force and one in log)}
        read = {} if options.just_id else {one: log.encode_parts(one, one)[1] for one in needed if one in there}
    return there, read


def _needed(group: Group, ids: list[int], options: _Options, until_ms: int | None) -> Iterator[int]:
    """Yield the IDs of which a claim needs the log: of those that are pending the entries, if they are to be returned;
    of others, with FORCE, whether they are there.
    """
    for entry_id in ids:
        entry = group.pending.get(entry_id)
        if entry is None:
            if options.force:
                yield entry_id
        elif not options.just_id and (until_ms is None or entry[1] is None or entry[2] <= until_ms):
            yield entry_id


@command(
    "XCLAIM",
    arity=-6,
    flags="write fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(log N) for each entry, N being the number of pending entries of the group.",
    syntax="key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count] "
    "[FORCE] [JUSTID] [LASTID lastid]",
    access="RW update",
    tips="nondeterministic_output",
)
def xclaim(context: Context, args: list[bytes]) -> Reply:
    """Make a consumer the owner of pending entries and return those that it got.

    Reply: array of entries, or of IDs with JUSTID.
    Raises: CommandError; NoGroup; WrongType.
    """
    key, group_name = args[1], args[2]
    stream, group = need_group(context, key, group_name)
    try:
        min_idle_ms = max(0, parse_integer(args[4]))
    except NotAnInteger:
        raise CommandError("ERR Invalid min-idle-time argument for XCLAIM")
    ids = _leading_ids(args)
    now_ms = context.now_ms
    options = _Options(Arguments(args, 5 + len(ids)), now_ms)
    time_ms = options.time_ms
    if time_ms is None or not 0 <= time_ms <= now_ms:
        time_ms = now_ms  # an impossible time counts as now: the client's clock may be a little ahead
    until_ms = now_ms - min_idle_ms if min_idle_ms else None
    log = stream.log
    there: Log | set[int] = log
    read: dict[int, list[bytes]] | None = None
    if log.may_wait:
        there, read = _read(log, group, ids, options, until_ms)

    position_unsaid = options.last_id > group.last_id
    if position_unsaid:
        group.last_id = options.last_id
    consumer = need_consumer(context, key, group_name, group, args[3])
    parts: list[bytes] = []
    for entry_id in ids:
        entry = group.pending.get(entry_id)
        if entry_id not in there:
            if entry is not None:
                group.pending.remove(entry_id)
                record_removed(context, key, group_name, [entry_id])
            continue
        if entry is None:
            if not options.force:
                continue
            count = 1
        else:
            _, owner, delivered_ms, count = entry
            if until_ms is not None and owner is not None and delivered_ms > until_ms:
                continue
        if options.count >= 0:
            count = options.count
        elif not options.just_id:
            count = again(count)
        group.own_pending().set(entry_id, consumer, time_ms, count)
        consumer.active_ms = now_ms
        if options.just_id:
            id_text = format_id(entry_id)
            parts.append(b"$%d\r\n%b\r\n" % (len(id_text), id_text))
        else:
            parts += log.encode_parts(entry_id, entry_id)[1] if read is None else read[entry_id]
        record_owned(context, key, group_name, group, consumer, [entry_id], time_ms, count)
        position_unsaid = False
    if position_unsaid:
        record_position(context, key, group_name, group)
    record_seen(context, key, group_name, consumer)
    return Raw(b"*%d\r\n%b" % (len(parts), b"".join(parts)))


def _leading_ids(args: list[bytes]) -> list[int]:
    """Return the IDs, up to the first word that is no ID."""
    end = 5
    while end < len(args) and args[end][:1].isdigit():
        end += 1
    try:
        # Options begin with a letter; a number may begin with a sign or a blank, and is looked at with the others.
        if end == len(args) or args[end][:1].isalpha():
            return parse_ids(args[5:end])
    except InvalidStreamId:
        pass  # parse one by one to find the first bad word
    ids: list[int] = []
    for word in args[5:]:
        try:
            ids.append(parse_id(word))
        except InvalidStreamId:
            break
    return ids


@applies("XCLAIM")
def apply_claim(applying: Applying, words: list[bytes]) -> None:
    """Give entries to a consumer, with a time and a delivery count; a deleted entry is pending no more."""
    stream, group = applying.group(words[1], words[2])
    ids = _leading_ids(words)
    options = _Options(Arguments(words, 5 + len(ids)), 0)
    time_ms = options.time_ms
    if time_ms is None or options.count < 0:
        raise CannotApply("it says no time, or no delivery count")
    group.last_id = max(group.last_id, options.last_id)
    consumer = group.consumers.get(words[3]) or group.consumer(words[3], time_ms)[0]
    # These are guesses: for a consumer that streamd has written, a note behind this record has the times.
    consumer.seen_ms = max(consumer.seen_ms, time_ms)
    consumer.active_ms = max(consumer.active_ms or 0, time_ms)
    if _all_there(stream.log, ids):
        group.own_pending().deliver(ids, consumer, time_ms, options.count)
        return
    is_there = stream.log.holds_pending if stream.log.may_wait else stream.log.__contains__
    for entry_id in ids:
        if is_there(entry_id):
            group.own_pending().set(entry_id, consumer, time_ms, options.count)
        else:
            group.pending.remove(entry_id)


@applies("XGROUPPENDING")
def apply_pending(applying: Applying, words: list[bytes]) -> None:
    """Make a deleted entry pending for a consumer."""
    _, key, group_name, name, entry_id, time_ms, count = words
    stream, group = applying.group(key, group_name)
    consumer, _ = group.consumer(name, 0)
    stream.note_missing(parse_id(entry_id))
    group.own_pending().set(parse_id(entry_id), consumer, int(time_ms), int(count))
