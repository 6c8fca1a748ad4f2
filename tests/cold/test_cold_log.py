"""A log whose entries are partly in files has the same entries as one in memory, after any history."""

from random import Random

import pytest

from streamd.cold.block import Block
from streamd.cold.codec import ZSTD, is_available
from streamd.cold.cold_list import ColdList
from streamd.stream.entry_id import ID_MAX
from streamd.stream.log.absent import Absent
from streamd.stream.log.entry_log import Log
from tests.cold.cold_world import cold_store, evict, move, waiting

SEEDS = 60


class Pair:
    """A plain log and a cold one with the same history."""

    def __init__(self, seed: int, directory: str) -> None:
        self.random = Random(seed)
        self.store = cold_store(directory)
        self.never_cached = self.random.random() < 0.7
        if self.never_cached:
            self.store.files.read_cached = lambda one, place: None  # type: ignore[method-assign]
        node = self.random.choice([1, 2, 3, 5, 8])
        self.plain, self.cold = Log(node), Log(node, self.store)
        self.ever: list[int] = []
        self.last = 0

    def step(self) -> None:
        random = self.random
        kind = random.choices(
            ["append", "delete", "trim", "before", "move", "copy", "node", "evict", "recorded"],
            [30, 14, 8, 8, 22, 3, 2, 10, 4],
        )[0]
        getattr(self, kind)()

    def append(self) -> None:
        for _ in range(self.random.randint(1, 25)):
            ms = self.last >> 64
            self.last = self.last + 1 if self.random.random() < 0.3 else (ms + self.random.randint(1, 3)) << 64
            fields = [b"f", b"%d" % self.random.randint(0, 9)] * self.random.choice([1, 1, 1, 2])
            self.plain.append(self.last, fields)
            self.cold.append(self.last, fields)
            self.ever.append(self.last)

    def some_ids(self, most: int) -> list[int]:
        if not self.ever:
            return []
        start = self.random.randrange(len(self.ever))
        if self.random.random() < 0.5:
            return self.ever[start : start + self.random.randint(1, most)]
        return self.random.sample(self.ever, min(len(self.ever), self.random.randint(1, most)))

    def delete(self) -> None:
        ids = self.some_ids(12)
        if self.random.random() < 0.3:
            ids += [one + 1 for one in ids]
        waiting(lambda: self.cold.require_ids(ids))
        assert self.plain.delete_many(ids) == self.cold.delete_many(ids)

    def recorded(self) -> None:
        ids = [one for one in {*self.some_ids(12)} if one in self.plain]
        self.store.files.read, read = self.unreadable, self.store.files.read  # type: ignore[method-assign]
        self.plain.delete_many(ids)
        self.cold.delete_recorded(ids)
        self.store.files.read = read  # type: ignore[method-assign]

    def unreadable(self, *_: object) -> bytes:
        raise AssertionError("a block was read")

    def trim(self) -> None:
        length = self.random.choice([len(self.plain) - self.random.randint(0, 12), self.random.randint(0, 60)])
        approximate, limit = self.random.random() < 0.4, self.random.choice([0, 0, 3, 20])
        length = max(length, 0)
        assert self.plain.trim_to_length(length, approximate, limit) == self.cold.trim_to_length(
            length, approximate, limit
        )

    def before(self) -> None:
        min_id = self.random.choice(self.ever[-80:] or [0]) + self.random.choice([0, 0, 1])
        approximate, limit = self.random.random() < 0.4, self.random.choice([0, 0, 3, 20])
        if self.random.random() < 0.5:
            min_id = (self.plain.first_id or 0) + self.random.randint(0, 20 << 64)
        assert self.plain.trim_before(min_id, approximate, limit) == self.cold.trim_before(min_id, approximate, limit)

    def move(self) -> None:
        def meanwhile() -> None:
            for _ in range(self.random.choice([0, 0, 0, 1, 2])):
                self.random.choice([self.append, self.delete, self.trim, self.before, self.copy])()

        move(self.store, self.cold, self.random.choice([1, 3, 10, 1000]), self.random.choice([1, 2, 4]), meanwhile)

    def copy(self) -> None:
        self.plain, kept = self.plain.copy(), self.plain
        self.cold, kept_cold = self.cold.copy(), self.cold
        if self.random.random() < 0.5:
            self.plain, self.cold = kept, kept_cold

    def node(self) -> None:
        self.plain.node_max_entries = self.cold.node_max_entries = self.random.choice([1, 2, 4, 6, 9])

    def evict(self) -> None:
        evict(self.store)

    def check(self) -> None:
        plain, cold, random = self.plain, self.cold, self.random
        assert len(plain) == len(cold)
        assert plain.first_id == waiting(lambda: cold.first_id)
        assert plain.last_id == waiting(lambda: cold.last_id)
        assert plain.segments == waiting(lambda: cold.segments)
        if random.random() < 0.3:
            assert [*plain.iterate()] == waiting(lambda: [*cold.iterate()])
        for _ in range(4):
            start, end = sorted([random.choice(self.ever or [0]) + random.choice([-1, 0, 1]) for _ in range(2)])
            start, end = random.choice([(start, end), (0, end), (start, ID_MAX), (end, start)])
            start = max(start, 0)
            count = random.choice([None, 1, 5, 30])
            reverse = random.random() < 0.4
            self.required(start, end, count, reverse)
            one, other = (
                plain.encode_parts(start, end, count, reverse),
                waiting(
                    lambda: cold.encode_parts(start, end, count, reverse)  # noqa: B023
                ),
            )
            assert (one[0], b"".join(one[1])) == (other[0], b"".join(other[1]))
            assert plain.count_range(start, end) == waiting(lambda: cold.count_range(start, end))  # noqa: B023
            assert plain.split(start, end, 3) == waiting(lambda: cold.split(start, end, 3))  # noqa: B023
            assert plain.ids_between(start, end, count) == waiting(lambda: cold.ids_between(start, end, count))  # noqa: B023
            assert plain.node_from(start) == waiting(lambda: cold.node_from(start))  # noqa: B023
        for one in self.some_ids(10):
            assert (one in plain) == waiting(lambda: one in cold)  # noqa: B023
            assert (one in plain) == waiting(lambda: cold.holds_pending(one))  # noqa: B023

    def required(self, start: int, end: int, count: int | None, reverse: bool) -> None:
        """What was required can be read at once."""
        for _ in range(3):
            try:
                self.cold.require(start, end, count, reverse)
                break
            except Absent as absent:
                absent.fetch()
        else:
            self.cold.require(start, end, count, reverse)
        if start <= end:
            self.cold.encode_parts(start, end, count, reverse)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_cold_log_is_as_a_plain_one(seed: int, tmp_path: object) -> None:
    pair = Pair(seed, str(tmp_path))
    for _ in range(70):
        pair.step()
        pair.check()


@pytest.mark.skipif(not is_available(ZSTD), reason="the package zstandard is not installed")
def test_what_comes_back_from_a_compressed_block_is_packed_as_it_was(tmp_path: object) -> None:
    store = cold_store(str(tmp_path))
    log = Log(10, store)
    for n in range(50):
        log.append(n + 1 << 64, [b"f", b"the same words again and again, %d" % n] * 2)
    cold = log.sealed
    assert isinstance(cold, ColdList)
    before = cold.memory_bytes
    group = cold.oldest_unwritten(1 << 30)
    writing = store.files.create(0)
    writing.write([Block(group, ZSTD)])
    file = writing.finish()
    store.files.sync(file)
    cold.switch(file, 0, 1, [group])
    evict(store)
    store.in_place += 1
    cold.bring_back()
    assert cold.memory_bytes == before
    assert all(one.raw_bytes for one in group)
    assert all(one.raw_bytes for one in cold.segments)


@pytest.mark.parametrize("ending", ["delete", "trim"])
def test_thousands_of_rows_without_entries_go_when_the_first_entry_goes(tmp_path: object, ending: str) -> None:
    store = cold_store(str(tmp_path))
    log = Log(1, store)
    ids = [n << 64 for n in range(1, 3_003)]
    for one in ids:
        log.append(one, [b"f", b"v"])
    move(store, log, 3_001, 1)
    log.delete_recorded(ids[1:-9])
    if ending == "delete":
        log.delete_recorded(ids[:1])
    else:
        assert log.trim_to_length(9, False, 0) == 1
    assert [one for one, _ in waiting(lambda: [*log.iterate()])] == ids[-9:]
