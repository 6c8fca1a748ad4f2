"""Clients that wait with a filter, found by the entries that their filters let through."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from streamd.base.glob_table import GlobTable
from streamd.resp.types import Reply
from streamd.stream.entry_id import ID_MAX
from streamd.stream.search.patterns import EntryFilter, Pattern, value_of
from streamd.stream.stream import Stream

# With more new entries for each waiter, the waiters search the stream themselves, with its index.
_ENTRIES_PER_WAITER: Final = 2_000

# Waiters, in the order in which they came. (Any: the module of Waiter imports this one.)
_Waiters = dict[Any, None]


class Filtering(Protocol):
    """The filter of a waiter.

    wanted: the filter. is_open: whether it waits for entries at the end; if not, it is tried at every change of the
    stream.
    """

    wanted: EntryFilter
    is_open: bool

    def start_of(self, key: bytes) -> int:
        """Return the ID from which on the stream at a key was not searched."""

    def passed(self, key: bytes, entry_id: int) -> None:
        """Note that up to an ID no entry matches."""

    def on_timeout(self) -> Reply:
        """Return the reply when the time is up."""


class _Level:
    """A level of the waiters' topic filters. ending: the waiters whose filter ends here; open: those whose filter goes
    on with `#`; below: the next levels of other filters.
    """

    __slots__ = ("below", "ending", "open")

    def __init__(self) -> None:
        self.ending: _Waiters = {}
        self.open: _Waiters = {}
        self.below: dict[bytes, _Level] = {}


class _Field:
    """The waiters for values of one field, by the only value that matches, by topic filter, and by glob.

    places: (kind, text) of a pattern with wildcards -> its waiters; so the levels are searched once for all waiters
        with the same pattern.
    """

    __slots__ = ("globs", "places", "topics", "values")

    def __init__(self) -> None:
        self.places: dict[tuple[bytes, bytes], _Waiters] = {}
        self.values: dict[bytes, _Waiters] = {}
        self.globs: GlobTable[_Waiters] = GlobTable()
        self.topics = _Level()

    def __bool__(self) -> bool:
        return bool(self.values) or bool(self.places)

    def place(self, pattern: Pattern) -> _Waiters:
        """Return the dict of the waiters with a pattern; make it if missing."""
        if pattern.literal is not None:
            return self.values.setdefault(pattern.literal, {})
        said = pattern.kind, pattern.text
        place = self.places.get(said)
        if place is None:
            place = self.places[said] = self._place(pattern)
        return place

    def _place(self, pattern: Pattern) -> _Waiters:
        if pattern.levels is None:
            waiters: _Waiters = {}
            self.globs.add(pattern.text, waiters)
            return waiters
        level = self.topics
        for name in pattern.levels:
            if name == b"#":
                return level.open
            below = level.below.get(name)
            if below is None:
                below = level.below[name] = _Level()
            level = below
        return level.ending

    def forget(self, pattern: Pattern) -> None:
        """Remove the dict of the waiters with a pattern, whose last waiter has gone."""
        if pattern.literal is not None:
            del self.values[pattern.literal]
            return
        del self.places[pattern.kind, pattern.text]
        if pattern.levels is None:
            del self.globs[pattern.text]
        else:
            path = [(self.topics, b"")]
            for name in pattern.levels:
                if name != b"#":
                    path.append((path[-1][0].below[name], name))
            for (above, _), (level, name) in zip(path[-2::-1], path[:0:-1], strict=True):
                if level.ending or level.open or level.below:
                    break
                del above.below[name]

    def find(self, value: bytes, found: _Waiters) -> None:
        """Add to `found` the waiters whose filters let a value through."""
        if value in self.values:
            found.update(self.values[value])
        for _, waiters in self.globs.find(value) if len(self.globs) else ():
            found.update(waiters)
        top = self.topics
        is_system = value[:1] == b"$"  # no wildcard at the beginning matches it
        levels = [top]
        for name in value.split(b"/"):
            deeper = []
            for level in levels:
                hides = is_system and level is top
                if level.open and not hides:
                    found.update(level.open)
                below = level.below
                if below:
                    if name in below and not (hides and name == b"+"):
                        deeper.append(below[name])
                    if name != b"+" and b"+" in below and not hides:
                        deeper.append(below[b"+"])
            if not deeper:
                return
            levels = deeper
        for level in levels:
            found.update(level.ending)
            found.update(level.open)


class FilterTable:
    """The waiters of one key that have filters.

    seen_id: the entries up to this ID were matched with the filters of all waiters. stream: the stream of these
        entries.
    _has_passed: entries were matched without a note in the waiters that they do not concern. _last: the filter used
        last, and the dict of its waiters, since a thousand waiters with the same filter come and go together.
    """

    __slots__ = ("_added", "_by_field", "_has_passed", "_last", "_tried_always", "count", "seen_id", "stream")

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.seen_id = 0 if stream is None else stream.last_id
        self._added = 0 if stream is None else stream.entries_added
        self.count = 0
        self._by_field: dict[bytes, _Field] = {}
        self._tried_always: _Waiters = {}
        self._has_passed = False
        self._last: tuple[EntryFilter, _Waiters] | None = None

    def add(self, waiter: object, filtering: Filtering, start: int) -> None:
        """Add a waiter that has searched all entries before ID `start`."""
        self.count += 1
        self.seen_id = min(self.seen_id, start - 1)
        if not filtering.is_open:
            self._tried_always[waiter] = None
            return
        wanted, last = filtering.wanted, self._last
        place = last[1] if last is not None and last[0] is wanted else self._place(wanted)
        place[waiter] = None

    def _place(self, wanted: EntryFilter) -> _Waiters:
        field = self._by_field.get(wanted.field)
        if field is None:
            field = self._by_field[wanted.field] = _Field()
        place = field.place(wanted.pattern)
        self._last = wanted, place
        return place

    def remove(self, waiter: object, filtering: Filtering) -> None:
        """Forget a waiter."""
        self.count -= 1
        if not filtering.is_open:
            del self._tried_always[waiter]
            return
        wanted, last = filtering.wanted, self._last
        place = last[1] if last is not None and last[0] is wanted else self._place(wanted)
        del place[waiter]
        if not place:
            self._last = None
            field = self._by_field[wanted.field]
            field.forget(wanted.pattern)
            if not field:
                del self._by_field[wanted.field]

    def due(self, key: bytes, stream: Stream | None) -> Iterable[Any]:
        """Return the waiters that may have a match among the new entries of the stream at a key.

        A search that a bug ends counts as not done, and the next entry repeats it.
        """
        before = self.seen_id, self._added, self.stream, self._has_passed
        try:
            return self._due(key, stream)
        except Exception:
            self.seen_id, self._added, self.stream, self._has_passed = before
            raise

    def _due(self, key: bytes, stream: Stream | None) -> Iterable[Any]:
        before, added = (self.seen_id, self._added) if stream is self.stream else (0, 0)
        self.stream = stream
        if stream is None:
            self.seen_id = 0
            return ()
        self.seen_id, self._added = stream.last_id, stream.entries_added
        has_passed, self._has_passed = self._has_passed, True
        if stream.last_id == ID_MAX:
            return self._all()
        if stream.last_id <= before:
            return ()
        if stream.entries_added - added > _ENTRIES_PER_WAITER * self.count:
            return self._all()
        found: _Waiters = dict(self._tried_always)
        if stream.log.may_wait:
            with stream.log.at_once():  # (they are new: mostly in memory)
                self._find_all(stream, before, found)
        else:
            self._find_all(stream, before, found)
        if has_passed:
            for waiter in found:
                waiter.filtering.passed(key, before)
        return found

    def _find_all(self, stream: Stream, before: int, found: _Waiters) -> None:
        """Add to `found` the waiters whose filters let one of the entries behind an ID through."""
        for _, fields in stream.log.iterate(before + 1):
            self._find(fields, found)

    def _find(self, fields: list[bytes], found: _Waiters) -> None:
        """Add to `found` the waiters whose filters let an entry through. It iterates the fields of the entry or of the
        filters, whichever are fewer.
        """
        by_field = self._by_field
        if len(fields) >= 2 * len(by_field):
            for name, field in by_field.items():
                value = value_of(fields, name)
                if value is not None:
                    field.find(value, found)
            return
        # (Of a field that an entry has several times the last value counts, which is the one that a dict keeps.)
        for name, value in dict(zip(fields[::2], fields[1::2], strict=True)).items():
            wanted = by_field.get(name)
            if wanted is not None:
                wanted.find(value, found)

    def _all(self) -> _Waiters:
        everybody = dict(self._tried_always)
        for field in self._by_field.values():
            for waiters in (*field.values.values(), *field.globs.values()):
                everybody.update(waiters)
            levels = [field.topics]
            while levels:
                level = levels.pop()
                everybody.update(level.ending)
                everybody.update(level.open)
                levels += level.below.values()
        return everybody
