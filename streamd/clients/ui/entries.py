"""The entries of a stream, a page at a time, by position or by the value of a field."""

import time
from dataclasses import dataclass
from typing import Final

from streamd.clients.ui.source import Request, Source, needed
from streamd.clients.ui.streams import Rates, Stream, milliseconds, one, one_with

# A page holds so many entries, fewer where they are large: it asks for about so many bytes.
ENTRIES_PER_PAGE = 50
PAGE_BYTES = 4 << 20

# A search reads pages of so many entries until it has a page, or has taken so long; then the user says to go on.
SEARCHED_PER_PAGE = 500
SEARCH_S_MAX = 0.4

# No entry is before the first ID, or after the last one.
_FIRST_ID: Final = b"0-0"
_LAST_ID: Final = b"18446744073709551615-18446744073709551615"


@dataclass(frozen=True)
class Entry:
    """An entry: its ID, and its pairs of field and value in order."""

    id: bytes
    pairs: list[tuple[bytes, bytes]]

    @property
    def ms(self) -> int:
        """The milliseconds of the entry ID."""
        return milliseconds(self.id)


@dataclass(frozen=True)
class Wanted:
    """The entries of a page.

    before, after: entry IDs that bound the page, exclusive; start: the entry ID at which it begins, towards newer
    ones; without any of these it is the newest page. field, value: the field, and a part of its value, that an entry
    must have; b"" for any.
    """

    before: bytes = b""
    after: bytes = b""
    start: bytes = b""
    field: bytes = b""
    value: bytes = b""

    @property
    def is_search(self) -> bool:
        """Whether entries are searched by their fields."""
        return bool(self.field or self.value)

    @property
    def is_upwards(self) -> bool:
        """Whether the page is read from older to newer entries."""
        return not self.before and bool(self.after or self.start)

    def takes(self, entry: Entry) -> bool:
        """Return whether an entry has the field, and the value in it."""
        return any((not self.field or field == self.field) and self.value in value for field, value in entry.pairs)


@dataclass(frozen=True)
class EntryPage:
    """Entries, the newest first. has_newer, has_older: whether there may be more; searched: the number read."""

    entries: list[Entry]
    newest: bytes
    oldest: bytes
    has_newer: bool
    has_older: bool
    searched: int


def page_size(stream: Stream, most: int = ENTRIES_PER_PAGE) -> int:
    """Return the number of entries to ask for at once."""
    if not stream.memory_bytes or not stream.length:
        return most
    return max(1, min(most, PAGE_BYTES * stream.length // stream.memory_bytes))


def read(source: Source, rates: Rates, stream: Stream, wanted: Wanted) -> tuple[Stream, EntryPage]:
    """Return a page of a stream's entries, and the stream at the same moment; of a search, at its end.

    stream: as it was before, by which the size of a page is chosen. Raises: SourceError.
    """
    if wanted.is_search:
        page = _search(source, stream, wanted)
        return one(source, rates, stream.key), page
    size = page_size(stream)
    # One more than is shown says whether there are more.
    request = _request(stream, wanted, size + 1)
    stream, replies = one_with(source, rates, stream.key, [request] if request else [])
    entries, more = _cut(_entries(needed(replies[0])) if replies else [], size)
    return stream, _page(entries, wanted, more, len(entries))


def _search(source: Source, stream: Stream, wanted: Wanted) -> EntryPage:
    found: list[Entry] = []
    size, step = page_size(stream), page_size(stream, SEARCHED_PER_PAGE)
    end_s, at, searched, more = time.monotonic() + SEARCH_S_MAX, wanted, 0, True
    newest = oldest = b""
    while more and len(found) < size:
        request = _request(stream, at, step + 1)
        entries, more = _cut(_entries(source.ask(*request)) if request else [], step)
        for place, entry in enumerate(entries):
            if wanted.takes(entry):
                found.append(entry)
            if len(found) == size:
                more = more or place + 1 < len(entries)
                entries = entries[: place + 1]
                break
        searched += len(entries)
        if entries:
            newest, oldest = newest or entries[0].id, entries[-1].id
            at = Wanted(after=oldest) if wanted.is_upwards else Wanted(before=oldest)
        if time.monotonic() > end_s:
            break
    if wanted.is_upwards:
        newest, oldest = oldest, newest
    # The links go on behind what was read, also where nothing was found in it.
    return _page(found, wanted, more, searched, (newest, oldest) if newest else None)


def since(source: Source, rates: Rates, stream: Stream, after: bytes) -> tuple[Stream, list[Entry], bool]:
    """Return the newest entries behind an ID, newest first, and whether entries in between were left out.

    The stream is returned as it was at the same moment. Raises: SourceError.
    """
    size = page_size(stream)
    if after == _LAST_ID:
        return stream, [], False
    request = "XREVRANGE", stream.key, "+", b"(" + after, "COUNT", size + 1
    stream, (reply,) = one_with(source, rates, stream.key, [request])
    return stream, *_cut(_entries(needed(reply)), size)


def one_entry(source: Source, key: bytes, entry_id: bytes) -> Entry | None:
    """Return a whole entry, or None. Raises: SourceError."""
    found = _entries(source.ask("XRANGE", key, entry_id, entry_id, "COUNT", 1))
    return found[0] if found else None


def _cut(entries: list[Entry], size: int) -> tuple[list[Entry], bool]:
    return entries[:size], len(entries) > size


def _request(stream: Stream, wanted: Wanted, count: int) -> Request | None:
    """Return the request for entries; None if there can be none."""
    if wanted.before == _FIRST_ID or (wanted.is_upwards and wanted.after == _LAST_ID):
        return None  # a server calls an interval that begins or ends there invalid
    if wanted.is_upwards:
        start = b"(" + wanted.after if wanted.after else wanted.start
        return "XRANGE", stream.key, start, "+", "COUNT", count
    end = b"(" + wanted.before if wanted.before else b"+"
    return "XREVRANGE", stream.key, end, "-", "COUNT", count


def _entries(reply: list[tuple[bytes, list[bytes]]]) -> list[Entry]:
    return [Entry(entry_id, list(zip(words[::2], words[1::2], strict=True))) for entry_id, words in reply]


def _page(
    entries: list[Entry], wanted: Wanted, more: bool, searched: int, read: tuple[bytes, bytes] | None = None
) -> EntryPage:
    """Return a page. read: the newest and the oldest entry ID that were read, if these are not the entries' own."""
    if wanted.is_upwards:
        entries = entries[::-1]
        has_newer, has_older = more, True
    else:
        has_newer, has_older = bool(wanted.before), more
    none = wanted.before, wanted.after or wanted.start
    newest, oldest = read or ((entries[0].id, entries[-1].id) if entries else none)
    return EntryPage(entries, newest, oldest, has_newer, has_older and oldest not in (b"", _FIRST_ID), searched)
