"""Client libraries whose streams are in segment files: topics with their retention, and the MQTT gateway."""

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamd.base.clock import Clock, ManualClock
from streamd.testing import EmbeddedServer
from tests.cold.cold_directory import OPTIONS, segments

redis = pytest.importorskip("redis")

from streamd.clients.mqtt.codec import packets as p  # noqa: E402
from streamd.clients.mqtt.codec.properties import Property  # noqa: E402
from streamd.clients.topics import Message, TopicLog  # noqa: E402
from tests.mqtt.gateway.in_process import connect, running  # noqa: E402
from tests.topics.replays import drain  # noqa: E402

MESSAGES = 5_000
RETENTION_S = 3_600


def serve(directory: Path, clock: Clock) -> EmbeddedServer:
    return EmbeddedServer(clock, dir=str(directory), **OPTIONS)


def write_files(server: EmbeddedServer) -> None:
    """Have a server move what it can to segment files."""
    client = server.client()
    before = client.info("persistence")["aof_rewrites"]
    while client.info("persistence")["aof_rewrite_in_progress"]:  # one that began by itself
        pass
    client.bgrewriteaof()
    while client.info("persistence")["aof_rewrites"] == before:
        pass


def test_topics_are_replayed_from_segment_files_and_their_retention_removes_whole_files(tmp_path):
    clock, chance = ManualClock(1_795_248_000_000), random.Random(1)
    sent = [(f"t/{number % 7}", chance.randbytes(500)) for number in range(2 * MESSAGES)]
    with serve(tmp_path, clock) as server:
        log = TopicLog.create(server.client(), "log", shards=2, retention_s=RETENTION_S)
        for part in (sent[:MESSAGES], sent[MESSAGES:]):
            log.publish_many(Message(topic, payload, f"p{at % 5}") for at, (topic, payload) in enumerate(part))
            write_files(server)
            server.advance(seconds=RETENTION_S // 2)
    assert len(segments(tmp_path)) >= 2
    with serve(tmp_path, clock) as server:
        client = server.client()
        log = TopicLog.open(client, "log")
        reader = log.next(log.iterator("t/3"), 10)
        found, _, states = drain(log, reader.iterator)
        wanted = [payload for topic, payload in sent if topic == "t/3"]
        assert sorted(one.payload for one in [*reader.entries, *found]) == sorted(wanted)
        assert "gap" not in states
        info = client.info("persistence")
        assert info["cold_block_misses"] > 50
        server.advance(seconds=RETENTION_S // 4)
        log.retain()
        found, _, states = drain(log, reader.iterator)
        assert sorted(one.payload for one in found) == sorted(
            payload for topic, payload in sent[MESSAGES:] if topic == "t/3"
        )
        assert states.count("gap") == 1
        start = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC)
        assert drain(log, log.iterator("#", start))[0] == []
        write_files(server)
        while client.info("persistence")["cold_bytes"] > 0.6 * info["cold_bytes"]:
            pass
        assert server.internal_errors == 0


def test_a_session_of_the_mqtt_gateway_gets_what_came_while_it_was_away_from_segment_files(tmp_path):
    chance = random.Random(2)
    payloads = [chance.randbytes(500) for _ in range(MESSAGES)]
    lasting = {Property.SESSION_EXPIRY_INTERVAL: 10_000}

    async def write(url: str) -> None:
        async with running(url) as gateway:
            away = await connect(gateway.port, "away", properties=lasting)
            await away.subscribe(p.Subscription("t/+", 1))
            away.send(p.Disconnect())
            publisher = await connect(gateway.port, "publisher")
            for low in range(0, MESSAGES, 100):
                for number in range(low, low + 100):
                    publisher.send(p.Publish(b"t/1", payloads[number], 1, packet_id=number + 1))
                for _ in range(100):
                    await publisher.expect(p.Puback)

    async def read(url: str) -> list[bytes]:
        async with running(url) as gateway:
            away = await connect(gateway.port, "away", clean=False, properties=lasting)
            return [bytes((await away.receive()).payload) for _ in range(MESSAGES)]

    with serve(tmp_path, Clock()) as server:
        asyncio.run(write(f"redis://127.0.0.1:{server.port}"))
        write_files(server)
    assert segments(tmp_path)
    with serve(tmp_path, Clock()) as server:
        assert asyncio.run(read(f"redis://127.0.0.1:{server.port}")) == payloads
        assert server.client().info("persistence")["cold_block_misses"] > 10
        assert server.internal_errors == 0
