"""XADD: append an entry to a stream, at most once for each idempotent ID."""

from collections.abc import Sequence
from itertools import islice

from streamd.base.errors import CommandError, WrongArity
from streamd.catalog import Context, command
from streamd.commands.stream.options import AppendOptions, parse_append_options
from streamd.idmp.digest import idmpauto_iid, idmpauto_iids
from streamd.journal.record import Column, encode_columns
from streamd.resp.types import Reply
from streamd.stream.entry_id import ID_MAX, SEQ_MAX, consecutive_parts, format_id
from streamd.stream.stream import Stream
from streamd.stream.trimming import Trim


def xadd_batch(context: Context, requests: list[list[bytes]], at: int) -> int:
    """Append a run of requests to one stream: `XADD key * ...`, `XADD key IDMP pid iid * ...` or IDMPAUTO, all of one
    length; see command.Batch.

    What they have at one place of their words is a column, and C code does a column at once: the stream and the window
    are looked up once, IDs follow from the first one. In a pipeline of 16 a request takes 0.4 us instead of 1.3. A
    property test holds this against the handler.
    """
    first = requests[at]
    db, state = context.db, context.state
    stream = db.values.get(first[1])
    if type(stream) is not Stream or db.expires_ms or db.watchers or db.waiting or state.notify_flags:
        return 0
    entry_id = max(state.time.ms << 64, stream.last_id + 1)
    if (entry_id & SEQ_MAX) + len(requests) > SEQ_MAX or entry_id > ID_MAX:
        return 0  # the IDs of one millisecond are nearly used up, or all of them
    db.touched[first[1]] = state.time.s
    if first[2] == b"*" and len(first) & 1:
        columns = _columns(requests, at, 2)
        count = len(columns[0])
        _append(context, stream, range(entry_id, entry_id + count), columns, 3)
        context.client.out.append(_consecutive_replies(entry_id, count))
        return count
    for options, id_at in ((_IDMP, 5), (_IDMPAUTO, 4)):
        if first[2] in options and len(first) > id_at + 2 and first[id_at] == b"*" and (len(first) - id_at) & 1:
            return _append_idempotent(context, stream, entry_id, _columns(requests, at, id_at), id_at)
    return 0


def _columns(requests: list[list[bytes]], at: int, id_at: int) -> list[tuple[bytes, ...]]:
    """Return the words of a run by their places: of requests[at] and those behind it that have as many words, the same
    name, key and option, and the same at `id_at`, a `*`.
    """
    first = requests[at]
    if at == 0:
        # Mostly a pipeline is one run. (A try for each run of many would look at their rest again and again.)
        words, count = len(first), len(requests)
        if [*map(len, requests)].count(words) == count:
            columns = [*zip(*requests)]  # noqa: B905 (checked, at a fifth of the cost)
            names, keys, options = columns[:3]
            if (
                names.count(first[0]) == count
                and keys.count(first[1]) == count
                and options.count(first[2]) == count
                and columns[id_at].count(b"*") == count
            ):
                return columns
    like, words, end = first[:3], len(first), at + 1
    for request in islice(requests, end, None):
        if len(request) != words or request[:3] != like or request[id_at] != b"*":
            break
        end += 1
    return [*zip(*requests[at:end], strict=True)]


def _append_idempotent(
    context: Context, stream: Stream, first_id: int, columns: list[tuple[bytes, ...]], id_at: int
) -> int:
    """Do a batch of requests with iids; return how many."""
    pids = columns[3]
    iids = columns[4] if id_at == 5 else idmpauto_iids(columns[id_at + 1 :])
    if not all(pids) or not all(iids):
        return 0
    state, key, window, count = context.state, columns[1][0], stream.idmp, len(pids)
    # (A list: log and window share the numbers.)
    ids = [*range(first_id, first_id + count)]
    if pids.count(pids[0]) == count and window.record_run(pids[0], iids, ids):
        new = count
    else:
        answers: list[int] = []
        new = 0
        for pid, iid in zip(pids, iids, strict=True):
            known_id = window.lookup_or_record(pid, iid, ids[new], state.time.ms)
            answers.append(ids[new] if known_id is None else known_id)
            new += known_id is None
    if new == count:
        _append(context, stream, ids, columns, id_at + 1, iids)
        context.client.out.append(_consecutive_replies(first_id, count))
        return count
    next_id = first_id
    texts: list[bytes] = []
    for answer, pid, iid, fields in zip(answers, pids, iids, zip(*columns[id_at + 1 :], strict=True), strict=True):
        if answer == next_id:
            texts += fields
            if state.records is not None:
                words = [b"XADD", key, b"IDMP", pid, iid, format_id(answer), *fields]
                state.records.append((context.db.index, words))
            next_id += 1
        else:
            _duplicate(context, key, stream, answer)
    if new:
        _extend(context, stream, ids[:new], texts, len(columns) - id_at - 1)
    context.client.out += [_consecutive_replies(answer, 1) for answer in answers]
    return count


def _append(
    context: Context,
    stream: Stream,
    ids: Sequence[int],
    columns: list[tuple[bytes, ...]],
    fields_at: int,
    iids: Sequence[bytes] | None = None,
) -> None:
    """Append an entry for each request, with IDs that follow each other, and record them."""
    fields = columns[fields_at:]
    count = len(columns[0])
    texts = [b""] * (count * len(fields))
    for place, column in enumerate(fields):
        texts[place :: len(fields)] = column
    _extend(context, stream, ids, texts, len(fields))
    state, db_index, key = context.state, context.db.index, columns[1][0]
    if state.records is not None:
        run = range(ids[0], ids[0] + count)
        head: list[Column] = [b"XADD", key, run] if iids is None else [b"XADD", key, b"IDMP", columns[3], iids, run]
        if state.journal is not None:
            state.journal.append_encoded(context.client, db_index, key, encode_columns([*head, *fields]))
        else:
            for at, entry_id in enumerate(ids):  # somebody else looks at the records
                named = () if iids is None else (b"IDMP", columns[3][at], iids[at])
                words = [b"XADD", key, *named, format_id(entry_id), *(column[at] for column in fields)]
                state.records.append((db_index, words))


def _extend(context: Context, stream: Stream, ids: Sequence[int], texts: list[bytes], width: int) -> None:
    stream.log.append_many(ids, width, texts)
    stream.last_id = ids[-1]
    stream.entries_added += len(ids)
    context.state.dirty += len(ids)


def _consecutive_replies(entry_id: int, count: int) -> bytes:
    """Return the replies of `count` IDs that follow each other in one millisecond, as bulk strings."""
    replies = b""
    for head, tails in consecutive_parts(entry_id, count):
        start = b"$%d\r\n%b" % (len(head) + len(tails[0]), head)
        replies += start + (b"\r\n" + start).join(tails) + b"\r\n"
    return replies


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
    batch=xadd_batch,
)
def xadd(context: Context, args: list[bytes]) -> Reply:
    """Append an entry to a stream and return its ID; a duplicate returns the ID of the entry that is there.

    Reply: bulk string; null when NOMKSTREAM is given and the key does not exist.
    Raises: CommandError; WrongType.
    """
    # Decide. The commonest shapes, `key * ...`, `key IDMP pid iid * ...` and IDMPAUTO, do not pass the options' loop,
    # which costs more than all the rest; a property test holds them against it. An iid is looked up and recorded in one
    # step, behind all that could refuse its entry.
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
    elif args[2] in _IDMPAUTO and len(args) & 1 and len(args) > 6 and args[4] == b"*" and args[3]:
        pid = args[3]
        fields = args[5:]
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
    else:
        db.touched[key] = state.time.s
    if pid is not None and iid is None:
        iid = idmpauto_iid(fields)
    entry_id = state.time.ms << 64
    if entry_id <= stream.last_id:
        entry_id = stream.last_id + 1  # also when the clock stepped back
    if wanted_id is not None or entry_id > ID_MAX:
        if pid is not None and iid is not None:
            known_id = stream.idmp.lookup(pid, iid, state.time.ms)
            if known_id is not None:
                return _duplicate(context, key, stream, known_id)
        if wanted_id is None:
            raise _exhausted()
        entry_id = _explicit_id(wanted_id, seq_given, stream.last_id)
        if pid is not None and iid is not None:
            stream.idmp.record(pid, iid, entry_id)
    elif pid is not None and iid is not None:
        known_id = stream.idmp.lookup_or_record(pid, iid, entry_id, state.time.ms)
        if known_id is not None:
            return _duplicate(context, key, stream, known_id)

    # Apply.
    stream.log.append(entry_id, fields)
    stream.last_id = entry_id
    stream.entries_added += 1
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
_IDMPAUTO = frozenset((b"IDMPAUTO", b"idmpauto"))


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
    exact = trim.apply(stream)
    if exact:
        context.record(b"XTRIM", key, *exact, changes=0)
        context.notify(key, "t", "xtrim")
