"""What durable storage of messages by topic must do, requirement by requirement: E1 to E16."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

from demo.proxy import CuttingProxy
from streamd.clients.topics import Iterator, Message, TopicFilter, TopicLog, layout, reading
from streamd.clients.topics.steps import Pipeline
from tests.topics import mqtt_model
from tests.topics.replays import by_pair, drain, dump, payloads, put, replay, work_off
from tests.topics.storms import check_pairs, client_at, publish_all, run_threads


def fill(log, devices=5, count=10):
    log.publish_many(
        Message(f"devices/d{device}/{kind}", str(number), f"d{device}", f"{kind}{number}")
        for number in range(count)
        for device in range(devices)
        for kind in ("temperature", "humidity")
    )


@pytest.mark.parametrize("by", ["publisher", "topic"])
def test_e1_each_publishers_messages_of_a_topic_ascend_in_every_replay_though_connections_are_cut(client, by):
    publishers, topics, count = 5, 4, 50
    log = TopicLog.create(client, "log", by=by)
    port = client.connection_pool.connection_kwargs["port"]
    proxy = CuttingProxy(port, (4, 12))
    proxy.start()
    try:
        cuts = run_threads(
            [
                lambda one=one: publish_all(proxy.port, "log", f"p{one}", topics, count, batch=10)
                for one in range(publishers)
            ]
        )
    finally:
        proxy.stop()
    assert sum(cuts) > 3
    check_pairs(log, publishers, topics, count)


def test_e2_what_one_reader_saw_every_later_reader_sees(client):
    log = TopicLog.create(client, "log")
    fill(log)
    first = replay(log, "devices/+/temperature", n=7)
    fill(log, devices=6, count=15)
    again = replay(TopicLog.open(client, "log"), "devices/+/temperature")
    seen = {entry.place for entry in first}
    assert len(again) > len(first) > 0
    by_stream = lambda entries: sorted(entries, key=lambda one: (one.shard, again.index(one)))  # noqa: E731
    assert by_stream([entry for entry in again if entry.place in seen]) == by_stream(first)


def test_e3_the_order_of_all_publishers_of_a_topic_holds_if_the_log_is_sharded_by_topic(client):
    log = TopicLog.create(client, "log", by="topic")
    for number in range(60):
        log.publish(f"t{number % 3}", str(number), publisher=f"p{number % 7}")
    for topic in range(3):
        assert payloads(replay(log, f"t{topic}", n=4)) == [str(number) for number in range(topic, 60, 3)]


def test_e4_filters_choose_as_mqtt_says(client):
    log = TopicLog.create(client, "log", filters=["#", "$SYS/#"])
    topics = [*mqtt_model.all_topics(["", "a", "b", "c"], 3), "$SYS/a", "$SYS", "a/b/c/d"]
    log.publish_many((topic, topic) for topic in topics)
    for pattern in ("#", "+", "a/#", "a/+/c/#", "+/b", "+/b/#", "/+", "a//+", "$SYS/#", "+/a", "a/b", "//"):
        found = payloads(replay(log, pattern, n=50))
        assert sorted(found) == sorted(topic for topic in topics if mqtt_model.matches(pattern, topic)), pattern


def test_e5_a_start_gives_exactly_the_messages_from_that_time_on(client):
    log = TopicLog.create(client, "log", retention_s=10**9)
    now_ms = log._handle.now_ms
    for ms in (0, 999, 1_000, 1_001, 2_000):
        for publisher in ("p", "q", "r", "s", "t"):
            put(client, log, now_ms - 10_000 + ms, "t", str(ms), publisher)
    start = datetime.fromtimestamp((now_ms - 9_000) / 1_000, UTC)
    assert sorted(set(payloads(replay(log, "#", start)))) == ["1000", "1001", "2000"]
    assert len(replay(log, "#", start, n=2)) == 15
    assert len(replay(log, "#", datetime.fromtimestamp(0, UTC))) == 25
    later = log.iterator("#", "latest")
    assert drain(log, later)[0] == []
    log.publish("t", "new", publisher="p")
    assert payloads(drain(log, later)[0]) == ["new"]


def test_e6_an_iterator_is_a_value_that_survives_both_sides(client):
    log = TopicLog.create(client, "log")
    fill(log)
    whole = replay(log, "devices/#", n=1_000)
    found, kept = [], bytes(log.iterator("devices/#"))
    while True:
        before = dump(client)
        entries, iterator, state = TopicLog.open(client, "log").next(Iterator.from_bytes(kept), 7)
        assert dump(client) == before, "the server keeps nothing of a reader"
        kept = bytes(iterator)
        found += entries
        if state == "live":
            break
    assert sorted(entry.place for entry in found) == sorted(entry.place for entry in whole)
    assert by_pair(found) == by_pair(whole)


def test_e7_one_topic_among_many_is_found_and_no_other_is_delivered(client):
    log = TopicLog.create(client, "log")
    log.publish_many(
        (
            f"room/{number % 1_000}/lamp",
            str(number),
        )
        for number in range(3_000)
    )
    assert sorted(payloads(replay(log, "room/417/lamp"))) == ["1417", "2417", "417"]
    assert replay(log, "room/1000/lamp") == []
    assert len(replay(log, "room/+/lamp", n=1_000)) == 3_000


def test_e8_the_number_of_keys_does_not_grow_with_the_number_of_topics(client):
    log = TopicLog.create(client, "log", shards=3)
    log.publish("devices/d0/temperature", b"20")
    keys = sorted(client.keys("*"))
    log.publish_many((f"devices/d{number}/temperature", b"20") for number in range(1_000))
    assert sorted(client.keys("*")) == keys
    assert len(keys) <= 3 + 4


def test_e9_a_generation_with_other_shards_begins_while_readers_run_and_nothing_is_lost_or_out_of_order(client):
    log = TopicLog.create(client, "log", shards=2)
    reader = log.iterator()
    found = []
    for shards, by in ((5, "publisher"), (1, "topic"), (3, "publisher")):
        fill_numbers(log, 0 if not found else None)
        entries, reader, _ = log.next(reader, 33)
        found += entries
        TopicLog.open(client, "log").reconfigure(shards=shards, by=by)
    fill_numbers(log)
    entries, reader, states = drain(log, reader, 20)
    found += entries
    assert "gap" not in states
    wanted = {(f"p{one}", f"t{topic}"): list(range(80)) for one in range(4) for topic in range(3)}
    assert by_pair(found) == wanted
    assert by_pair(replay(log)) == wanted
    oldest = log.info()["generations"][0]["generation"]
    log.drop(oldest)
    assert by_pair(replay(log)) == {pair: list(range(20, 80)) for pair in wanted}
    assert not [key for key in client.keys("*") if key.endswith(f":g{oldest}".encode())]


def fill_numbers(log, first=None, count=20):
    """Publish the numbers that follow by each publisher under each topic."""
    if first is None:
        first = 1 + max(int(entry.payload) for entry in replay(log, "t0", n=1_000))
    log.publish_many(
        Message(f"t{topic}", str(number), f"p{publisher}", f"{topic}-{number}")
        for number in range(first, first + count)
        for topic in range(3)
        for publisher in range(4)
    )


def test_e10_messages_older_than_the_retention_vanish_and_a_reader_among_them_gets_one_gap(client):
    log = TopicLog.create(client, "log", shards=2, retention_s=3_600)
    now_ms = log._handle.now_ms
    for hours in (3, 2):
        for publisher in ("a", "b", "c", "d"):
            put(client, log, now_ms - hours * 3_600_000, "t", f"{hours}", publisher)
    put(client, log, now_ms - 1_000, "t", "young", "a")
    among = Iterator("log", log._handle.meta.uid, "#", log._handle.meta.current.number, ((0, 0), (0, 0)))
    entries, among, _ = log.next(among, 3)
    assert payloads(entries) == ["3", "3", "3"]
    assert payloads(replay(log)) == ["young"], "a new reader begins behind what is too old, and has missed nothing"
    found, _, states = drain(log, among)
    assert payloads(found) == ["young"]
    assert states == ["gap", "live"]
    assert sum(log.info()["generations"][0]["entries"]) == 1


def test_e11_a_replay_becomes_live_without_loss_or_repeat_while_messages_come(client):
    run_replay_to_live(client, old=2_000, new=1_000)


def run_replay_to_live(client, old, new, batch=100):
    port = client.connection_pool.connection_kwargs["port"]
    TopicLog.create(client, "log")

    def publish(first, last):
        mine = TopicLog.open(client_at(port), "log")
        for at in range(first, last, batch):
            mine.publish_many(
                Message(f"t{number % 10}", str(number), f"p{number % 20}", str(number))
                for number in range(at, min(last, at + batch))
            )

    publish(0, old)

    def read():
        mine = TopicLog.open(client_at(port), "log")
        iterator, found = mine.iterator(), []
        while len(found) < old + new:
            entries, iterator, state = mine.next(iterator, 500, block_ms=5_000)
            assert entries, "nothing came for five seconds"
            assert state in ("more", "live")
            found += entries
        # Live: there is nothing more, and what comes now is got by the call that waits for it.
        assert mine.next(iterator, 500)[::2] == ([], "live")
        waiting = [lambda: mine.next(iterator, 500, block_ms=5_000), lambda: publish(old + new, old + new + 1)]
        return found + run_threads(waiting)[0].entries

    found, _ = run_threads([read, lambda: publish(old, old + new)])
    assert sorted(int(entry.payload) for entry in found) == list(range(old + new + 1))
    for numbers in by_pair(found).values():
        assert numbers == sorted(numbers)


def test_e12_the_first_member_sets_the_start_and_later_ones_take_work_from_it(client):
    log = TopicLog.create(client, "log")
    fill(log)
    first = log.share("group", "devices/+/temperature", start="earliest")
    second = log.share("group", "devices/+/temperature", start="latest")
    assert (first.start_ignored, second.start_ignored, second.start) == (False, True, "earliest")
    done = {first.name: [], second.name: []}
    found = work_off([first, second], each=lambda member, entry: done[member.name].append(entry))
    assert sorted(entry.place for entry in found) == sorted(e.place for e in replay(log, "devices/+/temperature"))
    assert all(done.values())
    assert work_off([log.share("group", "devices/+/temperature")]) == []


@pytest.mark.parametrize("by", ["publisher", "topic"])
def test_e13_messages_are_spread_over_the_shards(client, by):
    log = TopicLog.create(client, "log", shards=4, by=by)
    log.publish_many(Message(f"t{number}", b"", f"p{number}") for number in range(400))
    (generation,) = log.info()["generations"]
    assert sum(generation["entries"]) == 400
    assert min(generation["entries"]) > 60
    same = [Message("t" if by == "topic" else f"t{n}", b"", f"p{n}" if by == "topic" else "p") for n in range(40)]
    log.publish_many(same)
    grown = log.info()["generations"][0]["entries"]
    assert sorted(b - a for a, b in zip(generation["entries"], grown, strict=True)) == [0, 0, 0, 40]


@pytest.mark.parametrize("ordered", [False, True])
def test_e14_each_member_of_a_shared_replay_gets_a_part_of_the_work(client, ordered):
    log = TopicLog.create(client, "log")
    log.publish_many(Message(f"t{number}", str(number), f"p{number}") for number in range(400))
    members = [log.share("group", ordered=ordered) for _ in range(4)]
    done = {member.name: 0 for member in members}

    def count(member, entry):
        done[member.name] += 1

    assert len(work_off(members, 5, count)) == 400
    assert min(done.values()) >= 50, done


def test_e15_the_logic_of_a_reader_runs_without_a_socket_and_uses_xfilter_where_the_server_has_it(client):
    log = TopicLog.create(client, "log", shards=2)
    fill(log)
    iterator = log.iterator("devices/d1/+")
    wanted = log.next(iterator, 1_000).entries
    log._handle.abilities = type(log._handle.abilities)(idmp=True, scripts=False, xfilter=True)
    steps = reading.read_next(log._handle, iterator, 1_000, 0)
    asked, reply = [], None
    try:
        while True:
            step = steps.send(reply)
            assert isinstance(step, Pipeline)
            asked += [command for command in step.commands if command[0] == "XFILTER"]
            reply = [answer(client, command) for command in step.commands]
    except StopIteration as stop:
        batch = stop.value
    assert batch.entries == wanted
    assert batch.state == "live"
    assert len(wanted) == 20
    assert asked[0][2:] == ("(0-0", "+", "COUNT", 500, "FIELD", "t", "MQTT", "devices/d1/+")


def answer(client, command):
    """Answer a request as a server would that knows XFILTER, and looks at 30 entries at a time."""
    if command[0] != "XFILTER":
        return client.execute_command(*command)
    _, key, start, end, _, count, _, name, _, pattern = command
    found, last = [], start.lstrip("(").encode()
    for entry_id, fields in client.execute_command("XRANGE", key, start, end, "COUNT", 30):
        last = entry_id
        if TopicFilter(pattern).matches(fields.get(name.encode(), b"\0")):
            found.append([entry_id, [word for pair in fields.items() for word in pair]])
    return [last, found[:count]]


def test_e15_the_pure_parts_import_no_client_and_nothing_of_the_server():
    code = (
        "import sys, streamd.clients.topics\n"
        "from streamd.clients.topics import cli, filters, iterators, leasing, publishing, reading, sharing\n"
        "print(*(name for name in sys.modules if name.startswith(('redis', 'streamd')) and 'topics' not in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == [
        "streamd",
        "streamd.base",
        "streamd.base.version",
        "streamd.clients",
        "streamd.clients.server_url",
        "streamd.distribution",
    ]


@pytest.mark.parametrize(
    ("first", "second", "is_refused"),
    [
        (["#"], ["a"], True),
        (["a/+"], ["+/b"], True),
        (["a/#"], ["a"], True),
        (["a", "b/#"], ["c", "b/x/+"], True),
        (["a/+"], ["b/+"], False),
        (["#"], ["$SYS/#"], False),
        (["a/b"], ["a/+/c"], False),
    ],
)
def test_e16_a_topic_belongs_to_one_log(client, first, second, is_refused):
    TopicLog.create(client, "one", filters=first)
    if is_refused:
        with pytest.raises(ValueError, match=r"log 'two' with filter '.+' overlaps log 'one' with filter '.+'"):
            TopicLog.create(client, "two", filters=second)
        assert TopicLog.names(client) == ["one"]
        assert layout.meta_key("two").encode() not in client.keys("*")
    else:
        TopicLog.create(client, "two", filters=second)
        with pytest.raises(ValueError, match="overlaps log 'one'"):
            TopicLog.open(client, "two").reconfigure(filters=first)
        assert TopicLog.names(client) == ["one", "two"]
