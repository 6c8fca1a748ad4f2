"""Clocks that are wrong or step, and what retention makes of them."""

from datetime import UTC, datetime, timedelta

import pytest

from streamd.clients.topics import Message, TopicLog, retention
from streamd.clients.topics.drivers import run
from tests.topics.replays import Paused, by_pair, drain, payloads, put, replay

HOUR_MS = 3_600_000


@pytest.fixture
def log(server):
    return TopicLog.create(server.client(), "log", shards=2)


def now(server):
    return datetime.fromtimestamp(server.clock.now_ms() / 1_000, UTC)


def publish(log, numbers):
    log.publish_many(Message("t", str(number), f"p{one}") for number in numbers for one in range(3))


@pytest.mark.parametrize("with_generation", [False, True])
def test_a_clock_that_steps_back_changes_no_order_and_moves_a_start_by_the_step_at_most(server, log, with_generation):
    publish(log, range(10))
    reader = log.next(log.iterator(), 5)
    server.advance(seconds=-3_600)
    if with_generation:
        log.reconfigure(shards=3)
    stepped = now(server)
    publish(log, range(10, 20))
    wanted = {(f"p{one}", "t"): list(range(20)) for one in range(3)}
    assert by_pair(replay(log)) == wanted
    found, live, states = drain(log, reader.iterator)
    assert by_pair([*reader.entries, *found]) == wanted
    assert "gap" not in states
    server.advance(seconds=3_600)
    publish(log, range(20, 30))
    assert by_pair(drain(log, live)[0]) == {pair: list(range(20, 30)) for pair in wanted}
    assert set(range(20, 30)) <= {int(entry.payload) for entry in replay(log, "#", stepped + timedelta(hours=1))}


def test_a_reader_from_a_time_reads_on_in_a_generation_whose_clock_stood_before_that_time(server, log):
    start = now(server)
    server.advance(seconds=1)
    publish(log, [1])
    entries, iterator, _ = log.next(log.iterator("#", start), 100)
    assert len(entries) == 3
    server.advance(seconds=-60)
    log.reconfigure(shards=2)
    publish(log, [2])
    assert payloads(drain(log, iterator)[0]) == ["2"] * 3


def test_a_start_in_a_later_generation_leaves_out_what_is_older_there(server, log):
    publish(log, [1])
    log.reconfigure(shards=3)
    publish(log, [2])
    server.advance(seconds=10)
    start = now(server)
    log.reconfigure(shards=1)
    server.advance(milliseconds=-1)
    publish(log, [3])
    server.advance(milliseconds=1)
    publish(log, [4])
    assert payloads(replay(log, "#", start)) == ["4"] * 3


def test_publishers_with_wrong_clocks_write_the_servers_time(server, log, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)
    publish(log, [1])
    assert {entry.time for entry in replay(log)} == {now(server)}
    log.publish("t", b"short", expiry_s=5)
    server.advance(milliseconds=4_999)
    assert "short" in payloads(replay(log))
    server.advance(milliseconds=1)
    assert "short" not in payloads(replay(log))


def test_publishers_remove_what_is_too_old_by_themselves(server, log):
    log.reconfigure(retention_s=3_600)
    publish(log, range(5))
    server.advance(seconds=3_601)
    log.publish("t", b"5", publisher="p0")
    assert sum(log.info()["generations"][0]["entries"]) == 1


def test_retention_is_exact(server, log):
    publish(log, [1])
    server.advance(seconds=1)
    publish(log, [2])
    server.advance(seconds=86_399)
    assert log.retain() == 0
    server.advance(milliseconds=1)
    assert log.retain() == 3
    assert log.retain() == 0
    assert payloads(replay(log)) == ["2"] * 3


def test_a_log_that_no_client_serves_keeps_messages_past_the_retention(server, log):
    publish(log, [1, 2])
    reader = log.iterator()
    server.advance(seconds=10 * 86_400)
    assert sum(log.info()["generations"][0]["entries"]) == 6
    assert len(log.next(reader, 10).entries) == 6
    assert log.retain() == 6


def test_retention_drops_old_generations_of_which_nothing_is_left(server, log):
    publish(log, [1])
    inside = log.next(log.iterator(), 1).iterator
    log.reconfigure(shards=4)
    log.reconfigure(shards=3)
    server.advance(seconds=1)
    publish(log, [2])
    server.advance(seconds=86_400)
    assert log.retain() == 3
    assert [one["generation"] for one in log.info()["generations"]] == [3]
    assert {key for key in server.client().keys("*") if b":g1" in key or b":g2" in key} == set()
    found, _, states = drain(log, inside)
    assert (payloads(found), states) == (["2"] * 3, ["gap", "live"])


def test_a_start_before_the_retention_is_told_that_something_is_missing(server, log):
    start = now(server)
    publish(log, [1])
    server.advance(seconds=86_401)
    publish(log, [2])
    found, _, states = drain(log, log.iterator("#", start))
    assert (payloads(found), states) == (["2"] * 3, ["gap", "live"])


@pytest.mark.parametrize("before", range(4))
def test_two_that_look_for_what_is_too_old_at_once_remove_it_once(server, log, before):
    publish(log, [1])
    reader = log.iterator()
    other = TopicLog.open(server.client(), "log")
    server.advance(seconds=86_401)
    put(server.client(), log, server.clock.now_ms(), "t", "2")
    removed = []
    paused = Paused(retention.retain(log._handle), before, lambda: removed.append(other.retain()))
    removed.append(run(log._client, paused.run()))
    assert sum(removed) == 3
    found, _, states = drain(log, reader)
    assert (payloads(found), states) == (["2"], ["gap", "live"])


def test_the_window_of_a_log_outlasts_an_hour_of_trying(server, log):
    log.publish("t", b"1", publisher="p", iid="a")
    server.advance(seconds=3_599)
    log.publish("t", b"1", publisher="p", iid="a")
    assert len(replay(log)) == 1
