"""Runs of XADDs that came as requests of templates, executed as one without making the requests."""

from itertools import chain
from operator import attrgetter
from typing import Final

from streamd.base.errors import CommandError
from streamd.catalog import Context
from streamd.commands.stream.append_runs import append_entries, append_idempotent, is_trimmed_once, stream_of_run
from streamd.commands.stream.options import AppendOptions, parse_append
from streamd.commands.stream.replies import consecutive_replies
from streamd.commands.stream.run_fields import RunFields
from streamd.idmp.digest import idmpauto_iids
from streamd.resp.template import Alike, Template
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


def append_alike(context: Context, parts: list[Alike]) -> bool:
    """Append the entries of requests that differ in values, producer IDs and idempotent IDs alone; see
    catalog.context.AlikeBatch.

    What append_run does, but that nothing is compared from request to request, and no request is made: their words go
    from the decoder to the log as they are.
    """
    state, first = context.state, parts[0].template.words
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
    taken = _gathered(parts, options)
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


def _gathered(parts: list[Alike], options: AppendOptions) -> tuple[RunFields, Texts, Texts] | None:
    """Return the fields of all requests, their producer IDs and idempotent IDs; None if their heads or names differ."""
    layout: Layout | None = None
    values: list[bytes] = []
    pids: list[bytes] = []
    iids: list[bytes] = []
    at = 0
    while at < len(parts):
        template, end = parts[at].template, at + 1
        while end < len(parts) and parts[end].template is template:
            end += 1
        reading = _reading_of(template, options)
        if at and not _has_head(template.words, parts[0].template.words, options):
            return None
        layout = layout.joined_with(reading.layout) if layout is not None and reading.layout else reading.layout
        if layout is None:
            return None
        some = parts[at:end]
        count = sum([part.count for part in some])
        own: Texts = some[0].own if len(some) == 1 else [*chain.from_iterable(map(_own_words, some))]
        width = len(template.places)
        some_values = reading.values(own, width, count)
        named: tuple[Texts, Texts] = reading.named(own, width, count) if options.pid_at else ((), ())
        if len(some) == len(parts):
            return RunFields(None, layout, some_values), *named
        values += some_values
        pids += named[0]
        iids += named[1]
        at = end
    return RunFields(None, layout, values), pids, iids


def _has_head(words: list[bytes], first: list[bytes], options: AppendOptions) -> bool:
    """Return whether words have the same head as others, whose options these are, and as many fields."""
    return len(words) == len(first) and all(words[place] == first[place] for place in options.places_shared())
