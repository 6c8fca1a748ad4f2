"""What a topic log promises of messages that are published again, and of a retention that nobody applies."""

import asyncio
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis.asyncio

from streamd.clients.topics import AsyncTopicLog, IidsForgotten, Message, TopicLog
from streamd.clients.topics.layout import WINDOW_MAXSIZE
from streamd.testing import EmbeddedServer

HOUR_S = 3_600
BATCH = 1_000
QUIET = WINDOW_MAXSIZE - BATCH  # of so many nothing is said


@pytest.fixture
def server():
    with EmbeddedServer() as server:
        yield server
        assert server.internal_errors == 0


@pytest.fixture
def log(server):
    return TopicLog.create(server.client(), "log", shards=2)


def messages(first: int, count: int, publisher: str = "d7"):
    return [Message("t", b"%d" % number, publisher, f"m{number}") for number in range(first, first + count)]


def publish(log: TopicLog, count: int, first: int = 0, publisher: str = "d7") -> list[str]:
    return log.publish_many(messages(first, count, publisher))


def told(publishing) -> list[str]:
    """Return what warnings are given while something is published."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        publishing()
    assert {one.category for one in found} <= {IidsForgotten}
    return [str(one.message) for one in found]


def test_faults2_5_1_a_publisher_is_told_when_its_oldest_names_may_be_forgotten(log):
    first = publish(log, 1)
    assert told(lambda: publish(log, QUIET - 1, first=1)) == []
    told(lambda: publish(log, WINDOW_MAXSIZE - QUIET, first=QUIET))
    assert publish(log, 1) == first  # as many are known

    log = TopicLog.open(log._client, "log")
    (line,) = told(lambda: publish(log, WINDOW_MAXSIZE + 1))

    assert line.startswith("publisher 'd7' records more iids than the 10,000 that the server knows of it: ")
    assert publish(log, 1) != first  # what the warning says is true


def test_faults2_5_1_it_is_told_once_in_an_hour(server, log):
    assert len(told(lambda: publish(log, 5 * WINDOW_MAXSIZE))) == 1
    assert told(lambda: publish(log, BATCH, first=5 * WINDOW_MAXSIZE)) == []
    server.advance(seconds=2 * HOUR_S)
    assert told(lambda: publish(log, QUIET, first=10 * WINDOW_MAXSIZE)) == []
    assert len(told(lambda: publish(log, 2 * BATCH, first=20 * WINDOW_MAXSIZE))) == 1


@pytest.mark.parametrize("count", [1, 100, 1_000])
def test_faults2_5_1_however_few_a_publisher_writes_at_a_time_it_is_told(server, log, count):
    """Its messages come a part at a time, within less than an hour that begins anywhere."""
    server.advance(seconds=1_800)
    recorded, at = log._handle.recorded, server.clock.now_ms()
    times = range(at, at + 300 * WINDOW_MAXSIZE, 300 * count)
    lines = told(lambda: [note(recorded, count, ms) for ms in times])
    assert len(lines) == 1


def note(recorded, count: int, ms: int) -> None:
    recorded.count((1, 0), [b"d7"] * count, (ms, 0), recorded.newest((1, 0)))


def test_faults2_5_1_nobody_is_told_who_stays_within_the_window(server, log):
    def in_turns():
        for turn in range(10):  # 8,000 an hour
            publish(log, 4 * BATCH, first=turn * 4 * BATCH)
            server.advance(seconds=HOUR_S / 2 + 200)
        publish(log, QUIET, publisher="d8")
        log.publish_many(Message("t", b"", "d7") for _ in range(2 * WINDOW_MAXSIZE))

    assert told(in_turns) == []


def test_faults2_5_1_messages_published_again_are_no_new_names(server, log):
    def again():
        for _ in range(4):
            publish(log, 4 * BATCH)
        publish(TopicLog.open(server.client(), "log"), 4 * BATCH)

    assert told(again) == []
    assert sum(log.info()["generations"][0]["entries"]) == 4 * BATCH


def test_faults2_5_1_a_publisher_that_was_restarted_counts_what_it_finds_stored(server, log):
    told(lambda: publish(log, WINDOW_MAXSIZE))
    server.advance(seconds=60)
    log = TopicLog.open(server.client(), "log")
    assert len(told(lambda: publish(log, WINDOW_MAXSIZE + BATCH))) == 1


def test_faults2_5_1_threads_that_share_a_log_are_told_once(log):
    def publishing():
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda number: publish(log, BATCH, first=number * BATCH), range(12)))

    assert len(told(publishing)) == 1
    assert sum(log.info()["generations"][0]["entries"]) == 12 * BATCH


def test_faults2_5_1_the_library_for_asyncio_tells_it_as_well(server, log):
    async def publishing():
        async with redis.asyncio.Redis(port=server.port) as client:
            own = await AsyncTopicLog.open(client, "log")
            await own.publish_many(messages(0, WINDOW_MAXSIZE + BATCH))

    assert len(told(lambda: asyncio.run(publishing()))) == 1


def test_faults2_5_1_what_is_counted_is_forgotten_with_the_window(server, log):
    for number in range(20):
        publish(log, 10, publisher=f"p{number}")
        publish(log, BATCH, publisher=f"q{number}")
        server.advance(seconds=HOUR_S)
    recorded = log._handle.recorded
    assert sum(map(len, recorded._few.values())) + len(recorded._busy) <= 4


def test_faults2_5_5_a_log_that_nobody_touches_keeps_its_entries_until_somebody_does(server):
    client = server.client()
    log = TopicLog.create(client, "quiet", shards=1, retention_s=60)
    publish(log, 3)
    first = log.next(log.iterator(), 1)
    server.advance(seconds=HOUR_S)

    assert sum(log.info()["generations"][0]["entries"]) == 3
    assert [entry.payload for entry in log.next(first.iterator, 9).entries] == [b"1", b"2"]
    assert log.retain() == 3
    assert log.next(first.iterator, 9).state == "gap"

    publish(log, 3, first=3)
    server.advance(seconds=HOUR_S)
    assert log.next(log.iterator(), 9).entries == []  # a new reader applies it, too
    assert sum(log.info()["generations"][0]["entries"]) == 0
