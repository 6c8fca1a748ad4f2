"""CLIENT PAUSE pauses no replica: its link stays, and its acknowledgements count."""

import pytest

from tests.replication.seen_pair import linked_pair


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_a_replica_stays_linked_while_clients_are_paused(kind):
    world, primary, replica = linked_pair()
    replica.is_stopped = True
    waits = primary.begin("SET k v;WAIT 1 0")
    primary.ask(f"CLIENT PAUSE 600000 {kind}")
    replica.is_stopped = False

    world.go_on(lambda: b"".join(waits).endswith(b":1\r\n"), ms_max=5_000)

    ends_ms = world.clock.monotonic_ms() + 200_000
    world.go_on(lambda: world.clock.monotonic_ms() > ends_ms, ms_max=300_000)
    assert replica.replication.link.state == "connected"
    assert replica.replication.link.attempts == 1


def test_a_pause_of_all_clients_does_not_last_as_long_as_a_failover():
    world, primary, replica = linked_pair()
    replica.is_stopped = True
    primary.ask("SET k v")
    primary.ask("FAILOVER")
    writer, admin = primary.connect(), primary.connect()
    replies = primary.begin("SET k w", writer)
    primary.ask("CLIENT PAUSE 500 ALL")

    assert primary.ask("GET k", admin) == b"$1\r\nv\r\n"

    for wire in world.wires:
        wire.break_off()
    replica.is_stopped = False
    world.go_on(lambda: primary.replication.failover.state == "no-failover")
    world.go_on(lambda: bool(replies))
    assert replies[0].startswith(b"-READONLY")
    assert replica.ask("GET k") == b"$1\r\nv\r\n"


def test_the_end_of_a_pause_is_not_the_end_of_what_a_failover_holds_and_the_other_way_round():
    world, primary, replica = linked_pair()
    replica.is_stopped = True
    primary.ask("SET k v")
    primary.ask("CLIENT PAUSE 100000 WRITE")
    primary.ask("FAILOVER")
    replies = primary.begin("SET k w", primary.connect())

    primary.ask("CLIENT UNPAUSE")
    world.settle()
    assert replies == []

    primary.ask("CLIENT PAUSE 3000 WRITE")
    primary.ask("FAILOVER ABORT")
    world.settle()
    assert replies == []

    world.go_on(lambda: bool(replies), ms_max=5_000)
    assert replies == [b"+OK\r\n"]
