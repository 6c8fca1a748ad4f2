"""A mosquitto.conf is moved to `streamd mqtt` with docs/mqtt.md alone: the same clients pass on both."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.ports import free_port
from tests.documents.blocks import ROOT, blocks
from tests.mqtt.access.judge import PROGRAM, needs_mosquitto
from tests.spark.deployments import make_certificates

HERE = Path(__file__).parent
PAGE = (ROOT / "docs" / "mqtt.md").read_text(encoding="utf-8")
CONF = (HERE / "mosquitto.conf").read_text()
FILES = ("mosquitto.passwords", "mosquitto.acl")
PASSWORDS = {"d7": "seven", "d8": "eight", "backend": "back", "panel": "glass"}
ADDRESS, PORTS = "192.0.2.7", ("1883", "8883")
IN_FLIGHT_MAX = 20
DEADLINE_S = 60


def command_on_the_page() -> str:
    """Return the command that docs/mqtt.md puts in the place of the file."""
    of_page = [one for one in blocks() if one.document == "docs/mqtt.md" and one.language == "sh"]
    (block,) = [one for one in of_page if ADDRESS in one.text]
    return block.text.replace("\\\n", " ")


class Broker:
    """A broker of either kind, that can be started again: ports is where it listens, without and with TLS."""

    def __init__(self, directory: Path, command: str) -> None:
        self.directory, self.command = directory, command
        self.ports = [free_port(), free_port()]
        for name in FILES:
            shutil.copy(HERE / name, directory)
        (directory / "data").mkdir()
        (directory / "mosquitto.conf").write_text(f"user root\n{self.here(CONF)}")
        self.process: subprocess.Popen[str] | None = None

    def here(self, text: str) -> str:
        """Return a text with the address and the ports of this test."""
        for port, mine in zip(PORTS, self.ports, strict=True):
            text = text.replace(port, str(mine))
        return text.replace(ADDRESS, "127.0.0.1")

    def start(self) -> None:
        """Start it; return when it serves."""
        self.process = subprocess.Popen(
            shlex.split(self.here(self.command)),
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            if " running" in line or "  ready" in line:
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise AssertionError(f"{self.command} ended: {said}")

    def stop(self) -> None:
        """End it as a service manager does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE_S)


class Client:
    """A paho client that waits for what it is answered."""

    def __init__(self, broker: Broker, name: str, *, password: str | None = "", client_id: str = "", **more: object):
        self.broker, self.answers = broker, Queue[object]()
        self.messages = Queue[tuple[str, bytes]]()
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id or name, **more)  # type: ignore[arg-type]
        if password is not None:
            self.paho.username_pw_set(name, password or PASSWORDS.get(name))
        self.paho.on_connect = lambda client, data, flags, reason, properties: self.answers.put((reason, properties))
        self.paho.on_subscribe = lambda client, data, packet_id, reasons, properties: self.answers.put(reasons)
        self.paho.on_message = lambda client, data, message: self.messages.put((message.topic, message.payload))

    def connect(self, tls: bool = False, **more: object) -> tuple[object, Properties]:
        """Return the reason and the properties of the CONNACK."""
        if tls:
            self.paho.tls_set(str(self.broker.directory / "ca.pem"))
        host = "localhost" if tls else "127.0.0.1"
        self.paho.connect(host, self.broker.ports[tls], **more)  # type: ignore[arg-type]
        self.paho.loop_start()
        return self.answers.get(timeout=DEADLINE_S)  # type: ignore[return-value]

    def subscribe(self, filter: str, qos: int = 1) -> None:
        """Subscribe; a broker may say that a subscription is of no use."""
        self.paho.subscribe(filter, qos)
        self.answers.get(timeout=DEADLINE_S)

    def publish(self, topic: str, payload: str, qos: int = 1, retain: bool = False) -> None:
        """Publish, and wait for the answer."""
        self.paho.publish(topic, payload, qos, retain).wait_for_publish(DEADLINE_S)

    def next(self) -> tuple[str, str]:
        """Return the next message."""
        topic, payload = self.messages.get(timeout=DEADLINE_S)
        return topic, payload.decode()

    def close(self) -> None:
        """Disconnect."""
        self.paho.disconnect()
        self.paho.loop_stop()


@pytest.fixture(params=[pytest.param("mosquitto", marks=needs_mosquitto), "gateway"])
def broker(request, tmp_path) -> Iterator[Broker]:
    make_certificates(tmp_path)
    command = f"{PROGRAM} -c mosquitto.conf" if request.param == "mosquitto" else command_on_the_page()
    command = re.sub(r"^streamd ", f"{sys.executable} -m streamd ", command)
    broker = Broker(tmp_path, command)
    broker.start()
    yield broker
    assert broker.process is not None
    broker.stop()
    assert broker.process.returncode == 0


@pytest.fixture
def client(broker) -> Iterator[Callable[..., Client]]:
    """Makes clients, which are closed at the end."""
    made: list[Client] = []

    def make(name: str, **more: object) -> Client:
        made.append(Client(broker, name, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_both_listeners_serve_users_of_the_password_file(client):
    backend = client("backend")
    assert backend.connect()[0] == 0
    backend.subscribe("devices/#")
    for number, tls in enumerate((False, True)):
        device = client("d7")
        assert device.connect(tls=tls)[0] == 0
        device.publish("devices/d7/temperature", str(number))
        assert backend.next() == ("devices/d7/temperature", str(number))


def test_a_wrong_password_is_refused(client):
    assert client("d7", password="eight").connect()[0] != 0
    assert client("nobody", password="seven").connect()[0] != 0


def test_a_client_without_a_user_gets_nothing_and_publishes_nothing(client):
    backend = client("backend")
    backend.connect()
    backend.subscribe("devices/#")
    stranger = client("", password=None, client_id="stranger")
    if stranger.connect()[0] == 0:
        stranger.subscribe("devices/#")
        stranger.publish("other/topic", "x")
    device = client("d7")
    device.connect()
    device.publish("devices/d7/temperature", "21")
    assert backend.next()[1] == "21"
    with pytest.raises(Empty):
        stranger.messages.get_nowait()


def test_patterns_give_each_device_its_own_topics(client):
    backend, d7, d8 = client("backend"), client("d7"), client("d8")
    for one in (backend, d7, d8):
        one.connect()
    backend.subscribe("devices/#")
    d7.publish("devices/d8/temperature", "forged")
    d7.publish("devices/d7/temperature", "21")
    assert backend.next() == ("devices/d7/temperature", "21")
    for one in (d7, d8):
        one.subscribe("commands/#")
        one.subscribe("commands/d7/#")
        one.subscribe("commands/d8/#")
    backend.publish("commands/d7/set", "on")
    backend.publish("commands/d8/set", "off")
    assert d7.next() == ("commands/d7/set", "on")
    assert d8.next() == ("commands/d8/set", "off")


def test_a_denied_topic_is_not_delivered(client):
    panel, d7, d8 = client("panel"), client("d7"), client("d8")
    for one in (panel, d7, d8):
        one.connect()
    panel.subscribe("devices/+/temperature")
    d8.publish("devices/d8/temperature", "20")
    d7.publish("devices/d7/humidity", "40")
    d7.publish("devices/d7/temperature", "21")
    assert panel.next() == ("devices/d7/temperature", "21")


def test_sessions_and_retained_messages_outlive_a_restart(broker, client):
    backend = client("backend", clean_session=False)
    backend.connect()
    backend.subscribe("devices/#", qos=2)
    backend.close()
    device = client("d7")
    device.connect()
    device.publish("devices/d7/state", "online", retain=True)
    for number in range(30):
        device.publish("devices/d7/temperature", str(number), qos=number % 2 + 1)
    device.close()

    broker.stop()
    broker.start()

    backend = client("backend", clean_session=False)
    backend.connect()
    got = [backend.next()[1] for _ in range(31)]
    # paho hands on a message of QoS 2 at its PUBREL: so each QoS has an order of its own.
    assert got[0] == "online"
    assert [one for one in got[1:] if int(one) % 2 == 0] == [str(number) for number in range(0, 30, 2)]
    assert [one for one in got[1:] if int(one) % 2 == 1] == [str(number) for number in range(1, 30, 2)]
    other = client("backend", client_id="other")
    other.connect()
    other.subscribe("devices/+/state")
    assert other.next() == ("devices/d7/state", "online")


def test_a_subscriber_has_at_most_twenty_messages_in_flight(client):
    backend, device = client("backend", manual_ack=True), client("d7")
    for one in (backend, device):
        one.connect()
    unacknowledged: list[paho.MQTTMessage] = []
    backend.paho.on_message = lambda one, data, message: (unacknowledged.append(message), backend.messages.put(message))
    backend.subscribe("devices/#")
    for number in range(IN_FLIGHT_MAX + 5):
        device.publish("devices/d7/temperature", str(number))
    for _ in range(IN_FLIGHT_MAX):
        backend.messages.get(timeout=DEADLINE_S)
    backend.subscribe("devices/none")  # its answer comes behind what was sent before
    assert len(unacknowledged) == IN_FLIGHT_MAX
    for message in unacknowledged[:5]:
        backend.paho.ack(message.mid, message.qos)
    assert [backend.messages.get(timeout=DEADLINE_S).payload for _ in range(5)] == [b"20", b"21", b"22", b"23", b"24"]


def test_a_client_of_5_0_is_told_keep_alive_and_receive_maximum(client):
    _, properties = client("d7", protocol=MQTTProtocolVersion.MQTTv5).connect(keepalive=3_000)
    assert (properties.ServerKeepAlive, properties.ReceiveMaximum) == (600, IN_FLIGHT_MAX)


def test_a_session_expires_after_two_weeks_at_most(client):
    wanted = Properties(PacketTypes.CONNECT)
    wanted.SessionExpiryInterval = 30 * 86_400
    one = client("d7", protocol=MQTTProtocolVersion.MQTTv5)
    reason, properties = one.connect(properties=wanted)
    assert reason == 0
    if "mosquitto " not in one.broker.command:  # mosquitto does not tell clients
        assert properties.SessionExpiryInterval == 14 * 86_400


def test_a_message_that_is_too_large_does_not_arrive(client):
    backend, device = client("backend"), client("d7")
    for one in (backend, device):
        one.connect()
    backend.subscribe("devices/#")
    device.paho.publish("devices/d7/log", "x" * 200_000, 0)
    # (Not waited for: a broker may end the connection for the first one. Then this one goes over the next connection.)
    device.paho.publish("devices/d7/log", "x" * 60_000, 1)
    assert backend.next() == ("devices/d7/log", "x" * 60_000)


def test_the_panel_sees_the_brokers_figures(client):
    panel = client("panel")
    panel.connect()
    panel.subscribe("$SYS/broker/version")
    assert re.match("(mosquitto|streamd) version", panel.next()[1])


def rows() -> dict[str, str]:
    """Return the rows of the page's table: what takes the place of each setting."""
    table = PAGE.split("| mosquitto.conf |")[1].split("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        settings, place = line.strip("| ").split(" | ", 1)
        found.update({name.split()[0]: place for name in re.findall(r"`([^`]+)`", settings)})
    return found


def test_the_table_has_each_setting_of_the_file_and_its_options_are_those_of_the_command():
    command = command_on_the_page()
    for line in CONF.splitlines():
        if not line or line.startswith("#"):
            continue
        setting = line.split()[0]
        options = re.findall(r"`(--[a-z-]+)", rows()[setting])
        stands_there = setting in ("allow_anonymous", "sys_interval", "max_queued_messages")
        assert stands_there or any(option in command for option in options), setting


# From the manual of mosquitto 2.0: all settings but those of bridges.
SETTINGS = """
    acl_file allow_anonymous allow_duplicate_messages allow_zero_length_clientid auth_opt_* auth_plugin
    auth_plugin_deny_special_chars auto_id_prefix autosave_interval autosave_on_changes bind_address bind_interface
    cafile capath certfile check_retain_source ciphers ciphers_tls1.3 clientid_prefixes connection_messages crlfile
    dhparamfile http_dir include_dir keyfile listener log_dest log_facility log_timestamp log_timestamp_format log_type
    max_connections max_inflight_bytes max_inflight_messages max_keepalive max_packet_size max_qos max_queued_bytes
    max_queued_messages max_topic_alias memory_limit message_size_limit mount_point password_file per_listener_settings
    persistence persistence_file persistence_location persistent_client_expiration pid_file plugin plugin_opt_* port
    protocol psk_file psk_hint queue_qos0_messages require_certificate retain_available set_tcp_nodelay socket_domain
    sys_interval tls_engine tls_engine_kpass_sha1 tls_keyform tls_version upgrade_outgoing_qos use_identity_as_username
    use_subject_as_username use_username_as_clientid user websockets_headers_size websockets_log_level
"""


def test_the_table_has_every_setting_that_mosquitto_knows():
    assert sorted(rows()) == sorted(SETTINGS.split())
