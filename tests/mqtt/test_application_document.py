"""What docs/application.md shows runs, and its tables are those of the code."""

import json
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from queue import Queue

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from streamd.clients.mqtt.store.logs import RETENTION_S
from streamd.clients.sessions import DeviceStore
from streamd.clients.sessions import Message as SessionMessage
from streamd.testing import EmbeddedServer
from tests.documents.blocks import ROOT, Block, blocks_for
from tests.mqtt.test_mqtt_document import Shell, options, shell

__all__ = ["shell"]  # the fixture

TEXT = (ROOT / "docs" / "application.md").read_text(encoding="utf-8")
BLOCKS = blocks_for(__file__)
RETAINED, OFFLINE = [one.text for one in BLOCKS if one.language == "python"]
PATIENCE_S = 30
# Of other programs, and of `streamd mqtt`'s own commands.
OTHERS = {"--describe", "--all-groups", "--json"}


def missing() -> set[str]:
    """Return the options that the document names and that the gateway does not have yet."""
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", TEXT)) - options().keys() - OTHERS


@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "sh"], ids=str)
def test_the_lines_of_a_block_end_well(block: Block, shell: Shell):
    if "mosquitto_passwd" in block.text and shutil.which("mosquitto_passwd") is None:
        pytest.skip("mosquitto's programs are not installed")
    (shell.place / "passwords").write_text("ann:secret\n")
    (shell.place / "acl").write_text("".join(f"{line}\n" for line in lines_of_acl()))
    for line in block.text.splitlines():
        if "--application" in missing():
            line = line.replace(" --application 'backend-*'", "")
        shell.run(line)
    shell.end()


def lines_of_acl() -> list[str]:
    """Return the lines of an ACL file in the table of TBMQ's rules."""
    table = TEXT.split("| rule in TBMQ | line of the ACL file |\n")[1].split("\n\n")[0]
    return re.findall(r"`((?:topic|pattern) \w+ [^`]+)`", table)


def test_the_lines_of_the_acl_file_are_those_of_one(shell):
    lines = lines_of_acl()
    assert len(lines) == 4
    (shell.place / "acl").write_text("user ann\n" + "".join(f"{line}\n" for line in lines))
    shell.run("streamd mqtt --acl-file acl")
    shell.end()


def test_the_document_names_no_option_that_is_not_there():
    # Either all of them are there, or those of applications are still to come.
    assert {one for one in missing() if not re.match("--(application|resend-v5)", one)} == set()


def test_the_defaults_in_the_table_are_those_of_the_gateway():
    table = TEXT.split("| setting of TBMQ | TBMQ's default | here | default here |\n")[1].split("\n\n")[0]
    told = re.findall(r"^\|.*\| `(--[a-z-]+)[^|]*\| ([\d,]+|retry)[^|]*\|$", table, re.MULTILINE)
    assert len(told) == 11
    wanted = {**options(), "--retention": RETENTION_S}
    for name, value in told:
        if name not in missing():
            assert value.replace(",", "") == f"{wanted[name]}", name


class Client:
    """A client of MQTT 5 with a session that lasts."""

    def __init__(self, name: str, port: int, *filters: str) -> None:
        self.messages: Queue[paho.MQTTMessage] = Queue()
        self._subscribed: Queue[bool] = Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.on_message = lambda client, data, message: self.messages.put(message)
        self._client.on_subscribe = lambda *_: self._subscribed.put(True)
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3_600
        self._client.connect("127.0.0.1", port, clean_start=False, properties=properties)
        self._client.loop_start()
        for one in filters:
            self._client.subscribe(one, qos=2)
            self._subscribed.get(timeout=PATIENCE_S)

    def publish(self, topic: str, payload: bytes, **words) -> None:
        self._client.publish(topic, payload, qos=1, **words).wait_for_publish(PATIENCE_S)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


def test_the_program_copies_the_retained_messages(shell):
    shell.run("streamd mqtt --dir other --port 0")  # in the place of TBMQ
    (old,) = re.findall(r"  mqtt +127.0.0.1:(\d+)", shell.said)
    shell.run("streamd mqtt")
    device = Client("d7", int(old))
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = "text/plain"
    device.publish("devices/d7/state", b"on", retain=True, properties=properties)
    device.publish("devices/d7/bytes", b"\x00\xff", retain=True)
    device.publish("devices/d7/temperature", b"21", retain=False)
    device.close()
    port = shell.ports["1883"]
    text = RETAINED.replace('"10.0.0.5", 1883', f'"127.0.0.1", {port}').replace(
        '"tbmq.example", 1883', f'"127.0.0.1", {old}'
    )
    names: dict[str, object] = {}
    exec(compile(text.replace("sleep(5)", "sleep(1)"), "docs/application.md", "exec"), names)
    for name in ("gateway", "tbmq"):
        names[name].disconnect()
        names[name].loop_stop()
    assert len(names["copied"]) == 2
    backend = Client("backend", int(port), "#")
    found = [backend.messages.get(timeout=PATIENCE_S) for _ in range(2)]
    backend.close()
    assert {(one.topic, one.payload, one.retain) for one in found} == {
        ("devices/d7/state", b"on", True),
        ("devices/d7/bytes", b"\x00\xff", True),
    }
    (state,) = [one for one in found if one.topic == "devices/d7/state"]
    assert state.properties.ContentType == "text/plain"
    shell.end()


def test_the_program_moves_what_waits_for_an_offline_device(server, shell):
    tbmq = server.client()  # in the place of TBMQ's Redis
    for number, more in ((1, {}), (2, {"msgExpiryInterval": 600})):
        message = {"packetType": "PUBLISH", "packetId": number, "payload": b64encode(b"%d" % number).decode(), "qos": 1}
        more = {"time": 1_736_333_110_026, "clientId": "device-7", "topicName": "commands/device-7", **more}
        tbmq.set(f"{{device-7}}_messages_{number}", json.dumps(message | more | {"retained": False}), ex=600)
        tbmq.zadd("{device-7}_messages", {f"{{device-7}}_messages_{number}": number})
    tbmq.set("{device-7}_last_packet_id", 2)
    with DeviceStore(tbmq) as store:  # what was answered with PUBREC has arrived
        store.add("device-7", SessionMessage("commands/device-7", b"3", qos=2))
        store.mark_pubrel("device-7", 3)
    server.advance(seconds=250)
    with EmbeddedServer() as store_of_gateway:
        shell.run(f"streamd mqtt --url {store_of_gateway.url}")
        device = Client("device-7", int(shell.ports["1883"]), "commands/device-7")
        text = OFFLINE.replace("6380", str(server.port)).replace("6379", str(store_of_gateway.port))
        exec(compile(text, "docs/application.md", "exec"), {})
        first, second = (device.messages.get(timeout=PATIENCE_S) for _ in range(2))
        device.close()
        shell.end()  # the store outlives its gateway
    assert [(one.payload, one.qos) for one in (first, second)] == [(b"1", 1), (b"2", 1)]
    assert second.properties.MessageExpiryInterval <= 350
    assert tbmq.keys("*") == []
