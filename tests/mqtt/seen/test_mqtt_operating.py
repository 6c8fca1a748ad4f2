"""`streamd mqtt clients | session | disconnect`: what operators see of a running gateway, and do to its clients."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from streamd import cli
from streamd.base.clock import Clock
from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.gateway.ownership import GATEWAYS, lease_key
from streamd.clients.mqtt.store.control import CONTROL, Request
from streamd.clients.mqtt.store.link import encode
from streamd.testing import EmbeddedServer
from tests.mqtt.seen.running import STREAMD, TIMEOUT_S, Client, Gateway, gateway

EXPIRY = {Property.SESSION_EXPIRY_INTERVAL: 600}


@pytest.fixture
def do(running: Gateway, capsys):
    """Run a command on the store of the gateway; returns its code, output and errors."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["mqtt", *words, "--url", running.url])
        return code, *capsys.readouterr()

    return run


def listed(do, *words: str) -> dict[str, dict]:
    """Return the clients that `clients --json` prints, by their identifiers."""
    code, out, err = do("clients", "--json", *words)
    assert (code, err) == (0, "")
    return {one["client"]: one for one in map(json.loads, out.splitlines())}


def shown(do, client_id: str) -> dict:
    code, out, err = do("session", client_id, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_clients_are_listed_with_what_is_known_of_them(running, do):
    with running.client("ann-7", username="ann") as one, running.client("bob", 4) as other:
        one.subscribe("seen/#", 1)
        one.subscribe("other", 1)
        assert other.publish("seen/1", b"x") == 0
        one.messages(1)
        found = listed(do)
        assert found.keys() == {"ann-7", "bob"}
        ann = found["ann-7"]
        assert ann.pop("address").startswith("127.0.0.1:")
        assert ann.pop("since").endswith("Z")
        assert ann.pop("gateway") == f"127.0.0.1:{running.ports['mqtt']}"
        assert ann == {
            "client": "ann-7", "user": "ann", "listener": "mqtt", "version": "5", "subscriptions": 2, "in_flight": 1,
            "lag": {},
        }  # fmt: skip
        assert (found["bob"]["version"], found["bob"]["user"]) == ("3.1.1", None)
        code, out, _ = do("clients")
        assert code == 0
        head, *rows, last = out.splitlines()
        assert " ".join(head.split()) == "CLIENT USER ADDRESS VERSION CONNECTED SINCE SUBSCRIPTIONS IN FLIGHT LAG"
        assert [row.split()[0] for row in rows] == ["ann-7", "bob"]
        assert last == "2 of 2 clients"


def test_many_clients_come_in_pages(running, do):
    many = [running.client(f"many-{number:04}") for number in range(620)]
    try:
        names = [f"many-{number:04}" for number in range(620)]
        assert list(listed(do, "--count", "0")) == names  # two requests to the gateway
        assert list(listed(do)) == names[:100]
        assert list(listed(do, "--after", "many-0099", "--count", "3")) == names[100:103]
        assert list(listed(do, "--match", "*-00[01]9")) == ["many-0009", "many-0019"]
        out = do("clients", "--count", "2")[1]
        assert out.splitlines()[-1] == "2 of 620 clients; more: --after 'many-0001'"
    finally:
        for one in many:
            one.close()


def test_the_lag_of_a_client_that_takes_no_more_is_told(running, do):
    with running.client("slow", properties={Property.RECEIVE_MAXIMUM: 2}) as slow, running.client("pub") as source:
        slow.subscribe("seen/slow", 1)
        for _ in range(5):
            source.publish("seen/slow", b"x")
        slow.messages(2)
        (lag,) = listed(do)["slow"]["lag"].items()
        assert (lag[0], lag[1]["messages"]) == ("mqtt", 3)
        assert "mqtt: 3 messages, " in do("clients", "--match", "slow")[1]
        session = shown(do, "slow")
        assert session["lag"]["mqtt"]["messages"] == 3
        assert session["lag"]["plant"] == {"messages": 0, "is_exact": True, "seconds": 0}
        assert session["in_flight_number"] == 2


def test_a_session_says_whether_its_client_is_an_application(running, do):
    for client_id, is_application in (("backend-1", True), ("device-1", False)):
        with running.client(client_id, properties=EXPIRY):
            assert shown(do, client_id)["is_application"] is is_application


def test_a_session_is_shown_whether_its_client_is_connected_or_not(running, do):
    will = p.Will(b"seen/will", b"gone", 1, True, {Property.WILL_DELAY_INTERVAL: 60})
    with running.client("keeps", username="ann", will=will, properties=EXPIRY, keep_alive_s=60) as keeps:
        keeps.subscribe("seen/in/flight", 2, no_local=True)
        with running.client("pub") as source:
            source.send(p.Publish(b"seen/in/flight", b"x", 2, packet_id=9))
            assert isinstance(source.read(), p.Pubrec)
            source.send(p.Pubrel(9))
            assert isinstance(source.read(), p.Pubcomp)
        (message,) = keeps.messages(1)
        live = shown(do, "keeps")
        assert (live["is_connected"], live["version"], live["keep_alive_s"], live["ends"]) == (True, "5", 60, None)
        same = {
            "client": "keeps", "user": "ann", "expiry_s": 600, "subscriptions_number": 1,
            "subscriptions": [{"filter": "seen/in/flight", "qos": 2, "no_local": True}],
            "in_flight_number": 1,
        }  # fmt: skip
        assert {name: live[name] for name in same} == same
        (flying,) = live["in_flight"]
        assert (flying["packet"], flying["qos"], flying["state"]) == (message.packet_id, 2, "PUBREC awaited")
        store = redis.Redis.from_url(running.url)
        ((_, fields),) = store.xrange(flying["stream"], flying["entry"], flying["entry"])
        assert fields[b"t"] == b"seen/in/flight"
        told = {"topic": "seen/will", "qos": 1, "retain": True, "bytes": 4, "delay_s": 60}
        assert live["will"] == {**told, "due": None}
        assert live["lag"]["mqtt"]["messages"] == 0
    with running.client("pub") as source:
        for _ in range(3):  # the last one makes sure that the gateway knows of the end above
            source.publish("seen/more", b"x")
    away = shown(do, "keeps")
    assert {name: away[name] for name in same} == same
    assert not away["is_connected"]
    assert away["ends"]
    assert away["will"].pop("due")
    assert away["will"] == told
    assert away["in_flight"] == live["in_flight"]
    assert away["lag"]["mqtt"]["messages"] in range(1, 5)
    code, out, _ = do("session", "keeps")
    assert code == 0
    for line in ("connected      no", "  seen/in/flight  QoS 2, no local", "subscriptions  1", "in flight      1"):
        assert line in out


def test_a_client_is_disconnected_within_a_second_and_told_why(running, do):
    with running.client("goes", properties=EXPIRY) as goes, running.client("goes-3", 4) as other:
        goes.subscribe("seen/#")
        assert do("disconnect", "goes") == (0, "closed\n", "")
        packet = goes.read()
        assert isinstance(packet, p.Disconnect)
        assert packet.reason == 0x98
        assert goes.read() is None
        assert json.loads(do("disconnect", "goes-3", "--json")[1]) == {"client": "goes-3", "is_closed": True}
        assert other.read() is None
        assert do("disconnect", "goes") == (2, "", "streamd: client 'goes' is not connected\n")
    assert shown(do, "goes")["subscriptions_number"] == 1


def test_a_session_that_does_not_exist_is_said(do):
    assert do("session", "nobody") == (2, "", "streamd: there is no session of client 'nobody'\n")


def test_a_client_identifier_cannot_steer_a_terminal(running, do):
    with running.client("a\x1b[2Jb\n"):
        assert "a\\x1b[2Jb\\n" in do("clients")[1]
        assert "a\\x1b[2Jb\\n" in do("session", "a\x1b[2Jb\n")[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "x", "do": "clients"},
        {"id": "0" * 32, "do": "clients", "with": "["},
        {"id": "0" * 32, "do": "clients", "with": "[]"},
        {"id": "0" * 32, "do": "everything", "with": '{"client": "x"}'},
        {"id": "0" * 32, "do": "disconnect", "with": '{"client": 5}'},
        {b"id": b"\xff", b"with": b"\xff"},
        {"id": "0" * 32, "do": "clients", "with": '{"count": "many", "after": 5, "match": ["x"]}'},
    ],
)
def test_a_request_that_makes_no_sense_harms_nobody(running, do, fields):
    redis.Redis.from_url(running.url).xadd(CONTROL, fields)
    assert listed(do) == {}


def test_requests_and_answers_do_not_stay(running, do):
    store = redis.Redis.from_url(running.url)
    for _ in range(3):
        listed(do)
    for number in range(150):
        words = Request(f"{number:032x}", "session", {"client": "nobody"}).to_words()
        store.execute_command(*words)
    listed(do)
    assert store.xlen(CONTROL) == 100
    for key in store.scan_iter("mqtt:answer:*"):
        assert 0 < store.ttl(key) <= 30


def test_without_a_gateway_sessions_are_read_and_clients_are_not(tmp_path: Path, capsys):
    with EmbeddedServer(Clock()) as server:
        with gateway(server.url) as one, Client(one.ports["mqtt"], "left", properties=EXPIRY) as client:
            client.subscribe("a/+", 1)
        assert cli.main(["mqtt", "clients", "--url", server.url]) == 3
        place = server.url
        said = f"streamd: {place}: no gateway runs on this store; `streamd mqtt` starts one\n"
        assert capsys.readouterr() == ("", said)
        assert cli.main(["mqtt", "disconnect", "left", "--url", server.url]) == 3
        assert capsys.readouterr() == ("", said)
        assert cli.main(["mqtt", "session", "left", "--url", server.url]) == 0
        assert "  a/+  QoS 1" in capsys.readouterr().out


def test_a_gateway_that_does_not_answer_is_said(capsys, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.asking._ANSWER_S", 0.1)
    with EmbeddedServer(Clock()) as server:
        server.client().hset(GATEWAYS, "a", '{"run": "a", "name": "here:1", "host": "h", "process": 1}')
        server.client().set(lease_key("a"), "1")
        assert cli.main(["mqtt", "clients", "--url", server.url]) == 3
    said = "the gateway here:1 (process 1 on h) has not answered within 0.1 seconds; look at its log"
    assert said in capsys.readouterr().err


def test_a_gateway_passes_over_what_was_asked_before_it_came():
    with EmbeddedServer(Clock()) as server:
        store = server.client()
        old = Request("0" * 32, "session", {"client": "x"})
        store.execute_command(*old.to_words())
        with gateway(server.url):
            assert cli.main(["mqtt", "clients", "--url", server.url]) == 0
        assert not store.exists("mqtt:answer:" + "0" * 32)


def test_the_gateways_own_server_is_found_by_its_directory(tmp_path: Path, capsys):
    words = [*STREAMD, "mqtt", "--dir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        one = Gateway(process, "")
        with one.client("inside"):
            assert cli.main(["mqtt", "clients", "--dir", str(tmp_path), "--json"]) == 0
            assert json.loads(capsys.readouterr().out)["client"] == "inside"
            assert cli.main(["mqtt", "--dir", str(tmp_path), "disconnect", "inside"]) == 0
        process.terminate()
        process.wait(TIMEOUT_S)
    capsys.readouterr()
    assert cli.main(["mqtt", "clients", "--dir", str(tmp_path / "none")]) == 3
    assert f"no gateway runs in {tmp_path / 'none'}; name its store with --url" in capsys.readouterr().err


def test_the_commands_are_in_the_help_and_the_bench_is_among_them():
    words = [sys.executable, "-m", "streamd", "mqtt"]
    said = subprocess.run([*words, "--help"], capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    for word in ("clients", "session", "disconnect", "bench"):
        assert f"\n    {word}" in said
    said = subprocess.run([*words, "bench", "p2p", "--help"], capture_output=True, text=True, timeout=TIMEOUT_S).stdout
    assert "--under-way" in said


def test_a_request_is_one_command():
    assert encode(Request("0" * 32, "clients", {}).to_words()).startswith(b"*11\r\n$4\r\nXADD\r\n")


def test_a_gateway_that_does_not_answer_hides_no_client_of_another(capsys, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.asking._ANSWER_S", 2)
    with (
        EmbeddedServer(Clock()) as server,
        gateway(server.url) as one,
        Client(one.ports["mqtt"], "here", properties=EXPIRY),
    ):
        server.client().hset(GATEWAYS, "a", '{"run": "a", "name": "there:1", "host": "h", "process": 1}')
        server.client().set(lease_key("a"), "1")
        assert cli.main(["mqtt", "session", "here", "--url", server.url]) == 0
        assert "client         here" in capsys.readouterr().out
        assert cli.main(["mqtt", "disconnect", "here", "--url", server.url]) == 0
        assert cli.main(["mqtt", "clients", "--url", server.url]) == 3
        assert "the gateway there:1 (process 1 on h) has not answered" in capsys.readouterr().err
