"""Real Sentinels watch a streamd and two replicas: the primary is destroyed, and nothing that WAIT told is lost."""

import shutil
import threading
import time
from pathlib import Path

import pytest
import redis
from redis.sentinel import Sentinel

from tests.replication.clusters import evidence, nodes, sentinels, wait_until

ENTRIES_BEFORE, ENTRIES = 200, 400
ANSWERED_S = 60.0
pytestmark = pytest.mark.redis


class Producer(threading.Thread):
    """Stores entries by name, one after the other, and repeats each until all replicas that can be elected have it."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__()
        found = Sentinel([("127.0.0.1", port) for port in ports], socket_timeout=1.0)
        self._primary = found.master_for("mymaster", retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
        self.replicas = 2
        self.done = 0
        self.tries = 0
        self.last: object = None
        self.ids: dict[int, set[bytes]] = {}

    def run(self) -> None:
        """Store all."""
        until = time.monotonic() + ANSWERED_S
        while self.done < ENTRIES and time.monotonic() < until:
            self.tries += 1
            pipeline = self._primary.pipeline(transaction=False)
            pipeline.execute_command("XADD", "orders", "IDMP", "svc-7", self.done, "*", "number", self.done)
            pipeline.execute_command("WAIT", self.replicas, 200)
            try:
                entry_id, replicas = pipeline.execute()
            except (redis.ConnectionError, redis.TimeoutError, redis.ResponseError) as error:
                self.last = error
                time.sleep(0.05)
                continue
            self.last = replicas
            self.ids.setdefault(self.done, set()).add(entry_id)
            if replicas >= self.replicas:
                self.done += 1


def test_a_primary_is_destroyed_and_nothing_that_wait_told_is_lost(newest_redis: Path, tmp_path: Path):
    with nodes(tmp_path, 2) as all_nodes, sentinels(newest_redis, tmp_path, all_nodes[0].port) as ports:
        primary, *replicas = all_nodes
        producer = Producer(ports)
        producer.start()
        wait_until(lambda: producer.done >= ENTRIES_BEFORE, "the producer is at work")
        producer.replicas = 1  # one of two will be the primary
        primary.kill()
        shutil.rmtree(primary.directory)
        producer.join(ANSWERED_S)
        assert producer.done == ENTRIES, f"{producer.last} {[one.link() for one in replicas]} {evidence(tmp_path)}"
        elected = [one for one in replicas if one.link().get("role") == "master"]
        assert len(elected) == 1
        entries = elected[0].client.xrange("orders")
        assert [int(fields[b"number"]) for _, fields in entries] == list(range(ENTRIES))
        assert [{entry_id} for entry_id, _ in entries] == [producer.ids[number] for number in range(ENTRIES)]

        primary.start()  # empty, and a primary for all that it knows
        wait_until(lambda: primary.link().get("role") == "slave" and primary.is_linked(), "it is demoted")
        assert primary.client.xlen("orders") == ENTRIES
        for one in replicas:
            assert one.client.xlen("orders") == ENTRIES
