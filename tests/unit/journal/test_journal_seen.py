"""Readers that get nothing: the journal grows by a note a second, and brings back when they were seen, to a second."""

import pytest

from tests.crash.restartable import INCREMENT, Restartable


def size(server: Restartable) -> int:
    return len(server.disk.names[INCREMENT].data)


def seen_ms(server: Restartable) -> int:
    return server.engine.state.keyspace[0].stream(b"s").groups[b"g"].consumers[b"ann"].seen_ms


@pytest.fixture
def server() -> Restartable:
    server = Restartable(appendfsync="no")
    server.send("XADD", "s", "*", "f", "v")
    server.send("XGROUP", "CREATE", "s", "g", "0")
    server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
    return server


def test_a_reader_that_polls_makes_the_journal_grow_by_a_note_a_second(server):
    before = size(server)
    for _ in range(1_000):
        server.clock.advance(10)
        server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
    assert 0 < size(server) - before < 11 * 150


@pytest.mark.parametrize("waited_ms", [0, 1, 999, 1_000, 1_001, 60_000])
def test_after_a_restart_a_consumer_was_seen_as_late_or_less_than_a_second_before(server, waited_ms):
    for part_ms in (waited_ms // 2, waited_ms - waited_ms // 2):
        server.clock.advance(part_ms)
        server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
    assert 0 <= seen_ms(server) - seen_ms(server.restart()) < 1_000


def test_what_is_delivered_is_noted_with_its_times_at_once(server):
    for _ in range(3):
        server.clock.advance(1)
        server.send("XADD", "s", "*", "f", "v")
        server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
        server.clock.advance(1)
        server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", "0")
        assert seen_ms(server.restart()) == seen_ms(server)


def test_a_clock_that_goes_back_is_noted(server):
    server.clock.advance(-5_000)
    server.send("XREADGROUP", "GROUP", "g", "ann", "STREAMS", "s", ">")
    assert seen_ms(server.restart()) == seen_ms(server)
