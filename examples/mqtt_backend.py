"""A backend that counts each message once: it acknowledges a message when its work on it is done, and is killed.

    python examples/mqtt_backend.py [--url redis://127.0.0.1:6379] [--readings 300] [--kills 4]

A device publishes readings over MQTT to the gateway, `streamd mqtt --application 'backend-*'`. The backend is a client
of MQTT 5 in paho. Its client ID begins with `backend-`, so the gateway serves it as an application. Its session stays
when it is killed: the gateway keeps what it has not acknowledged, and what is published while it is away.

The backend adds each reading to a sum in an SQLite database. It sends PUBACK only after the commit (paho's
`manual_ack`). Again and again it is killed with kill -9: one time before its commit, one time between its commit and
its PUBACK. In both cases the gateway sends the message again. In the second case the work is done already. So the
backend stores the name of the message (its topic, and the user property `iid` of the device) in the same transaction,
and a message whose name it finds there is only acknowledged.

The QoS is 1. With QoS 2 a kill could lose messages: paho answers them with PUBREC before the backend gets them, and
keeps them only in memory.

Ends with exit code 0 if each reading is in the sum once, else 1. With --without-names the backend looks no name up, and
counts some readings twice. Without --url it starts a server of its own. It needs paho-mqtt, and streamd with the extra
`mqtt`.
"""

import argparse
import multiprocessing
import os
import re
import secrets
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

import paho.mqtt.client as paho
import redis
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

GATEWAY_OPTIONS = ["--application", "backend-*"]
BACKEND = "backend-averages"
SESSION_S = 3_600
AT_A_TIME = 20  # messages that the backend may have without a PUBACK
EACH_LIFE = 15  # readings that a backend takes until it is killed
PATIENCE_S = 60
BEFORE, AFTER = "before its commit", "between its commit and its PUBACK"

TABLES = """
create table if not exists done (topic text, iid text, primary key (topic, iid));
create table if not exists device (topic text primary key, readings int, total real);
create table if not exists again (topic text, iid text);
"""


class Task(NamedTuple):
    """What a backend does. last: the `iid` after which it ends. dies: where it is killed; None: it is not."""

    port: int
    database: str
    topic: str
    last: str
    is_first: bool
    dies: str | None
    with_names: bool


class Backend:
    """One life of the backend."""

    def __init__(self, task: Task, subscribed: Event) -> None:
        self._task, self._subscribed, self._received = task, subscribed, 0
        self._db = sqlite3.connect(task.database, isolation_level=None)
        self._db.executescript(TABLES)
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, BACKEND, protocol=MQTTProtocolVersion.MQTTv5, manual_ack=True
        )
        self._client.on_connect = self._connected
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = self._message

    def run(self) -> None:
        """Take messages until the last one, or until it is killed."""
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_S
        properties.ReceiveMaximum = AT_A_TIME
        # Only the first life of this run may forget a session: that of an earlier run. A real backend never does.
        self._client.connect("127.0.0.1", self._task.port, clean_start=self._task.is_first, properties=properties)
        self._client.loop_forever()
        self._db.close()

    def _connected(
        self,
        client: paho.Client,
        data: object,
        flags: paho.ConnectFlags,
        reason: paho.ReasonCode,
        properties: Properties | None,
    ) -> None:
        if not flags.session_present:  # else the gateway still has the subscription
            client.subscribe(self._task.topic, qos=1)

    def _message(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        assert message.properties is not None
        (iid,) = [value for name, value in message.properties.json()["UserProperty"] if name == "iid"]
        self._received += 1
        dies = self._task.dies if self._received == EACH_LIFE else None
        self._db.execute("begin")
        is_new = self._db.execute("insert or ignore into done values (?, ?)", (message.topic, iid)).rowcount
        if is_new or not self._task.with_names:
            self._db.execute(
                "insert into device values (?1, 1, ?2) on conflict (topic) do update set"
                " readings = readings + 1, total = total + ?2",
                (message.topic, float(message.payload)),
            )
        if not is_new:
            self._db.execute("insert into again values (?, ?)", (message.topic, iid))
        if dies == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        self._db.execute("commit")
        if dies == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        client.ack(message.mid, message.qos)
        if iid == self._task.last:
            client.disconnect()


def live(task: Task, subscribed: Event) -> None:
    """Be the process of a backend."""
    Backend(task, subscribed).run()


class Device:
    """A device that publishes readings with a name each (`iid`)."""

    def __init__(self, name: str, port: int) -> None:
        self.topic = f"devices/{name}/temperature"
        self._client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def publish(self, numbers: range) -> None:
        """Publish readings; return when the gateway has acknowledged them."""
        under_way = []
        for number in numbers:
            properties = Properties(PacketTypes.PUBLISH)
            properties.UserProperty = ("iid", f"reading-{number}")
            under_way.append(self._client.publish(self.topic, str(number), qos=1, properties=properties))
        for one in under_way:
            one.wait_for_publish(PATIENCE_S)
            if not one.is_published():
                raise TimeoutError(f"no PUBACK after {PATIENCE_S} seconds")

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def running_gateway(url: str, options: list[str]) -> Iterator[int]:
    """Run `streamd mqtt` on a free port, which is yielded."""
    words = [sys.executable, "-m", "streamd", "mqtt", "--url", url, "--port", "0", *options]
    gateway = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert gateway.stdout is not None
        port = 0
        for line in gateway.stdout:
            if found := re.match(r"  mqtt +127\.0\.0\.1:(\d+)", line):
                port = int(found[1])
            elif line == "  ready\n":
                break
        else:
            raise ConnectionError("the gateway did not start; it has said why")
        yield port
    finally:
        gateway.terminate()
        gateway.communicate()


def lives(device: Device, task: Task, readings: int, kills: int) -> int:
    """Publish readings in parts while backends work and are killed; return how many of them were killed.

    The first part comes to a backend that waits for it, each further one while no backend is there.
    """
    context = multiprocessing.get_context("spawn")
    part, killed = readings // (kills + 1), 0
    for life in range(kills + 1):
        is_last = life == kills
        dies = None if is_last else (BEFORE, AFTER)[life % 2]
        subscribed = context.Event()
        process = context.Process(target=live, args=(task._replace(is_first=life == 0, dies=dies), subscribed))
        numbers = range(life * part, readings if is_last else (life + 1) * part)
        if life > 0:
            device.publish(numbers)
        process.start()
        try:
            if life == 0:
                if not subscribed.wait(PATIENCE_S):
                    raise TimeoutError(f"no SUBACK after {PATIENCE_S} seconds")
                device.publish(numbers)
            process.join(PATIENCE_S)
            if process.is_alive():
                raise TimeoutError(f"the backend was not done after {PATIENCE_S} seconds")
        finally:
            process.kill()
            process.join()
        if process.exitcode == -signal.SIGKILL:
            killed += 1
            print(f"  backend killed {dies}; published so far {numbers.stop}")
    return killed


def run(url: str, readings: int, kills: int, with_names: bool, options: list[str]) -> int:
    """Let the device publish and the backend count; return the exit code."""
    client = redis.Redis.from_url(url)
    client.ping()
    with client, tempfile.TemporaryDirectory() as directory, running_gateway(url, options) as port:
        # A name of its own in each run: the store knows the names of the run before for an hour.
        device = Device(f"d{secrets.token_hex(4)}", port)
        database = str(Path(directory) / "readings.sqlite")
        task = Task(port, database, device.topic, f"reading-{readings - 1}", False, None, with_names)
        try:
            killed = lives(device, task, readings, kills)
        finally:
            device.close()
        db = sqlite3.connect(database)
        ((counted, total),) = db.execute("select readings, total from device")
        ((done,),) = db.execute("select count(*) from done")
        ((again,),) = db.execute("select count(*) from again")
        db.close()
    print(f"readings {readings}, backend killed {killed} times, came again after their commit {again}")
    print(f"counted {counted}, lost {readings - done}, twice {counted - done}, average {total / counted:.1f}")
    is_right = counted == done == readings and total == sum(range(readings))
    return 0 if is_right and killed == kills else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a backend in paho that counts each message once though it is killed")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--readings", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--without-names", action="store_true", help="look no names up: readings are counted twice")
    parser.add_argument(
        "--without-application", action="store_true", help="run the gateway without its option --application"
    )
    arguments = parser.parse_args()
    at_least = 2 * EACH_LIFE * (arguments.kills + 1)
    if arguments.kills < 0 or arguments.readings < at_least:
        parser.error(f"--readings is at least {at_least} for so many kills: each backend takes {EACH_LIFE} of them")
    options = [] if arguments.without_application else GATEWAY_OPTIONS
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.readings, arguments.kills, not arguments.without_names, options)
        except (redis.RedisError, OSError) as error:
            print(f"mqtt_backend: {url}: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
