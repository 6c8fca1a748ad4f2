"""aiomqtt, gmqtt, amqtt's client and MQTT.js, with their defaults, on a gateway: QoS, retained, a will, a session."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mqtt.clients.process import ROOT, WAIT_S, gateway

# The gateway has its own environment: amqtt wants an older websockets.
OWN = ROOT / ".venv" / "bin" / "python"
SCRIPTS = Path(__file__).parent / "node"
MODULES = Path("build") / "programs" / "node_modules"
KEPT, GONE = ("kept", b"kept", True), ("will", b"gone", False)
SENT = [(str(qos), b"%d" % qos, False) for qos in (0, 1, 2)]


@pytest.fixture(scope="module")
def mqtt_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a gateway with a server of its own."""
    python = os.environ.get("STREAMD_GATEWAY_PYTHON", str(OWN) if OWN.exists() else sys.executable)
    with gateway(tmp_path_factory.mktemp("gateway"), python=python) as port:
        yield port


def test_aiomqtt(mqtt_port: int) -> None:
    aiomqtt = pytest.importorskip("aiomqtt")

    async def main() -> None:
        async with aiomqtt.Client("127.0.0.1", mqtt_port) as reader:
            will = aiomqtt.Will("aio/will", b"gone", 1)
            publisher = aiomqtt.Client("127.0.0.1", mqtt_port, will=will)
            await publisher.__aenter__()
            await publisher.publish("aio/kept", b"kept", 1, retain=True)
            await reader.subscribe("aio/#", 2)
            found = []
            for qos in (0, 1, 2):
                await publisher.publish(f"aio/{qos}", b"%d" % qos, qos)
            async with asyncio.timeout(WAIT_S):
                async for one in reader.messages:
                    found.append((str(one.topic).removeprefix("aio/"), one.payload, bool(one.retain)))
                    if len(found) == 4:
                        publisher._client._sock_close()
                    if len(found) == 5:
                        break
            assert sorted(found) == sorted([KEPT, *SENT, GONE])
        lasting = {"identifier": "aio-lasting", "clean_session": False}
        async with aiomqtt.Client("127.0.0.1", mqtt_port, **lasting) as device:
            await device.subscribe("aio-back/#", 2)
        async with aiomqtt.Client("127.0.0.1", mqtt_port) as other:
            for number in range(20):
                await other.publish("aio-back/a", b"%d" % number, 2)
        numbers: list[int] = []
        async with aiomqtt.Client("127.0.0.1", mqtt_port, **lasting) as device, asyncio.timeout(WAIT_S):
            async for one in device.messages:
                numbers.append(int(one.payload))
                if len(numbers) == 20:
                    break
        assert numbers == list(range(20))

    asyncio.run(main())


@pytest.mark.parametrize("version", [4, 5])
def test_gmqtt(mqtt_port: int, version: int) -> None:
    gmqtt = pytest.importorskip("gmqtt")
    top = f"gmqtt{version}"

    def client(name: str, **options: object):
        found: asyncio.Queue = asyncio.Queue()
        subscribed = asyncio.Event()
        made = gmqtt.Client(f"{top}-{name}", **options)
        made.on_message = lambda _client, topic, payload, _qos, properties: found.put_nowait(
            (topic.rpartition("/")[2], payload, bool(properties["retain"]))
        )
        made.on_subscribe = lambda *_: subscribed.set()
        return made, found, subscribed

    async def main() -> None:
        async with asyncio.timeout(2 * WAIT_S):
            publisher, _, _ = client("publisher", will_message=gmqtt.Message(f"{top}/will", b"gone", 1))
            await publisher.connect("127.0.0.1", mqtt_port, version=version)
            publisher.publish(f"{top}/kept", b"kept", 1, retain=True)
            reader, found, subscribed = client("reader")
            await reader.connect("127.0.0.1", mqtt_port, version=version)
            reader.subscribe(f"{top}/#", 2)
            await subscribed.wait()
            assert await found.get() == KEPT
            for qos in (0, 1, 2):
                publisher.publish(f"{top}/{qos}", b"%d" % qos, qos)
            assert sorted([await found.get() for _ in range(3)]) == SENT
            publisher.set_config({"reconnect_retries": 0})
            publisher._connection._transport.abort()
            assert await found.get() == GONE
            await reader.disconnect()
            lasting = {"clean_session": False, **({"session_expiry_interval": 1_000} if version == 5 else {})}
            device, _, subscribed = client("device", **lasting)
            await device.connect("127.0.0.1", mqtt_port, version=version)
            device.subscribe(f"{top}-back/#", 1)
            await subscribed.wait()
            await device.disconnect()
            other, echo, subscribed = client("other")
            await other.connect("127.0.0.1", mqtt_port, version=version)
            other.subscribe(f"{top}-back/#", 0)
            await subscribed.wait()
            for number in range(20):
                other.publish(f"{top}-back/a", b"%d" % number, 1)
            for _ in range(20):
                await echo.get()
            device, found, _ = client("device", **lasting)
            await device.connect("127.0.0.1", mqtt_port, version=version)
            assert [int((await found.get())[1]) for _ in range(20)] == list(range(20))
            await device.disconnect()
            await other.disconnect()

    asyncio.run(main())


def test_amqtt(mqtt_port: int) -> None:
    pytest.importorskip("amqtt")
    from amqtt.client import MQTTClient

    url = f"mqtt://127.0.0.1:{mqtt_port}/"

    async def receive(client: MQTTClient, count: int) -> list[tuple[str, bytes, bool]]:
        found = []
        for _ in range(count):
            one = await client.deliver_message(timeout_duration=WAIT_S)
            found.append((one.topic.rpartition("/")[2], bytes(one.data), bool(one.publish_packet.retain_flag)))
        return found

    async def main() -> None:
        will = {"topic": "amqtt/will", "message": "gone", "qos": 1, "retain": False}
        publisher = MQTTClient(config={"will": will, "auto_reconnect": False})
        reader = MQTTClient()
        await publisher.connect(url)
        await publisher.publish("amqtt/kept", b"kept", qos=1, retain=True)
        await reader.connect(url)
        assert await reader.subscribe([("amqtt/#", 2)]) == [2]
        for qos in (0, 1, 2):
            await publisher.publish(f"amqtt/{qos}", b"%d" % qos, qos=qos)
        assert sorted(await receive(reader, 4)) == sorted([KEPT, *SENT])
        publisher._handler.writer._writer.transport.abort()
        assert await receive(reader, 1) == [GONE]
        await reader.disconnect()
        device = MQTTClient("amqtt-device")
        await device.connect(url, cleansession=False)
        await device.subscribe([("amqtt-back/#", 2)])
        await device.disconnect()
        other = MQTTClient()
        await other.connect(url)
        for number in range(20):
            await other.publish("amqtt-back/a", b"%d" % number, qos=2)
        await other.disconnect()
        device = MQTTClient("amqtt-device")
        await device.connect(url, cleansession=False)
        assert [int(payload) for _, payload, _ in await receive(device, 20)] == list(range(20))
        await device.disconnect()

    asyncio.run(main())


@pytest.mark.parametrize("version", ["4", "5"])
def test_mqtt_js(mqtt_port: int, version: str) -> None:
    node = shutil.which("node")
    if node is None or not (MODULES / "mqtt").is_dir():
        pytest.skip("MQTT.js is not installed: make test-programs installs it, where npm is")
    script = SCRIPTS / "mqtt.js"
    done = subprocess.run(
        [node, script, str(mqtt_port), version],
        env={**os.environ, "NODE_PATH": str(MODULES.absolute())},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall("passed: (.*)", done.stdout) == re.findall(r'async "(.*)"', script.read_text())
