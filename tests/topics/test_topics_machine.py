"""Random histories of a topic log against a model: publishers, generations, retention, readers, members, restarts."""

import binascii
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from streamd.base.clock import ManualClock
from streamd.clients.topics import Iterator, Message, TopicLog
from streamd.testing import EmbeddedServer
from tests.topics.mqtt_model import matches
from tests.topics.replays import drain

RETENTION_S = 7_200
LEASE_MS = 5_000
FILTERS = ["#", "a/+", "+/x", "b/#"]
EXAMPLES = int(os.environ.get("TOPICS_EXAMPLES", "8"))


@dataclass
class Stored:
    """A message that the log holds, or held."""

    generation: int
    shard: int
    id: tuple[int, int]
    topic: str
    publisher: str
    number: int
    iid: str | None
    is_removed: bool = False

    @property
    def place(self) -> str:
        return f"g{self.generation}/{self.shard}/{self.id[0]}-{self.id[1]}"


@dataclass
class Reader:
    """An iterator, what it gave, and what it may or must say of what went before it came."""

    pattern: str
    iterator: Iterator
    first: int
    seen: list[str] = field(default_factory=list)
    must_say_gap: bool = False
    may_say_gap: int = 0

    def has_passed(self, one: Stored) -> bool:
        if one.generation != self.iterator.generation:
            return one.generation < self.iterator.generation
        return one.id <= self.iterator.at[one.shard]


class TopicMachine(RuleBasedStateMachine):
    """One log, its model, three kinds of readers."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.clock = ManualClock(10**12)
        self.server = EmbeddedServer(self.clock, appendonly=True, dir=self.directory).start()
        self.port = self.server.port
        self.client = self.server.client()
        self.stored: list[Stored] = []
        self.numbers: dict[tuple[str, str], int] = {}
        self.readers: list[Reader] = []
        self.generations: list[tuple[int, int, str]] = []
        self.done: dict[bool, list[str]] = {False: [], True: []}
        self.members: dict[bool, list[Any]] = {False: [], True: []}

    @initialize(shards=st.integers(1, 4), by=st.sampled_from(["publisher", "topic"]))
    def begin(self, shards, by):
        self.log = TopicLog.create(self.client, "log", shards=shards, by=by, retention_s=RETENTION_S)
        self.generations = [(1, shards, by)]
        for ordered in (False, True):
            self.members[ordered] = [self.new_member(ordered) for _ in range(2)]

    def new_member(self, ordered):
        return self.log.share(f"share-{ordered}", ordered=ordered, lease_ms=LEASE_MS)

    @rule(
        pairs=st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from(["a/x", "a/y", "b/x", "b"])), max_size=8),
        with_iid=st.booleans(),
        is_stale=st.booleans(),
    )
    def publish(self, pairs, with_iid, is_stale):
        log = self.log if is_stale else TopicLog.open(self.client, "log")
        messages = []
        for publisher, topic in pairs:
            number = self.numbers[publisher, topic] = self.numbers.get((publisher, topic), -1) + 1
            iid = f"{topic}:{number}" if with_iid else None
            messages.append(Message(topic, str(number), publisher, iid))
        ids = log.publish_many(messages)
        for message, entry_id in zip(messages, ids, strict=True):
            generation, shards, by = self.generations[-1]
            name = message.topic if by == "topic" else message.publisher
            ms, seq = entry_id.split("-")
            shard = binascii.crc_hqx(name.encode(), 0) % shards
            number, iid = int(message.payload), message.iid
            self.stored.append(
                Stored(generation, shard, (int(ms), int(seq)), message.topic, message.publisher, number, iid)
            )
        self.apply_retention(ids)

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def publish_again(self, data):
        """A producer that has heard nothing tries again, within the window, in whatever process."""
        there = {number for number, _, _ in self.generations}
        young = self.clock.now_ms() - 3_000_000
        known = [one for one in self.stored if one.iid and one.generation in there and one.id[0] > young]
        if known:
            one = data.draw(st.sampled_from(known))
            log = TopicLog.open(self.client, "log")
            again = log.publish(one.topic, str(one.number), one.publisher, one.iid)
            assert again == f"{one.id[0]}-{one.id[1]}"
            self.apply_retention([again])

    @rule(shards=st.integers(1, 4), by=st.sampled_from(["publisher", "topic"]))
    def reconfigure(self, shards, by):
        TopicLog.open(self.client, "log").reconfigure(shards=shards, by=by)
        self.generations.append((self.generations[-1][0] + 1, shards, by))

    @precondition(lambda self: len(self.generations) > 1)
    @rule(data=st.data())
    def drop_a_generation(self, data):
        number = data.draw(st.sampled_from(self.generations[:-1]))[0]
        self.log.drop(number)
        self.removed([one for one in self.stored if one.generation == number])
        self.forget_generations([number])

    @rule(seconds=st.sampled_from([0.001, 1, 6, 600, 3_000]))
    def wait(self, seconds):
        self.server.advance(seconds=seconds)

    @rule()
    def retain(self):
        self.log.retain()
        self.sync_retention()

    def apply_retention(self, ids):
        """A publisher may have looked for what is too old: what the server says of it is checked in sync_retention."""
        if ids:
            self.sync_retention()

    def sync_retention(self):
        horizon = self.clock.now_ms() - RETENTION_S * 1_000
        info = {one["generation"]: one["entries"] for one in self.log.info()["generations"]}
        alive = [one for one in self.stored if not one.is_removed]
        too_old = [one for one in alive if one.id[0] < horizon]
        left = sum(map(sum, info.values()))
        assert left in (len(alive), len(alive) - len(too_old))
        if left == len(alive) - len(too_old):
            self.removed(too_old)
        gone = [number for number, _, _ in self.generations if number not in info]
        assert not [one for one in self.stored if one.generation in gone and not one.is_removed]
        self.forget_generations(gone)

    def removed(self, entries):
        gone = [one for one in entries if not one.is_removed]
        for one in gone:
            one.is_removed = True
        for reader in self.readers:
            if any(not reader.has_passed(one) for one in gone):
                reader.must_say_gap = True
                reader.may_say_gap += 1

    def forget_generations(self, numbers):
        for reader in self.readers:
            reader.may_say_gap += any(number >= reader.iterator.generation for number in numbers)
        self.generations = [one for one in self.generations if one[0] not in numbers]

    @rule(pattern=st.sampled_from(FILTERS), start=st.sampled_from(["earliest", "latest"]))
    def begin_reading(self, pattern, start):
        iterator = self.log.iterator(pattern, start)
        self.sync_retention()
        reader = Reader(pattern, iterator, len(self.stored))
        if start == "earliest":
            reader.first = next((at for at, one in enumerate(self.stored) if not one.is_removed), reader.first)
            # A generation that was dropped from between two that are there is told of, also if it went before.
            numbers = [number for number, _, _ in self.generations]
            reader.may_say_gap = sum(later - earlier > 1 for earlier, later in pairwise(numbers))
        self.readers.append(reader)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), n=st.integers(1, 5))
    def read_some(self, data, n):
        reader = data.draw(st.sampled_from(self.readers))
        entries, iterator, state = self.log.next(Iterator.from_bytes(bytes(reader.iterator)), n)
        reader.iterator = iterator
        reader.seen += [entry.place for entry in entries]
        self.note(reader, [state])

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def read_to_the_end(self, data):
        reader = data.draw(st.sampled_from(self.readers))
        self.finish(reader)

    def finish(self, reader):
        entries, reader.iterator, states = drain(self.log, reader.iterator, 3)
        reader.seen += [entry.place for entry in entries]
        self.note(reader, states)
        assert not reader.must_say_gap, "something went unread, and the reader was not told"
        there = {one.place: one for one in self.stored}
        assert len(set(reader.seen)) == len(reader.seen), "something was given twice"
        wanted = [
            one.place
            for one in self.stored[reader.first :]
            if matches(reader.pattern, one.topic) and not one.is_removed
        ]
        assert set(wanted) <= set(reader.seen), "something was lost"
        assert all(matches(reader.pattern, there[place].topic) for place in reader.seen)
        self.check_order(reader.seen)

    def check_order(self, places):
        there = {one.place: one for one in self.stored}
        last: dict[tuple[str, str], int] = {}
        for place in places:
            one = there[place]
            assert last.get((one.publisher, one.topic), -1) < one.number
            last[one.publisher, one.topic] = one.number

    def note(self, reader, states):
        gaps = states.count("gap")
        assert gaps <= reader.may_say_gap, "a gap where nothing went"
        if gaps:
            reader.must_say_gap = False
            reader.may_say_gap -= gaps

    @rule(ordered=st.booleans(), which=st.integers(0, 1), n=st.integers(1, 6))
    def work(self, ordered, which, n):
        entries, _ = self.members[ordered][which].next(n)
        assert len(entries) <= n
        self.members[ordered][which].ack(entries)
        self.done[ordered] += [entry.place for entry in entries]

    @rule(ordered=st.booleans(), which=st.integers(0, 1), has_work=st.booleans())
    def die(self, ordered, which, has_work):
        if has_work:
            self.members[ordered][which].next(3)
        self.members[ordered][which] = self.new_member(ordered)
        self.sync_retention()  # a member that joins looks for what is too old

    @rule()
    def restart(self):
        self.server.stop()
        self.server = EmbeddedServer(self.clock, appendonly=True, dir=self.directory, port=self.port).start()

    def teardown(self):
        try:
            if self.generations:
                for reader in self.readers:
                    self.finish(reader)
                for ordered in (False, True):
                    self.finish_members(ordered)
            assert self.server.internal_errors == 0
        finally:
            self.client.close()
            self.server.stop()
            shutil.rmtree(self.directory)

    def finish_members(self, ordered):
        idle = 0
        while idle < 6:
            for member in self.members[ordered]:
                entries, state = member.next(10)
                member.ack(entries)
                self.done[ordered] += [entry.place for entry in entries]
                idle = idle + 1 if state == "live" else 0
            self.server.advance(milliseconds=LEASE_MS)
        done = self.done[ordered]
        assert len(set(done)) == len(done), "something acknowledged was given again"
        assert {one.place for one in self.stored if not one.is_removed} <= set(done), "something was lost"
        if ordered:
            self.check_order(done)


def test_random_histories_of_a_topic_log_are_those_of_the_model():
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    long = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(TopicMachine, settings=long)


@pytest.mark.parametrize("what", ["lost", "twice", "order"])
def test_the_model_finds_what_is_planted(what, monkeypatch):
    """Faults in reading that the machine must find, else it checks nothing."""
    from streamd.clients.topics import reading

    take, whole = reading._Cursor.take, TopicMachine()
    try:
        whole.begin(shards=2, by="publisher")
        whole.publish([("p", "a/x")] * 6, False, False)
        reader = Reader("#", whole.log.iterator(), 0)

        def faulty(cursor, page):
            more = take(cursor, page)
            if what == "lost":
                cursor.taken[:] = cursor.taken[:-1]
            if what == "twice" and cursor.taken:
                cursor.taken.append(cursor.taken[0])
            if what == "order":
                cursor.taken.reverse()
            return more

        monkeypatch.setattr(reading._Cursor, "take", faulty)
        with pytest.raises(AssertionError):
            whole.finish(reader)
    finally:
        monkeypatch.undo()
        whole.client.close()
        whole.server.stop()
        shutil.rmtree(whole.directory)
