"""The Spark example of docs/mqtt.md runs as it stands: a device that is too hot gets a command, once."""

import asyncio
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.store.logs import LogSettings
from tests.documents.blocks import blocks_for
from tests.mqtt.gateway.in_process import connect, running

pytestmark = pytest.mark.spark


def test_each_device_that_is_too_hot_gets_a_command(
    spark: SparkSession, streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    (block,) = blocks_for(__file__)
    url = f"redis://127.0.0.1:{streamd_port}"
    text = block.text.replace('.format("streamd")', f'.format("streamd").option("url", "{url}")')
    text = text.replace("checkpoints/commands", str(tmp_path))
    names: dict = {"spark": spark}

    def start() -> None:
        spark.createDataFrame([], "n int")  # makes the session this thread's, where the data source is found
        exec(compile(text, str(block), "exec"), names)
        names["query"].processAllAvailable()  # from here on it reads what comes

    async def main() -> None:
        lasting = {Property.SESSION_EXPIRY_INTERVAL: 3_600}
        async with running(url, logs=[LogSettings("commands", "commands", 2, 3_600)]) as gateway:
            devices = {name: await connect(gateway.port, name, properties=lasting) for name in ("d7", "d8")}
            for name, device in devices.items():
                await device.subscribe(p.Subscription(f"commands/{name}", 2))
            await asyncio.to_thread(start)
            for name, payload in (("d7", b"80.5"), ("d8", b"21.5"), ("d8", b"broken")):
                await devices[name].publish(f"devices/{name}/temperature".encode(), payload)
            command = await devices["d7"].receive()
            assert (command.topic, command.payload, command.qos) == (b"commands/d7", b"fan on", 2)
            assert 0 < command.properties[Property.MESSAGE_EXPIRY_INTERVAL] <= 60
            await asyncio.to_thread(names["query"].processAllAvailable)
            assert [type(one) for one in await devices["d7"].quiet()] == [p.Pubrel]
            assert await devices["d8"].quiet() == []

    try:
        asyncio.run(main())
    finally:
        if "query" in names:
            names["query"].stop()
