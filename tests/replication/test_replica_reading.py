"""A replica serves readers and blocked clients, hides what has expired, removes nothing itself, and takes no writes."""

import pytest

from tests.replication.cluster import Node, World, state_of

READONLY = b"-READONLY You can't write against a read only replica.\r\n"


@pytest.fixture
def pair():
    world = World(5)
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    return world, primary, replica


@pytest.mark.parametrize(
    ("waits", "write", "reply"),
    [
        ("XREAD BLOCK 0 STREAMS s $", "XADD s 1-1 f v", b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n"),
        ("XREAD BLOCK 0 STREAMS s $", "MULTI;SET k v;XADD s 1-1 f v;EXEC", b"*1\r\n*2\r\n$1\r\ns\r\n"),
        ("XREAD BLOCK 0 STREAMS s $", "XADD t 1-1 f v;RENAME t s", b"*1\r\n*2\r\n$1\r\ns\r\n"),
        ("XREAD BLOCK 0 STREAMS s 0", "SELECT 1;XADD s 1-1 f v;SWAPDB 0 1", b"*1\r\n*2\r\n$1\r\ns\r\n"),
    ],
)
def test_a_blocked_reader_is_served(pair, waits, write, reply):
    world, primary, replica = pair
    waiting = replica.begin(waits)
    world.settle()
    assert waiting == []
    primary.ask(write)
    world.link_up(replica, primary)
    world.settle()
    assert b"".join(waiting).startswith(reply)


def test_a_blocked_reader_is_served_by_a_whole_copy():
    world = World(5)
    primary, replica = Node(world, 1), Node(world, 2)
    primary.ask("XADD s 1-1 f v")
    waiting = replica.begin("XREAD BLOCK 0 STREAMS s 0")
    again = replica.begin("XREAD BLOCK 0 STREAMS s 0")
    world.settle()
    replica.ask("REPLICAOF 127.0.0.1 1")
    assert b"".join(waiting) == b"".join(again)
    assert b"".join(waiting).startswith(b"-UNBLOCKED")
    waiting = replica.begin("XREAD BLOCK 0 STREAMS s 0")
    world.link_up(replica, primary)
    world.settle()
    assert b"".join(waiting).startswith(b"*1\r\n*2\r\n$1\r\ns\r\n")


def test_expired_keys_are_hidden_and_stay_until_the_primary_removes_them(pair):
    world, primary, replica = pair
    primary.ask("SET k v PX 50;SET other v;XADD s IDMP p 1 * f v;PEXPIRE s 50")
    world.link_up(replica, primary)
    primary.is_stopped = True
    world.clock.advance(1_000)
    world.settle()

    nothing = {"GET k": b"$-1\r\n", "EXISTS k s": b":0\r\n", "TTL k": b":-2\r\n", "TYPE s": b"+none\r\n",
               "XLEN s": b":0\r\n", "KEYS *": b"*1\r\n$5\r\nother\r\n", "DBSIZE": b":3\r\n",
               "OBJECT ENCODING k": b"$-1\r\n",
               "SCAN 0": b"*2\r\n$1\r\n0\r\n*1\r\n$5\r\nother\r\n", "RANDOMKEY": b"$5\r\nother\r\n",
               "GET k;GET k;GET k;GET k;GET k;GET k;GET k;GET k;GET k": b"$-1\r\n" * 9}  # fmt: skip
    assert {text: replica.ask(text) for text in nothing} == nothing
    assert [*replica.engine.state.keyspace[0].values] == [b"k", b"other", b"s"]

    primary.is_stopped = False
    world.go_on(lambda: replica.ask("DBSIZE") == b":1\r\n")
    assert state_of(replica) == state_of(primary)


def test_randomkey_ends_where_all_keys_have_expired(pair):
    world, primary, replica = pair
    primary.ask("SET k v PX 50")
    world.link_up(replica, primary)
    primary.is_stopped = True
    world.clock.advance(1_000)
    assert replica.ask("RANDOMKEY") == b"$1\r\nk\r\n"


def test_expired_fields_are_hidden_and_stay_until_the_primary_removes_them(pair):
    world, primary, replica = pair
    primary.ask("HSET h a 1 b 2 c 3;HPEXPIRE h 50 FIELDS 1 a;HPEXPIRE h 9000 FIELDS 1 b")
    primary.ask("HSET all a 1;HPEXPIRE all 50 FIELDS 1 a")
    world.link_up(replica, primary)
    primary.is_stopped = True
    world.clock.advance(1_000)
    world.settle()

    shown = {"HGET h a": b"$-1\r\n", "HLEN h": b":2\r\n", "HEXISTS h a": b":0\r\n", "HSTRLEN h a": b":0\r\n",
             "HGETALL h": b"*4\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n",
             "HKEYS h": b"*2\r\n$1\r\nb\r\n$1\r\nc\r\n",
             "HMGET h a b": b"*2\r\n$-1\r\n$1\r\n2\r\n", "HPTTL h FIELDS 1 a": b"*1\r\n:-2\r\n",
             "EXISTS all": b":0\r\n",
             "HGETALL all": b"*0\r\n"}  # fmt: skip
    assert {text: replica.ask(text) for text in shown} == shown
    assert dict(replica.engine.state.keyspace[0].values[b"h"]) == {b"a": b"1", b"b": b"2", b"c": b"3"}

    primary.is_stopped = False
    world.go_on(lambda: replica.ask("DBSIZE") == b":1\r\n")
    world.link_up(replica, primary)
    assert state_of(replica) == state_of(primary)


def test_windows_are_not_swept_and_end_when_the_replica_is_promoted(pair):
    world, primary, replica = pair
    primary.ask("XADD s IDMP p 1 * f v;SET k v PX 1000")
    world.link_up(replica, primary)
    primary.is_stopped = True
    world.clock.advance(200_000)
    world.settle()
    assert len(replica.engine.state.sweeper) == 1
    replica.ask("REPLICAOF NO ONE")
    world.settle()
    assert len(replica.engine.state.sweeper) == 0
    assert replica.ask("DBSIZE") == b":1\r\n"


@pytest.mark.parametrize(
    "write",
    ["SET k v", "DEL k", "XADD s * f v", "XREADGROUP GROUP g c STREAMS s >", "XACK s g 1-1", "FLUSHALL",
     "XCFGSET s IDMP-MAXSIZE 3",
     "XAUTOCLAIM s g c 0 0", "GETEX k PERSIST", "FUNCTION FLUSH", "SWAPDB 0 1", "SORT l STORE m", "PEXPIRE k 1"],
)  # fmt: skip
def test_writes_are_refused(pair, write):
    world, primary, replica = pair
    primary.ask("SET k v;XADD s 1-1 f v;XGROUP CREATE s g 0")
    world.link_up(replica, primary)
    before = state_of(replica)
    assert replica.ask(write) == READONLY
    assert replica.ask(f"MULTI;{write};EXEC") == b"+OK\r\n" + READONLY + (
        b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    )
    assert state_of(replica) == before


def test_a_script_may_read_and_not_write(pair):
    world, primary, replica = pair
    primary.ask("SET k v")
    world.link_up(replica, primary)
    client = replica.connect()
    for script, answer in (
        (b"return redis.call('GET','k')", b"$1\r\nv\r\n"),
        (b"return redis.call('SET','k','w')", b"-READONLY You can't write against a read only replica."),
        (b"return redis.pcall('XADD','s','*','f','v')", b"-READONLY You can't write against a read only replica."),
    ):
        before = len(replica.replies[client])
        replica.run([b"EVAL", script, b"0"], client=client)
        replica.end_turn()
        world.settle()
        assert b"".join(replica.replies[client][before:]).startswith(answer)
    assert state_of(replica) == state_of(primary)


def test_a_transaction_begun_before_the_demotion_writes_nothing():
    world = World(5)
    node = Node(world, 1)
    client = node.connect()
    node.ask("MULTI;SET k v", client)
    node.ask("REPLICAOF 127.0.0.1 9")
    assert node.ask("EXEC", client).startswith((b"-READONLY", b"-EXECABORT", b"-UNBLOCKED"))
    assert node.ask("EXISTS k") == b":0\r\n"


def test_transactions_that_watch_a_key_see_the_primarys_writes(pair):
    world, primary, replica = pair
    client = replica.connect()
    replica.ask("WATCH k;MULTI;GET k", client)
    primary.ask("SET k v")
    world.link_up(replica, primary)
    assert replica.ask("EXEC", client) == b"*-1\r\n"


def test_streams_that_a_promoted_server_makes_have_its_own_settings(pair):
    world, primary, replica = pair
    primary.ask("CONFIG SET stream-idmp-maxsize 7;XADD s IDMP p 1 * f v")
    world.link_up(replica, primary)
    assert state_of(replica) == state_of(primary)
    replica.ask("REPLICAOF NO ONE")
    replica.ask("XADD t IDMP p 1 * f v")
    here = state_of(replica)
    replica.die()
    assert state_of(replica.start_again()) == here


@pytest.mark.parametrize("skew_ms", [0, -3_600_000, 3_600_000])
def test_windows_of_producers_that_have_gone_are_freed_a_minute_after_the_primarys_clock(skew_ms):
    world = World(5)
    world.skews_ms[2] = skew_ms
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    primary.ask(
        "XADD s 1-1 f v;XCFGSET s IDMP-DURATION 100;" + ";".join(f"XADD s IDMP p{n} 1 * f v" for n in range(300))
    )
    world.link_up(replica, primary)
    table = replica.engine.state.keyspace[0].values[b"s"].idmp

    def pass_s(seconds):
        until_ms = world.clock.monotonic_ms() + seconds * 1_000
        world.go_on(lambda: world.clock.monotonic_ms() >= until_ms)

    pass_s(150)
    assert primary.ask("XADD s IDMP p1 1 * f v") != primary.ask("XADD s IDMP p2 2 * f v")
    assert primary.engine.state.keyspace[0].values[b"s"].idmp.pids_tracked == 2
    assert table.pids_tracked >= 300
    pass_s(30)
    assert table.pids_tracked == 2


READS = (
    "GET k", "MGET k k", "EXISTS k", "STRLEN k", "HGET h a", "HGETALL h", "HMGET h a b", "HLEN h", "HGET t a",
    "HGETALL t", "ZSCORE z m", "ZRANGE z 0 -1", "SISMEMBER m a", "LRANGE l 0 -1", "XRANGE s - + COUNT 2", "XLEN s",
    "XREAD COUNT 2 STREAMS s 0", "XREVRANGE s + - COUNT 2", "TTL k", "TYPE k", "XPENDING s g", "GETRANGE k 0 9",
)  # fmt: skip


@pytest.mark.parametrize("ends", [True, False])
def test_reads_of_a_batch_answer_what_single_ones_do(pair, ends):
    world, primary, replica = pair
    primary.ask(
        "SET k v;HSET h a 1 b 2;HSET t a 1 b 2;ZADD z 1 m;SADD m a;RPUSH l 1;XADD s 1-1 f v;XGROUP CREATE s g 0"
    )
    primary.ask("HPEXPIRE t 50 FIELDS 1 a")
    for key in ("k", "h", "z", "m", "l", "s") if ends else ():
        primary.ask(f"PEXPIRE {key} 50")
    world.link_up(replica, primary)
    primary.is_stopped = True
    world.clock.advance(1_000)
    for text in READS:
        assert replica.ask(";".join([text] * 9)) == replica.ask(text) * 9, text
    assert replica.ask(";".join(READS)) == b"".join(map(replica.ask, READS))


def test_writes_in_a_batch_of_reads_are_refused(pair):
    _, _, replica = pair
    assert replica.ask("GET k;SET k v;GET k;MULTI;GET k;SET k v;EXEC").count(READONLY) == 2
    assert replica.ask("MULTI;GET k;GET k;EXEC").endswith(b"*2\r\n$-1\r\n$-1\r\n")
    assert replica.ask("EVAL redis.call('set','k','v') 0").startswith(READONLY[:9])


def test_growth_is_refused_in_a_batch_of_reads_while_memory_is_full(pair):
    _, primary, _ = pair
    primary.engine.state.refuse_growth(is_full=True)
    said = primary.ask("GET k;SET k v;GET k;DEL k;MULTI;SET k v;EXEC")
    assert said.count(b"-OOM") == 2
    assert b"-EXECABORT" in said
    primary.engine.state.refuse_growth(is_full=False)
    assert primary.ask("SET k v") == b"+OK\r\n"


@pytest.mark.parametrize(
    "write", ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "DEL k", "RENAME other k", "MOVE k 1", "GETDEL k"]
)
def test_transactions_that_watch_a_key_see_what_happens_to_its_database(pair, write):
    world, primary, replica = pair
    primary.ask("SET k v;SET other w;SELECT 1;SET k one")
    world.link_up(replica, primary)
    client = replica.connect()
    replica.ask("WATCH k;MULTI;GET k", client)
    if write.startswith("MOVE"):
        primary.ask("SELECT 1;DEL k")
    primary.ask(write)
    world.link_up(replica, primary)
    assert replica.ask("EXEC", client) == b"*-1\r\n"


def test_transactions_that_watch_a_key_see_a_whole_copy(pair):
    world, primary, replica = pair
    primary.ask("SET k v")
    world.link_up(replica, primary)
    replica.ask("REPLICAOF NO ONE;SET k own")
    watching, tracking = replica.connect(), replica.connect()
    replica.ask("WATCH k;MULTI;GET k", watching)
    replica.ask("HELLO 3;CLIENT TRACKING ON;GET k", tracking)
    before = len(replica.replies[tracking])
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.replication.link.copies == 2
    assert replica.ask("EXEC", watching) == b"*-1\r\n"
    assert b"invalidate" in b"".join(replica.replies[tracking][before:])


@pytest.mark.parametrize("write", ["SET k w", "FLUSHALL", "DEL k", "RENAME other k", "PEXPIRE k 99999"])
def test_clients_that_keep_a_key_hear_of_the_primarys_writes(pair, write):
    world, primary, replica = pair
    primary.ask("SET k v;SET other w;SELECT 1;SET k one")
    world.link_up(replica, primary)
    client = replica.connect()
    replica.ask("HELLO 3;CLIENT TRACKING ON;GET k", client)
    before = len(replica.replies[client])
    primary.ask(write)
    world.link_up(replica, primary)
    world.settle()
    assert b"invalidate" in b"".join(replica.replies[client][before:])
