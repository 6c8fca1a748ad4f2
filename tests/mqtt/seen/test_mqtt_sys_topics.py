"""$SYS: mosquitto's names, the values of a gateway, and who gets them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.ports import free_port
from streamd.base.clock import Clock
from streamd.clients.mqtt.gateway.sys_topics import Load
from streamd.testing import EmbeddedServer
from tests.mqtt.access.judge import PROGRAM, Mosquitto
from tests.mqtt.seen.running import Client, Gateway, gateway

# The bytes of the messages in the logs are memory of the store: MEMORY USAGE tells them there.
NOT_TOLD = {"$SYS/broker/store/messages/bytes"}


def values_of(client: Client) -> dict[str, str]:
    """Subscribe to all, and return the retained values."""
    client.subscribe("$SYS/#")
    return {one.topic.decode(): one.payload.decode() for one in client.ping()}


def next_value(client: Client, topic: str, wanted: str) -> None:
    """Read until a topic has a value."""
    while True:
        (one,) = client.messages(1)
        if (one.topic.decode(), one.payload.decode()) == ("$SYS/broker/" + topic, wanted):
            return


@pytest.mark.skipif(PROGRAM is None or not shutil.which("mosquitto_sub"), reason="mosquitto is not installed")
def test_each_name_that_mosquitto_has_is_there(running: Gateway, tmp_path: Path):
    assert PROGRAM is not None
    port, settings = free_port(), tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nsys_interval 1\n")
    words = [PROGRAM, "-c", str(settings)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, errors="replace")
    try:
        assert Mosquitto(process, port).wait_for(" running")
        words = ["mosquitto_sub", "-p", str(port), "-t", "$SYS/#", "-v", "-W", "3"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
    finally:
        process.kill()
        process.wait(20)
    # (Some names and some values have blanks.)
    theirs = {re.sub(r" (?:-?[\d.]+(?: seconds)?|mosquitto version .*)$", "", line) for line in said.splitlines()}
    assert len(theirs) > 40
    with running.client("names") as client:
        assert theirs - NOT_TOLD - values_of(client).keys() == set()


def test_values_are_retained_messages_of_qos_0_and_then_come_when_they_change(running: Gateway):
    with running.client("watcher") as watcher:
        assert watcher.subscribe("$SYS/broker/clients/connected", 2) == (2,)
        (first,) = watcher.messages(1)
        assert (first.qos, first.retain) == (0, True)
        if first.payload != b"1":  # it was told when others were there
            next_value(watcher, "clients/connected", "1")
        with running.client("another"):
            next_value(watcher, "clients/connected", "2")
        (last,) = watcher.messages(1)
        assert (last.payload, last.retain) == (b"1", False)


def test_what_clients_do_is_counted(running: Gateway):
    with running.client("counter") as client:
        before = values_of(client)
        with running.client("publisher") as publisher:
            for _ in range(3):
                assert publisher.publish("seen/counted", b"12345") == 0
            received = int(before["$SYS/broker/publish/messages/received"])
            sent = int(before["$SYS/broker/publish/bytes/received"])
            stored = int(before["$SYS/broker/store/messages/count"])
            next_value(client, "publish/messages/received", str(received + 3))
            next_value(client, "publish/bytes/received", str(sent + 15))
            next_value(client, "store/messages/count", str(stored + 3))


def test_a_wildcard_at_the_begin_does_not_match_them(running: Gateway):
    with running.client("wild") as client:
        client.subscribe("#")
        client.subscribe("+/broker/uptime")
        assert [one for one in client.ping() if one.topic.startswith(b"$")] == []


def test_no_client_publishes_there(running: Gateway):
    with running.client("writer") as client:
        assert client.publish("$SYS/broker/uptime", b"never") == 0x90


def test_no_value_of_a_gateway_is_the_state_of_a_bridge(running: Gateway):
    with running.client("hub") as client:
        client.publish("$SYS/broker/connection/hub/state", b"1", retain=True)
        values = values_of(client)
        found = [name for name in values if name.startswith("$SYS/broker/connection/")]
        assert (found, values[found[0]]) == (["$SYS/broker/connection/hub/state"], "1")
        client.publish(found[0], b"", retain=True)


def test_no_log_has_them_and_no_limit_of_retained_messages_counts_them():
    with EmbeddedServer(Clock()) as server, gateway(server.url, "--retained-max", "1") as one:
        with one.client("c") as client:
            assert client.publish("only", b"1", retain=True) == 0
            assert client.publish("another", b"1", retain=True) == 0x97
            assert values_of(client)["$SYS/broker/retained messages/count"] == "0"  # of before it came
        store = server.client()
        for key in store.scan_iter(_type="stream"):
            assert [fields for _, fields in store.xrange(key) if fields.get(b"t", b"").startswith(b"$")] == []
        assert [one for one in store.hkeys("{mqtt}:retained") if one.startswith(b"$")] == []


def test_the_rights_say_who_reads_them(tmp_path: Path):
    rights = tmp_path / "rights"
    rights.write_text("topic readwrite #\nuser ann\ntopic read $SYS/broker/uptime\n")
    with EmbeddedServer(Clock()) as server, gateway(server.url, "--acl-file", str(rights)) as one:
        with one.client("nobody") as client:
            client.subscribe("$SYS/#")
            assert client.ping() == []
        with one.client("hers", username="ann") as client:
            assert values_of(client).keys() == {"$SYS/broker/uptime"}


def test_an_interval_of_0_ends_them():
    with (
        EmbeddedServer(Clock()) as server,
        gateway(server.url, "--sys-interval", "0") as one,
        one.client("c") as client,
    ):
        assert values_of(client) == {}


def test_a_load_is_the_moving_average_of_counts_per_minute():
    load = Load()
    for second in range(1, 3_600):
        averages = load.moved(second * 10, 1.0)  # 10 in each second
    assert averages == {span: pytest.approx(600, rel=0.02) for span in ("1min", "5min", "15min")}
    for _ in range(60):
        averages = load.moved(35_990, 1.0)
    assert averages["1min"] == pytest.approx(600 / 2.71828, rel=0.01)
    assert averages["1min"] < averages["5min"] < averages["15min"]
