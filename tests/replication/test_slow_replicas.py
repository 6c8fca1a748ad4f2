"""Replicas that do not read: the ring keeps what they lack, once for all, up to a limit; then they are cut."""

import pytest

from streamd.replication import feeding
from tests.replication.cluster import Node, World, state_of

PAUSE_BYTES, LIMIT_BYTES, RING_BYTES = 10_000, 200_000, 20_000
VALUE = "v" * 1_000

pytestmark = pytest.mark.interpreted(reason="limits are made small")


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch):
    monkeypatch.setattr(feeding, "OUTPUT_PAUSE_BYTES", PAUSE_BYTES)
    monkeypatch.setattr(feeding, "OUTPUT_REPLICAS_BYTES_MAX", LIMIT_BYTES)


class Servers:
    """A primary at port 1, and replicas with all that it has."""

    def __init__(self, count):
        self.world = World(5)
        self.primary = Node(self.world, 1, **{"repl-backlog-size": RING_BYTES})
        self.primary.ask("SET before v")
        self.replicas = [Node(self.world, port) for port in range(2, 2 + count)]
        for replica in self.replicas:
            replica.ask("REPLICAOF 127.0.0.1 1")
            self.world.link_up(replica, self.primary)

    @property
    def feeding(self):
        return self.primary.replication.feeding

    def stop(self, is_stopped=True):
        for replica in self.replicas:
            replica.is_stopped = is_stopped

    def write(self, count_bytes):
        for _ in range(count_bytes // len(VALUE)):
            assert self.primary.ask(f"RPUSH l {VALUE}").startswith(b":")

    def waiting_bytes(self):
        """Return the bytes that wait for replicas, in the ring and in connections."""
        return self.feeding.ring.size_bytes + sum(len(wire.to_replica) for wire in self.world.wires)

    def tick(self, ms):
        for _ in range(ms // 100):
            self.world.settle()
            self.world.clock.advance(100)
            for node in self.world.nodes.values():
                if node.runs:
                    node.engine.tick()
        self.world.settle()


@pytest.mark.parametrize("count", [1, 10])
def test_stopped_replicas_share_the_ring_and_are_cut_at_its_limit_and_memory_returns(count):
    servers = Servers(count)
    servers.stop()
    servers.write(LIMIT_BYTES // 2)
    assert len(servers.feeding.followers) == count
    assert servers.waiting_bytes() < LIMIT_BYTES // 2 * 1.1 + count * 1.5 * PAUSE_BYTES

    servers.write(LIMIT_BYTES)
    servers.tick(500)

    assert not servers.feeding.followers
    assert servers.waiting_bytes() <= RING_BYTES
    assert servers.primary.engine.state.stats.internal_errors == 0


@pytest.mark.parametrize("count", [1, 10])
def test_replicas_that_read_again_before_the_limit_get_what_they_lack_from_the_ring(count):
    servers = Servers(count)
    servers.stop()
    servers.write(LIMIT_BYTES // 2)
    servers.stop(False)
    for replica in servers.replicas:
        servers.world.link_up(replica, servers.primary)
        assert replica.replication.link.copies == 1
        assert state_of(replica) == state_of(servers.primary)
    servers.tick(500)
    assert servers.waiting_bytes() <= RING_BYTES


def test_a_replica_that_reads_is_not_cut_because_another_one_does_not():
    servers = Servers(2)
    servers.replicas[0].is_stopped = True
    servers.write(2 * LIMIT_BYTES)
    servers.tick(500)
    assert [one.greeting.port for one in servers.feeding.followers.values()] == [3]
    servers.world.link_up(servers.replicas[1], servers.primary)
    assert servers.replicas[1].replication.link.attempts == 1


def test_a_client_that_waits_for_a_replica_that_is_behind_is_answered_when_it_is_not():
    servers = Servers(1)
    servers.stop()
    servers.write(LIMIT_BYTES // 2)
    writer = servers.primary.connect()
    assert servers.primary.ask("SET k v;WAIT 1 100", writer).endswith(b":0\r\n")
    replies = servers.primary.begin("WAIT 1 0", writer)
    servers.stop(False)
    servers.world.go_on(lambda: replies[-1] == b":1\r\n", ms_max=200)


def test_one_rewrite_serves_ten_replicas_that_return_within_a_second():
    servers = Servers(10)
    servers.stop()
    servers.write(2 * LIMIT_BYTES)
    servers.tick(500)
    assert not servers.feeding.followers
    before = servers.primary.persistence.rewriting.count
    for replica in servers.replicas:
        replica.is_stopped = False
    for replica in servers.replicas:
        servers.world.link_up(replica, servers.primary)
        assert state_of(replica) == state_of(servers.primary)
        assert replica.replication.link.copies == 2
    assert servers.primary.persistence.rewriting.count == before + 1


def test_a_replica_that_asks_a_second_later_gets_a_rewrite_of_its_own():
    servers = Servers(2)
    before = servers.primary.persistence.rewriting.count
    for replica in servers.replicas:
        servers.tick(2_000)
        for request in ("REPLICAOF NO ONE", "SET other v", "REPLICAOF 127.0.0.1 1"):
            replica.ask(request)
        servers.world.link_up(replica, servers.primary)
    assert servers.primary.persistence.rewriting.count == before + 2


def attempts_of(replica, world):
    """Return a list of the seconds at which a replica connects, from now on."""
    found = []
    connect = replica.network.connect

    def noting(link, host, port):
        found.append(world.clock.monotonic_ms() / 1_000)
        connect(link, host, port)

    replica.network.connect = noting
    return found


@pytest.mark.parametrize("when", ["in the copy", "behind the copy"])
def test_a_replica_that_is_cut_again_and_again_comes_after_ever_longer_pauses(when):
    servers = Servers(1)
    world, (replica,) = servers.world, servers.replicas
    link = replica.replication.link
    attempts = attempts_of(replica, world)
    servers.primary.engine.state.config.values["repl-backlog-size"] = 0
    ends = []
    for number in range(8):
        if when == "in the copy" and number:
            world.go_on(lambda: link.state in ("sync", "load"))
        else:
            world.go_on(lambda: link.state == "connected")
            servers.tick(2_500)
        replica.is_stopped = True
        servers.write(LIMIT_BYTES * 2)
        servers.tick(300)
        assert not servers.feeding.followers
        replica.is_stopped = False
        world.settle()
        assert link.state == "connect"
        ends.append(world.clock.monotonic_ms() / 1_000)
    world.go_on(lambda: len(attempts) == len(ends))
    pauses = [again - end for again, end in zip(attempts, ends, strict=True)]
    assert [round(pause) for pause in pauses] == [1, 2, 4, 8, 16, 30, 30, 30]
