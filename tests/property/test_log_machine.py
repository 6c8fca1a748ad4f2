"""Long random histories of a log with larger nodes end as those of the obvious model."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.entry_log import Log
from streamd.stream.log.segment_cache import CACHE
from streamd.stream.wire.entry_columns import EntryColumns
from tests.examples import examples
from tests.property.log_model import LogModel, assert_equal, assert_same_nodes

STEPS = st.sampled_from([1, 1, 1, 2, 300, 1 << 64, 1 << 64, (1 << 64) + 1, 40 << 64, 5000 << 64])
VALUES = st.sampled_from([b"", b"v", b"w" * 30, b"\r\n$3\r\n", b"x" * 1500])
SHAPES = st.sampled_from([(b"f",), (b"f",), (b"g",), (b"f", b"g"), (b"f", b"g", b"f")])


class LogMachine(RuleBasedStateMachine):
    @initialize(node_max=st.sampled_from([0, 5, 20, 100]), first_ms=st.sampled_from([0, 990, 1_795_246_993_860]))
    def begin(self, node_max, first_ms):
        first = first_ms << 64 | 1
        self.log = Log(node_max)
        self.model = LogModel(node_max)
        self.last = first
        self.ids = [first]

    def next_id(self, step):
        self.last += step
        self.ids.append(self.last)
        return self.last

    @rule(steps=st.lists(STEPS, min_size=1, max_size=60), shape=SHAPES, values=st.lists(VALUES, min_size=4, max_size=4))
    def append(self, steps, shape, values):
        for number, step in enumerate(steps):
            entry_id = self.next_id(step)
            fields = [text for place, name in enumerate(shape) for text in (name, values[(number + place) % 4])]
            self.log.append(entry_id, fields)
            self.model.append(entry_id, fields)

    @rule(
        count=st.integers(1, 250),
        step=STEPS,
        shape=SHAPES,
        values=st.lists(VALUES, min_size=4, max_size=4),
        are_alike=st.booleans(),
        is_said=st.booleans(),
    )
    def append_values(self, count, step, shape, values, are_alike, is_said):
        """As columns: names and, if all values of a field are as long, their lengths are known."""
        ids = [self.next_id(step) for _ in range(count)]
        shifts = [0] * count if are_alike else range(count)
        rows = [[values[(place + shift) % 4] for place in range(len(shape))] for shift in shifts]
        lengths = tuple(map(len, rows[0])) if are_alike and is_said else None
        texts = [value for row in rows for value in row]
        self.log.append_columns(ids, EntryColumns(shape, tuple(texts) if is_said else texts, lengths))
        for entry_id, row in zip(ids, rows, strict=True):
            self.model.append(entry_id, [text for pair in zip(shape, row, strict=True) for text in pair])

    @rule(data=st.data())
    def delete(self, data):
        for _ in range(data.draw(st.integers(1, 30))):
            entry_id = data.draw(st.sampled_from(self.ids))
            assert self.log.delete(entry_id) == self.model.delete(entry_id)

    @rule(data=st.data())
    def delete_a_run(self, data):
        start = data.draw(st.integers(0, len(self.ids) - 1))
        for entry_id in self.ids[start : start + data.draw(st.integers(0, 120))]:
            assert self.log.delete(entry_id) == self.model.delete(entry_id)

    @rule(data=st.data())
    def delete_many(self, data):
        start = data.draw(st.integers(0, len(self.ids) - 1))
        step = data.draw(st.sampled_from([1, 1, 2, 7, -1]))
        wanted = self.ids[start : start + 200 : step] if step > 0 else self.ids[start : start + 60][::-1]
        wanted = wanted + data.draw(st.lists(st.sampled_from([*wanted, self.ids[0] - 1, self.last + 5]), max_size=4))
        there = [entry_id for entry_id in wanted if self.model.delete(entry_id)]
        assert self.log.delete_many(wanted) == sorted(there)

    @rule(data=st.data())
    def delete_each(self, data):
        wanted = data.draw(st.lists(st.sampled_from([*self.ids, self.last + 5]), max_size=80))
        assert self.log.delete_each(wanted) == [self.model.delete(entry_id) for entry_id in wanted]

    @rule(share=st.floats(0, 1.1), approximate=st.booleans(), limit=st.sampled_from([0, 0, 3, 50]))
    def trim_to_length(self, share, approximate, limit):
        maxlen = int(len(self.log) * share)
        removed = self.log.trim_to_length(maxlen, approximate, limit)
        assert removed == self.model.trim_to_length(maxlen, approximate, limit)

    @rule(data=st.data(), approximate=st.booleans(), limit=st.sampled_from([0, 0, 3, 50]))
    def trim_before(self, data, approximate, limit):
        min_id = data.draw(st.sampled_from(self.ids))
        removed = self.log.trim_before(min_id, approximate, limit)
        assert removed == self.model.trim_before(min_id, approximate, limit)

    @rule(entries=st.sampled_from([0, 1, 7, 50, 200]))
    def set_node_max_entries(self, entries):
        self.log.node_max_entries = self.model.node_max_entries = entries

    @rule()
    def go_on_with_a_copy(self):
        old, old_model = self.log, self.model.copy()
        self.log = old.copy()
        old.trim_to_length(1)
        old_model.trim_to_length(1)
        assert_equal(old, old_model)

    @rule(count=st.integers(1, 400), data=st.data())
    def split(self, count, data):
        start, end = data.draw(st.sampled_from(self.ids)), data.draw(st.sampled_from([*self.ids, ID_MAX]))
        assert self.log.split(start, end, count) == self.model.split(start, end, count)

    @rule(data=st.data(), count=st.sampled_from([1, 3, 10, 150]))
    def read(self, data, count):
        start, end = data.draw(st.sampled_from(self.ids)), data.draw(st.sampled_from(self.ids))
        # Twice: the second time much comes from the cache.
        assert_equal(self.log, self.model, [(start, end), (start, ID_MAX), (start + 1, end)], (count, None))
        assert_equal(self.log, self.model, [(start, ID_MAX)], (count,))

    @invariant()
    def what_is_kept_is_right(self):
        if not hasattr(self, "log"):
            return
        assert_same_nodes(self.log, self.model)
        sealed = self.log._sealed
        if sealed is not None:
            segments = sealed.segments[sealed.head :]
            assert sealed.live_count == sum(segment.live_count for segment in segments)
            assert sealed.memory_bytes == sum(segment.memory_bytes for segment in segments)
            assert all(segment.live_count for segment in segments)
            assert all(segment.count < 16 or 2 * segment.live_count >= segment.count for segment in segments[1:])

    def teardown(self):
        CACHE.forget_tail(self.log._ids)


LogMachine.TestCase.settings = settings(max_examples=examples(120), stateful_step_count=30, deadline=None)
TestLogMachine = LogMachine.TestCase
