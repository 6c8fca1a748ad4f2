"""Runs of XADDs that are executed as one."""

from collections.abc import Sequence
from itertools import compress, islice, repeat
from typing import Final, cast

from streamd.base.errors import CommandError
from streamd.catalog import Context
from streamd.commands.stream.options import AppendOptions, parse_append
from streamd.commands.stream.xadd_replies import consecutive_replies, replies_of, reply_of
from streamd.data.entry_record import entry_columns, entry_words
from streamd.data.keyspace import AT_END
from streamd.data.records import ColumnsRecord, RecordColumn
from streamd.idmp.digest import idmpauto_iid, idmpauto_iids
from streamd.resp.template import Column, RequestColumns, Requests
from streamd.stream.entry_id import ID_MAX, SEQ_MAX, consecutive_ids
from streamd.stream.stream import Stream, append_to_each
from streamd.stream.trimming import Trim
from streamd.stream.wire.entry_columns import EntryColumns, columns_of, each

# A run to one stream of fewer requests is done row by row, as one to several streams is.
_COLUMN_MIN: Final = 3
# Behind a run of so many requests clients that may be served at its end are; those of a shorter one are served row by
# row: in Redis each of several waiting consumers gets one entry.
_SERVED_AT_END_MIN: Final = 64
# A request that trims so many entries more than it adds is none of a run.
_TRIMMED_MAX: Final = 1_000


def append_requests(context: Context, requests: Requests) -> int:
    """Append entries for requests that have one head, the words up to a `*` for the ID but for iid and pid; see Batch.

    The head is parsed once. If all go to one stream and have the same fields, their words at one place are a column,
    and C code does a column at once. Requests to several streams are appended row by row; those of one template by
    columns, where they neither trim nor have a pid. Property tests hold this against the handler.
    """
    first = requests.first
    options = _options_of_run(context, first)
    if options is None:
        return 0
    if isinstance(requests, RequestColumns):
        if requests.template.keys_differ:
            taken = 0 if options.pid_at or options.trim is not None else _append_to_each(context, requests, options)
            if taken:
                return taken
        elif _append_template(context, requests, options):
            return requests.count
        elif _stream_of_run(context, first[1], requests.count) is None:
            return 0  # before lists of requests are made
    rows = requests.rows()
    first = rows[0]
    if len(rows) == 1 or rows[1][1:2] == [first[1]]:
        if _stream_of_run(context, first[1], len(rows)) is None:
            return 0  # at once: it is asked again behind each request that is executed alone
        places = _places_alike(rows, options)
        count = len(places[0])
        is_long = count >= _COLUMN_MIN or count == len(rows)
        if is_long and _append_columns(context, places, count, first, options):
            return count
    return _append_rows(context, rows, options)


def _append_template(context: Context, requests: RequestColumns, options: AppendOptions) -> bool:
    """Append the entries of requests of one template, in whole, or none of them; return whether it did.

    The requests are not made: their words go from the decoder to the log as they are.
    """
    first, count, values_at = requests.first, requests.count, options.fields_at + 1
    lengths = tuple(map(len, first[values_at::2]))
    if [*requests.template.places] == [*range(values_at, len(first), 2)]:  # mostly: the values, as they are
        columns = EntryColumns(tuple(first[options.fields_at :: 2]), requests.own, lengths)
        return _append_columns(context, (), count, first, options, lengths, columns)
    return _append_columns(context, requests.columns(), count, first, options, lengths)


def _append_to_each(context: Context, requests: RequestColumns, options: AppendOptions) -> int:
    """Append the entries of requests of one template, each to the stream of its key, if nothing keeps them from being
    executed as one; return how many were appended: all, but where the IDs of a stream are used up.
    """
    state, db, columns = context.state, context.db, requests.columns()
    keys, fields = columns[1], columns[options.fields_at :]
    assert not isinstance(keys, bytes)
    values = [db.values.get(key) for key in keys]
    if {*map(type, values)} != {Stream}:
        return 0
    if not (db.waiting.keys().isdisjoint(keys) and db.expires_ms.keys().isdisjoint(keys)):
        return 0
    entries = zip(*[repeat(place) if isinstance(place, bytes) else place for place in fields])  # noqa: B905 (hot)
    ids = append_to_each(cast("list[Stream]", values), state.time.ms << 64, entries)
    count = len(ids)
    if count < len(keys):
        keys, fields = keys[:count], [place if isinstance(place, bytes) else place[:count] for place in fields]
    db.touched.update(dict.fromkeys(keys, state.time.s))
    state.dirty += count
    texts = {entry_id: b"%d-%d" % (entry_id >> 64, entry_id & SEQ_MAX) for entry_id in {*ids}}  # few
    replies = {entry_id: b"$%d\r\n%b\r\n" % (len(text), text) for entry_id, text in texts.items()}
    context.out += map(replies.__getitem__, ids)
    if state.records is not None and count:
        id_texts = [*map(texts.__getitem__, ids)]
        state.records.append(ColumnsRecord(db.index, entry_columns(keys, id_texts, fields)))
    if db.followers.keys:
        for key in keys:
            if key in db.followers.keys:
                db.touch(key)
    return count


def _options_of_run(context: Context, first: list[bytes]) -> AppendOptions | None:
    """Return the options of a run's first request; None if such requests are executed one by one."""
    if "t" in context.state.notify_flags:
        return None
    try:
        options = parse_append(first, context.state.config)
    except CommandError:
        return None
    return options if options.entry_id is None else None


def _places_alike(requests: list[list[bytes]], options: AppendOptions) -> list[tuple[bytes, ...]]:
    """Return the words of a run by their places: of the first request and those behind it that have as many words, the
    same key and the same head.
    """
    first, count = requests[0], len(requests)
    words = len(first)
    if [*map(len, requests)].count(words) == count:  # mostly a pipeline is one run
        places = [*zip(*requests)]  # noqa: B905 (checked, at a fifth of the cost)
        if all(places[place].count(first[place]) == count for place in options.places_shared()):
            return places
    # Of a head with an iid, what stands in front of the pid and what stands behind the iid.
    front, behind = options.own_words()
    head, tail, end = first[:front], first[behind : options.fields_at], 1
    for request in islice(requests, end, None):
        if len(request) != words or request[:front] != head or request[behind : options.fields_at] != tail:
            break
        end += 1
    return [*zip(*requests[:end], strict=True)]


def _append_columns(
    context: Context,
    places: Sequence[Column],
    count: int,
    first: Sequence[bytes],
    options: AppendOptions,
    lengths: tuple[int, ...] | None = None,
    columns: EntryColumns | None = None,
) -> bool:
    """Append the entries of a run, given by the places of its words, if nothing keeps it from being executed as one;
    return whether that is so. first: a request's words. lengths: of the values, if they are known to be alike. columns:
    the entries, if they are known; then no pid or iid may differ.

    The stream and the window are looked up once, IDs follow from the first one, and the stream is trimmed once.
    """
    state, key, trim = context.state, first[1], options.trim
    stream = _stream_of_run(context, key, count)
    if stream is None:
        return False
    entry_id = max(state.time.ms << 64, stream.last_id + 1)
    if (entry_id & SEQ_MAX) + count > SEQ_MAX or entry_id > ID_MAX:
        return False  # the IDs of one millisecond are nearly used up, or all of them
    if options.pid_at and entry_id >> 64 > state.time.ms:
        return False  # ahead of the clock each iid has a time
    if trim is not None and trim.by == "maxlen" and trim.threshold < count and key in context.db.waiting:
        return False  # it would remove entries before waiting clients get them
    if trim is not None and not _is_trimmed_once(stream, trim, entry_id, count):
        return False
    if columns is None:
        columns = columns_of(places[options.fields_at :], count, lengths)
        if columns is None:
            return False
    else:
        places = first
    if not options.pid_at:
        context.db.touched[key] = state.time.s
        _append_entries(context, stream, range(entry_id, entry_id + count), key, columns, trim)
        context.out.append(consecutive_replies(entry_id, count))
        return True
    pids = each(places[options.pid_at], count)
    iids = each(places[options.iid_at], count) if options.iid_at else idmpauto_iids(columns.names, columns.values)
    if not (all(pids) and all(iids)):
        return False  # an iid that is empty is an error, which the handler knows
    context.db.touched[key] = state.time.s
    _append_idempotent(context, stream, entry_id, key, pids, iids, columns, trim)
    return True


def _stream_of_run(context: Context, key: bytes, count: int) -> Stream | None:
    """Return the stream at `key` if nothing keeps so many requests for it from being executed as one."""
    db = context.db
    stream = db.values.get(key)
    if type(stream) is not Stream:
        return None
    if key in db.waiting:
        least_id, last_id = db.waiting[key], max(db.time.ms << 64, stream.last_id + 1) + count - 1
        if least_id <= last_id and (least_id != AT_END or count < _SERVED_AT_END_MIN):
            return None
    if key in db.expires_ms and db.expires_ms[key] <= db.time.ms:
        return None
    return stream


def _is_trimmed_once(stream: Stream, trim: Trim, first_id: int, count: int) -> bool:
    """Return whether one trim behind `count` entries leaves the same entries and nodes as a trim behind each entry.

    first_id: the ID of the first entry. One trim is enough while no trim ends at its limit or removes an entry of the
    run by its ID: then the last trim removes all that the trims together would, and the ends of nodes follow from the
    added entries.
    """
    if trim.references != "keep" or not _trims_little(stream, trim, count):
        return False
    if trim.by == "maxlen":
        return not trim.limit or len(stream) + count - trim.threshold <= trim.limit
    if trim.threshold > first_id:
        return False
    return not trim.limit or _count_before(stream, trim.threshold) <= trim.limit


def _trims_little(stream: Stream, trim: Trim, count: int) -> bool:
    """Return whether a trim behind `count` entries takes little time.

    One that takes much is the request's own, which the slow log then has by its name; see `Calls`.
    """
    if trim.by == "maxlen":
        removed = len(stream) + count - trim.threshold
    else:
        removed = _count_before(stream, trim.threshold)
    return removed <= count + _TRIMMED_MAX or 0 < trim.limit <= count + _TRIMMED_MAX


def _count_before(stream: Stream, entry_id: int) -> int:
    """Return the number of entries before an ID; XADD waits for nothing, so what is not in memory is read at once."""
    log = stream.log
    if not log.may_wait:
        return log.count_range(0, entry_id - 1)
    with log.at_once():
        return log.count_range(0, entry_id - 1)


def _append_idempotent(
    context: Context,
    stream: Stream,
    first_id: int,
    key: bytes,
    pids: Sequence[bytes],
    iids: Sequence[bytes],
    columns: EntryColumns,
    trim: Trim | None,
) -> None:
    """Do a batch of requests with iids."""
    count, idmp, now_ms = len(pids), stream.idmp, context.state.time.ms
    duplicates = idmp.known_columns(pids, iids, now_ms)
    if duplicates is not None:
        _count_duplicates(context, key, stream, count)
        context.out.append(replies_of(duplicates))
        return
    ids: Sequence[int] = range(first_id, first_id + count)
    if count < idmp.maxsize or pids[0] != pids[-1]:
        ids = consecutive_ids(first_id, count)  # log and windows share the numbers
    known = idmp.lookup_or_record_columns(pids, iids, ids, now_ms)
    new = known.count(None)
    if new == count:
        _append_entries(context, stream, ids, key, columns, trim, pids, iids)
        context.out.append(consecutive_replies(first_id, count))
        return
    if new:
        is_new = [entry_id is None for entry_id in known]
        some_pids, some_iids = [*compress(pids, is_new)], [*compress(iids, is_new)]
        _append_entries(context, stream, ids[:new], key, columns.selected(is_new), trim, some_pids, some_iids)
        unused = iter(ids)
        answers = [next(unused) if entry_id is None else entry_id for entry_id in known]
    else:
        answers = [*filter(None, known)]
    _count_duplicates(context, key, stream, count - new)
    context.out.append(replies_of(answers))


def _count_duplicates(context: Context, key: bytes, stream: Stream, duplicates: int) -> None:
    """Count duplicates of a batch: the journal gets one note."""
    stream.idmp.iids_duplicates += duplicates
    context.record(b"XIDMPDUPLICATE", key, b"%d" % stream.idmp.iids_duplicates, changes=duplicates)


def _append_entries(
    context: Context,
    stream: Stream,
    ids: Sequence[int],
    key: bytes,
    columns: EntryColumns,
    trim: Trim | None,
    pids: Sequence[bytes] | None = None,
    iids: Sequence[bytes] | None = None,
) -> None:
    """Append an entry for each request, with IDs that follow each other, trim and record that."""
    count = len(ids)
    stream.append_columns(ids, columns)
    exact = trim.apply(stream) if trim is not None else None
    state, db = context.state, context.db
    state.dirty += count
    if state.records is not None:
        run = range(ids[0], ids[0] + count)
        end = (b"XTRIM", key, *exact) if exact else None
        state.records.append(ColumnsRecord(db.index, entry_columns(key, run, columns.places(), pids, iids), end))
    if key in db.followers.keys:
        db.touch(key)
    if key in db.waiting and db.waiting[key] <= ids[-1]:
        db.signal(key)


def _append_rows(context: Context, requests: list[list[bytes]], options: AppendOptions) -> int:
    """Append requests that have one head, each to the stream of its key, as far as that is possible."""
    state, db, id_at, pid_at, trim = context.state, context.db, options.at, options.pid_at, options.trim
    first = requests[0]
    name, now_ms, records, touched, second = first[0], state.time.ms, state.records, db.touched, state.time.s
    front, behind = options.own_words()
    head, tail, option = first[2:front], first[behind : id_at + 1], first[2]
    values, waiting, expires_ms, followed = db.values, db.waiting, db.expires_ms, db.followers.keys
    new_id = now_ms << 64
    new_reply = b"$%d\r\n%b\r\n" % (len(new_text := b"%d-0" % now_ms), new_text)
    few = trim.threshold + _TRIMMED_MAX if trim is not None and trim.by == "maxlen" else 0
    trimmed: set[bytes] = set()  # of longer streams those that have few entries too many by now
    replies: list[bytes] = []
    appended = 0
    for request in requests:
        if request[0] != name or len(request) < id_at + 3 or not len(request) - id_at & 1 or request[2] != option:
            break
        if id_at > 2 and (request[2:front] != head or request[behind : id_at + 1] != tail):
            break
        key = request[1]
        stream = values.get(key)
        if type(stream) is not Stream or key in expires_ms:
            break
        if key in waiting and waiting[key] <= max(new_id, stream.last_id + 1):
            break
        if trim is not None and len(stream.log) > few and key not in trimmed:
            if not _trims_little(stream, trim, 1):
                break
            trimmed.add(key)
        fields = request[id_at + 1 :]
        if new_id > stream.last_id:
            entry_id, reply = new_id, new_reply
        elif stream.last_id == ID_MAX:
            break
        else:
            entry_id = stream.last_id + 1
            if pid_at and entry_id - new_id > SEQ_MAX:
                break
            reply = reply_of(entry_id)
        pid = iid = None
        if pid_at:
            pid = request[pid_at]
            if not pid or (options.iid_at and not request[options.iid_at]):
                break
            iid = request[options.iid_at] if options.iid_at else idmpauto_iid(fields)
            known_id = stream.idmp.lookup_or_record(pid, iid, entry_id, now_ms)
            if known_id is not None:
                touched[key] = second
                _count_duplicates(context, key, stream, 1)
                replies.append(reply_of(known_id))
                continue
        touched[key] = second
        stream.append(entry_id, fields)
        appended += 1
        exact = trim.apply(stream) if trim is not None else None
        if records is not None:
            id_text = new_text if entry_id == new_id else b"%d-%d" % (entry_id >> 64, entry_id & SEQ_MAX)
            words = entry_words(key, id_text, fields, pid or b"", iid or b"")
            if exact:  # one unit
                places: list[RecordColumn] = [words[0], key, *((word,) for word in words[2:])]
                records.append(ColumnsRecord(db.index, places, (b"XTRIM", key, *exact)))
            else:
                records.append((db.index, words))
        if key in followed:
            db.touch(key)
        replies.append(reply)
    state.dirty += appended
    context.out += replies
    return len(replies)
