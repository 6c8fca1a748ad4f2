"""The entries of one stream, in the order of their IDs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from streamd.stream.entry_id import ID_MAX, format_id


class _Node:
    __slots__ = ("fields", "ids", "last_id", "used")

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.fields: list[list[bytes]] = []
        self.used = 0
        self.last_id = 0


class Log:
    """The entries of one stream, in the order of their IDs (an entry: an ID and a flat list of fields and values).

    Shape: nodes of at most `node_max_entries` entries, deleted ones included, as trimming with `~` counts them.
    """

    __slots__ = ("_nodes", "node_max_entries")

    def __init__(self, node_max_entries: int = 100) -> None:
        self.node_max_entries = node_max_entries
        self._nodes: list[_Node] = []

    def __len__(self) -> int:
        return sum(len(node.ids) for node in self._nodes)

    def append(self, entry_id: int, fields: list[bytes]) -> None:
        """Add an entry; its ID must be greater than every ID before, its fields belong to the log from here on."""
        if not self._nodes or (self.node_max_entries and self._nodes[-1].used >= self.node_max_entries):
            self._nodes.append(_Node())
        node = self._nodes[-1]
        node.ids.append(entry_id)
        node.fields.append(fields)
        node.used += 1
        node.last_id = entry_id

    def append_many(self, ids: Sequence[int], width: int, flat: Sequence[bytes]) -> None:
        """Add a run of entries that have `width` fields and values each; `flat` holds them one entry behind the other."""
        for index, entry_id in enumerate(ids):
            self.append(entry_id, list(flat[index * width : (index + 1) * width]))

    @property
    def first_id(self) -> int | None:
        """The ID of the first entry; None when there is none."""
        return next((entry_id for node in self._nodes for entry_id in node.ids), None)

    @property
    def last_id(self) -> int | None:
        """The ID of the last entry; None when there is none."""
        return next((entry_id for node in reversed(self._nodes) for entry_id in reversed(node.ids)), None)

    @property
    def segments(self) -> int:
        """How many nodes the log has."""
        return len(self._nodes)

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the log takes."""
        return 500 + sum(200 + sum(map(len, fields)) for node in self._nodes for fields in node.fields)

    def get(self, entry_id: int) -> list[bytes] | None:
        """Return the fields of an entry, a new list; None when there is no such entry."""
        return next((fields for _, fields in self.iterate(entry_id, entry_id)), None)

    def __contains__(self, entry_id: int) -> bool:
        return self.get(entry_id) is not None

    def delete(self, entry_id: int) -> bool:
        """Delete an entry; return whether it was there."""
        for index, node in enumerate(self._nodes):
            if entry_id in node.ids:
                position = node.ids.index(entry_id)
                del node.ids[position], node.fields[position]
                if not node.ids:
                    del self._nodes[index]
                return True
        return False

    def trim_to_length(self, maxlen: int, approximate: bool = False, limit: int = 0) -> int:
        """Delete the first entries until `maxlen` are left; return how many were deleted.

        With `approximate` whole nodes alone go, and no more entries than `limit` (0: any number).
        """
        removed, length = 0, len(self)
        while self._nodes and length > maxlen:
            node = self._nodes[0]
            entries = len(node.ids)
            if limit and removed + entries > limit:
                break
            if length - entries >= maxlen:
                del self._nodes[0]
                removed += entries
                length -= entries
                continue
            if not approximate:
                removed += length - maxlen
                del node.ids[: length - maxlen], node.fields[: length - maxlen]
            break
        return removed

    def trim_before(self, min_id: int, approximate: bool = False, limit: int = 0) -> int:
        """Delete the entries with an ID less than `min_id`; return how many were deleted. The rest is as in trim_to_length."""
        removed = 0
        while self._nodes:
            node = self._nodes[0]
            entries = len(node.ids)
            if limit and removed + entries > limit:
                break
            if node.last_id < min_id:
                del self._nodes[0]
                removed += entries
                continue
            if not approximate:
                cut = bisect_left(node.ids, min_id)
                removed += cut
                del node.ids[:cut], node.fields[:cut]
            break
        return removed

    def iterate(self, start: int = 0, end: int = ID_MAX, reverse: bool = False) -> Iterator[tuple[int, list[bytes]]]:
        """Yield `(ID, fields)` of the entries from `start` to `end`, both included; `fields` is a new list."""
        ids = [entry_id for node in self._nodes for entry_id in node.ids]
        fields = [fields for node in self._nodes for fields in node.fields]
        picked = range(bisect_left(ids, start), bisect_right(ids, end))
        for index in reversed(picked) if reverse else picked:
            yield ids[index], list(fields[index])

    def encode_range(self, start: int, end: int, count: int | None = None, reverse: bool = False) -> tuple[int, bytes]:
        """Return `(how many, their RESP)` of the first `count` entries from `start` to `end`, the last ones first if `reverse`.

        The RESP is `*2 $ID *2n $field $value ...` of each entry, one behind the other, without the array header around them.
        """
        parts: list[bytes] = []
        entries = 0
        for entry_id, fields in self.iterate(start, end, reverse):
            if count is not None and entries >= count:
                break
            entries += 1
            name = format_id(entry_id)
            parts.append(b"*2\r\n$%d\r\n%b\r\n*%d\r\n" % (len(name), name, len(fields)))
            parts += [b"$%d\r\n%b\r\n" % (len(text), text) for text in fields]
        return entries, b"".join(parts)

    def ids(self, start: int = 0, end: int = ID_MAX, count: int | None = None, reverse: bool = False) -> list[int]:
        """Return the IDs of the entries that `encode_range` would encode."""
        found = [entry_id for entry_id, _ in self.iterate(start, end, reverse)]
        return found if count is None else found[: max(count, 0)]

    def count_range(self, start: int, end: int) -> int:
        """Return how many entries there are from `start` to `end`, both included."""
        return len(self.ids(start, end))

    def rank(self, entry_id: int) -> int:
        """Return how many entries have an ID less than `entry_id`."""
        return self.count_range(0, entry_id - 1) if entry_id else 0

    def split(self, start: int, end: int, count: int) -> list[int]:
        """Return where to cut the range from `start` to `end` into parts of `count` entries.

        These are the first IDs of the second, third, ... part: of the entries number `count`, `2 * count`, ... (the first
        entry of the range is number 0). A range of `count` entries or less needs no cut: an empty list. `count` is 1 or more.
        """
        return self.ids(start, end)[count::count]

    def read_batch(self, start: int) -> list[tuple[int, list[bytes]]]:
        """Return some entries, `(ID, fields)`, the first one that has ID `start` or more at their head; [] at the end of the log.

        This walks a log that changes in between: go on at the last ID of the batch plus one.
        """
        batch = []
        for entry in self.iterate(start):
            batch.append(entry)
            if len(batch) == 100:
                break
        return batch

    def copy(self) -> "Log":
        """Return a log with the same entries that can be changed apart from this one."""
        other = Log(self.node_max_entries)
        for node in self._nodes:
            twin = _Node()
            twin.ids, twin.fields, twin.used, twin.last_id = list(node.ids), list(node.fields), node.used, node.last_id
            other._nodes.append(twin)
        return other
