"""XADD: append an entry to a stream, at most once for each idempotent ID."""

from streamd.command import Context, command
from streamd.errors import CommandError, WrongArity
from streamd.idmp.digest import idmpauto_iid
from streamd.resp.types import Reply
from streamd.stream.entry_id import ID_MAX, SEQ_MAX, format_id
from streamd.stream.stream import Stream
from streamd.stream.trimming import Trim
from streamd.stream_arguments import AppendOptions, parse_append_options


@command(
    "XADD",
    arity=-5,
    flags="write denyoom fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(1) when adding a new entry, O(N) when trimming where N being the number of entries evicted.",
    syntax="key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] "
    "[MAXLEN | MINID [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
    access="RW update",
    tips="nondeterministic_output",
)
def xadd(context: Context, args: list[bytes]) -> Reply:
    """Append an entry to a stream and return its ID; a duplicate returns the ID of the entry that is there.

    Reply: bulk string; null when NOMKSTREAM is given and the key does not exist.
    Raises: CommandError; WrongType.
    Source: https://redis.io/docs/latest/commands/xadd/
    """
    # Decide. The two commonest shapes, `key * ...` and `key IDMP pid iid * ...`, do not pass the loop over the options,
    # which costs more than all the rest; a property test holds them against it.
    make_stream, seq_given = True, True
    pid: bytes | None = None
    iid: bytes | None = None
    wanted_id: int | None = None
    trim: Trim | None = None
    if args[2] == b"*" and len(args) & 1:
        fields = args[3:]
    elif args[2] in _IDMP and len(args) & 1 == 0 and len(args) > 7 and args[5] == b"*" and args[3] and args[4]:
        pid, iid = args[3], args[4]
        fields = args[6:]
    else:
        options = _parse(context, args)
        fields = args[options.at + 1 :]
        make_stream, seq_given, wanted_id = options.make_stream, options.seq_given, options.entry_id
        pid, iid, trim = options.pid, options.iid, options.trim
    key = args[1]
    state = context.state
    db = context.db
    stream = db.values.get(key)
    if type(stream) is not Stream or db.expires_ms:
        stream = db.stream(key)
        if stream is None:
            if not make_stream:
                return None
            stream = context.create_stream(key)
    if pid is not None:
        if iid is None:
            iid = idmpauto_iid(fields)
        known_id = stream.idmp.lookup(pid, iid, state.time.ms)
        if known_id is not None:
            return _duplicate(context, key, stream, known_id)
    last_id = stream.last_id
    if wanted_id is None:
        entry_id = state.time.ms << 64
        if entry_id <= last_id:
            entry_id = last_id + 1  # also when the clock stepped back
            if entry_id > ID_MAX:
                raise _exhausted()
    else:
        entry_id = _explicit_id(wanted_id, seq_given, last_id)

    # Apply.
    stream.log.append(entry_id, fields)
    stream.last_id = entry_id
    stream.entries_added += 1
    if pid is not None:
        assert iid is not None
        stream.idmp.record(pid, iid, entry_id)
    id_text = b"%d-%d" % (entry_id >> 64, entry_id & SEQ_MAX)

    # Record.
    state.dirty += 1
    if state.records is not None:
        if pid is None or iid is None:
            state.records.append((db.index, [b"XADD", key, id_text, *fields]))
        else:
            state.records.append((db.index, [b"XADD", key, b"IDMP", pid, iid, id_text, *fields]))
    if db.watchers or state.notify_flags:
        context.changed(key, "t", "xadd")
    if trim is not None:
        _trim(context, key, stream, trim)
    if db.waiting:
        db.signal(key)
    return id_text


_IDMP = frozenset((b"IDMP", b"idmp"))


def _parse(context: Context, args: list[bytes]) -> AppendOptions:
    """Check all that can be checked without looking at the key, in Redis's order."""
    options = parse_append_options(args, context.state.config.integer("stream-node-max-entries"), adding=True)
    words = len(args) - options.at - 1
    if words < 2 or words % 2:
        raise WrongArity("xadd")
    if options.entry_id == 0 and options.seq_given:
        raise CommandError("ERR The ID specified in XADD must be greater than 0-0")
    return options


def _explicit_id(wanted_id: int, seq_given: bool, last_id: int) -> int:
    """Return the ID that a request asks for; without its seq, the next one in that millisecond."""
    if last_id == ID_MAX:
        raise _exhausted()
    if not seq_given and wanted_id >> 64 == last_id >> 64 and last_id & SEQ_MAX != SEQ_MAX:
        return last_id + 1
    if wanted_id <= last_id:
        raise CommandError("ERR The ID specified in XADD is equal or smaller than the target stream top item")
    return wanted_id


def _exhausted() -> CommandError:
    return CommandError("ERR The stream has exhausted the last possible ID, unable to add more items")


def _duplicate(context: Context, key: bytes, stream: Stream, entry_id: int) -> bytes:
    """Count a duplicate. It changes nothing else: no entry, no trim, no event, nobody is woken."""
    stream.idmp.iids_duplicates += 1
    # No command says this: the journal keeps the counter's new value in a line of its own.
    context.record(b"XIDMPDUPLICATE", key, b"%d" % stream.idmp.iids_duplicates)
    return format_id(entry_id)


def _trim(context: Context, key: bytes, stream: Stream, trim: Trim) -> None:
    """Trim behind an append, and record it exactly."""
    effects = trim.apply(stream)
    for effect in effects:
        context.record(*effect[:1], key, *effect[1:])
    if effects:
        context.notify(key, "t", "xtrim")
