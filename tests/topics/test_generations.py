"""Generations: who is caught between two of them, who races for one, what is left of one that was dropped."""

import pytest

from streamd.clients.topics import Message, TopicLog, administration, layout, publishing, reading, shares
from streamd.clients.topics.drivers import run
from streamd.clients.topics.messages import Message as Published
from streamd.clients.topics.steps import Commit
from tests.topics.replays import Paused, by_pair, drain, dump, payloads, replay


@pytest.mark.parametrize("is_dropped", [False, True])
@pytest.mark.parametrize("iid", [None, "b"])
def test_a_publisher_paused_before_its_write_publishes_into_the_generation_that_began_meanwhile(
    client, is_dropped, iid
):
    log = TopicLog.create(client, "log", shards=3)
    log.publish("t", b"1", publisher="p", iid="a")
    reader = log.iterator()

    def meanwhile():
        other = TopicLog.open(client, "log")
        number = other.info()["generations"][0]["generation"]
        other.reconfigure(shards=5, by="topic")
        if is_dropped:
            other.drop(number)

    batch = [Published("t", b"2", "p", iid), Published("u", b"3", "p", iid and "c")]
    paused = Paused(publishing.publish(log._handle, batch), 0, meanwhile)
    run(client, paused.run())
    assert paused.was_paused
    log.publish("t", b"4", publisher="p")
    found, _, states = drain(log, reader)
    if is_dropped:
        assert states == ["gap", "live"]
        assert by_pair(found) == {("p", "t"): [2, 4], ("p", "u"): [3]}
    else:
        assert "gap" not in states
        assert by_pair(found) == {("p", "t"): [1, 2, 4], ("p", "u"): [3]}


def test_nothing_can_be_written_behind_the_end_of_a_generation(client):
    log = TopicLog.create(client, "log", shards=1)
    log.publish("t", b"1")
    log.reconfigure(shards=1)
    with pytest.raises(Exception, match="exhausted the last possible ID"):
        client.xadd("{log/0}:g1", {"t": "t", "p": "late"})
    assert payloads(replay(log)) == ["1"]


@pytest.mark.parametrize("times", [1, 3])
def test_an_iid_that_was_stored_in_an_older_generation_is_not_stored_again(client, times):
    log = TopicLog.create(client, "log", shards=2)
    first = log.publish_many([Message("t", str(one), "p", str(one)) for one in range(20)])
    for _ in range(times):
        log.reconfigure(shards=3)
    restarted = TopicLog.open(client, "log")
    again = restarted.publish_many([Message("t", str(one), "p", str(one)) for one in range(30)])
    assert again[:20] == first
    assert restarted.publish_many([Message("t", str(one), "p", str(one)) for one in range(30)]) == again
    assert by_pair(replay(log)) == {("p", "t"): list(range(30))}


@pytest.mark.parametrize("before", range(8))
def test_of_two_creates_that_race_for_overlapping_filters_one_wins_wherever_they_meet(client, before):
    winners, refusals = [], []

    def other():
        try:
            TopicLog.create(client, "two", filters=["x/+/y"])
            winners.append("two")
        except ValueError as error:
            refusals.append(str(error))

    paused = Paused(administration.create("one", 4, "publisher", 60, ["x/#"]), before, other)
    try:
        run(client, paused.run())
        winners.append("one")
    except ValueError as error:
        refusals.append(str(error))
    if not paused.was_paused:
        other()
    filters = {"one": "x/#", "two": "x/+/y"}
    (winner,), (loser,) = winners, filters.keys() - {*winners}
    said = f"log {loser!r} with filter {filters[loser]!r} overlaps log {winner!r} with filter {filters[winner]!r}"
    assert [refusal.partition(": ")[0] for refusal in refusals] == [said]
    assert TopicLog.names(client) == winners
    assert {key for key in client.keys("*") if b"topics:" not in key} == {
        b"{%b}:meta" % winners[0].encode(),
        *[b"{%b/%d}:g%d" % (winners[0].encode(), shard, generation(client, winners[0])) for shard in range(4)],
    }


def generation(client, name):
    return TopicLog.open(client, name).info()["generations"][0]["generation"]


@pytest.mark.parametrize("before", range(6))
def test_two_reconfigures_at_once_begin_two_generations_one_after_the_other(client, before):
    log = TopicLog.create(client, "log", shards=1)
    log.publish("t", b"1", publisher="p")
    paused = Paused(
        administration.reconfigure(log._handle, 2, None, None, None),
        before,
        lambda: TopicLog.open(client, "log").reconfigure(shards=3),
    )
    run(client, paused.run())
    log.publish("t", b"2", publisher="p")
    generations = log.info()["generations"]
    assert [sum(one["entries"]) for one in generations] == ([1, 0, 1] if paused.was_paused else [1, 1])
    assert by_pair(replay(log)) == {("p", "t"): [1, 2]}


def test_a_reader_inside_a_dropped_generation_gets_one_gap_and_goes_on(client):
    log = TopicLog.create(client, "log", shards=2)
    for number in range(3):
        log.publish_many(Message("t", str(number), f"p{one}") for one in range(6))
        if number < 2:
            log.reconfigure(shards=2)
    inside = log.next(log.iterator(), 4).iterator
    at_the_end = log.next(log.iterator(), 6).iterator
    log.drop(1)
    found, _, states = drain(log, inside)
    assert (payloads(found), states) == (["1"] * 6 + ["2"] * 6, ["gap", "live"])
    found, _, states = drain(log, at_the_end)
    assert payloads(found) == ["1"] * 6 + ["2"] * 6
    before = log.next(log.iterator(), 3).iterator
    log.drop(2)
    found, _, states = drain(log, before)
    assert (payloads(found), states) == (["2"] * 6, ["gap", "live"])


def test_a_generation_dropped_between_two_that_a_reader_reads_is_a_gap_behind_what_came_before(client):
    log = TopicLog.create(client, "log", shards=1)
    for number in range(3):
        log.publish("t", str(number))
        if number < 2:
            log.reconfigure(shards=1)
    log.drop(2)
    entries, iterator, state = log.next(log.iterator(), 10)
    assert (payloads(entries), state) == (["0"], "more")
    entries, iterator, state = log.next(iterator, 10)
    assert (entries, state) == ([], "gap")
    assert payloads(drain(log, iterator)[0]) == ["2"]


def test_readers_of_a_dropped_log_get_the_end(client):
    log = TopicLog.create(client, "log")
    log.publish("t", b"1")
    iterator, member = log.iterator(), log.share("group")
    TopicLog.open(client, "log").drop()
    assert log.next(iterator)[::2] == ([], "end")
    assert member.next() == ([], "end")
    assert set(client.keys("*")) == {b"topics:registry", b"topics:generation"}


def test_a_drop_leaves_nothing_of_shared_replays(client):
    log = TopicLog.create(client, "log", shards=2)
    log.publish_many(("t", str(number)) for number in range(10))
    log.share("one").next(3)
    log.share("two", ordered=True).next(3)
    log.reconfigure(shards=3)
    log.drop()
    assert set(client.keys("*")) == {b"topics:registry", b"topics:generation"}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_log_that_is_made_again_begins_without_retained_messages(client, is_late):
    """Also if a gateway that still ran has written them behind the drop."""
    keys = layout.retained_key("log"), layout.cleared_key("log")

    def write():
        for key in keys:
            client.hset(key, mapping={"t": "x", "": "y"})

    log = TopicLog.create(client, "log")
    log.publish_many([Message("t", b"1", retain=True)])
    write()
    log.drop()
    assert set(client.keys("*")) == {b"topics:registry", b"topics:generation"}
    if is_late:
        write()
    TopicLog.create(client, "log")
    assert not client.exists(*keys)


def test_filters_may_change_with_a_generation_and_let_go_of_topics_for_another_log(client):
    log = TopicLog.create(client, "log", filters=["a/#"])
    log.publish("a/x", b"1")
    stale = TopicLog.open(client, "log")
    log.reconfigure(filters=["b/#"])
    TopicLog.create(client, "other", filters=["a/#"])
    before = dump(client)
    with pytest.raises(ValueError, match="topic 'a/x' is outside of log 'log', whose filters are b/#"):
        stale.publish("a/x", b"2")
    assert dump(client)[b"{log}:meta"] == before[b"{log}:meta"]
    stale.publish("b/x", b"3")
    assert payloads(replay(stale)) == ["1", "3"]


def test_a_handle_learns_that_the_filters_became_wider_before_it_refuses(client):
    log = TopicLog.create(client, "log", filters=["a/#"])
    stale = TopicLog.open(client, "log")
    log.reconfigure(filters=["a/#", "b/#"])
    stale.publish("b/x", b"1")
    assert payloads(replay(stale)) == ["1"]


def test_another_retention_alone_begins_no_generation(client):
    log = TopicLog.create(client, "log")
    log.reconfigure(retention_s=60)
    info = TopicLog.open(client, "log").info()
    assert info["retention_s"] == 60
    assert len(info["generations"]) == 1


def test_a_reader_paused_between_two_requests_sees_a_trim_as_a_gap_or_not_at_all(client):
    log = TopicLog.create(client, "log", shards=1)
    log.publish_many(("t", str(number)) for number in range(10))
    ids = [entry_id for entry_id, _ in client.xrange("{log/0}:g1")]

    def trim():
        client.hset("{log/0}:meta", "g1:trimmed", ids[4])
        client.xtrim("{log/0}:g1", minid=ids[5], approximate=False)

    start = log.iterator()
    batch = run(client, Paused(reading.read_next(log._handle, start, 3, 0), 1, trim).run())
    assert payloads(batch.entries) == ["0", "1", "2"], "read in one request, before the trim"
    trim()
    found, _, states = drain(log, batch.iterator)
    assert (payloads(found), states) == (["5", "6", "7", "8", "9"], ["gap", "live"])
    behind = log.next(log.iterator(), 1).iterator
    assert drain(log, behind)[2] == ["live"], "what it has seen is no gap"


def test_a_generation_in_which_nothing_was_published_is_no_gap(client):
    log = TopicLog.create(client, "log", shards=2)
    reader = log.iterator()
    for _ in range(3):
        log.reconfigure(shards=2)
        assert log.retain() == 0
    log.publish("t", b"1")
    found, _, states = drain(log, reader)
    assert (payloads(found), states) == (["1"], ["live"])


def losing_replies(steps):
    """Be a caller whose connection breaks behind each transaction's last request, the first time."""
    reply, was_lost = None, False
    try:
        while True:
            step = steps.send(reply)
            reply = yield step
            if isinstance(step, Commit) and not was_lost:
                reply, was_lost = None, True
    except StopIteration as stop:
        return stop.value


def test_a_transaction_whose_reply_was_lost_is_made_once(client):
    log = TopicLog(client, run(client, losing_replies(administration.create("log", 2, "publisher", 60, ["#"]))))
    assert len(log.info()["generations"]) == 1
    run(client, losing_replies(administration.reconfigure(log._handle, 3, None, None, None)))
    assert [len(one["entries"]) for one in log.info()["generations"]] == [2, 3]
    member = run(client, losing_replies(shares.join(log._handle, "group", "#", "earliest", "m", 1_000, False)))
    assert member.is_first
    oldest = log.info()["generations"][0]["generation"]
    run(client, losing_replies(administration.drop_generation(log._handle, oldest)))
    assert len(log.info()["generations"]) == 1
    run(client, losing_replies(administration.drop_log(log._handle)))
    assert TopicLog.names(client) == []
