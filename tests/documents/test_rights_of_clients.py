"""The ACL rules that docs/security.md lists for each client are enough for it, on streamd and on Redis."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import Queue

import paho.mqtt.client as paho
import pytest
import redis
from click.testing import CliRunner
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from starlette.testclient import TestClient

from streamd.clients.sessions import DeviceStore
from streamd.clients.sessions import Message as SessionMessage
from streamd.clients.terminal.app import terminal
from streamd.clients.topics import Message, TopicLog
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.source import Source
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = TEXT.split("### What streamd's own clients need")[1]
ROWS = {
    name.strip("` "): rules.replace("\\|", "|").split()
    for name, rules in re.findall(r"^\| (.+?) \| .*?`(.+)` \|$", SECTION, re.MULTILINE)
}
DEADLINE_S = 60
ON_STREAMD_ONLY = {"+xfilter"}


def tail(url: str) -> None:
    for words in (["--no-follow", "--group", "billing"], ["--from", "5m", "--count", "1"], ["--count", "1"]):
        result = CliRunner().invoke(terminal, ["tail", "orders", *words, "--url", url])
        assert result.exit_code == 0, result.output
        assert "cents=1" in result.output


def top(url: str) -> None:
    result = CliRunner().invoke(terminal, ["top", "--count", "1", "--interval", "0.1", "--url", url])
    assert result.exit_code == 0, result.output
    assert "orders" in result.output
    assert "streamd-top" in result.output


def page(url: str) -> None:
    source = Source(url, allow_writes=True)
    browser = TestClient(application(source, Rules()), base_url="http://localhost")
    paths = ["/", "/streams?match=orders", "/groups/all", "/idempotence", "/slow-log", "/stream?key=orders&value=1"]
    paths += ["/mqtt", "/mqtt/session?client=dev", "/mqtt/retained?log=mqtt"]
    for path in [*paths, "/groups?key=orders", "/group?key=orders&group=billing", "/tail?key=orders&after=0-1"]:
        reply = browser.get(path)
        assert reply.status_code == 200, (path, reply.text)
    assert "Memory</dt><dd>–" not in browser.get("/").text
    source.close()


def page_with_writes(url: str) -> None:
    source = Source(url, allow_writes=True)
    browser = TestClient(application(source, Rules()), base_url="http://localhost", follow_redirects=False)
    for path, data in (("claim", {"id": "5-1", "for": "bob", "min-idle": "0"}), ("acknowledge", {"id": "5-1"})):
        headers = {"Origin": "http://localhost"}
        reply = browser.post(f"/group/{path}?key=orders&group=billing", data=data, headers=headers)
        assert (reply.status_code, reply.headers["location"][-8:]) == (303, "number=1"), reply.text
    source.close()


def topics(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        log = TopicLog.create(client, "telemetry", shards=2, retention_s=60, filters=["devices/#"])
        log.publish("devices/d7/t", b"21", publisher="d7", iid="1")
        log.publish_many([Message("devices/d8/t", "2", publisher="d8", iid="2")])
        entries, _, _ = log.next(log.iterator("devices/+/t", start="earliest"), 100)
        assert len(entries) == 2
        log.publish_many([Message("devices/d8/t", "3", user_properties=[("n", "1"), ("n", "2")])])
        for ordered in (False, True):
            with log.share(f"members-{ordered}", ordered=ordered) as member:
                assert member.ack(member.next(100).entries) == 3


def sessions(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        store = DeviceStore(client, prefix="mqtt:")
        (packet_id,) = store.add("d", SessionMessage("t", b"p", qos=2))
        assert len(store.get("d")) == 1
        store.mark_pubrel("d", packet_id)
        store.set_last_packet_id("d", 7)
        assert store.session("d") is not None
        store.remove("d", packet_id)
        store.remove_all("d")
        store.close()


class Device:
    """An MQTT client that a gateway serves; it waits for each answer."""

    def __init__(self, port: int, name: str, clean: bool = True, will: bool = False, version: int = 4) -> None:
        choice = {"clean_session": clean} if version == 4 else {}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion(version), **choice)
        self.client.username_pw_set("ann")
        self.answers, self.messages = Queue[object](), Queue[bytes]()
        self.client.on_connect = lambda client, data, flags, reason, properties: self.answers.put(reason)
        self.client.on_subscribe = lambda client, data, packet_id, reasons, properties: self.answers.put(reasons[0])
        self.client.on_message = lambda client, data, message: self.messages.put(message.payload)
        if will:
            self.client.will_set("devices/state", b"gone", qos=1, retain=True)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self.answers.get(timeout=DEADLINE_S) == 0

    def subscribe(self, filter: str, properties: Properties | None = None) -> None:
        self.client.subscribe(filter, 2, properties=properties)
        assert self.answers.get(timeout=DEADLINE_S) == 2

    def publish(self, payload: bytes, qos: int, retain: bool = False) -> None:
        self.client.publish("devices/d7/t", payload, qos, retain).wait_for_publish(DEADLINE_S)

    def close(self, is_lost: bool = False) -> None:
        if is_lost:
            self.client.loop_stop()
            self.client.socket().close()
        else:
            self.client.disconnect()
            self.client.loop_stop()


def gateway(url: str) -> None:
    def served(log: Path) -> tuple[subprocess.Popen[str], int]:
        words = [sys.executable, "-m", "streamd", "mqtt", "--port", "0", "--url", url]
        with log.open("w") as stderr:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert process.stdout is not None
        said = []
        while (line := process.stdout.readline()) not in ("", "  ready\n"):
            said.append(line)
        (port,) = re.findall(r"^  mqtt +127.0.0.1:(\d+)$", "".join(said), re.MULTILINE)
        return process, int(port)

    earliest = Properties(PacketTypes.SUBSCRIBE)
    earliest.UserProperty = ("start", "earliest")
    with tempfile.TemporaryDirectory() as place:
        for turn in range(2):  # the second gateway takes up what the first one has left
            log = Path(place, f"log-{turn}")
            process, port = served(log)
            try:
                backend, device = Device(port, "backend", clean=False), Device(port, "d7", clean=False, will=True)
                if turn == 0:
                    backend.subscribe("devices/#")
                for qos in range(3):
                    device.publish(b"%d" % (10 * turn + qos), qos, retain=qos == 1)
                    assert backend.messages.get(timeout=DEADLINE_S) == b"%d" % (10 * turn + qos)
                watcher = Device(port, "watcher")
                watcher.subscribe("devices/+/t")
                assert watcher.messages.get(timeout=DEADLINE_S) == b"%d" % (10 * turn + 1)
                watcher.close()
                reader = Device(port, "reader", version=5)
                reader.subscribe("devices/+/t", earliest)
                assert reader.messages.get(timeout=DEADLINE_S) == b"%d" % (10 * turn + 1)  # the retained one
                assert [reader.messages.get(timeout=DEADLINE_S) for _ in range(2)] == [b"0", b"1"]
                reader.close()
                backend.close()
                device.publish(b"kept", 2)
                backend = Device(port, "backend", clean=False)
                assert backend.messages.get(timeout=DEADLINE_S) == b"kept"
                device.close(is_lost=True)
                assert backend.messages.get(timeout=DEADLINE_S) == b"gone"
                backend.close()
                Device(port, "d7").close()  # ends the session
            finally:
                process.kill() if turn == 0 else process.terminate()
                process.communicate()
            assert process.returncode == (-9 if turn == 0 else 0)
            assert log.read_text() == ""  # else the store has refused something


CLIENTS: dict[str, Callable[[str], None]] = {
    "streamd tail": tail,
    "streamd top": top,
    "streamd ui": page,
    "streamd ui --allow-writes": page_with_writes,
    "streamd mqtt": gateway,
    "topics": topics,
    "sessions": sessions,
}


@pytest.fixture(params=["streamd", pytest.param("redis", marks=needs_redis)])
def client(request, tmp_path):
    if request.param == "streamd":
        with EmbeddedServer() as server:
            yield server.client()
    else:
        with running_redis(tmp_path) as port, redis.Redis(port=port) as client:
            yield client


def leave_a_session(client: redis.Redis) -> None:
    """Write what a gateway of MQTT leaves, for its pages."""
    TopicLog.create(client, "mqtt", shards=1, retention_s=60)
    client.zadd("mqtt:sessions", {"dev": 5})
    client.set("mqtt:session:{dev}", "1 -")
    client.hset("mqtt:session:{dev}:1", mapping={"expiry_s": "9", "ends_ms": "5", "at mqtt": "1 0-0"})
    client.hset("{mqtt}:retained", mapping={"": "1 0-0", "t": "*3\r\n$1\r\n1\r\n$1\r\n0\r\n$3\r\n5-1\r\n"})


@pytest.mark.parametrize("name", CLIENTS)
def test_the_rules_in_the_document_are_enough(client, name):
    rules = ROWS[name] + (ROWS["streamd ui"] if "writes" in name else [])
    if client.execute_command("COMMAND INFO", "XFILTER") in ([None], {}):
        rules = [rule for rule in rules if rule not in ON_STREAMD_ONLY]
    client.xadd("orders", {"cents": 1}, id="5-1")
    client.xgroup_create("orders", "billing", id="0")
    client.xreadgroup("billing", "ann", {"orders": ">"})
    client.xadd("orders", {"cents": 1})
    if name == "streamd ui":
        leave_a_session(client)
    client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">p", "resetchannels", *rules)
    CLIENTS[name](f"redis://ann:p@127.0.0.1:{client.connection_pool.connection_kwargs['port']}")
    assert client.acl_log() == []


def test_every_client_has_its_rules():
    assert CLIENTS.keys() <= ROWS.keys()
    assert "streamd backup" in ROWS
    assert "(spark-reference.md#" in SECTION
