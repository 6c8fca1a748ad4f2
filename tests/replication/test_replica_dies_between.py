"""A replica that dies anywhere between reading, its journal, applying and ACK starts, and asks for what it lacks."""

import re

import pytest

from tests.replication.cluster import Node, Wire, World, is_level, state_of

PSYNC = re.compile(rb"\r\nPSYNC\r\n\$\d+\r\n([0-9a-f?]+)\r\n\$\d+\r\n(-?\d+)\r\n")
TURNS = (
    "SET k v;XADD s IDMP p 1 * f v",
    "MULTI;RPUSH l 1 2;SELECT 1;SET k w;EXEC",
    "XGROUP CREATE s g 0;XREADGROUP GROUP g c STREAMS s >;XADD s IDMP p 2 * f v",
    "XADD s IDMP p 1 * f v;INCR n",
)


class HeardWire(Wire):
    """A connection that keeps what has reached the primary."""

    def reach_primary(self, data: bytes) -> None:
        self.world.heard += data
        super().reach_primary(data)


class Deaths:
    """A primary and a replica that has all; the primary's states by offset."""

    def __init__(self, seed=0, policy="everysec"):
        self.world = World(seed)
        self.world.make_wire = HeardWire
        self.world.heard = bytearray()
        self.primary, self.replica = (Node(self.world, port, appendfsync=policy) for port in (1, 2))
        self.replica.ask("REPLICAOF 127.0.0.1 1")
        self.world.link_up(self.replica, self.primary)
        self.world.settle()
        self.states = {self.primary.offset: state_of(self.primary)}

    def write(self, text):
        """Have the primary write in a turn, which is under way to the replica then."""
        self.primary.run(*(request.encode().split() for request in text.split(";")), client=self.primary.connect())
        self.primary.engine.end_turn()
        self.states[self.primary.offset] = state_of(self.primary)

    @property
    def follower(self):
        [follower] = self.primary.replication.feeding.followers.values()
        return follower

    def end(self):
        """Let the replica die."""
        self.replica.die()
        for wire in self.world.wires:
            wire.break_off()

    def start_again(self, disk):
        """Start it on a disk; return the offset at which it starts."""
        self.replica = self.replica.start_again(disk)
        assert state_of(self.replica) == self.states[self.replica.offset]
        return self.replica.offset

    def link_up(self):
        """Let it have what it lacks, and check that it has asked for exactly that."""
        world, primary, replica = self.world, self.primary, self.replica
        asked = primary.fields()["master_replid"].encode(), b"%d" % (replica.offset + 1)
        world.heard.clear()
        world.link_up(replica, primary)
        assert PSYNC.findall(bytes(world.heard)) == [asked]
        assert replica.replication.link.copies == 0
        assert state_of(replica) == state_of(primary)


@pytest.mark.parametrize("policy", ["everysec", "always", "no"])
@pytest.mark.parametrize("how", ["killed", "without power"])
@pytest.mark.parametrize("beside", ["nothing", "a rewrite"])
def test_it_asks_for_exactly_what_its_journal_lacks(policy, how, beside):
    seen, rewrites = set(), set()
    for seed in range(2):
        steps, is_over = 0, False
        while not is_over:
            deaths = Deaths(seed, policy)
            if beside == "a rewrite":
                deaths.replica.begin("BGREWRITEAOF")
            for text in TURNS:
                deaths.write(text)
            deaths.primary.begin("INCR n;WAIT 1 0")
            is_over = not all(deaths.world.step() for _ in range(steps))
            deaths.states.setdefault(deaths.primary.offset, state_of(deaths.primary))
            applied, acked, synced = deaths.replica.offset, deaths.follower.acked, deaths.follower.synced
            disk = deaths.replica.disk
            rewrites.add((deaths.replica.persistence.is_rewriting, deaths.replica.persistence.rewriting.count))
            deaths.end()
            offset = deaths.start_again(disk.kill() if how == "killed" else disk.cut_power(seed * 1_000 + steps))
            assert synced <= offset, "it has called synced what it lacks"
            if how == "killed" or policy == "always":
                assert acked <= offset, "it has acknowledged what it lacks"
            deaths.link_up()
            seen.add((applied > offset, offset > acked))
            steps += 1
    assert seen >= {(False, True)} | (
        {(True, False)} if how == "without power" else set()
    )  # behind its journal with its ACK, before it with what it applied
    assert beside == "nothing" or {(True, 0), (False, 1)} <= rewrites


def test_its_journal_may_end_at_any_byte():
    deaths = Deaths()
    [*_, name] = sorted(path for path in deaths.replica.disk.names if path.endswith(".incr.aof"))
    size = len(deaths.replica.disk.names[name].data)
    for text in TURNS[:2]:
        deaths.write(text)
    deaths.world.link_up(deaths.replica, deaths.primary)
    deaths.world.settle()
    whole, found = deaths.replica.disk, []
    for length in range(size, len(whole.names[name].data) + 1):
        disk = whole.kill()
        del disk.names[name].data[length:]
        deaths.end()
        found.append(deaths.start_again(disk))
        if length % 40 == 0:
            deaths.link_up()
    assert found == sorted(found)
    assert set(found) == set(deaths.states)


@pytest.mark.parametrize("how", ["killed", "without power"])
def test_amid_a_copy_it_keeps_the_old_state_or_has_the_new_one(how):
    starts = set()
    steps, is_over = 0, False
    while not is_over:
        deaths = Deaths(steps)
        world, primary = deaths.world, deaths.primary
        deaths.replica.ask("REPLICAOF NO ONE;SET own v;XADD s IDMP p 9 * f v")
        world.clock.advance(1_100)
        world.go_on(
            lambda node=deaths.replica: node.persistence.journal.synced_writes == node.persistence.journal.writes
        )
        own = state_of(deaths.replica)
        deaths.replica.ask("REPLICAOF 127.0.0.1 1")
        primary.ask(TURNS[0])
        new = state_of(primary)
        is_over = world.take_steps(steps, lambda pair=(deaths.replica, primary): is_level(*pair))
        disk = deaths.replica.disk
        deaths.end()
        primary.ask(TURNS[1])
        replica = deaths.replica.start_again(disk.kill() if how == "killed" else disk.cut_power(steps))
        assert state_of(replica) in (own, new, state_of(primary))
        starts.add(state_of(replica) == own)
        if not replica.replication.standing.is_replica:
            assert how == "without power"
            assert state_of(replica) == own
            replica.ask("REPLICAOF 127.0.0.1 1")
        world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)
        steps += 1
    assert starts == {True, False}
