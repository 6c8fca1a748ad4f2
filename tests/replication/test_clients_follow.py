"""tail, topics, sessions, ui, top and the Spark source go on at the next primary, and read from a replica as well."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from starlette.testclient import TestClient

from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from streamd.clients.sentinels import pool
from streamd.clients.sessions import DeviceStore
from streamd.clients.sessions import Message as SessionMessage
from streamd.clients.terminal.asking import Source as TerminalSource
from streamd.clients.terminal.sampling import Sampler
from streamd.clients.topics import TopicLog
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.source import Source as PageSource
from tests.replication.clusters import Node, evidence, nodes, sentinels, wait_until

MANY = 50
ORIGIN = "http://localhost"


class Tail:
    """`streamd tail` of a stream as a process; numbers: what it has printed, in its order."""

    def __init__(self, url: str) -> None:
        words = [sys.executable, "-m", "streamd", "tail", "orders", "--from", "earliest", "--json", "--url", url]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.numbers: list[int] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.numbers.append(int(json.loads(line)["fields"]["number"]))

    def stop(self) -> str:
        self.process.terminate()
        self._thread.join(20)
        assert self.process.stderr is not None
        return self.process.stderr.read()


class TopicReader(threading.Thread):
    """Reads a log's messages until it is stopped; payloads: in its order."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self.payloads: list[bytes] = []
        self.is_stopped = False

    def run(self) -> None:
        """Read."""
        with redis.Redis.from_pool(pool(self._url)) as client:
            log = TopicLog.open(client, "telemetry")
            iterator = log.iterator("devices/#")
            while not self.is_stopped:
                entries, iterator, _ = log.next(iterator, 100, block_ms=200)
                self.payloads += [entry.payload for entry in entries]


class Writer:
    """Writes the numbers of a stream, of a topic log and of a session, through the clients of a URL."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_pool(pool(url))
        self._log = TopicLog.create(self._client, "telemetry", shards=2)
        self.sessions = DeviceStore(self._client)
        self.packet_ids: list[int] = []
        self.written = 0

    def write(self, count: int) -> None:
        for number in range(self.written, self.written + count):
            self._client.execute_command("XADD", "orders", "IDMP", "p", number, "*", "number", number)
            self._log.publish("devices/d7/t", b"%d" % number, publisher="d7", iid=str(number))
            self.packet_ids += self.sessions.add("d7", SessionMessage("t", b"%d" % number, qos=1))
            self.written += 1


class SparkReader:
    """Micro-batches of the Spark source, called as Spark calls it, without Spark."""

    def __init__(self, url: str) -> None:
        options = parse_options({"url": url, "stream": "orders", "startingOffsets": "earliest", "timeout": "30s"})
        self._reader = StreamdStreamReader(options, raw_schema(True, "map"))
        self._start = self._reader.initialOffset()

    def next(self) -> list[int]:
        """Return the numbers of the next batch."""
        end = self._reader.latestOffset(self._start, self._reader.getDefaultReadLimit())
        parts = self._reader.partitions(self._start, end)
        self._start = end
        rows = [row for part in parts for batch in self._reader.read(part) for row in batch.to_pylist()]
        return [int(dict(row["fields"])["number"]) for row in rows]


def page_of(url: str) -> TestClient:
    source = PageSource(url, allow_writes=True)
    return TestClient(application(source, Rules()), base_url=ORIGIN, follow_redirects=False)


def is_level(primary: Node, others: list[Node]) -> bool:
    wanted = primary.link().get("master_repl_offset")
    return all(one.link().get("slave_repl_offset") == wanted for one in others)


def destroy(primary: Node) -> None:
    primary.kill()
    shutil.rmtree(primary.directory)


def hand_over(primary: Node, sentinel: int) -> None:
    """Have Sentinels make a replica the primary, and wait until the old one knows: what it takes before is lost."""
    with redis.Redis(port=sentinel) as client:
        client.execute_command("SENTINEL", "FAILOVER", "mymaster")
    wait_until(lambda: primary.link().get("role") == "slave", "the old primary is a replica")


@pytest.mark.redis
@pytest.mark.parametrize("is_destroyed", [True, False])
def test_clients_go_on_at_the_next_primary(newest_redis: Path, tmp_path: Path, is_destroyed: bool):
    with nodes(tmp_path, 2) as (primary, *replicas), sentinels(newest_redis, tmp_path, primary.port) as ports:
        url = f"redis+sentinel://{','.join(f'127.0.0.1:{port}' for port in ports)}/mymaster"
        writer = Writer(url)
        writer.write(MANY)
        tail, topics, page, spark = Tail(url), TopicReader(url), page_of(url), SparkReader(url)
        topics.start()
        with TerminalSource(url, "streamd-top") as source:
            top = Sampler(source)
            try:
                wait_until(lambda: len(tail.numbers) == len(topics.payloads) == MANY, "both readers have all")
                assert f"{MANY}</td>" in page.get("/streams").text
                assert top.sample().streams[b"orders"].length == MANY
                assert spark.next() == list(range(MANY))
                wait_until(lambda: is_level(primary, replicas), "the replicas have all")

                if is_destroyed:
                    destroy(primary)
                else:
                    hand_over(primary, ports[0])
                writer.write(MANY)

                wait_until(lambda: len(tail.numbers) >= 2 * MANY, "tail has all")
                wait_until(lambda: len(topics.payloads) >= 2 * MANY, "the reader of topics has all")
                assert f"{2 * MANY}</td>" in page.get("/streams").text
                assert top.sample().streams[b"orders"].length == 2 * MANY
                assert spark.next() == list(range(MANY, 2 * MANY))
            except AssertionError as error:
                raise AssertionError(f"{error}\n{evidence(tmp_path)}") from error
            finally:
                topics.is_stopped = True
                topics.join(20)
                said = tail.stop()
        assert "Traceback" not in said
        assert tail.numbers == list(range(2 * MANY))
        assert topics.payloads == [b"%d" % number for number in range(2 * MANY)]
        assert [int(one.payload) for one in writer.sessions.get("d7")] == list(range(2 * MANY))
        assert writer.packet_ids == list(range(1, 2 * MANY + 1))
        assert any(one.link().get("role") == "master" for one in replicas)


def test_clients_read_from_a_replica(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        writer = Writer(f"redis://127.0.0.1:{primary.port}")
        writer.write(MANY)
        primary.client.xgroup_create("orders", "billing", 0)
        primary.client.xreadgroup("billing", "ann", {"orders": ">"}, count=1)
        wait_until(lambda: is_level(primary, [replica]), "the replica has all")
        url = f"redis://127.0.0.1:{replica.port}"
        tail, topics, page, spark = Tail(url), TopicReader(url), page_of(url), SparkReader(url)
        topics.start()
        try:
            writer.write(MANY)
            wait_until(lambda: len(tail.numbers) == len(topics.payloads) == 2 * MANY, "both readers have all")
            assert f"{2 * MANY}</td>" in page.get("/streams").text
            assert spark.next() == list(range(2 * MANY))
            (pending,) = primary.client.xpending_range("orders", "billing", "-", "+", 1)
            fields = {"id": pending["message_id"].decode(), "for": "bob", "min-idle": "0"}
            reply = page.post("/group/claim?key=orders&group=billing", data=fields, headers={"Origin": ORIGIN})
            assert reply.status_code == 409
            assert "server is a replica, which takes no changes" in reply.text
        finally:
            topics.is_stopped = True
            topics.join(20)
            tail.stop()
        with TerminalSource(url, "streamd-top") as source:
            assert Sampler(source).sample().streams[b"orders"].length == 2 * MANY
        reader = DeviceStore(replica.client)
        assert len(reader.get("d7")) == 2 * MANY
        with pytest.raises(redis.exceptions.ReadOnlyError):
            reader.add("d7", SessionMessage("t", b"x", qos=1))
