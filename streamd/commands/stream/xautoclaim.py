"""XAUTOCLAIM: give a consumer the pending entries of a group that are idle for long."""

from streamd.base.errors import CommandError, NotAnInteger, SyntaxError_
from streamd.catalog import Context, command
from streamd.catalog.arguments import Arguments, parse_integer
from streamd.commands.stream.group_effects import need_consumer, need_group, record_removed, record_seen, record_taken
from streamd.resp.types import Raw, Reply
from streamd.stream.entry_id import ID_MAX, format_id, parse_range_start
from streamd.stream.log import Log

COUNT_DEFAULT = 100
# The greatest COUNT that Redis takes, and how many entries it looks at for each one asked for.
COUNT_MAX = (2**63 - 1) // 16
ATTEMPTS_FACTOR = 10
# Whether an entry is still there is looked up for so many one by one; then for a run of entries at once, as long as
# that serves some of them: 0.2 us for each instead of 3.
_ALONE_MAX = 16
_RUN_ENTRIES = 128
_SERVED_MIN = 4
_COUNT_ERROR = CommandError("ERR COUNT must be > 0")


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
    consumer = need_consumer(context, key, group_name, group, args[3])

    now_ms = context.now_ms
    attempts = wanted * ATTEMPTS_FACTOR
    gone: list[int] = []
    claimed: list[int] = []
    next_id = 0
    log, known, known_to = stream.log, frozenset[int](), -1
    alone, served = 0, _SERVED_MIN
    for entry_id, owner, delivered_ms, _ in group.pending.iterate(start):
        if not attempts or not wanted:
            next_id = entry_id
            break
        attempts -= 1
        if entry_id > known_to and alone >= _ALONE_MAX:
            if served < _SERVED_MIN:
                alone, served = 0, _SERVED_MIN  # others lie between them
            else:
                run = log.ids(entry_id, count=_RUN_ENTRIES)
                known, known_to = frozenset(run), run[-1] if len(run) == _RUN_ENTRIES else ID_MAX
                served = 0
        if entry_id <= known_to:
            served += 1
            is_there = entry_id in known
        else:
            alone += 1
            is_there = entry_id in log
        if not is_there:
            gone.append(entry_id)
            wanted -= 1
        elif owner is None or not min_idle_ms or now_ms - delivered_ms >= min_idle_ms:
            claimed.append(entry_id)
            wanted -= 1

    group.pending.take_over(claimed, consumer, now_ms, counts_up=not just_id)
    record_taken(context, key, group_name, group, consumer, claimed, now_ms)
    context.state.dirty += len(claimed)
    if claimed:
        consumer.active_ms = now_ms
    if gone:
        group.pending.remove_many(gone)
        record_removed(context, key, group_name, gone)
    record_seen(context, key, group_name, consumer)
    shown: Reply = [*map(format_id, claimed)] if just_id else _entries(log, claimed)
    return [format_id(next_id), shown, [*map(format_id, gone)]]


def _entries(log: Log, ids: list[int]) -> Raw:
    """Return the entries `ids`, which are all there."""
    if ids and log.ids(ids[0], ids[-1], len(ids) + 1) == ids:
        data = log.encode_range(ids[0], ids[-1])[1]
    else:
        data = b"".join([log.encode_range(entry_id, entry_id)[1] for entry_id in ids])
    return Raw(b"*%d\r\n%b" % (len(ids), data))
