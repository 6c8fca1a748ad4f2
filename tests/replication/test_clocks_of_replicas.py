"""A replica whose clock is wrong has its primary's entries, names and keys, and decides nothing by its own time."""

import pytest

from tests.replication.cluster import Node, Wire, World, state_of

HOUR_MS = 3_600_000


class SeenWire(Wire):
    """A connection that keeps what has reached each replica."""

    def reach_replica(self, data: bytes) -> None:
        self.world.seen[self.replica.port] += data
        super().reach_replica(data)


class Skewed:
    """A primary with a right clock, a replica whose clock is wrong by `skew_ms`, and a third server."""

    def __init__(self, skew_ms, seed=13, **options):
        self.world = World(seed)
        self.world.make_wire = SeenWire
        self.world.seen = {port: bytearray() for port in (1, 2, 3)}
        self.world.skews_ms[2] = skew_ms
        self.a, self.b, self.c = (Node(self.world, port, **options) for port in (1, 2, 3))
        self.follow(self.b, self.a)

    def follow(self, replica, primary):
        assert replica.ask(f"REPLICAOF 127.0.0.1 {primary.port}").startswith(b"+OK")
        self.world.link_up(replica, primary)

    def advance(self, ms, tick=True):
        """Let time pass, and the cron of all servers run."""
        self.world.clock.advance(ms)
        for node in self.world.nodes.values():
            if node.runs:
                node.engine.tick()
        self.world.settle()

    def level(self):
        """Let the replica have all; return both states, as clients with one clock would see them."""
        self.world.link_up(self.b, self.a)
        self.world.settle()
        skew_ms, self.b.own_clock.skew_ms = self.b.own_clock.skew_ms, 0
        states = state_of(self.b), state_of(self.a)
        self.b.own_clock.skew_ms = skew_ms
        return states

    def promote(self):
        """Destroy the primary, and have the replica take its place."""
        self.a.die()
        for wire in self.world.wires:
            if wire.primary is self.a:
                wire.connection.connection_lost(None)
        assert self.b.ask("REPLICAOF NO ONE") == b"+OK\r\n"


# -- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_ms", [-2_000, 2_000, -HOUR_MS, HOUR_MS])
@pytest.mark.parametrize("waited_ms", [999, 1_000, 1_001])
def test_a_name_that_is_used_again_at_its_end_makes_equal_entries(skew_ms, waited_ms):
    run = Skewed(skew_ms)
    a = run.a
    a.ask("XADD s IDMP p 0 * f v;XCFGSET s IDMP-DURATION 1")
    first = a.ask("XADD s IDMP p 1 * f first")
    run.advance(waited_ms)
    again = a.ask("XADD s IDMP p 1 * f again")
    assert (again == first) == (waited_ms < 1_000)
    here, there = run.level()
    assert here == there

    run.b.is_stopped = True  # and one that expires and is used again while the replica sees nothing
    for _ in range(3):
        run.advance(waited_ms)
        a.ask("XADD s IDMP p 1 * f more;XADD s IDMP q 1 * f more")
    run.b.is_stopped = False
    here, there = run.level()
    assert here == there


@pytest.mark.parametrize("skew_ms", [-2_000, 2_000])
def test_a_name_that_was_used_again_is_a_duplicate_at_the_promoted_server(skew_ms):
    run = Skewed(skew_ms)
    run.a.ask("XADD s IDMP p 0 * f v;XCFGSET s IDMP-DURATION 10;XADD s IDMP p 1 * f first")
    run.advance(10_001)
    again = run.a.ask("XADD s IDMP p 1 * f again;WAIT 1 0").removesuffix(b":1\r\n")
    entries = run.a.ask("XRANGE s - +")
    run.promote()
    assert run.b.ask("XADD s IDMP p 1 * f again") == again
    run.advance(3_000)
    assert run.b.ask("XADD s IDMP p 1 * f again") == again
    assert run.b.ask("XRANGE s - +") == entries
    # What is new there is behind all that was before, although the clock may be behind.
    run.b.ask("XADD s IDMP p 2 * f new;XADD s * f new")
    assert run.b.ask("XRANGE s - +").startswith(entries.replace(b"*3\r\n", b"*5\r\n", 1))
    run.follow(run.c, run.b)
    run.b.own_clock.skew_ms = 0
    assert state_of(run.c) == state_of(run.b)


@pytest.mark.parametrize("skew_ms", [-HOUR_MS, -2_000, 2_000, HOUR_MS])
def test_names_of_entries_that_are_ahead_of_the_clock_end_at_the_same_time(skew_ms):
    run = Skewed(skew_ms)
    run.a.ask("XADD s IDMP p 0 * f v;XCFGSET s IDMP-DURATION 2;XADD s 1700000900000-1 f v;XADD s IDMP p 1 * f v")
    here, there = run.level()
    assert here == there
    run.advance(2_001)
    run.a.ask("XADD s IDMP p 1 * f again;XADD s IDMP p 2 * f v")
    assert run.a.ask("XLEN s") == b":5\r\n"
    here, there = run.level()
    assert here == there


# -- an hour ahead -------------------------------------------------------------------------------------------------

BEGINNING = (
    "SET k v PX 60000;SET stays v;HSET h a 1 b 2;HPEXPIRE h 60000 FIELDS 1 a",
    "HSET all a 1;HPEXPIRE all 60000 FIELDS 1 a",
    "XADD s IDMP p 1 * f v;XGROUP CREATE s g 0;XREADGROUP GROUP g c STREAMS s >;XADD t * f v;PEXPIRE t 60000",
    "SET lease owner PX 60000;RPUSH l 1 2;PEXPIRE l 60000;SADD set 1;PEXPIRE set 60000;ZADD z 1 m;PEXPIRE z 60000",
)
HIDDEN = {
    "GET k": b"$-1\r\n", "GET lease": b"$-1\r\n", "EXISTS k t l set z all": b":0\r\n", "TTL k": b":-2\r\n",
    "HGET h a": b"$-1\r\n", "HLEN h": b":1\r\n", "LLEN l": b":0\r\n", "SCARD set": b":0\r\n", "ZCARD z": b":0\r\n",
    "XLEN t": b":0\r\n", "XLEN s": b":1\r\n", "TYPE l": b"+none\r\n", "GET stays": b"$1\r\nv\r\n",
    "XPENDING s g - + 1 d": b"*0\r\n",
}  # fmt: skip


def ahead():
    run = Skewed(HOUR_MS)
    for text in BEGINNING:
        run.a.ask(text)
    run.world.link_up(run.b, run.a)
    return run


def hidden(node):
    return {text: node.ask(text) for text in HIDDEN}


@pytest.mark.parametrize("how", ["frames", "copy", "restart", "rewrite", "restart after a rewrite"])
def test_nothing_ends_on_a_replica_whose_clock_is_an_hour_ahead(how):
    run = ahead()
    if how == "copy":
        run.b.ask("REPLICAOF NO ONE;FLUSHALL")
        run.follow(run.b, run.a)
        assert run.b.replication.link.copies == 2
    if "rewrite" in how:
        run.b.ask("BGREWRITEAOF")
        run.world.go_on(lambda: run.b.persistence.rewriting.count == 1)
    if "restart" in how:
        run.b.die()
        run.b = run.b.start_again()
        run.world.link_up(run.b, run.a)
        assert run.b.replication.link.copies == 0
    for _ in range(30):
        run.advance(100)

    assert hidden(run.b) == HIDDEN
    assert len(run.b.engine.state.sweeper) == 1
    assert run.b.engine.state.stats.expired_keys == 0
    here, there = run.level()
    assert here == there
    # What it hides it still has when the primary changes its mind.
    run.a.ask("PERSIST k;HPERSIST h FIELDS 1 a;PEXPIRE t 7300000;GETEX lease PERSIST;RPUSH l 3;PERSIST l;PERSIST set")
    run.a.ask(
        "XCLAIM s g d 0 1700000000000-0;APPEND k w;XADD s IDMP p 1 * f again;ZINCRBY z 1 m;HPERSIST all FIELDS 1 a"
    )
    here, there = run.level()
    assert here == there
    shown = {
        text: run.b.ask(text) for text in ("GET k", "GET lease", "HGET h a", "LRANGE l 0 -1", "XLEN t", "EXISTS all")
    }
    assert shown == {text: run.a.ask(text) for text in shown}
    assert shown["GET k"] == b"$2\r\nvw\r\n"


def test_a_promoted_server_whose_clock_is_an_hour_ahead_sends_each_deletion_once():
    run = ahead()
    run.follow(run.c, run.b)
    run.advance(200)
    run.world.seen[3].clear()
    run.promote()
    for _ in range(30):
        run.advance(100)
    run.world.link_up(run.c, run.b)

    sent = bytes(run.world.seen[3])
    for words in ("DEL k", "DEL t", "DEL lease", "DEL l", "DEL set", "DEL z", "HDEL h a", "HDEL all a"):
        command, *rest = (b"$%d\r\n%b\r\n" % (len(word), word) for word in words.encode().split())
        assert sent.count(command + b"".join(rest)) == 1, (words, sent)
    assert (sent.count(b"\r\nDEL\r\n"), sent.count(b"\r\nHDEL\r\n")) == (6, 2)
    assert run.c.replication.link.copies == 1
    for node in (run.b, run.c):
        assert sorted(node.engine.state.keyspace[0].values) == [b"h", b"s", b"stays"]
    assert len(run.b.engine.state.sweeper) == 0
    assert len(run.c.engine.state.sweeper) == 0  # it goes by the clock of its primary
    run.c.own_clock.skew_ms = HOUR_MS
    assert state_of(run.c) == state_of(run.b)


def test_a_promoted_server_whose_clock_is_an_hour_behind_deletes_in_an_hour():
    run = Skewed(-HOUR_MS)
    for text in BEGINNING:
        run.a.ask(text)
    run.world.link_up(run.b, run.a)
    run.promote()
    run.advance(60_001)
    assert run.b.ask("DBSIZE") == b":10\r\n"
    run.advance(HOUR_MS)
    assert run.b.ask("DBSIZE") == b":3\r\n"
