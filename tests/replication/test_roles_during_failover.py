"""REPLICAOF during a failover is refused, as by Redis, and writers go on as soon as the failover ends."""

import pytest

from tests.replication.seen_pair import linked_pair

REFUSED = b"-ERR REPLICAOF not allowed while failing over.\r\n"


@pytest.mark.parametrize("request_", ["REPLICAOF NO ONE", "REPLICAOF 127.0.0.1 3", "SLAVEOF NO ONE"])
@pytest.mark.parametrize("state", ["waiting-for-sync", "failover-in-progress"])
def test_a_role_is_not_changed_during_a_failover(request_, state):
    world, primary, replica = linked_pair()
    writer = primary.connect()
    primary.ask("FAILOVER")
    replies = primary.begin("SET k v", writer)
    world.go_on(lambda: primary.replication.failover.state == state)

    assert primary.ask(request_) == REFUSED

    world.go_on(lambda: primary.replication.failover.state == "no-failover")
    world.go_on(lambda: bool(replies))
    assert replies[-1].startswith(b"-READONLY")
    assert primary.replication.standing.primary == ("127.0.0.1", 2)
    assert replica.replication.standing.primary is None


def test_writers_go_on_after_an_aborted_failover_and_roles_may_change():
    world, primary, replica = linked_pair()
    replica.is_stopped = True
    primary.ask("SET k v")
    primary.ask("FAILOVER")
    replies = primary.begin("SET k w", primary.connect())
    assert primary.ask("REPLICAOF NO ONE") == REFUSED

    assert primary.ask("FAILOVER ABORT") == b"+OK\r\n"

    world.go_on(lambda: bool(replies))
    assert replies == [b"+OK\r\n"]
    assert primary.ask("REPLICAOF NO ONE") == b"+OK\r\n"
