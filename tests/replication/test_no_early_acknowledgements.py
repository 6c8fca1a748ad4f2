"""A replica acknowledges its offset only while it follows: never amid the handshake of its next connection."""

import pytest

from tests.replication.cluster import Node, World, is_level


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.interpreted(reason="it watches what a link sends")
def test_a_sync_that_ends_behind_the_end_of_a_link_acknowledges_nothing_to_the_next_one(seed, monkeypatch):
    world = World(seed)
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    link, side, send = replica.replication.link, replica.replication.side, replica.network.send
    sent: list[str] = []

    def watched(data: bytes) -> None:
        if b"\r\nACK\r\n" in data and b"\r\nACK\r\n$2\r\n-1\r\n" not in data:
            sent.append(link.state)
        send(data)

    monkeypatch.setattr(replica.network, "send", watched)
    held = 0
    for number in range(40):
        primary.begin(f"SET k {number};WAIT 1 1000")
        if world.take_steps(60, lambda: side._was_asked and bool(replica.jobs)):
            jobs, replica.jobs = replica.jobs, []
            replica.network.wire.break_off()
            world.go_on(lambda: link.state in ("handshake", "sync"))
            replica.jobs = jobs
            replica.jobs[0].wait()
            world.take_steps(30, lambda: False)
            held += 1
        world.go_on(lambda: is_level(replica, primary))

    assert held > 3
    assert {*sent} == {"connected"}
