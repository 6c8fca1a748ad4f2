"""Filters that the server applies: where it can, what they cost it, and that what comes meanwhile changes nothing."""

from datetime import UTC, datetime

import pytest
import redis

from streamd.clients.topics import TopicLog
from streamd.clients.topics.drivers import run
from streamd.clients.topics.reading import _read_between, read_next
from streamd.clients.topics.steps import Pipeline


def calls(client):
    return {name: row["calls"] for name, row in client.info("commandstats").items()}


def test_the_server_filters_where_it_can_and_the_reader_where_it_cannot(client):
    log = TopicLog.create(client, "telemetry", shards=2)
    log.publish_many([(f"devices/d{at % 9}/k{at % 5}", b"x") for at in range(500)])
    can = "streamd_version" in client.info("server")
    client.config_resetstat()
    entries, _, _ = log.next(log.iterator("devices/d3/+"), 500)
    assert {entry.topic for entry in entries} == {f"devices/d3/k{kind}" for kind in range(5)}
    assert len(entries) == sum(at % 9 == 3 for at in range(500))
    assert ("cmdstat_xfilter" in calls(client)) == can
    with log.share("averages", "devices/d3/+") as member:
        shared, state = member.next(500)
        while state == "more":
            more, state = member.next(500)
            shared += more
        key = next(key for key in client.keys("{telemetry/0}:g*") if client.type(key) == b"stream")
        (group,) = client.xinfo_groups(key)
        assert ("filter" in group) == can
    assert sorted(one.place for one in shared) == sorted(one.place for one in entries)


@pytest.mark.interpreted(reason="the time of a search is replaced")
@pytest.mark.parametrize("every", [1, 3])
def test_a_search_whose_time_is_up_at_a_matching_entry_is_not_the_end(client, monkeypatch, every):
    monkeypatch.setattr("streamd.commands.stream.filter_words.SEARCH_SLICE_US", 0)
    log = TopicLog.create(client, "telemetry", shards=1)
    log.publish_many([("wanted" if at % every == 0 else "other", b"%d" % at) for at in range(400)])
    entries, _, state = log.next(log.iterator("wanted/#"), 1_000)
    assert [int(entry.payload) for entry in entries] == [*range(0, 400, every)]
    assert state == "live"


def test_a_start_that_is_a_time_is_come_to_by_the_reader_and_what_follows_by_the_server(client):
    log = TopicLog.create(client, "telemetry", shards=2)
    log.publish_many([(f"devices/d{at % 9}/k", b"%d" % at) for at in range(200)])
    start = datetime.fromtimestamp(0, UTC)
    found, iterator = [], log.iterator("devices/d3/+", start=start)
    state = "more"
    while state == "more":
        entries, iterator, state = log.next(iterator, 3)
        found += [int(entry.payload) for entry in entries]
    assert sorted(found) == [at for at in range(200) if at % 9 == 3]


def test_a_reader_that_waits_is_not_woken_by_what_is_not_for_it(server):
    with redis.Redis(port=server.port) as client:
        log = TopicLog.create(client, "telemetry", shards=4)
        steps = read_next(log._handle, log.iterator("devices/+/temperature"), 10, 10_000)
        step, waited = next(steps), False
        while not waited:
            waited = any("BLOCK" in command for command in step.commands)
            if waited:
                break
            step = steps.send(execute(client, step))
        (wait,) = step.commands
        connection = client.connection_pool.get_connection()
        connection.send_command(*wait)
        for at in range(40):
            log.publish(f"devices/d{at}/humidity", b"1", publisher=f"d{at}")
        assert not connection.can_read(0)
        log.publish("devices/d7/temperature", b"21", publisher="d7")
        connection.read_response()
        client.connection_pool.release(connection)
        steps.send([None])
        steps.close()


def execute(client, step):
    assert isinstance(step, Pipeline)

    def one():
        return (yield step)

    return run(client, one())


def go_on_while_others_publish(server, client, log, steps, step):
    for _ in range(20):
        server.advance(milliseconds=1)
        log.publish_many([(f"devices/d{at}/humidity", b"1") for at in range(8)])
        step = steps.send(execute(client, step))


def test_a_reader_comes_back_though_what_is_not_for_it_never_stops_coming(server):
    with redis.Redis(port=server.port) as client:
        log = TopicLog.create(client, "telemetry", shards=2)
        steps = read_next(log._handle, log.iterator("devices/+/temperature"), 10, 0)
        step = next(steps)
        with pytest.raises(StopIteration) as stop:
            go_on_while_others_publish(server, client, log, steps, step)
        assert (stop.value.value.entries, stop.value.value.state) == ([], "live")


def test_what_was_filtered_while_something_was_trimmed_is_read_again():
    steps = _read_between([("XFILTER",)], [("HGET",), ("HGETALL",), ("TIME",)], 1)
    asked = next(steps)
    assert steps.send([None, "filtered", b"5-0", {}, (1, 2)]) == asked
    with pytest.raises(StopIteration) as stop:
        steps.send([b"5-0", "again", b"5-0", {}, (1, 2)])
    assert stop.value.value == (["again"], [b"5-0", {}, (1, 2)])
