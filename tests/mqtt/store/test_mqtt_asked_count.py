"""How many entries a read asks for: by their sizes, so that no reply is too large to hold."""

import asyncio
from types import SimpleNamespace

import pytest

from streamd.clients.mqtt.store.asked_count import AskedCount
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.replaying import Replay
from streamd.clients.mqtt.store.ring import Ring
from streamd.clients.mqtt.store.tailing import Tail, TailedLog
from streamd.clients.topics.entry_ids import parse_id
from tests.mqtt.store.fake_store import Store, entries_of, log_of

MIB = 2**20
LARGE, SMALL = [b"t", b"t", b"p", bytes(MIB)], [b"t", b"t", b"p", b"1", b"c", b"d"]
WITH_PROPERTIES = [b"t", b"t", b"p", b"", b"c", b"d", b"u:name", bytes(MIB)]
NO_MESSAGE = [b"other", bytes(MIB)]


async def read_by_tail(streams):
    """Return the store after a tail has read all of its streams."""
    store = Store(streams)
    publishing = SimpleNamespace(stored=0, backlog=0, around=None)
    delivered = []

    def deliver(tailed, entries, first):
        delivered.extend(entries)
        return True

    tail = Tail(store, store, publishing, deliver, print)
    position = Position.begin(1, len(streams))
    tailed = TailedLog(log_of(list(streams)), position, Ring(position, 1_000, MIB))
    tail.add(tailed)
    tail.start()
    while tailed.at != [parse_id(entries[-1][0]) for entries in streams.values()]:
        await asyncio.sleep(0)
    tail.is_closed = True
    return store, delivered


@pytest.mark.interpreted(reason="the store is a test's own")
@pytest.mark.parametrize("fields", [LARGE, WITH_PROPERTIES, NO_MESSAGE])
@pytest.mark.parametrize("shards", [1, 4])
def test_a_tail_that_is_behind_reads_large_entries_a_few_at_a_time(fields, shards):
    streams = {b"k%d" % shard: entries_of([fields] * 200) for shard in range(shards)}
    store, delivered = asyncio.run(read_by_tail(streams))
    assert max(store.sizes) <= 33 * MIB
    assert len(delivered) == (0 if fields is NO_MESSAGE else 200 * shards)


@pytest.mark.interpreted(reason="the store is a test's own")
def test_a_tail_reads_small_entries_in_large_numbers():
    store, delivered = asyncio.run(read_by_tail({b"k": entries_of([SMALL] * 30_000)}))
    assert len(delivered) == 30_000
    assert store.asked[6:].count(2_000) == len(store.asked[6:])
    assert len(store.sizes) < 25


@pytest.mark.interpreted(reason="the store is a test's own")
def test_readers_of_the_past_read_large_entries_a_few_at_a_time():
    class Reader:
        position = Position.begin(1, 1)
        filters = ("#",)

        def __init__(self):
            self.found = 0

        def offer_all(self, entries):
            self.found += len(entries)
            return len(entries)

    async def main():
        streams = {b"k": entries_of([SMALL] * 3_000 + [LARGE] * 300)}
        store = Store(streams)
        end = Position(1, (parse_id(streams[b"k"][-1][0]),))
        tailed = TailedLog(log_of([b"k"]), end, Ring(end, 10, MIB))
        done = asyncio.Event()
        reader = Reader()
        replay = Replay(store, tailed, False, lambda log, topic: [reader], lambda reader: done.set(), print)
        replay.add(reader)
        await done.wait()
        await replay.close()
        assert reader.found == 3_300
        assert max(store.asked) == 2_000
        assert sum(size > 32 * MIB for size in store.sizes) <= 1  # where the small ones end

    asyncio.run(main())


def test_what_is_asked_for_follows_what_came():
    asked = AskedCount(2_000, 32 * MIB)
    assert asked.per_stream(4) == 8  # nothing is known: they may be large
    for _ in range(10):
        asked.came(1_000, 100_000)
    assert asked.per_stream(4) == 2_000
    asked.came(0, 0)
    assert asked.per_stream(4) == 2_000
    asked.came(2_000, 2_000 * MIB)
    assert asked.per_stream(4) <= 16
    asked.came(1, 64 * MIB)
    assert asked.per_stream(4) >= 1
