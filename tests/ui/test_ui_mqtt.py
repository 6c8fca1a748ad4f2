"""The pages about an MQTT gateway: sessions with position and lag, retained messages; on streamd and on Redis."""

import re

import pytest
import redis

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.session.outgoing import Sent, State
from streamd.clients.mqtt.store.link import encode
from streamd.clients.mqtt.store.positions import Place, Position
from streamd.clients.mqtt.store.records import INDEX, Pointer, Record, Subscribed, creation, flying_text, indexing
from streamd.clients.topics import TopicLog
from streamd.clients.ui import mqtt_logs, mqtt_retained, mqtt_sessions
from streamd.clients.ui.mqtt_applications import Application, application_of
from streamd.clients.ui.mqtt_logs import Lag, Log, Shard
from streamd.clients.ui.source import Source
from tests.ui.test_ui_pages import links, text_of


@pytest.fixture
def log(client) -> TopicLog:
    return TopicLog.create(client, "mqtt", shards=2, retention_s=3_600)


def tail(client: redis.Redis) -> Position:
    ids = [client.xinfo_stream(f"{{mqtt/{shard}}}:g1")["last-generated-id"].decode() for shard in range(2)]
    return Position(1, tuple(tuple(map(int, one.split("-"))) for one in ids))


def keep(client: redis.Redis, record: Record, ends_ms: int | None = None) -> None:
    """Write a session as a gateway does."""
    for words in creation(record):
        client.execute_command(*words)
    for one in record.subscriptions.values():
        client.hset(record.key, f"s {one.filter}", one.to_text())
    if ends_ms is not None:
        client.hset(record.key, "ends_ms", ends_ms)
        for words in indexing(record.client_id, ends_ms, is_application=record.is_application):
            client.execute_command(*words)


def run_gateway(client: redis.Redis) -> None:
    said = '{"run": "run", "name": "here:1883", "process": 77, "host": "host-1 4026531836"}'
    client.hset("mqtt:gateways", mapping={"run": said, "dead": said})
    client.set("mqtt:gateway:run", "1")


def now_ms(client: redis.Redis) -> int:
    seconds, micro = client.time()
    return seconds * 1_000 + micro // 1_000


def test_sessions_are_shown_with_their_lag(client, page, log):
    record = Record("dev-1", user="ann", expiry_s=600, positions={"mqtt": tail(client)})
    other = Record(
        "dev-2", expiry_s=600, pointer=Pointer(1, "run.1"), positions={"mqtt": tail(client)}, will=Will(b"w", b"x")
    )
    record.subscriptions = other.subscriptions = {"#": Subscribed("#", 1)}
    keep(client, record, now_ms(client) + 100_000)
    keep(client, other)
    seen = text_of(page.get("/mqtt"))
    assert "Gateways none runs Sessions 2 Of connected clients 1" in seen
    assert re.search(
        r"dev-1 ann away, ends in 1 min 3\d s mqtt: up to date dev-2 anonymous connected, with a will", seen
    )
    for number in range(7):
        log.publish("a", b"%d" % number, publisher=f"p{number}")
    run_gateway(client)
    seen = text_of(page.get("/mqtt"))
    assert "Gateways here:1883, process 77 on host-1" in seen
    assert re.search(r"ends in 1 min 3\d s mqtt: 7 messages, \d+ ms dev-2", seen)
    assert re.search(r"connected to here:1883, with a will mqtt: at most 7 messages", seen)


def test_a_session_that_reads_no_log_by_itself_is_not_behind(client, page, log):
    filters = {"quiet": [], "worker": ["$share/g/#"], "reader": ["$share/g/#", "x"]}
    for number, (name, some) in enumerate(filters.items()):
        record = Record(name, expiry_s=600, positions={"mqtt": tail(client)})
        record.subscriptions = {one: Subscribed(one, 1) for one in some}
        keep(client, record, now_ms(client) + 100_000 + number)
    log.publish("a", b"1", publisher="p")
    expected = {"quiet": "no subscriptions", "worker": "shared subscriptions only", "reader": "1 message, "}
    seen = text_of(page.get("/mqtt"))
    for name, behind in expected.items():
        before = "mqtt: " if name == "reader" else ""
        assert re.search(rf"{name} anonymous away, ends in 1 min \d+ s {before}{behind}", seen)
        assert f"mqtt {behind}" in text_of(page.get(f"/mqtt/session?client={name}"))


def test_backends_are_shown_with_what_they_have_to_get(client, page, log):
    assert "No application has a session" in text_of(page.get("/mqtt?show=backends"))
    run_gateway(client)
    position = tail(client)
    log.publish("a", b"1", publisher="p")
    device = Record("device", expiry_s=600, positions={"mqtt": position})
    keep(client, device, now_ms(client) + 70_000)
    for name, pointer, ends_ms in (
        ("away", Pointer(1, None), now_ms(client) + 50_000),
        ("here", Pointer(1, "run.1"), None),
    ):
        record = Record(name, expiry_s=600, pointer=pointer, positions={"mqtt": position}, is_application=True)
        record.subscriptions = {"#": Subscribed("#", 1)}
        keep(client, record, ends_ms)
        client.hset(record.key, "retries", '{"":2,"g":1}')
        for number in (1, 2):
            place = Place("mqtt", 1, 0, (now_ms(client) - 600_000, number))
            client.hset(record.key, f"i {number}", flying_text(number, Sent(number, place, State.PUBLISHED_1)))
    seen = text_of(page.get("/mqtt?show=backends"))
    assert "Backends 2 Connected 1" in seen
    assert "device" not in seen
    assert re.search(r"away anonymous away, ends in \d+ s 2 2 49 min \d+ s mqtt: 1 message, ", seen)
    assert re.search(r"here anonymous connected to here:1883 2 2 49 min \d+ s mqtt: at most 1 message, ", seen)
    seen = text_of(page.get("/mqtt"))
    assert re.search(r"away, ends in \d+ s application: 2 not acknowledged, 2 retries, retention left: 49 min", seen)
    assert re.search(r"device anonymous away, ends in 1 min \d+ s no subscriptions", seen)
    seen = text_of(page.get("/mqtt/session?client=away"))
    assert "Kind application Not acknowledged 2 Retries 2 Retention left 49 min" in seen
    assert "Kind" not in text_of(page.get("/mqtt/session?client=device"))


def test_backends_come_in_pages(client, page, log):
    for number in range(60):
        keep(client, Record(f"b{number:02}", expiry_s=600, is_application=True), 2_000_000_000_000 + number)
    (following,) = links(page.get("/mqtt?show=backends"), "next")
    assert re.findall(r">(b\d\d)</a>", page.get(following).text) == [f"b{number}" for number in range(50, 60)]


HOUR_MS = 3_600_000
FLYING = b"1 1 mqtt 1 0 %d-0 "


@pytest.mark.parametrize(
    ("fields", "lag", "expected"),
    [
        ({b"s a": b"{}"}, Lag(0, True, None), Application(0, True, 0, HOUR_MS)),
        ({b"s a": b"{}"}, Lag(2, True, 9_000_000), Application(0, True, 0, HOUR_MS - 1_000_000)),
        ({b"s a": b"{}"}, Lag(2, True, 1_000), Application(0, True, 0, 0)),
        ({b"s a": b"{}"}, None, Application(0, True, 0, None)),
        ({b"s plant/a": b"{}"}, Lag(2, True, 9_000_000), Application(0, True, 0, None)),
        ({b"s plant": b"{}"}, Lag(2, True, 9_000_000), Application(0, True, 0, None)),
        ({b"s +/a": b"{}"}, Lag(2, True, 9_000_000), Application(0, True, 0, HOUR_MS - 1_000_000)),
        ({b"s $share/g/a": b"{}"}, Lag(2, True, 9_000_000), Application(0, True, 0, None)),
        ({b"i 1": FLYING % 8_000_000}, Lag(2, True, 9_000_000), Application(1, True, 0, HOUR_MS - 2_000_000)),
        ({b"i 1": b"1 3 mqtt 1 0 8000000-0 "}, Lag(0, True, None), Application(1, True, 0, None)),
        ({b"i 1": b"1 1 gone 1 0 8000000-0 "}, Lag(0, True, None), Application(1, True, 0, None)),
        ({b"i 1": b"?", b"retries": b"["}, None, Application(1, True, 0, None)),
        ({b"retries": b'{"": 3, "g": "x"}'}, None, Application(0, True, 3, None)),
        ({b"retries": b"[]"}, None, Application(0, True, 0, None)),
    ],
)
def test_what_the_retention_leaves_to_a_backend(fields, lag, expected):
    logs = {"mqtt": Log("mqtt", {}, HOUR_MS), "plant": Log("plant", {}, HOUR_MS, ("plant/#",))}
    assert application_of(fields, {"mqtt": lag}, logs, True, 10_000_000) == expected


def test_ten_thousand_sessions_come_in_pages(client, page, log):
    position = tail(client)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(10_000):
            record = Record(f"d{number:05}", expiry_s=600, positions={"mqtt": position})
            for words in creation(record):
                pipeline.execute_command(*words)
            pipeline.zadd(INDEX, {record.client_id: 2_000_000_000_000 + number})
        pipeline.execute()
    first = page.get("/mqtt")
    assert re.findall(r">(d\d{5})</a>", first.text) == [f"d{number:05}" for number in range(50)]
    assert "Sessions 10,000" in text_of(first)
    (following,) = links(first, "next")
    assert re.findall(r">(d\d{5})</a>", page.get(following).text) == [f"d{number:05}" for number in range(50, 100)]
    last = page.get("/mqtt?from=9960")
    assert re.findall(r">(d\d{5})</a>", last.text) == [f"d{number:05}" for number in range(9_960, 10_000)]
    assert links(last, "next") == []
    assert "No further session" in text_of(page.get("/mqtt?from=10000"))


def test_a_session_is_shown_whole(client, page, log):
    place = Place("mqtt", 1, 0, (5, 1))
    record = Record("dev/<b>", user="ann", expiry_s=600, positions={"mqtt": tail(client)}, will=Will(b"gone", b"x"))
    record.subscriptions = {
        "a/#": Subscribed("a/#", 1, no_local=True, identifier=7),
        "$share/g/b": Subscribed("$share/g/b", 2, is_ordered=True),
    }
    keep(client, record, now_ms(client) + 50_000)
    for packet_id, state in ((11, State.PUBLISHED_1), (2, State.RELEASED)):
        client.hset(record.key, f"i {packet_id}", flying_text(packet_id, Sent(packet_id, place, state)))
    (link,) = re.findall(r'<th scope="row"><a href="([^"]*)"', page.get("/mqtt").text)
    seen = text_of(page.get(link))
    assert "dev/<b>" in seen
    assert "User ann" in seen
    assert "Expiry 10 min Will to gone" in seen
    assert "mqtt up to date 1 " in seen
    assert "2 subscriptions" in seen
    assert "$share/g/b 2 ordered a/# 1 no local, identifier 7" in seen
    assert re.search(r"2 messages in flight .* 2 2 PUBCOMP \{mqtt/0\}:g1 \S+ 11 1 PUBACK \{mqtt/0\}:g1", seen)


def test_of_a_session_with_very_many_messages_in_flight_the_first_are_shown(client, page, log):
    record = Record("many", expiry_s=600, positions={"mqtt": tail(client)})
    keep(client, record, now_ms(client) + 50_000)
    client.hset(record.key, mapping={f"i {one}": f"{one} 1 mqtt 1 0 5-{one} " for one in range(1, 20_001)})
    seen = text_of(page.get("/mqtt/session?client=many"))
    assert "The first of each are shown: 0 and 500." in seen
    assert re.search(r"\d,\d\d\d fields of the record were not looked at", seen)


def test_a_record_that_is_no_record_is_shown_as_far_as_it_can_be(client, page):
    client.zadd(INDEX, {b"\xff<x>": 5, "no-hash": 6})
    fields = {"expiry_s": "x", "ends_ms": "y", "will": "[", "will_name": "", "at mqtt": "1 x", "s a": "{", "i 1": "no"}
    client.set(b"mqtt:session:{\xff<x>}", "1 -")
    client.set("mqtt:session:{no-hash}", "x")
    client.hset(b"mqtt:session:{\xff<x>}:1", mapping={**fields, b"s \xff": b"[]", "i x": "1 1 a 1 0 5-1 "})
    reply = page.get("/mqtt")
    assert "\\xff<x>" in text_of(reply)
    (link,) = re.findall(r'<th scope="row"><a href="([^"]*)"', reply.text)
    assert page.get(link).status_code == 200
    assert page.get("/mqtt/session?client=no-hash").status_code == 404
    client.set("mqtt:session:{text}", "1")
    assert page.get("/mqtt/session?client=text").status_code == 404


def retain(client: redis.Redis, topic: str, payload: bytes, log: str = "mqtt") -> None:
    words = ("1", "0", "1700000000000-1", b"t", topic.encode(), b"p", payload, b"c", b"dev", b"q", b"1", b"r", b"1")
    client.hset(f"{{{log}}}:retained", topic, encode(words))


def test_retained_messages_are_shown_and_found(client, page, log):
    assert "No retained messages" in text_of(page.get("/mqtt/retained"))
    client.hset("{mqtt}:retained", "", "1 0-0 0-0")
    retain(client, "plant/1/state", b"on <b>")
    retain(client, "plant/2/state", b"\x00\r\n$5")
    retain(client, "large", b"x" * 100_000)
    reply = page.get("/mqtt/retained")
    seen = text_of(reply)
    assert "Log mqtt: 3 topics with a retained message." in seen
    assert "large too long to be shown here" in seen
    assert "plant/1/state on <b> 6 B 2023-11-14 22:13:20.000" in seen
    assert "\\x00" in seen
    assert "key=%7Bmqtt%2F0%7D%3Ag1&amp;id=1700000000000-1" in reply.text
    assert "plant/2" not in text_of(page.get("/mqtt/retained?match=plant/1"))
    assert "plant/2/state" in text_of(page.get("/mqtt/retained?match=plant/*/state"))
    assert "No such topic with “nothing”" in text_of(page.get("/mqtt/retained?match=nothing"))
    assert "Log other has no retained messages" in text_of(page.get("/mqtt/retained?log=other"))


def test_many_retained_messages_come_in_pages_each_once(client, page, log):
    client.hset("{mqtt}:retained", "", "1 0-0 0-0")
    for number in range(3_000):
        retain(client, f"t/{number}", b"x")
    found, address = [], "/mqtt/retained"
    while True:
        reply = page.get(address)
        shown = re.findall(r'<th scope="row">(t/\d+)</th>', reply.text)
        assert len(shown) < 4 * mqtt_retained.MESSAGES_PER_PAGE
        found += shown
        following = links(reply, "next")
        if not following:
            break
        (address,) = following
    assert sorted(set(found)) == sorted(f"t/{number}" for number in range(3_000))


def test_the_menu_names_mqtt_where_a_gateway_is(client, page, log):
    assert '"/mqtt"' not in page.get("/").text
    run_gateway(client)
    assert '"/mqtt"' in page.get("/").text
    assert '"/mqtt"' in page.get("/streams").text


def test_a_page_of_a_user_without_the_rights_says_so_and_the_others_do_not_need_them(client, page_of, log):
    rules = (
        "~* resetchannels -@all +multi +exec +ping +info +xlen +time +scan +type +xinfo +xrange +xrevrange +xpending"
    )
    words = [*rules.split(), "+memory|usage", "+command", "+slowlog|get", "+client|setname", "+client|setinfo"]
    client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">p", *words)
    hers = page_of(client, user="ann")
    assert hers.get("/").status_code == 200
    reply = hers.get("/mqtt")
    assert reply.status_code == 502
    assert "The server refused: " in text_of(reply)


def test_no_page_asks_for_much_or_for_anything_that_changes_something(client, page, log, monkeypatch):
    client.hset("{mqtt}:retained", "", "1 0-0 0-0")
    for number in range(2_000):
        retain(client, f"t/{number}", b"x" * 1_000)
    record = Record("one", expiry_s=600, positions={"mqtt": tail(client)})
    keep(client, record)
    asked = []
    send = Source._send
    monkeypatch.setattr(Source, "_send", lambda self, requests: asked.extend(requests) or send(self, requests))
    for address in (
        "/mqtt",
        "/mqtt?show=backends",
        "/mqtt/session?client=one",
        "/mqtt/retained",
        "/mqtt/retained?match=nothing",
    ):
        asked.clear()
        assert page.get(address).status_code == 200
        names = {request[0] for request in asked} - {"MULTI", "EXEC"}
        for info in client.execute_command("COMMAND INFO", *sorted({name.split()[0] for name in names})):
            assert not {"write", b"write"} & set(info[2])
        assert len(asked) < 4 * mqtt_retained.MESSAGES_PER_PAGE + mqtt_sessions.SCANS_MAX


@pytest.mark.parametrize(
    ("shards", "position", "lag"),
    [
        ([Shard(0, None, None)], b"1 0-0", Lag(0, True, None)),
        ([Shard(5, (10, 0), (50, 0))], b"1 0-0", Lag(5, True, 10)),
        ([Shard(5, (10, 0), (50, 0))], b"1 10-0", Lag(4, True, 10)),
        ([Shard(5, (10, 0), (50, 0))], b"1 30-0", Lag(2, False, 30)),
        ([Shard(5, (10, 0), (50, 0))], b"1 50-0", Lag(0, True, None)),
        ([Shard(5, (10, 0), (50, 0))], b"1 18446744073709551615-18446744073709551615", Lag(0, True, None)),
        ([Shard(5, (10, 0), (50, 0)), Shard(2, (20, 0), (60, 0))], b"1 50-0 0-0", Lag(2, True, 20)),
        ([Shard(5, (10, 0), (50, 0))], b"1 50-0 0-0", None),
        ([Shard(5, (10, 0), (50, 0))], b"one 50-0", None),
        ([Shard(5, (10, 0), (50, 0))], b"", None),
        ([Shard(5, (10, 0), (50, 0))], b"0 50-0", Lag(5, True, 10)),
    ],
)
def test_the_lag_of_a_position(shards, position, lag):
    assert mqtt_logs.lag_of(Log("mqtt", {1: shards}), position) == lag
