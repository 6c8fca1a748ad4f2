"""A replica whose disk is full or fails: it never acknowledges what it lacks, and the primary is undisturbed."""

import errno

import pytest

from tests.replication.cluster import Node, World, state_of

FAULTS = {
    "no space": ({"write"}, errno.ENOSPC),
    "writes fail": ({"write"}, errno.EIO),
    "syncs fail": ({"sync"}, errno.EIO),
    "all fails": ({"write", "sync", "open", "rename", "read", "truncate", "unlink", "sync_directory"}, errno.EIO),
}


class Pair:
    """A primary and its replica, whose disk fails between fill() and free()."""

    def __init__(self, policy, seed=1):
        self.world = World(seed)
        self.primary = Node(self.world, 1)
        self.replica = Node(self.world, 2, appendfsync=policy)
        self.primary.ask("SET before v")
        self.replica.ask("REPLICAOF 127.0.0.1 1")
        self.world.link_up(self.replica, self.primary)

    def fill(self, names, number):
        disk = self.replica.disk
        step = type(disk).step

        def failing(name, length=0):
            if name in names:
                disk.failed.append(name)
                raise OSError(number, errno.errorcode[number])
            return step(disk, name, length)

        disk.step = failing

    def free(self):
        self.replica.disk.__dict__.pop("step", None)

    def check(self):
        """Look at what the replica has acknowledged, and at what its disk has."""
        for follower in self.primary.replication.feeding.followers.values():
            killed = Node(World(), 2, self.replica.disk.kill())
            assert killed.offset >= follower.acked
            for seed in range(3):
                assert Node(World(), 2, self.replica.disk.cut_power(seed)).offset >= follower.synced

    def go_on(self, ms):
        for _ in range(ms // 100):
            for _ in range(10_000):
                if not self.world.step():
                    break
            self.end_if_dead()
            self.check()
            self.world.clock.advance(100)
            for node in self.world.nodes.values():
                if node.runs:
                    node.engine.tick()

    def end_if_dead(self):
        if self.replica.dead is not None and self.replica.is_alive:
            self.replica.die()  # as its process ends
            for wire in self.world.wires:
                if wire.primary is self.primary:
                    wire.connection.connection_lost(None)


@pytest.mark.parametrize("policy", ["no", "everysec", "always"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_replica_whose_disk_fails_acknowledges_nothing_that_it_lacks_and_goes_on_with_space(policy, fault):
    pair = Pair(policy)
    pair.fill(*FAULTS[fault])
    writer = pair.primary.connect()
    for number in range(10):
        assert pair.primary.ask(f"SET k{number} v", writer) == b"+OK\r\n"
        pair.go_on(300)
    assert pair.replica.disk.failed or (policy, fault) == ("no", "syncs fail")  # it never syncs by itself
    if fault != "syncs fail":
        assert pair.primary.ask("WAIT 1 100", writer) == b":0\r\n"
    assert pair.primary.ask("WAITAOF 0 1 100", writer).endswith(b":0\r\n")
    pair.go_on(5_000)
    assert state_of(pair.primary)[0]
    assert pair.primary.engine.state.stats.internal_errors == 0

    pair.free()
    if not pair.replica.is_alive:
        pair.replica = pair.replica.start_again()
    pair.world.go_on(lambda: pair.primary.ask("WAIT 1 0", writer) == b":1\r\n")
    pair.world.link_up(pair.replica, pair.primary)
    assert state_of(pair.replica) == state_of(pair.primary)
    if policy != "no":
        assert pair.primary.ask("WAITAOF 0 1 0", writer).endswith(b":1\r\n")
    pair.check()
    assert pair.replica.engine.state.stats.internal_errors == 0


@pytest.mark.parametrize("policy", ["no", "everysec"])
def test_a_replica_whose_disk_is_full_still_serves_readers(policy):
    pair = Pair(policy)
    pair.fill(*FAULTS["no space"])
    pair.primary.ask("SET k v")
    pair.go_on(500)
    assert pair.replica.ask("GET before") == b"$1\r\nv\r\n"
