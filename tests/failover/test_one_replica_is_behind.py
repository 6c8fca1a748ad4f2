"""The primary is destroyed when one of two replicas lacks what the other has: what WAIT 1 and WAIT 2 have told."""

from pathlib import Path

import pytest
import redis

from tests.failover.machines import Machine, Machines, three_machines

pytestmark = pytest.mark.redis
BEFORE, ENTRIES = 10, 20


def store(client: redis.Redis, stream: str, number: int, replicas: int) -> tuple[bytes, bool]:
    """Store an entry by name; return its ID, and whether so many replicas have it."""
    pipeline = client.pipeline(transaction=False)
    pipeline.execute_command("XADD", stream, "IDMP", "svc-7", number, "*", "number", number)
    pipeline.execute_command("WAIT", replicas, 100)
    entry_id, found = pipeline.execute()
    return entry_id, found >= replicas


class Scene:
    """A primary, a replica that is behind from a moment on, and what clients were told."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.primary, self.behind, self.other = machines.machines
        self.told: dict[int, list[bytes]] = {1: [], 2: []}

    def store_all(self) -> None:
        """Store entries for WAIT 1 and WAIT 2, the last ones when a replica is behind; then destroy the primary."""
        client = self.primary.node.client
        for number in range(ENTRIES):
            if number == BEFORE:
                self.primary.cable.hold_replica(self.behind.address)
            for replicas, told in self.told.items():
                entry_id, is_stored = store(client, f"wait-{replicas}", number, replicas)
                if is_stored:
                    told.append(entry_id)
        assert {replicas: len(told) for replicas, told in self.told.items()} == {1: ENTRIES, 2: BEFORE}
        self.primary.destroy(directory_first=False)
        self.primary.cable.drop_replica(self.behind.address)

    def repeat_at(self, chosen: Machine) -> None:
        """Send all entries again by name at the new primary."""
        for replicas in self.told:
            for number in range(ENTRIES):
                store(chosen.node.client, f"wait-{replicas}", number, 0)

    def lost(self, chosen: Machine, replicas: int) -> set[bytes]:
        """Return the IDs that were told and are not there."""
        return set(self.told[replicas]) - {entry_id for entry_id, _ in chosen.node.client.xrange(f"wait-{replicas}")}


def numbers(chosen: Machine, stream: str) -> list[int]:
    return [int(fields[b"number"]) for _, fields in chosen.node.client.xrange(stream)]


@pytest.mark.parametrize("down_ms", [500, 1_300])
def test_wait_2_told_nothing_that_is_lost_whichever_is_elected(newest_redis: Path, tmp_path: Path, down_ms: int):
    with three_machines(newest_redis, tmp_path, (down_ms, down_ms + 100, down_ms + 200)) as machines:
        scene = Scene(machines)
        scene.store_all()
        chosen, _ = machines.wait_for_another(scene.primary)
        assert not scene.lost(chosen, 2)
        if down_ms > 1_000:  # than the time after which Sentinel asks replicas again
            assert chosen is scene.other
            assert not scene.lost(chosen, 1)
        scene.repeat_at(chosen)
        assert numbers(chosen, "wait-2") == list(range(ENTRIES))


def test_a_priority_elects_the_replica_that_is_behind_and_wait_1_has_told_too_much(newest_redis: Path, tmp_path: Path):
    with three_machines(newest_redis, tmp_path) as machines:
        scene = Scene(machines)
        scene.behind.node.client.config_set("replica-priority", 10)
        machines.wait_until_seen(scene.behind, "slave-priority", "10")
        scene.store_all()
        chosen, _ = machines.wait_for_another(scene.primary)
        assert chosen is scene.behind
        assert len(scene.lost(chosen, 1)) == ENTRIES - BEFORE
        assert not scene.lost(chosen, 2)
        scene.repeat_at(chosen)
        assert numbers(chosen, "wait-2") == list(range(ENTRIES))
