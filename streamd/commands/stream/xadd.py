"""XADD: append an entry to a stream, at most once for each idempotent ID."""

from collections.abc import Sequence
from itertools import islice
from operator import lt
from typing import Final

from streamd.base.errors import CommandError, InvalidStreamId
from streamd.catalog import Batch, Context, command
from streamd.catalog.applying import Applying, CannotApply, applies
from streamd.commands.stream.append_runs import append_requests
from streamd.commands.stream.iid_times import record_iid
from streamd.commands.stream.options import PLAIN_HEAD, parse_append, parse_ids, parse_recorded_append
from streamd.data.entry_record import ID_AT, IDMP, IID_AT, NAME, NAMED_ID_AT, PID_AT, entry_words
from streamd.idmp.digest import idmpauto_iid
from streamd.resp.template import Column
from streamd.resp.types import Reply
from streamd.stream.entry_id import ID_MAX, SEQ_MAX, consecutive_parts, format_id, parse_id
from streamd.stream.stream import Stream
from streamd.stream.trimming import Trim
from streamd.stream.wire.entry_columns import columns_of, each


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
    batch=Batch(append_requests, takes_columns=True),
)
def xadd(context: Context, args: list[bytes]) -> Reply:
    """Append an entry to a stream and return its ID; a duplicate returns the ID of the entry that is there.

    It never waits for the disk: a trim whose entries are not in memory reads these at once.

    Reply: bulk string; null when NOMKSTREAM is given and the key does not exist.
    Raises: CommandError; WrongType.
    """
    # Decide. An iid is looked up and recorded in one step, behind all that could refuse its entry.
    state, db, key = context.state, context.db, args[1]
    options = PLAIN_HEAD if args[2] == b"*" and len(args) & 1 else parse_append(args, state.config)
    stream = db.values.get(key)
    if type(stream) is not Stream or key in db.expires_ms:
        stream = db.stream(key)
        if stream is None:
            if not options.make_stream:
                return None
            stream = context.create_stream(key)
    else:
        db.touched[key] = state.time.s
    fields = args[options.fields_at :]
    last_id, now_ms = stream.last_id, state.time.ms
    entry_id = first_id = now_ms << 64
    # (Texts of IDs stand here, without a call and with little arithmetic: they are a tenth of the handler's time.)
    if entry_id > last_id:
        id_text = b"%d-0" % now_ms
    else:
        entry_id = last_id + 1
        seq = entry_id - first_id
        id_text = b"%d-%d" % (now_ms, seq) if seq <= SEQ_MAX else format_id(entry_id)  # else the clock stepped back
    pid = iid = b""
    if options.pid_at:
        pid = args[options.pid_at]
        iid = args[options.iid_at] if options.iid_at else idmpauto_iid(fields)
        known_id = (
            stream.idmp.lookup_or_record(pid, iid, entry_id, now_ms)
            if entry_id - first_id <= SEQ_MAX
            else _lookup_or_record_ahead(context, key, stream, pid, iid, entry_id)
        )
        if known_id is not None:
            return _duplicate(context, key, stream, known_id)
    if options.entry_id is not None:
        entry_id = _explicit_id(options.entry_id, options.seq_given, last_id)
        id_text = format_id(entry_id)
    elif last_id == ID_MAX:
        raise _exhausted()

    # Apply.
    stream.append(entry_id, fields)

    # Record.
    state.dirty += 1
    if state.records is not None:
        state.records.append((db.index, entry_words(key, id_text, fields, pid, iid)))
    if key in db.followed:
        context.changed(key, "t", "xadd")
    if options.trim is not None:
        _trim(context, key, stream, options.trim)
    if key in db.waiting and db.waiting[key] <= entry_id:
        db.signal(key)
    return id_text


def _lookup_or_record_ahead(
    context: Context, key: bytes, stream: Stream, pid: bytes, iid: bytes, entry_id: int
) -> int | None:
    """Look an iid up, and record it for the next ID, which is ahead of the clock; IDs may also be exhausted."""
    known_id = stream.idmp.lookup(pid, iid, context.now_ms)
    if known_id is None and entry_id <= ID_MAX:
        record_iid(context, key, stream, pid, iid, entry_id)
    return known_id


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
    context.state.dirty += 1
    if context.state.records is not None:
        # No command says this: the journal keeps the counter's new value in a line of its own.
        context.record(b"XIDMPDUPLICATE", key, b"%d" % stream.idmp.iids_duplicates, changes=0)
    return format_id(entry_id)


def _trim(context: Context, key: bytes, stream: Stream, trim: Trim) -> None:
    """Trim behind an append, and record it exactly."""
    exact = trim.apply(stream)
    if exact:
        context.record_words([b"XTRIM", key, *exact], 0)
        context.notify(key, "t", "xtrim")


@applies("XADD")
def apply_entry(applying: Applying, words: list[bytes]) -> None:
    """Add an entry with the ID that was decided, and remember its iid; `*` for an ID counts a duplicate."""
    options = parse_recorded_append(words)
    key, id_text, fields = words[1], words[options.at], words[options.fields_at :]
    if id_text == b"*":
        if not options.pid_at:
            raise CannotApply("it has no ID")
        applying.stream(key).idmp.iids_duplicates += 1
        return
    entry_id = parse_id(id_text)
    stream = applying.stream_or_new(key) if options.make_stream else applying.stream(key)
    if entry_id <= stream.last_id:
        raise CannotApply("its ID is not greater than the last one")
    stream.append(entry_id, fields)
    if options.pid_at:
        iid = words[options.iid_at] if options.iid_at else idmpauto_iid(fields)
        stream.idmp.record(words[options.pid_at], iid, entry_id, applying.recorded_ms(key, entry_id))
    if options.trim is not None:
        options.trim.apply(stream)


def apply_columns(applying: Applying, places: Sequence[Column], count: int) -> bool:
    """Add so many entries of one stream, all with an iid or all without, given by the places of their records' words:
    one word that is the same in all, or one for each. Return whether that was done: of others none is added.
    """
    first = [place if isinstance(place, bytes) else place[0] for place in places[:3]]
    id_at = NAMED_ID_AT if first[2:] == [IDMP] else ID_AT
    fields = len(places) - id_at - 1
    if first[0] != NAME or fields < 2 or fields % 2:
        return False
    for at in (0, 1) if id_at == ID_AT else (0, 1, 2):
        place = places[at]
        if not isinstance(place, bytes) and place.count(first[at]) != count:
            return False
    id_texts, value = places[id_at], applying.db.values.get(first[1])
    ids = [] if isinstance(id_texts, bytes) else _rising_ids(id_texts)
    if (
        not ids
        or (value is not None and type(value) is not Stream)
        or ids[0] <= (0 if value is None else value.last_id)
    ):
        return False  # it will be refused
    columns = columns_of(places[id_at + 1 :], count)
    if columns is None:
        return False
    stream = applying.stream_or_new(first[1])
    stream.append_columns(ids, columns)
    if id_at != ID_AT:
        record = stream.idmp.record
        for pid, iid, entry_id in zip(each(places[PID_AT], count), each(places[IID_AT], count), ids, strict=True):
            record(pid, iid, entry_id)
    return True


@applies("XIDMPDUPLICATE")
def apply_duplicates(applying: Applying, words: list[bytes]) -> None:
    """Set how many duplicates a stream has answered; with an entry ID and a time, that time is when the next iid is
    recorded, if it is for that ID.
    """
    applying.stream(words[1]).idmp.iids_duplicates = int(words[2])
    if len(words) > 3:
        applying.expect_iid(words[1], parse_id(words[3]), int(words[4]))


def _rising_ids(texts: Sequence[bytes]) -> list[int]:
    """Return the entry IDs that records give in full, if each is valid and greater than the one before; else none.

    IDs that count up are compared with the expected texts, which takes half of the time of parsing them together.
    """
    ids: list[int] = []
    at = 0
    try:
        while at < len(texts):
            first_id = parse_id(texts[at])
            rest = texts[at + 1 : at + 1 + SEQ_MAX - (first_id & SEQ_MAX)]
            like = 1 + _count_up(rest, first_id + 1)
            if like < _FEW:
                ids += parse_ids([*texts[at:]])
                break
            ids += range(first_id, first_id + like)
            at += like
    except InvalidStreamId:
        return []
    return ids if all(map(lt, ids, islice(ids, 1, None))) else []


# Shorter runs are parsed together with the rest.
_FEW: Final = 8


def _count_up(texts: Sequence[bytes], first_id: int) -> int:
    """Return how many of the first texts are IDs that count up from `first_id`."""
    done = 0
    if len(texts) < _FEW - 1 or not texts[_FEW - 2].startswith(b"%d-" % (first_id >> 64)):
        return 0
    for head, tails in consecutive_parts(first_id, len(texts)):
        found = texts[done : done + len(tails)]
        size, low, high = len(head) + len(tails[0]), 0, len(found)
        # The first `low` are what they have to be. IDs only grow: where one is not, none behind it is.
        middle = high
        while low < high:
            part = found[low:middle]
            # (Joined they are compared at once; equally long, they cannot be other ones.)
            if b"".join(part) == head + head.join(tails[low:middle]) and [*map(len, part)].count(size) == len(part):
                low = middle
            else:
                high = middle - 1
            middle = (low + high + 1) // 2
        done += low
        if low < len(found):
            break
    return done
