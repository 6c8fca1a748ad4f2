"""CLIENT PAUSE pauses no replica: its link stays, and its acknowledgements count."""

import pytest

from tests.replication.cluster import Node, World


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_replica_stays_linked_while_clients_are_paused(kind):
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    replica.is_stopped = True
    waits = primary.begin("SET k v;WAIT 1 0")
    primary.ask(f"CLIENT PAUSE 600000 {kind}")
    replica.is_stopped = False

    world.go_on(lambda: b"".join(waits).endswith(b":1\r\n"), ms_max=5_000)

    ends_ms = world.clock.monotonic_ms() + 200_000
    world.go_on(lambda: world.clock.monotonic_ms() > ends_ms, ms_max=300_000)
    assert replica.replication.link.state == "connected"
    assert replica.replication.link.attempts == 1
