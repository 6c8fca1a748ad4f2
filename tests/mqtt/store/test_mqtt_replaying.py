"""Readers that are behind share scans: each entry is read about once, and offered to its receivers only."""

import asyncio
from collections import defaultdict

import pytest

from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.replaying import Replay
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.stored import Stored
from streamd.clients.mqtt.store.tailing import TailedLog
from streamd.clients.topics.entry_ids import parse_id
from tests.mqtt.store.fake_store import Store, entries_of, log_of

pytestmark = pytest.mark.interpreted(reason="store and readers are a test's own")

SHARDS = 2


class Reader:
    """Reads one topic; window: so many entries it takes before it has to be added again."""

    filters = ("#",)

    def __init__(self, topic, window, position):
        self.topic, self.window, self.position = topic, window, position
        self.room, self.found, self.offered, self.missing = window, [], 0, 0

    def offer_all(self, entries):
        for number, entry in enumerate(entries):
            self.offered += 1
            assert entry.topic == self.topic
            if not self.room:
                return number
            self.room -= 1
            self.found.append(int(entry.payload))
        return len(entries)

    def missed(self, shard):
        self.missing += 1


class Log:
    """Entries of topics in turn, in two shards, and a replay of them for readers of one topic each."""

    def __init__(self, topics, entries):
        self.names = [b"t/%d" % number for number in range(topics)]
        fields = [[b"t", self.names[at % topics], b"p", b"%d" % at] for at in range(entries)]
        self.streams = {b"k%d" % shard: entries_of(self._of(shard, fields)) for shard in range(SHARDS)}
        self.store = Store(self.streams)
        self.end = Position(1, tuple(parse_id(stream[-1][0]) for stream in self.streams.values()))
        self.readers, self.by_topic = [], defaultdict(list)
        self.looked_up = 0
        self.done, self.order = asyncio.Event(), []

    def _of(self, shard, fields):
        return [one for one in fields if self.names.index(one[1]) % SHARDS == shard]

    def add(self, topic, window, position=None):
        reader = Reader(topic, window, position or Position.begin(1, SHARDS))
        self.readers.append(reader)
        self.by_topic[topic].append(reader)
        return reader

    def receivers(self, log, topic):
        self.looked_up += 1
        return self.by_topic[topic]

    def caught_up(self, reader):
        self.order.append(reader)
        if len(self.order) == len(self.readers):
            self.done.set()

    async def replay(self, has_search=False, tailed=None):
        tailed = tailed or TailedLog(log_of(list(self.streams)), self.end, Ring(self.end, 10, 1_000))
        replay = Replay(self.store, tailed, has_search, self.receivers, self.caught_up, print)
        for one in self.readers:
            replay.add(one)
        while not self.done.is_set():  # whoever was full has room again a few turns later
            for _ in range(3):
                await asyncio.sleep(0)
            for one in self.readers:
                if not one.room and one not in self.order:
                    one.room = one.window
                    replay.add(one)
        await replay.close()
        return replay

    def expected(self, topic):
        entries = [one for stream in self.streams.values() for _, one in stream]
        return [int(one[3]) for one in entries if one[1] == topic]


def test_a_crowd_costs_one_scan_and_each_entry_is_offered_to_its_receiver_only():
    async def main():
        log = Log(100, 20_000)
        for name in log.names:
            log.add(name, window=1_000)
        replay = await log.replay()
        assert [one.found for one in log.readers] == [log.expected(one.topic) for one in log.readers]
        assert replay.read == 20_000
        assert sum(one.offered for one in log.readers) == 20_000
        assert log.looked_up <= 1.2 * len(log.names) * len(log.store.asked) / SHARDS

    asyncio.run(main())


@pytest.mark.parametrize("window", [1, 5, 20])
def test_readers_that_are_full_again_and_again_go_on_together(window):
    async def main():
        log = Log(20, 4_000)
        for name in log.names:
            log.add(name, window)
            log.add(name, window + 1)
        replay = await log.replay()
        assert [one.found for one in log.readers] == [log.expected(one.topic) for one in log.readers]
        # As many reads as windows fill the log, some times over; for each of the 40 readers alone it would be as many.
        assert len(log.store.asked) <= 4 * (4_000 / len(log.names) / window) + 20
        assert replay.read <= 400 * len(log.store.asked)  # not much that nobody has room for

    asyncio.run(main())


def test_a_reader_that_is_far_behind_and_slow_does_not_hold_up_a_crowd():
    async def main():
        log = Log(10, 4_000)
        slow = log.add(log.names[0], window=1)
        near = Position(1, tuple(parse_id(stream[-250][0]) for stream in log.streams.values()))
        crowd = [log.add(name, 1_000, near) for name in log.names]
        await log.replay()
        assert log.order[-1] is slow
        assert slow.found == log.expected(slow.topic)
        assert all(one.found == log.expected(one.topic)[-len(one.found) :] for one in crowd)
        assert sum(len(one.found) for one in crowd) == 2 * 249

    asyncio.run(main())


def test_a_crowd_does_not_hold_up_a_reader_behind_it():
    async def main():
        log = Log(10, 4_000)
        far = log.add(log.names[3], window=100_000)
        at = Position(1, tuple(parse_id(stream[1_000][0]) for stream in log.streams.values()))
        for name in log.names:
            log.add(name, 1, at)
        await log.replay()
        assert log.order[0] is far
        assert far.found == log.expected(far.topic)

    asyncio.run(main())


def test_a_crowd_enters_no_ring_that_has_gone_on_without_it():
    async def main():
        log = Log(10, 4_000)
        for name in log.names:
            log.add(name, window=1_000)
        # The tail is in the middle of the log, and comes to its end when the first shard was read: its ring has then
        # dropped what it had.
        middle = Position(1, tuple(parse_id(stream[1_000][0]) for stream in log.streams.values()))
        tailed = TailedLog(log_of(list(log.streams)), middle, Ring(middle, 10, 1_000))
        demand, caught_up = log.store.demand, log.caught_up

        async def demand_late(*commands):
            reply = await demand(*commands)
            if commands[0][1] == b"k0":  # of which there is nothing more than the tail knows, at first
                end = tailed.ring.end.at[0]
                return [one for one in reply[0] if parse_id(one[0]) <= end], None
            for at in range(1_001, 2_000):
                ids = [parse_id(stream[at][0]) for stream in log.streams.values()]
                ring_end = Position(1, tuple(ids))
                if not tailed.ring.end.has_reached(ring_end):
                    entries = [Stored("log", 1, shard, one, b"t", b"", []) for shard, one in enumerate(ids)]
                    tailed.ring.append(entries, ring_end)
            return reply

        early = []

        def check(reader):
            if not reader.position.has_reached(tailed.ring.start):
                early.append(reader)
            caught_up(reader)

        log.store.demand, log.caught_up = demand_late, check
        await log.replay(tailed=tailed)
        assert early == []
        for one in log.readers:
            in_ring = sum(
                entry.shard == log.names.index(one.topic) % SHARDS
                for entry in tailed.ring.from_number(tailed.ring.first)
            )
            assert len(one.found) >= 400 - in_ring

    asyncio.run(main())
