"""The log as an obvious list of nodes, each an obvious list of entries."""

from streamd.stream.entry_id import ID_MAX, format_id


def encode_entry(entry_id, fields):
    texts = b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in fields)
    name = format_id(entry_id)
    return b"*2\r\n$%d\r\n%b\r\n*%d\r\n%b" % (len(name), name, len(fields), texts)


class LogModel:
    """nodes: lists `[entries, used, last ID]`; entries are `(ID, fields)`; used counts deleted ones too."""

    def __init__(self, node_max_entries):
        self.node_max_entries = node_max_entries
        self.nodes = []

    def copy(self):
        other = LogModel(self.node_max_entries)
        other.nodes = [[list(entries), used, last_id] for entries, used, last_id in self.nodes]
        return other

    def entries(self, start=0, end=ID_MAX, reverse=False):
        found = [entry for node in self.nodes for entry in node[0] if start <= entry[0] <= end]
        return found[::-1] if reverse else found

    def append(self, entry_id, fields):
        if not self.nodes or (self.node_max_entries and self.nodes[-1][1] >= self.node_max_entries):
            self.nodes.append([[], 0, 0])
        node = self.nodes[-1]
        node[0].append((entry_id, list(fields)))
        node[1] += 1
        node[2] = entry_id

    def delete(self, entry_id):
        for node in self.nodes:
            for entry in node[0]:
                if entry[0] == entry_id:
                    node[0].remove(entry)
                    if not node[0]:
                        self.nodes.remove(node)
                    return True
        return False

    def trim(self, removable, gone, approximate, limit):
        """`removable(node, length)`: may the whole node go.

        `gone(entry, length)`: must this entry of the first node go.
        """
        removed = 0
        while self.nodes:
            node = self.nodes[0]
            length = len(self.entries())
            if limit and removed + len(node[0]) > limit:
                break
            if removable(node, length):
                removed += len(node[0])
                del self.nodes[0]
                continue
            while not approximate and node[0] and gone(node[0][0], length):
                del node[0][0]
                length -= 1
                removed += 1
            break
        return removed

    def trim_to_length(self, maxlen, approximate=False, limit=0):
        return self.trim(
            lambda node, length: length > maxlen and length - len(node[0]) >= maxlen,
            lambda entry, length: length > maxlen,
            approximate,
            limit,
        )

    def trim_before(self, min_id, approximate=False, limit=0):
        return self.trim(
            lambda node, length: node[2] < min_id, lambda entry, length: entry[0] < min_id, approximate, limit
        )

    def encode_range(self, start, end, count=None, reverse=False):
        found = self.entries(start, end, reverse)
        found = found if count is None else found[: max(count, 0)]
        return len(found), b"".join(encode_entry(*entry) for entry in found)

    def ids(self, start=0, end=ID_MAX, count=None):
        found = [entry_id for entry_id, _ in self.entries(start, end)]
        return found if count is None else found[: max(count, 0)]

    def split(self, start, end, count):
        return self.ids(start, end)[count::count]


def assert_same_nodes(log, model):
    """The log has the nodes of the model, but for empty ones, and its last one takes as many entries more."""
    sealed = log._sealed
    segments = [] if sealed is None else sealed.segments[sealed.head :]
    found = [(segment.live_count, segment.used, segment.last_id) for segment in segments]
    if log._ids:
        found.append((len(log._ids), len(log._ids) + log._gone, max(log._ids[-1], log._gone_id)))
        assert log._room - len(log._ids) == log._capacity - found[-1][1]
    assert found == [(len(entries), used, last_id) for entries, used, last_id in model.nodes if entries]
    assert log.memory_bytes > 0


def encoded(log, start, end, count=None, reverse=False):
    """What `encode_parts` returns, the parts joined."""
    entries, parts = log.encode_parts(start, end, count, reverse)
    return entries, b"".join(parts)


def assert_equal(log, model, ranges=(), counts=(None,)):
    """The log is the model, in all that is to be seen: in whole, and for each range with each count."""
    entries = model.entries()
    assert len(log) == len(entries)
    assert list(log.iterate()) == entries
    assert log.first_id == (entries[0][0] if entries else None)
    assert log.last_id == (entries[-1][0] if entries else None)
    assert encoded(log, 0, ID_MAX) == model.encode_range(0, ID_MAX)
    for start, end in ranges:
        assert list(log.iterate(start)) == model.entries(start)
        assert log.count_range(start, end) == len(model.entries(start, end))
        assert log.count_range(0, start - 1) == len(model.ids(0, start - 1))
        assert log.count_range(start, ID_MAX) == len(model.ids(start))
        assert (start in log) == (start in dict(entries))
        assert log.split(start, end, 1) == model.split(start, end, 1)
        assert log.split(start, end, 3) == model.split(start, end, 3)
        assert list(log.iterate(start, end)) == model.entries(start, end)
        for count in counts:
            assert log.ids_between(start, end, count) == model.ids(start, end, count)
            for reverse in (False, True):
                assert encoded(log, start, end, count, reverse) == model.encode_range(start, end, count, reverse)
