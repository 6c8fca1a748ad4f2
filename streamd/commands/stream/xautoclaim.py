"""XAUTOCLAIM: give a consumer the pending entries of a group that are idle for long."""

from itertools import compress, repeat
from operator import and_
from typing import Final

from streamd.base.errors import CommandError, NotAnInteger, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.stream.group_effects import need_consumer, need_group, record_removed, record_seen, record_taken
from streamd.resp.types import Raw, Reply
from streamd.stream.entry_id import format_id, parse_range_start
from streamd.stream.groups.group import Group
from streamd.stream.groups.pending import Consumer
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from streamd.stream.log.runs import NodeRun
from streamd.stream.stream import Stream
from streamd.stream.wire.entry_encoder import encode_rows

COUNT_DEFAULT: Final = 100
# The greatest COUNT that Redis takes, and how many entries it looks at for each one asked for.
COUNT_MAX: Final = (2**63 - 1) // 16
ATTEMPTS_FACTOR: Final = 10
_COUNT_ERROR: Final = CommandError("ERR COUNT must be > 0")


@command(
    "XAUTOCLAIM",
    arity=-6,
    flags="write fast",
    keys=(1, 1, 1),
    since="6.2.0",
    complexity="O(1) if COUNT is small.",
    syntax="key group consumer min-idle-time start [COUNT count] [JUSTID]",
    access="RW delete",
    tips="nondeterministic_output",
)
def xautoclaim(context: Context, args: list[bytes]) -> Reply:
    """Make a consumer the owner of pending entries that are idle for long, from an ID on.

    Reply: [the ID to go on from, entries or with JUSTID their IDs, IDs of pending entries that were deleted].
    Raises: CommandError; NoGroup; WrongType.
    """
    try:
        min_idle_ms = max(0, parse_integer(args[4]))
    except NotAnInteger:
        raise CommandError("ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = parse_range_start(args[5])
    wanted, just_id = COUNT_DEFAULT, False
    words = Arguments(args, 6)
    while words.left():
        if words.flag(b"COUNT", 1):
            wanted = words.integer(_COUNT_ERROR)
            if not 1 <= wanted <= COUNT_MAX:
                raise _COUNT_ERROR
        elif words.flag(b"JUSTID"):
            just_id = True
        else:
            raise SyntaxError_()
    key, group_name = args[1], args[2]
    stream, group = need_group(context, key, group_name)

    # Decide: nothing is changed before all is read, since entries may have to be waited for.
    now_ms = context.now_ms
    claimed, gone, next_id = _choose(stream, group, start, wanted, now_ms - min_idle_ms if min_idle_ms else None)
    if stream.log.may_wait and not just_id:
        stream.log.require_ids(claimed)
    shown = _ids(claimed) if just_id else _entries(stream.log, claimed)

    # Apply and record.
    consumer = need_consumer(context, key, group_name, group, args[3])
    group.pending.take_over(claimed, consumer, now_ms, counts_up=not just_id)
    record_taken(context, key, group_name, group, consumer, claimed, now_ms)
    context.state.dirty += len(claimed)
    if claimed:
        consumer.active_ms = now_ms
    if gone:
        group.pending.remove_many(gone)
        record_removed(context, key, group_name, gone)
    record_seen(context, key, group_name, consumer)
    return [format_id(next_id), shown, _ids(gone)]


def _choose(
    stream: Stream, group: Group, start: int, wanted: int, until_ms: int | None
) -> tuple[list[int], list[int], int]:
    """Return the IDs to claim, the IDs of pending entries that were deleted, and the ID to go on from, 0 at the end.

    until_ms: claim entries delivered then or before; None for all. Entries that follow each other in the group as in
    the log are judged together.
    """
    claimed: list[int] = []
    gone: list[int] = []
    log, attempts = stream.log, wanted * ATTEMPTS_FACTOR
    for ids, owners, times, _ in group.pending.columns(start):
        at, size = 0, len(ids.stamps)
        are_there = stream.has_all_behind(ids.id_at(0))
        while at < size:
            if not attempts or not wanted:
                return claimed, gone, ids.id_at(at)
            length = min(wanted, attempts, size - at)
            attempts -= length
            idle = _idle(owners, times, until_ms, at, length)
            at += length
            if are_there and idle is False:
                continue
            some = ids.ids(at - length, at)
            held = some
            if not are_there:
                held = log.held(some) if log.may_wait else log.ids_between(some[0], some[-1], len(some) + 1)
            if held != some:
                left = {*(held if log.may_wait else log.held(some))}
                there = [entry_id in left for entry_id in some]
                missing = [entry_id for entry_id in some if entry_id not in left]
                gone += missing
                wanted -= len(missing)
                idle = [*map(and_, there, repeat(idle) if isinstance(idle, bool) else idle)]
            if idle is not False:
                chosen = some if idle is True else [*compress(some, idle)]
                claimed += chosen
                wanted -= len(chosen)
    return claimed, gone, 0


def _idle(
    owners: "list[Consumer | None] | Consumer | None",
    times: list[int] | int,
    until_ms: int | None,
    at: int,
    length: int,
) -> bool | list[bool]:
    """Return whether `length` entries, from index `at` on, have no owner or were delivered up to `until_ms`: one bool
    for all, or a list with one for each.
    """
    if until_ms is None:
        return True
    if not isinstance(times, list) and not isinstance(owners, list):
        return owners is None or times <= until_ms
    some = times[at : at + length] if isinstance(times, list) else [times] * length
    of = owners[at : at + length] if isinstance(owners, list) else [owners] * length
    return [time_ms <= until_ms or owner is None for time_ms, owner in zip(some, of, strict=True)]


def _ids(ids: list[int]) -> Raw:
    return Raw(b"*%d\r\n%b" % (len(ids), encode_rows(ids, b"", b"") if ids else b""))


def _entries(log: Log, ids: list[int]) -> Raw:
    """Return the RESP of the entries `ids`, which must all be in the log."""
    found: list[NodeRun] = []
    parts: list[bytes] = []
    try:
        if ids:
            parts = log.encode_parts(ids[0], ids[-1], len(ids), found=found)[1]
    except Absent:
        found.clear()  # others between them may not be in memory
    # (As many as are wanted, up to the last one: the same.)
    if not found or found[-1][0].id_at(found[-1][2] - 1) != ids[-1]:
        parts = [part for entry_id in ids for part in log.encode_parts(entry_id, entry_id)[1]]
    return Raw(b"*%d\r\n%b" % (len(ids), b"".join(parts)))
