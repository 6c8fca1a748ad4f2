"""The offset of a query: for each stream its position, and the split points of the range that ends there.

As JSON, in Spark's checkpoint:

    {"orders": {"id": "1700000000000-3", "n": 1042, "from": "0-0",
                "cuts": [["1699999999000-0", 512], ["1700000000000-3", 530]]}}

`id` is the last entry ID that is covered, `n` the number of entries ever added to the stream up to there (null if
unknown), `from` the last ID before the range that ends here, `cuts` the parts of that range: for each its last ID and
its number of entries when it was planned. A stream that is not read any more keeps its mark, in case it is read again.
A mark may have further members:

* `state`: "whole": the stream held no more entries when the query last looked; "late": likewise, and its split points
  are made when the batch runs; "gone": the stream has been deleted since, and a new one of its name is another stream;
  "cut": entries that had been read are gone, and `id` was set back to the last one that is left.
* `head`: the stream's first entry ID when the query last looked. It tells a stream that lost its newest entries from
  one that was made anew.
* `lost`: the number of entries of the range that were known to be gone (failOnDataLoss=false).
* `about`: "parts": the counts of the cuts are estimates, but their sum is exact; "total": the sum is estimated, too.
* `together`: ranges of several streams may share a task, up to this number of entries (see tasks.py). It stands in the
  offset because the option may be another one when the batch runs again.
* `behind`, if `n` is an estimate: [the first unread entry, the number of entries added to the stream by then].
* `at`: the server and database; by it the sink notices that it would write to a source of its query.

Since all of this stands in the checkpoint, the partitions of a batch are a pure function of its offsets: a restarted
query reads the same ranges, even from a stream that has been trimmed since, and even in its first batch, whose start
Spark does not write down (`latest` would be another place by then).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_source import ids
from spark_source.errors import StreamdError


@dataclass(frozen=True)
class Mark:
    """A query's position in one stream."""

    id: str
    n: int | None
    cuts: tuple[tuple[str, int], ...] = ()
    from_id: str | None = None
    lost: int = 0
    state: str = ""
    head: str | None = None
    about: str = ""
    behind: tuple[str, int] | None = None
    together: int | None = None

    def as_json(self) -> dict[str, object]:
        made: dict[str, object] = {"id": self.id, "n": self.n}
        if self.from_id is not None:
            made["from"] = self.from_id
            made["cuts"] = [list(cut) for cut in self.cuts]
        if self.lost:
            made["lost"] = self.lost
        if self.state:
            made["state"] = self.state
        if self.head is not None:
            made["head"] = self.head
        if self.about:
            made["about"] = self.about
        if self.behind is not None:
            made["behind"] = list(self.behind)
        if self.together is not None:
            made["together"] = self.together
        return made

    def at_rest(self, state: str) -> "Mark":
        """Return the mark of a stream of which the next batch reads nothing."""
        return Mark(self.id, self.n, state=state, head=self.head, behind=self.behind)


@dataclass(frozen=True)
class Range:
    """A part of a stream: the entries behind `start`, up to and including `end`, `count` of them when planned.

    If the count is an estimate, `head` is the stream's first entry ID at that time."""

    stream: str
    start: str
    end: str
    count: int
    head: str | None = None


WHOLE, GONE, LATE, CUT = "whole", "gone", "late", "cut"
PARTS, TOTAL = "parts", "total"

EARLIEST = Mark(ids.SMALLEST, 0)

Offset = dict[str, Mark]


def parse_offset(raw: Mapping[str, object]) -> Offset:
    """Return the marks of an offset as Spark hands it over.

    Raises: StreamdError when the checkpoint holds offsets of another source.
    """
    if not isinstance(raw, Mapping):  # the offset of a source that counts, such as `rate`, is a number
        shown = json.dumps(raw)[:80]
        raise StreamdError(
            f"the checkpoint's offset is not one of this source ({shown}): use another checkpointLocation"
        )
    return {stream: _parse_mark(stream, mark) for stream, mark in raw.items()}


def _parse_mark(stream: str, raw: object) -> Mark:
    try:
        assert isinstance(raw, dict)
        ids.parse(raw["id"])
        count = raw["n"]
        cuts = tuple((str(end), int(entries)) for end, entries in raw.get("cuts", []))
        count = None if count is None else int(count)
        lost, state, head = int(raw.get("lost", 0)), str(raw.get("state", "")), raw.get("head")
        behind = raw.get("behind")
        behind = None if behind is None else (str(behind[0]), int(behind[1]))
        about, together = str(raw.get("about", "")), raw.get("together")
        together = None if together is None else int(together)
        return Mark(raw["id"], count, cuts, raw.get("from"), lost, state, head, about, behind, together)
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        shown = json.dumps(raw)[:80]
        raise StreamdError(
            f"the checkpoint's offset for {stream} is not one of this source ({shown}): use another checkpointLocation"
        ) from None


def offset_json(offset: Offset, place: str | None = None) -> dict[str, dict[str, object]]:
    """Return an offset as Spark wants it: values that `json.dumps` can write, with the server of its streams."""
    at: dict[str, object] = {} if place is None else {"at": place}
    return {stream: {**mark.as_json(), **at} for stream, mark in offset.items()}


def ranges(start: Offset, end: Offset) -> list[Range]:
    """Return the parts between two offsets: a pure function of the two."""
    found = []
    for stream, mark in end.items():
        if start.get(stream) == mark or mark.from_id is None:
            continue  # nothing new; its cuts belong to the range before
        begin = mark.from_id
        for last, count in mark.cuts:
            found.append(Range(stream, begin, last, count, (mark.head or ids.SMALLEST) if mark.about else None))
            begin = last
    return found
