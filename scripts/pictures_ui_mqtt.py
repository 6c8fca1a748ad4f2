"""Makes the pictures of the MQTT pages of `streamd ui`: a gateway with the devices of a plant, and their sessions."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from scripts.pictures_ui import PICTURES, TIMEOUT_S, chromium_here, photograph
from streamd.base.clock import ManualClock
from streamd.testing import EmbeddedServer

SHOTS = {
    "ui-mqtt-sessions.png": ("mqtt", "1000,790"),
    "ui-mqtt-backends.png": ("mqtt?show=backends", "1000,520"),
    "ui-mqtt-session.png": ("mqtt/session?client=maintenance", "1000,860"),
    "ui-mqtt-retained.png": ("mqtt/retained", "1000,490"),
}
MACHINES = ("furnace-1", "mill-1", "press-1", "robot-1")
DAY_S = 86_400
# Of the machines; so many before maintenance comes, which acknowledges none of its messages.
READINGS, READINGS_BEFORE, IN_FLIGHT = 300, 240, 4


class Client:
    """A client of MQTT 5 in paho, which is connected when it is made. Its session lasts expiry_s."""

    def __init__(self, port: int, name: str, user: str, expiry_s: int, *, will: str = "", receive_maximum: int = 0):
        self.messages = threading.Semaphore(0)  # one more for each message that has come
        self._answered = threading.Semaphore(0)
        # Only what is given to ack() is acknowledged.
        self.paho = paho.Client(
            CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=receive_maximum > 0
        )
        self.paho.username_pw_set(user)
        if will:
            self.paho.will_set(will, "lost", qos=1, retain=True)
        self.paho.on_connect = self.paho.on_subscribe = lambda *_: self._answered.release()
        self.paho.on_message = lambda *_: self.messages.release()
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = expiry_s
        if receive_maximum:
            properties.ReceiveMaximum = receive_maximum
        self.paho.connect("127.0.0.1", port, properties=properties)
        self.paho.loop_start()
        self._wait()

    def subscribe(self, filter: str, **options: int | bool) -> None:
        """Subscribe, and wait until that is answered."""
        self.paho.subscribe(filter, options=SubscribeOptions(**options))
        self._wait()

    def publish(self, topic: str, text: str, qos: int = 1, retain: bool = False) -> None:
        """Publish, and wait for the acknowledgement."""
        self.paho.publish(topic, text, qos, retain).wait_for_publish(TIMEOUT_S)

    def leave(self) -> None:
        """Disconnect."""
        self.paho.disconnect()
        self.paho.loop_stop()

    def _wait(self) -> None:
        if not self._answered.acquire(timeout=TIMEOUT_S):
            raise TimeoutError("the gateway did not answer")


@contextmanager
def gateway(url: str) -> Iterator[int]:
    """Run `streamd mqtt` on a free port, which is yielded."""
    backends = ["--application", "archive", "--application", "billing"]
    words = [sys.executable, "-m", "streamd", "mqtt", "--url", url, "--port", "0", *backends]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not said.endswith("  ready\n"):
            line = process.stdout.readline()
            if not line:
                raise ConnectionError("the gateway did not start; it has said why")
            said += line
        yield int(re.findall(r"  mqtt +127\.0\.0\.1:(\d+)", said)[0])
    finally:
        process.terminate()
        process.communicate()


def fill(server: EmbeddedServer, port: int, keep: Callable[[Client], Client]) -> None:
    """Let the machines and the programs of a plant work. keep: keeps a client connected until the end."""
    devices = {name: keep(Client(port, name, "plant", DAY_S, will=f"plant/{name}/state")) for name in MACHINES}
    dashboard = keep(Client(port, "dashboard", "office", DAY_S))
    dashboard.subscribe("plant/#", qos=1)
    archive = Client(port, "archive", "reports", 7 * DAY_S)
    archive.subscribe("plant/+/temperature", qos=1)
    billing = keep(Client(port, "billing", "office", 7 * DAY_S))
    billing.subscribe("plant/+/state", qos=1)

    def read(numbers: range) -> None:
        for number in numbers:
            server.advance(seconds=4)
            turn, is_state = number // 17, number % 17 == 0
            name = MACHINES[(turn if is_state else number * number // 3) % len(MACHINES)]
            if is_state:
                state = "waiting" if turn % 4 == 3 else "running"
                text = json.dumps({"state": state, "order": f"order-{1000 + number}"})
                devices[name].publish(f"plant/{name}/state", text, retain=True)
            else:
                devices[name].publish(f"plant/{name}/temperature", f"{20 + number % 9 + number / 100:.2f}")

    read(range(READINGS // 2))
    archive.leave()
    read(range(READINGS // 2, READINGS_BEFORE))
    will = "plant/maintenance/state"
    maintenance = keep(Client(port, "maintenance", "workshop", DAY_S, will=will, receive_maximum=IN_FLIGHT))
    maintenance.subscribe("plant/+/alarm", qos=2)
    maintenance.subscribe("plant/+/temperature", qos=1, noLocal=True)
    devices["robot-1"].publish("plant/robot-1/alarm", "the door is open", qos=2)
    read(range(READINGS_BEFORE, READINGS))
    for _ in range(IN_FLIGHT):
        maintenance.messages.acquire(timeout=TIMEOUT_S)
    for _ in range(READINGS):
        dashboard.messages.acquire(timeout=TIMEOUT_S)
    # The time that has passed has ended the gateway's lease, which it takes again.
    store, deadline_s = server.client(), time.monotonic() + TIMEOUT_S
    while not store.keys("mqtt:gateway:*") and time.monotonic() < deadline_s:
        time.sleep(0.05)


def main() -> int:
    """Make the pictures; return an exit code."""
    chromium = chromium_here()
    if chromium is None:
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with EmbeddedServer(ManualClock(1_767_189_600_000)) as server, gateway(server.url) as port, ExitStack() as stack:

        def keep(client: Client) -> Client:
            stack.callback(client.leave)
            return client

        fill(server, port, keep)
        for is_dark in (False, True):
            photograph(server.url, SHOTS, chromium, is_dark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
