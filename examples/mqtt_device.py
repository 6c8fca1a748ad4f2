"""A device that publishes over a network that breaks: with a name for each reading (`iid`), each is stored once.

    python examples/mqtt_device.py [--url redis://127.0.0.1:6379] [--readings 150] [--cut-every 3]

The device is a client of MQTT 5 in paho. It publishes with QoS 1 to the gateway, `streamd mqtt`. A small proxy stands
between them and cuts the connection at every third PUBLISH: one time before the gateway has it, one time after the
gateway has stored it and before its PUBACK arrives. The device cannot tell these apart, so paho connects again and
sends the message again. The same readings are published in two ways: with QoS 1 alone, and with the user property `iid`
as well.

Ends with exit code 0 if the readings with an `iid` are in the log once each, else 1. Without --url it starts a server
of its own. It needs paho-mqtt, and streamd with the extra `mqtt`.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

import paho.mqtt.client as paho
import redis
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from streamd.clients.topics import TopicLog

PUBLISH = 3  # the first four bits of a packet
SESSION_S = 3_600
PATIENCE_S = 30
BEFORE, AFTER = "before the gateway had the message", "before the PUBACK came back"


class Device:
    """A device. Its session outlives its connections; paho sends again what was not acknowledged."""

    def __init__(self, name: str, port: int) -> None:
        self._name, self._port = name, port
        self._client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5)
        # The pause before it connects again. A real device starts with a second, and doubles it each time.
        self._client.reconnect_delay_set(0.01, 1)  # type: ignore[arg-type]

    def __enter__(self) -> "Device":
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_S
        # The first connection forgets an older session, the later ones go on with this one.
        clean_start = paho.MQTT_CLEAN_START_FIRST_ONLY
        self._client.connect("127.0.0.1", self._port, clean_start=clean_start, properties=properties)
        self._client.loop_start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, number: int, celsius: float, is_named: bool) -> None:
        """Publish a reading; return when the gateway has acknowledged it, however often the connection breaks."""
        properties = Properties(PacketTypes.PUBLISH)
        if is_named:
            # A device that loses power keeps reading and number until here, and publishes them again when it is back:
            # with the same name, and the reading is still stored once.
            properties.UserProperty = ("iid", f"reading-{number}")
        topic = f"devices/{self._name}/temperature"
        sent = self._client.publish(topic, f"{number}:{celsius:.1f}", qos=1, properties=properties)
        sent.wait_for_publish(PATIENCE_S)
        if not sent.is_published():
            raise TimeoutError(f"no PUBACK after {PATIENCE_S} seconds")


class CuttingProxy:
    """Hands on what device and gateway say, and cuts the connection at every so many PUBLISH packets.

    `port` is where it listens; `cuts` counts the cuts by their kind.
    """

    def __init__(self, port: int, cut_every: int) -> None:
        self.port, self.cuts = 0, Counter[str]()
        self._target, self._cut_every = port, cut_every
        self._messages, self._is_ready = 0, threading.Event()

    def __enter__(self) -> "CuttingProxy":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stopping.wait()
        server.close()

    async def _connection(self, from_device: asyncio.StreamReader, to_device: asyncio.StreamWriter) -> None:
        try:
            from_gateway, to_gateway = await asyncio.open_connection("127.0.0.1", self._target)
            await self._between(from_device, to_device, from_gateway, to_gateway)
        except (OSError, asyncio.CancelledError):
            pass  # the gateway is gone, or all is over
        to_device.close()

    async def _between(
        self,
        from_device: asyncio.StreamReader,
        to_device: asyncio.StreamWriter,
        from_gateway: asyncio.StreamReader,
        to_gateway: asyncio.StreamWriter,
    ) -> None:
        is_withheld = False

        async def hand_back() -> None:
            while data := await from_gateway.read(65_536):
                if is_withheld:  # the gateway has stored it, and the device will never know
                    break
                to_device.write(data)
            to_device.close()

        handing_back = asyncio.create_task(hand_back())
        while data := await from_device.read(65_536):
            if data[0] >> 4 == PUBLISH:
                self._messages += 1
                if self._messages % self._cut_every == 0:
                    kind = (BEFORE, AFTER)[self._messages // self._cut_every % 2]
                    self.cuts[kind] += 1
                    if kind == BEFORE:
                        break
                    is_withheld = True
            to_gateway.write(data)
        to_gateway.close()
        await handing_back


@contextmanager
def running_gateway(url: str) -> Iterator[int]:
    """Run `streamd mqtt` on a free port, which is yielded."""
    words = [sys.executable, "-m", "streamd", "mqtt", "--url", url, "--port", "0"]
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


def run(url: str, readings: int, cut_every: int) -> int:
    """Publish the readings in two ways, and count what is in the log; return the exit code."""
    is_right = True
    client = redis.Redis.from_url(url)
    client.ping()
    with client, running_gateway(url) as port:
        for name, is_named in (("without-iid", False), ("with-iid", True)):
            start = datetime.fromtimestamp(client.time()[0], UTC)
            with CuttingProxy(port, cut_every) as proxy, Device(name, proxy.port) as device:
                for number in range(readings):
                    device.publish(number, 20 + number % 10, is_named)
            log = TopicLog.open(client, "mqtt")
            iterator, state = log.iterator(f"devices/{name}/temperature", start=start), "more"
            found = Counter[bytes]()
            while state == "more":
                entries, iterator, state = log.next(iterator, 1_000)
                found.update(entry.payload for entry in entries)
            lost, twice = readings - len(found), found.total() - len(found)
            cuts = ", ".join(f"{count} {kind}" for kind, count in sorted(proxy.cuts.items()))
            print(f"{name}: {readings} readings, connection cut {proxy.cuts.total()} times ({cuts})")
            print(f"  in the log {found.total()}, lost {lost}, there twice {twice}")
            is_right &= lost == 0 and (twice == 0 or not is_named)
    return 0 if is_right else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a device in paho, and readings that are stored once")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--readings", type=int, default=150)
    parser.add_argument("--cut-every", type=int, default=3, metavar="N", help="cut at every N-th PUBLISH")
    arguments = parser.parse_args()
    if arguments.cut_every < 2 or arguments.readings < 1:
        parser.error("--cut-every is at least 2, or no reading would ever arrive; --readings at least 1")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.readings, arguments.cut_every)
        except (redis.RedisError, OSError) as error:
            print(f"mqtt_device: {url}: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
