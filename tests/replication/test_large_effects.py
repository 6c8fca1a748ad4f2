"""Effects on whole databases, on many keys, and larger than the ring come over whole, whatever is under way."""

import pytest

from tests.replication.cluster import Node, World, state_of
from tests.replication.test_links_cut_everywhere import Cut, CutWire
from tests.replication.test_replica_equals_primary import small_pieces  # noqa: F401
from tests.replication.test_replica_links import Trio

KEYS = 50
OVER_ALL = (
    b"for i = 1, %d do redis.call('INCR', 'n' .. i) redis.call('XADD', 's' .. i, '*', 'f', i) "
    b"if i %% 3 == 0 then redis.call('DEL', 'l' .. i) else redis.call('RPUSH', 'l' .. i, i) end "
    b"if i %% 7 == 0 then redis.call('RENAME', 'n' .. i, 'r' .. i) end end return redis.call('DBSIZE')" % KEYS
)
EFFECTS = {
    "RENAME": [b"RENAME s1 s2", b"RENAME s3 new", b"RENAME l1 s4", b"RENAMENX s5 fresh", b"RENAME new s3"],
    "SWAPDB": [b"SWAPDB 0 1", b"SET k w", b"SELECT 1", b"RPUSH l1 x", b"SWAPDB 1 2", b"XADD s1 * f v"],
    "FLUSHALL": [b"FLUSHALL", b"SET k after", b"XADD s1 IDMP p 1 * f v"],
    "FLUSHALL ASYNC": [b"SET k before", b"FLUSHALL ASYNC", b"RPUSH l1 after"],
    "FLUSHDB": [b"FLUSHDB", b"XADD s2 * f v", b"SELECT 1", b"XADD s2 * f v"],
    "XGROUP DESTROY": [b"XGROUP DESTROY s1 g", b"XGROUP DESTROY large g", b"XGROUP DELCONSUMER s2 g c"],
    "UNLINK": [b"UNLINK large s1 s2 l1 l2", b"XADD large * f v", b"DEL s3 s4", b"SET s3 v"],
    "XTRIM": [b"XTRIM large MAXLEN 3", b"XADD large MAXLEN 1 * f v", b"XTRIM s1 MINID 9999999999999", b"XDEL s2 1-1"],
    "COPY and MOVE": [b"COPY s1 copied", b"COPY large s2 REPLACE", b"MOVE s3 1", b"COPY s4 s4 DB 2", b"MOVE l3 2"],
    "names": [b"XCFGSET s1 IDMP-MAXSIZE 1", b"XADD s1 IDMP p 9 * f v", b"RENAME s1 s2", b"XADD s2 IDMP p 9 * f v"],
    "a script over all": [[b"EVAL", OVER_ALL, b"0"]],
    "a transaction": [
        b"MULTI", b"RENAME s1 s2", b"SWAPDB 0 1", b"SELECT 1", b"XADD s2 * f v", b"FLUSHDB", b"RPUSH l1 x", b"EXEC",
    ],
    "a script in a transaction": [b"MULTI", b"RENAME large s9", [b"EVAL", OVER_ALL, b"0"], b"DEL s9", b"EXEC"],
}  # fmt: skip


class Large:
    """A primary with many keys, of which one has many entries, and a replica."""

    def __init__(self, seed):
        self.world = World(seed)
        self.world.make_wire = CutWire
        self.world.cut = None
        self.world.clock.tick_us = 2_000  # so that a rewrite takes many slices
        self.primary, self.replica = (Node(self.world, port, stream_node_max_entries=3) for port in (1, 2))
        requests = [b"XADD large %d-1 f v" % number for number in range(1, 30)]
        requests += [b"XGROUP CREATE large g 0", b"XREADGROUP GROUP g c COUNT 10 STREAMS large >"]
        for number in range(1, KEYS + 1):
            requests.append(b"XADD s%d IDMP p %d * f v" % (number, number) if number < 20 else b"RPUSH l%d a" % number)
        requests += [b"XGROUP CREATE s1 g 0", b"XREADGROUP GROUP g c STREAMS s1 >", b"XGROUP CREATE s2 g 0 MKSTREAM"]
        requests += [b"XGROUP CREATECONSUMER s2 g c", b"SELECT 1", b"SET k one", b"XADD s1 * f one", b"PEXPIRE k 99999"]
        self.run(requests)
        self.world.settle()

    def run(self, requests):
        self.primary.run(
            *(one.split() if isinstance(one, bytes) else one for one in requests), client=self.primary.connect()
        )
        self.primary.end_turn_soon()

    def check(self):
        world, primary, replica = self.world, self.primary, self.replica
        world.link_up(replica, primary)
        world.settle()
        here = state_of(primary)
        assert state_of(replica) == here
        for node in (primary, replica):
            assert node.engine.state.stats.internal_errors == 0
        node = world.chance.choice((primary, replica))
        node.die()
        assert state_of(node.start_again()) == here


@pytest.mark.interpreted(reason="constants are replaced")
@pytest.mark.parametrize("where", ["copy", "replica"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_while_keys_wait_for_their_cut(effect, where):
    """A rewrite is under way on the primary, for a copy, or on the replica: some keys are written, and others wait."""
    progress = set()
    for seed in range(2):
        run = Large(seed)
        world, primary, replica = run.world, run.primary, run.replica
        replica.begin("REPLICAOF 127.0.0.1 1")
        if where == "replica":
            world.link_up(replica, primary)
            replica.begin("BGREWRITEAOF")
        node = primary if where == "copy" else replica
        world.go_on(lambda node=node: node.persistence.is_rewriting)
        for _ in range(3):
            rewrite = node.persistence.journal.rewrite
            done = 0 if rewrite is None else rewrite.keys_done
            world.go_on(lambda one=rewrite, done=done: one is None or one.keys_done > done or one.is_complete)
            progress.add(rewrite is not None and 0 < rewrite.keys_done < rewrite.keys_total)
            run.run(EFFECTS[effect])
            run.run([b"INCR turn", b"XADD s8 IDMP q 1 * f v", b"RPUSH l8 more"])
        run.check()
        assert replica.replication.link.copies == 1
    assert True in progress


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("backlog", [0, 2_000])
@pytest.mark.parametrize("effect", ["a value", "a transaction", "many entries", "a script over all"])
def test_a_unit_larger_than_the_ring(monkeypatch, effect, backlog):
    monkeypatch.setattr("streamd.replication.feeding.READ_BYTES_MAX", 200)
    large = {
        "a value": [b"SET big " + b"v" * 50_000],
        "a transaction": [b"MULTI", *[b"RPUSH l " + b"v" * 5_000] * 10, b"EXEC"],
        "many entries": [b"XADD s IDMP p %d MAXLEN 60 * f " % number + b"v" * 500 for number in range(40)],
        "a script over all": [[b"EVAL", OVER_ALL, b"0"]] * 2,
    }[effect]
    run = Large(5)
    world, primary, replica = run.world, run.primary, run.replica
    primary.engine.state.config.values["repl-backlog-size"] = backlog
    primary.ask("XADD s IDMP p x * f v;XCFGSET s IDMP-MAXSIZE 1")
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    link = replica.replication.link
    for _ in range(2):  # to a replica that is there
        run.run(large)
        world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)
    assert link.copies == 1

    world.cut = Cut("replica", 4_000)  # to one that loses its link in the middle of it
    run.run(large)
    world.go_on(lambda: world.cut is None)
    before = link.copies
    world.link_up(replica, primary)
    assert link.copies == before + 1
    assert state_of(replica) == state_of(primary)

    for wire in world.wires:  # to one that is away, and has nothing of it
        wire.break_off()
    run.run([b"INCR n"])
    run.run(large)
    world.settle()
    run.run([b"INCR n"])
    world.link_up(replica, primary)
    assert state_of(replica) == state_of(primary)

    replica.ask("REPLICAOF NO ONE;SET own v")  # and to one whose copy is under way
    world.watch_step_ns = 10**6  # so that it takes many slices
    replica.begin("REPLICAOF 127.0.0.1 1")
    copies = link.copies
    for _ in range(3):
        world.go_on(lambda: [one.is_online for one in primary.replication.feeding.followers.values()] == [False])
        run.run(large)
        world.take_steps(5, lambda: False)
    world.link_up(replica, primary)
    assert state_of(replica) == state_of(primary)
    assert link.copies == copies + 1


def test_a_unit_that_is_larger_than_the_ring_reaches_the_end_of_a_chain():
    trio = Trio()
    for node in (trio.a, trio.b, trio.c):
        node.engine.state.config.values["repl-backlog-size"] = 100
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    for number in range(3):
        trio.a.ask(f"SET k{number} " + "v" * 20_000)
        trio.world.link_up(trio.b, trio.a)
        assert trio.copies(trio.c, trio.b) == 0
    assert [node.replication.link.copies for node in (trio.b, trio.c)] == [1, 1]
