"""A primary's cable is cut without a sign: what its local clients are told by WAIT, by min-replicas and by nothing."""

from pathlib import Path

import pytest
import redis

from tests.failover.machines import Machines, three_machines
from tests.replication.clusters import wait_until

pytestmark = pytest.mark.redis


class Local:
    """A client on the primary's machine that stores entries, and notes those that it was told are stored."""

    def __init__(self, machines: Machines, stream: str, replicas: int) -> None:
        primary = machines.named()
        assert primary is not None
        self.stream = stream
        self.replicas = replicas
        self.told: list[bytes] = []
        self.refused = ""
        self._client = redis.Redis(port=primary.node.port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
        self._number = 0

    def store(self) -> bool:
        """Store an entry; return whether the client takes it for stored."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command("XADD", self.stream, "IDMP", "local", self._number, "*", "n", self._number)
        pipeline.execute_command("WAIT", self.replicas, 100 if self.replicas else 1)
        entry_id, found = pipeline.execute(raise_on_error=False)
        if isinstance(entry_id, Exception):
            self.refused = str(entry_id)
            return False
        if found < self.replicas:
            return False
        self.told.append(entry_id)
        self._number += 1
        return True

    def there(self, client: redis.Redis) -> list[bytes]:
        """Return the IDs of the entries that a server has."""
        return [entry_id for entry_id, _ in client.xrange(self.stream)]


@pytest.mark.parametrize("min_replicas", [0, 1])
def test_only_what_wait_told_is_at_the_new_primary(newest_redis: Path, tmp_path: Path, min_replicas: int):
    with three_machines(newest_redis, tmp_path) as machines:
        former = machines.named()
        assert former is not None
        for machine in machines.machines:
            machine.node.client.config_set("min-replicas-to-write", min_replicas)
            machine.node.client.config_set("min-replicas-max-lag", 1)
        wait_until(lambda: former.info().get("min_slaves_good_slaves", 2) == 2, "the replicas count")
        waiting, believing = Local(machines, "waiting", 2), Local(machines, "believing", 0)
        for _ in range(20):
            assert waiting.store()
            assert believing.store()
        # A replica that has it is not asked again: only from here on the two clients differ.
        wait_until(lambda: len(believing.there(machines.machines[1].node.client)) == 20, "a replica has both")

        former.cable.cut()
        assert not waiting.store(), "no replica has it"
        chosen = None
        while chosen is None:
            believing.store()
            assert not waiting.store()
            chosen = machines.elected(former)
        if min_replicas:
            wait_until(lambda: not believing.store(), "writes are refused for want of replicas")
            assert believing.refused.startswith("NOREPLICAS")
        else:
            assert believing.store(), "the former primary takes writes for as long as nobody tells it otherwise"

        there = waiting.there(chosen.node.client)
        assert there == waiting.told
        lost = set(believing.told) - set(believing.there(chosen.node.client))
        assert lost, "min-replicas only bounds for how long a primary that is cut off takes writes"

        former.cable.mend()
        machines.wait_until_whole()
        assert waiting.there(former.node.client) == waiting.told
        assert believing.there(former.node.client) == believing.there(chosen.node.client)
