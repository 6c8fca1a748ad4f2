"""Roles change amid held replies, waits, transactions, scripts and copies: nothing is promised that is lost."""

import pytest

from tests.replication.cluster import Node, World, state_of
from tests.replication.test_replica_equals_primary import small_pieces  # noqa: F401

LONG_WRITE = b"redis.call('SET','long','v') for i = 1, 3e5 do end redis.call('RPUSH','l','long') return 'done'"
LONG_READ = b"local before = redis.call('GET','k') for i = 1, 3e5 do end return before .. redis.call('GET','k')"


class Roles:
    """A primary A with a replica B that was promoted, so that what A gets from now on is dropped when it follows."""

    def __init__(self, policy, seed=17):
        self.world = World(seed)
        self.a, self.b = (Node(self.world, port, appendfsync=policy) for port in (1, 2))
        self.a.ask("SET k 0;RPUSH l first;XADD s 1-1 f v;XGROUP CREATE s g 0;XADD named IDMP p 1 * f v")
        self.b.ask("REPLICAOF 127.0.0.1 1")
        self.world.link_up(self.b, self.a)
        self.b.ask("REPLICAOF NO ONE;SET k b")
        self.world.settle()
        self.killed = set()

    def client(self):
        client = self.a.connect()
        client.kill = lambda: self.killed.add(client)
        return client

    def begin(self, *requests):
        """Have a new client of A send requests in this turn."""
        client = self.client()
        self.a.run(*(one.split() if isinstance(one, bytes) else one for one in requests), client=client)
        return client

    def left(self, client):
        return b"".join(self.a.replies[client])

    def end(self):
        """Let A follow B, and check that it has nothing of its own then."""
        self.world.settle()
        self.world.link_up(self.a, self.b)
        self.world.settle()
        assert state_of(self.a) == state_of(self.b)
        for node in (self.a, self.b):
            assert node.engine.state.stats.internal_errors == 0
            assert node.dead is None


WRITES = {
    "a write": [b"SET k a"],
    "an entry": [b"XADD s 2-1 f v"],
    "a duplicate": [b"XADD named IDMP p 1 * f v"],
    "a delivery": [b"XREADGROUP GROUP g c STREAMS s >"],
    "EXEC": [b"MULTI", b"SET k a", b"XADD s 2-1 f v", b"EXEC"],
    "a script": [[b"EVAL", b"return redis.call('SET','k','a')", b"0"]],
    "a pipeline": [b"INCR n"] * 30,
    "entries": [b"XADD s IDMP p %d * f v" % number for number in range(30)],
    "a pop": [b"BLPOP l 0"],
    "a write and WAIT": [b"SET k a", b"WAIT 0 0"],
    "a write and WAITAOF": [b"SET k a", b"WAITAOF 1 0 0"],
}


@pytest.mark.parametrize("when", ["in its turn", "in a turn before", "while its sync runs"])
@pytest.mark.parametrize("write", WRITES)
def test_what_the_barrier_holds_is_never_answered_when_it_is_dropped(write, when):
    roles = Roles("always")
    a = roles.a
    client = roles.begin(*WRITES[write])
    if when != "in its turn":
        a.engine.end_turn()
        assert roles.left(client) == b""
    job = a.jobs[0] if when == "while its sync runs" else None
    other = roles.client()
    a.run([b"REPLICAOF", b"127.0.0.1", b"2"], client=other)
    if job is not None:
        job.wait()  # it ends behind the change of roles
    a.engine.end_turn()
    roles.end()
    assert roles.left(client) == b"" or roles.left(client).startswith(b"-UNBLOCKED")
    assert client in roles.killed
    assert roles.left(other) == b"+OK\r\n"
    assert other not in roles.killed


WAITS = {
    "WAIT": ([b"INCR n", b"WAIT 1 0"], b":1\r\n"),
    "WAITAOF": ([b"XADD s 2-1 f v", b"WAITAOF 1 1 0"], b"$3\r\n2-1\r\n"),
    "XREADGROUP": ([b"XREADGROUP GROUP g c BLOCK 0 STREAMS s >", b"SET behind v"], b""),
    "XREADGROUP behind writes": ([b"XADD s 2-1 f v", b"XREADGROUP GROUP h c BLOCK 0 STREAMS s >"], b"$3\r\n2-1\r\n"),
    "XREAD": ([b"XREAD BLOCK 0 STREAMS s $", b"SET behind v"], b""),
    "BLPOP": ([b"BLPOP none 0", b"SET behind v"], b""),
    "BLMOVE": ([b"BLMOVE none l LEFT LEFT 0", b"MULTI", b"SET behind v", b"EXEC"], b""),
}


@pytest.mark.parametrize("policy", ["everysec", "always", "no"])
@pytest.mark.parametrize("wait", WAITS)
def test_what_waits_is_ended_with_an_error_and_nothing_behind_it_is_done(wait, policy):
    roles = Roles(policy)
    requests, before = WAITS[wait]
    roles.a.ask("XREADGROUP GROUP g c STREAMS s >;XGROUP CREATE s h $;XADD s 1-2 f v;XREADGROUP GROUP h c STREAMS s >")
    roles.a.ask("XREADGROUP GROUP g c STREAMS s >")
    if "behind writes" in wait:
        before, requests = before, [*requests[:1], b"XREADGROUP GROUP h c STREAMS s >", *requests[1:]]
    client = roles.begin(*requests)
    roles.a.end_turn_soon()
    roles.world.settle()
    assert client.waiter is not None
    assert roles.left(client).startswith(before)
    roles.a.ask("REPLICAOF 127.0.0.1 2")
    roles.end()
    assert roles.left(client).count(b"-UNBLOCKED force unblock from blocking operation") == 1
    assert roles.left(client).endswith(b"(master -> replica?)\r\n")
    assert client.close_soon or client.closed
    assert roles.b.ask("EXISTS behind") == b":0\r\n"


@pytest.mark.parametrize("policy", ["everysec", "always"])
@pytest.mark.parametrize("command", ["REPLICAOF", "SLAVEOF"])
def test_a_transaction_that_writes_and_then_follows_promises_nothing(policy, command):
    roles = Roles(policy)
    client = roles.begin(b"MULTI", b"SET k a", b"INCR n", command.encode() + b" 127.0.0.1 2", b"EXEC")
    roles.a.end_turn_soon()
    roles.world.settle()
    wrote = b"*3\r\n+OK\r\n:1\r\n-ERR REPLICAOF behind writes of its own transaction would drop them\r\n"
    assert roles.left(client).endswith(wrote)
    assert roles.a.fields()["role"] == "master"
    assert roles.a.ask("MGET k n") == b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"


BEHIND = [
    b"SET k a",
    b"XADD s * f v",
    b"XADD s IDMP p 1 * f v",
    b"XREADGROUP GROUP g c STREAMS s >",
    b"FLUSHALL",
    [b"EVAL", b"return redis.call('SET','k','a')", b"0"],
]


@pytest.mark.parametrize("policy", ["everysec", "always"])
@pytest.mark.parametrize("is_transaction", [False, True])
def test_writes_behind_a_change_of_roles_are_refused(policy, is_transaction):
    roles = Roles(policy)
    requests = [b"REPLICAOF 127.0.0.1 2", *BEHIND, *[b"XADD s IDMP q 1 * f v"] * 30, *BEHIND]
    client = roles.begin(*([b"MULTI", *requests, b"EXEC"] if is_transaction else requests))
    roles.a.end_turn_soon()
    roles.end()
    assert roles.left(client).count(b"-READONLY ") == len(requests) - 1


@pytest.mark.parametrize("policy", ["everysec", "always"])
def test_a_transaction_without_writes_may_follow_as_sentinel_has_it(policy):
    roles = Roles(policy)
    client = roles.begin(b"MULTI", b"SLAVEOF 127.0.0.1 2", b"CLIENT KILL TYPE normal", b"EXEC")
    roles.a.end_turn_soon()
    roles.end()
    assert roles.left(client).endswith(b"*2\r\n+OK\r\n:0\r\n") or b"*2\r\n+OK\r\n:" in roles.left(client)


# -- long scripts --------------------------------------------------------------------------------------------------


def slow_scripts(roles):
    """Have scripts be interrupted often."""
    for node in roles.world.nodes.values():
        assert node.ask("CONFIG SET busy-reply-threshold 1") == b"+OK\r\n"
    roles.world.watch_step_ns = 1_000_000


@pytest.mark.parametrize("policy", ["everysec", "always"])
def test_a_primary_does_not_follow_in_the_middle_of_a_script(policy):
    roles = Roles(policy)
    slow_scripts(roles)
    a = roles.a
    client = roles.begin([b"EVAL", LONG_WRITE, b"0"])
    assert a.engine.state.is_busy
    other = roles.begin(b"REPLICAOF 127.0.0.1 2")
    a.end_turn_soon()
    roles.world.settle()
    assert not a.engine.state.is_busy
    assert roles.left(other).startswith(b"-BUSY")
    assert roles.left(client) == b"$4\r\ndone\r\n"
    a.ask("REPLICAOF 127.0.0.1 2")
    roles.end()


def test_a_replica_applies_nothing_in_the_middle_of_a_script():
    roles = Roles("everysec")
    a, b, world = roles.a, roles.b, roles.world
    a.ask("REPLICAOF 127.0.0.1 2")
    roles.end()
    slow_scripts(roles)
    for number in range(5):
        client = roles.begin([b"EVAL", LONG_READ, b"0"])
        assert a.engine.state.is_busy
        b.begin(f"SET k {number};RPUSH l {number}")
        world.settle()
        before, after = roles.left(client)[-4:-2].decode()
        assert before == after
        world.link_up(a, b)
        assert state_of(a) == state_of(b)
    assert a.replication.link.attempts <= 2


def test_a_replica_acknowledges_while_its_primary_runs_a_script():
    roles = Roles("everysec")
    a, b, world = roles.a, roles.b, roles.world
    a.ask("REPLICAOF 127.0.0.1 2")
    roles.end()
    slow_scripts(roles)
    attempts = a.replication.link.attempts
    for _ in range(5):
        b.begin("SET k v")
        b.run([b"EVAL", LONG_WRITE, b"0"], client=b.connect())
        world.clock.advance(1_100)
        a.engine.tick()
        world.settle()
    world.link_up(a, b)
    assert state_of(a) == state_of(b)
    assert a.replication.link.attempts == attempts


# -- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize(("whom", "seed"), [("NO ONE", 1), ("NO ONE", 2), ("127.0.0.1 3", 3), ("127.0.0.1 9", 4)])
def test_a_copy_that_is_left_at_any_moment_leaves_one_state_whole(monkeypatch, whom, seed):
    monkeypatch.setattr("streamd.journal.loader._SLICE_WEIGHT", 20)
    steps, seen, kept, is_over = 1, [], set(), False
    while not is_over:
        world = World(seed)
        world.clock.tick_us = 3_000  # so that a load takes many slices
        a, b, c = (Node(world, port) for port in (1, 2, 3))
        for number in range(6):
            a.begin(f"SET k{number} new;XADD s{number} IDMP p 1 * f new;RPUSH l{number} 1 2 3")
            b.begin(f"SET k{number} old;XADD s{number} IDMP p 1 * f old;SADD own{number} 1")
        c.begin("SET k0 third;XADD s0 IDMP p 1 * f third")
        world.settle()
        own, new, third = state_of(b), state_of(a), state_of(c)
        b.begin("REPLICAOF 127.0.0.1 1")
        link = b.replication.link
        is_over = world.take_steps(steps, lambda link=link: link.state == "connected")
        seen.append(link.state)
        assert b.ask(f"REPLICAOF {whom}") == b"+OK\r\n"
        assert state_of(b) in ((own, new, third) if whom.endswith("3") else (own, new))
        kept.add(state_of(b) == own)
        if whom == "NO ONE":
            here = state_of(b)
            world.settle()
            assert state_of(b) == here
            assert b.ask("SET k0 written;DEL k1;XADD s1 IDMP p 2 * f v").startswith(b"+OK\r\n:1\r\n")
        elif whom.endswith("3"):
            world.link_up(b, c)
            assert state_of(b) == third
        else:
            here = state_of(b)
            for _ in range(20):
                world.step_or_wait()
            assert state_of(b) == here
        here = state_of(b)
        world.take_steps(50, lambda: False)
        manifest = b.disk.names["data/appendonlydir/appendonly.aof.manifest"].data
        files = [path.rpartition("/")[2] for path in b.disk.names if path.endswith(".aof")]
        assert [name for name in files if name.encode() not in manifest] == []
        b.die()
        b = b.start_again()
        assert state_of(b) == here
        assert b.fields()["role"] == ("master" if whom == "NO ONE" else "slave")
        if steps % 5 == 0:
            b.ask("REPLICAOF 127.0.0.1 1")
            world.link_up(b, a)
            assert state_of(b) == new
        steps += 1 if link.state in ("sync", "load", "connected") else 5
    assert {*seen} >= {"handshake", "load", "connected"}
    assert seen.count("load") >= 5  # before it, at its parts, and behind them
    assert kept == {True, False} or whom.endswith("3")
