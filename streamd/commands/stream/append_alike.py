"""Runs of XADDs that came as requests of templates, or some of them so, executed as one without making these."""

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context
from streamd.commands.stream.append_runs import (
    append_entries,
    append_idempotent,
    append_run,
    is_trimmed_once,
    stream_of_run,
)
from streamd.commands.stream.options import AppendOptions, parse_append
from streamd.commands.stream.replies import consecutive_replies
from streamd.commands.stream.run_fields import RunFields
from streamd.idmp.digest import idmpauto_iids
from streamd.resp.template import Columns, Requests, Template, rows_of
from streamd.stream.entry_id import ID_MAX, SEQ_MAX
from streamd.stream.layout import Layout, Texts

_own_words: Final = attrgetter("own")


class _Reading:
    """Where the words of a template's requests belong, if these are XADDs with some head.

    layout: of their entries; None: this template's cannot be executed as one. _values: a value of each field, for what
    they share; _own: `(which value, which of a request's own words)`; is_whole: these are all values and all of the own
    words. _pid, _iid: which of the own words is the producer ID and the idempotent ID, -1 if it is shared, as `_words`
    says.
    """

    __slots__ = ("_iid", "_own", "_pid", "_values", "_words", "is_whole", "layout")

    def __init__(self, template: Template, fields_at: int, pid_at: int, iid_at: int) -> None:
        words, places = template.words, template.places
        self.layout: Layout | None = None
        self._words = words[pid_at] if pid_at else b"", words[iid_at] if iid_at else b""
        self._pid = places.index(pid_at) if pid_at in places else -1
        self._iid = places.index(iid_at) if iid_at in places else -1
        self._values = [*words[fields_at + 1 :: 2]]
        self._own = [(place - fields_at >> 1, number) for number, place in enumerate(places) if place >= fields_at]
        self.is_whole = len(self._own) == len(self._values) and len(self._own) == len(places)
        of_names = [place for place in places if place >= fields_at and not place - fields_at & 1]
        if not of_names and len(places) == len(self._own) + (self._pid >= 0) + (self._iid >= 0):
            self.layout = Layout(tuple(words[fields_at::2]), tuple([len(value) for value in self._values]))

    def values(self, own: Texts, width: int, count: int) -> Texts:
        """Return the values of `count` requests, which have `width` words of their own each."""
        if self.is_whole:
            return own
        fields = len(self._values)
        if fields == 1 and self._own:
            return own[self._own[0][1] :: width]
        values = self._values * count
        for place, number in self._own:
            values[place::fields] = own[number::width]
        return values

    def named(self, own: Texts, width: int, count: int) -> tuple[Texts, Texts]:
        """Return their producer IDs and their idempotent IDs."""
        pid, iid = self._words
        return (
            own[self._pid :: width] if self._pid >= 0 else [pid] * count,
            own[self._iid :: width] if self._iid >= 0 else [iid] * count,
        )


def _reading_of(template: Template, options: AppendOptions) -> _Reading:
    asked = options.fields_at, options.pid_at, options.iid_at
    reading = template.kept.get(asked)
    if isinstance(reading, _Reading):
        return reading
    reading = template.kept[asked] = _Reading(template, *asked)
    return reading


def append_parts(context: Context, parts: Sequence[Requests]) -> int:
    """Append entries for requests that several clients sent, or one; see Batch."""
    # (By a look at two: mostly all come the same way, or nearly all.)
    if isinstance(parts[0], Columns) or isinstance(parts[-1], Columns):
        if append_alike(context, parts):
            return sum([part.count for part in parts])
        if stream_of_run(context, parts[0].first[1]) is None:
            return 0  # before lists of requests are made
    return append_run(context, rows_of(parts), 0)


def append_alike(context: Context, parts: Sequence[Requests]) -> bool:
    """Append the entries of requests that differ in values, producer IDs and idempotent IDs alone, all or none; return
    whether it did.

    What append_run does, but that nothing is compared from request to request, and no request is made: their words go
    from the decoder to the log as they are. (Of a client whose words are not all as long as those before, requests were
    made: these are taken apart, and the others' need not be put together.)
    """
    state, first = context.state, parts[0].first
    if "t" in state.notify_flags:
        return False
    try:
        options = parse_append(first, state.config)
    except CommandError:
        return False
    stream = stream_of_run(context, first[1])
    if options.entry_id is not None or stream is None:
        return False
    count = sum([part.count for part in parts])
    entry_id = max(state.time.ms << 64, stream.last_id + 1)
    if (entry_id & SEQ_MAX) + count > SEQ_MAX or entry_id > ID_MAX:
        return False
    if options.trim is not None and not is_trimmed_once(stream, options.trim, entry_id, count):
        return False
    taken = _gathered(parts, first, options)
    if taken is None:
        return False
    fields, pids, iids = taken
    if options.pid_at and not (all(pids) and (not options.iid_at or all(iids))):
        return False  # an iid that is empty is an error, which the handler knows
    context.db.touched[first[1]] = state.time.s
    if options.pid_at:
        named = iids if options.iid_at else idmpauto_iids(fields.columns())
        append_idempotent(context, stream, entry_id, first[1], pids, named, fields, options.trim)
    else:
        append_entries(context, stream, range(entry_id, entry_id + count), first[1], fields, options.trim)
        context.out.append(consecutive_replies(entry_id, count))
    return True


class _Taken:
    """Words of some requests: the layout of their entries, the values, one entry's behind the other's, and the producer
    IDs and idempotent IDs, where their head has them.
    """

    __slots__ = ("iids", "layout", "pids", "values")

    def __init__(self, layout: Layout, values: Texts, pids: Texts = (), iids: Texts = ()) -> None:
        self.layout = layout
        self.values = values
        self.pids = pids
        self.iids = iids


def _gathered(
    parts: Sequence[Requests], first: Sequence[bytes], options: AppendOptions
) -> tuple[RunFields, Texts, Texts] | None:
    """Return the fields of all requests, their producer IDs and idempotent IDs; None if their heads or names differ.

    first: the words of one of them.
    """
    stretches: list[_Taken] = []
    at = 0
    while at < len(parts):
        part, end = parts[at], at + 1
        if isinstance(part, Columns):
            template = part.template
            some = [part]
            while end < len(parts) and isinstance(other := parts[end], Columns) and other.template is template:
                some.append(other)
                end += 1
            taken = _of_template(template, some, first, options)
        else:
            while end < len(parts) and not isinstance(parts[end], Columns):
                end += 1
            taken = _taken_apart(rows_of(parts[at:end]), first, options)
        if taken is None:
            return None
        stretches.append(taken)
        at = end
    one = stretches[0]
    if len(stretches) == 1:
        return RunFields(None, one.layout, one.values), one.pids, one.iids
    layout = one.layout
    values: list[bytes] = []
    pids: list[bytes] = []
    iids: list[bytes] = []
    for one in stretches:
        joined = layout.joined_with(one.layout)
        if joined is None:
            return None
        layout = joined
        values += one.values
        pids += one.pids
        iids += one.iids
    return RunFields(None, layout, values), pids, iids


def _of_template(
    template: Template, parts: list[Columns], first: Sequence[bytes], options: AppendOptions
) -> _Taken | None:
    if template.words is not first and not _has_head(template.words, first, options):
        return None  # before they are read: a shorter head may have no words where these options say
    reading = _reading_of(template, options)
    if reading.layout is None:
        return None
    own: Texts = parts[0].own if len(parts) == 1 else [*chain.from_iterable(map(_own_words, parts))]
    width, count = len(template.places), sum([part.count for part in parts])
    values = reading.values(own, width, count)
    return _Taken(reading.layout, values, *(reading.named(own, width, count) if options.pid_at else ()))


def _taken_apart(rows: list[list[bytes]], first: Sequence[bytes], options: AppendOptions) -> _Taken | None:
    """Return the words of requests that were made; None if their heads or names differ."""
    count = len(rows)
    if [*map(len, rows)].count(len(first)) != count:
        return None
    columns = [*zip(*rows)]  # noqa: B905 (checked, at a fifth of the cost)
    if any(columns[place].count(first[place]) != count for place in options.places_shared()):
        return None
    names, values = columns[options.fields_at :: 2], columns[options.fields_at + 1 :: 2]
    if any(column.count(column[0]) != count for column in names):
        return None
    lengths = [[*map(len, column)] for column in values]
    are_known = all(column.count(column[0]) == count for column in lengths)
    layout = Layout(
        tuple([column[0] for column in names]), tuple([column[0] for column in lengths]) if are_known else None
    )
    texts: Texts = values[0]
    if len(values) > 1:
        texts = [b""] * (count * len(values))
        for place, column in enumerate(values):
            texts[place :: len(values)] = column
    if not options.pid_at:
        return _Taken(layout, texts)
    return _Taken(layout, texts, columns[options.pid_at], columns[options.iid_at] if options.iid_at else ())


def _has_head(words: Sequence[bytes], first: Sequence[bytes], options: AppendOptions) -> bool:
    """Return whether words have the same head as others, whose options these are, and as many fields."""
    return len(words) == len(first) and all(words[place] == first[place] for place in options.places_shared())
