"""WAIT counts the replicas whose journal has a client's last write, and duplicates are writes."""

import pytest

from tests.replication.cluster import Node, World

NAMED = "XADD s IDMP p {} * f v"


@pytest.fixture(params=["everysec", "always", "no"])
def pair(request):
    world = World(7)
    primary, replica = (Node(world, port, appendfsync=request.param) for port in (1, 2))
    assert replica.ask("REPLICAOF 127.0.0.1 1") == b"+OK\r\n"
    world.link_up(replica, primary)
    world.settle()
    return world, primary, replica


def test_a_write_is_counted_once_the_replica_has_it(pair):
    _world, primary, replica = pair
    assert primary.ask("SET k v;WAIT 1 0") == b"+OK\r\n:1\r\n"
    assert replica.ask("GET k") == b"$1\r\nv\r\n"
    assert primary.ask("SET k w;WAIT 2 100") == b"+OK\r\n:1\r\n"


def test_it_asks_at_once_and_does_not_wait_for_the_acknowledgement_of_each_second(pair):
    world, primary, _replica = pair
    before_ms = world.clock.monotonic_ms()
    for number in range(5):
        assert primary.ask(f"SET k {number};WAIT 1 0") == b"+OK\r\n:1\r\n"
    assert world.clock.monotonic_ms() - before_ms < 1_000


def test_nothing_is_counted_that_a_stopped_replica_has_not_acknowledged(pair):
    world, primary, replica = pair
    replica.is_stopped = True
    assert primary.ask("SET k v;WAIT 1 500") == b"+OK\r\n:0\r\n"
    waiting = primary.begin("SET k w;WAIT 1 0")
    world.settle()
    replica.is_stopped = False
    world.go_on(lambda: waiting == [b"+OK\r\n", b":1\r\n"] or waiting == [b"+OK\r\n:1\r\n"])


@pytest.mark.parametrize("again", [NAMED.format(1), "MULTI;" + NAMED.format(1) + ";EXEC"])
def test_a_duplicate_on_a_new_connection_waits_for_its_entry(pair, again):
    _world, primary, replica = pair
    assert primary.ask(NAMED.format(0) + ";WAIT 1 0").endswith(b":1\r\n")
    replica.is_stopped = True
    made = primary.ask(NAMED.format(1))

    assert made.rstrip() in primary.ask(again)
    assert primary.ask(again + ";WAIT 1 100").endswith(b":0\r\n")

    replica.is_stopped = False
    assert primary.ask(again + ";WAIT 1 0").endswith(b":1\r\n")
    assert replica.ask("XLEN s") == b":2\r\n"


def test_a_duplicate_of_a_script_or_without_a_name_waits_for_its_entry(pair):
    world, primary, replica = pair
    script = "return redis.call('XADD','s','IDMP','p','1','*','f','v')"
    for client in (1, 2):
        assert primary.ask("XADD s IDMPAUTO p * f v;WAIT 1 0").endswith(b":1\r\n"), client
    client = primary.connect()
    primary.ask(NAMED.format(1))
    world.settle()
    replica.is_stopped = True
    primary.ask("XADD t IDMPAUTO p * f v")
    assert primary.ask("XADD t IDMPAUTO p * f v;WAIT 1 100").endswith(b":0\r\n")
    primary.run([b"EVAL", script.encode(), b"1", b"s"], client=client)
    primary.end_turn()
    world.settle()
    assert primary.ask("WAIT 1 100", client) == b":0\r\n"


@pytest.mark.parametrize(
    "again",
    ["XACK s g 1-1", "XACK s g 1-1;XACK s g 1-2;" * 4 + "XACK s g 1-1", "XACKDEL s g KEEPREF IDS 2 1-1 1-2"],
)
@pytest.mark.parametrize("as_unit", [False, True])
def test_an_acknowledgement_that_is_repeated_on_a_new_connection_waits_for_the_first_one(pair, again, as_unit):
    world, primary, replica = pair
    primary.ask("XGROUP CREATE s g 0 MKSTREAM;XADD s 1-1 f v;XADD s 1-2 f v;XREADGROUP GROUP g c STREAMS s >")
    world.settle()
    replica.is_stopped = True
    assert primary.ask("XACK s g 1-1 1-2") == b":2\r\n"

    request = f"MULTI;{again};EXEC" if as_unit else again
    assert primary.ask(request + ";WAIT 1 100").endswith(b":0\r\n")

    replica.is_stopped = False
    assert primary.ask(request + ";WAIT 1 0").endswith(b":1\r\n")


def test_each_client_of_a_batch_waits_for_its_own_entries(pair):
    world, primary, replica = pair
    replica.is_stopped = True
    batches = [";".join(f"XADD s IDMP p{one} {n} * f v" for n in range(12)) for one in range(3)]
    clients = [primary.connect() for _ in batches]
    for client, batch in zip(clients, batches, strict=True):
        primary.begin(batch, client)
    world.settle()
    for client in clients:
        assert primary.ask("WAIT 1 100", client) == b":0\r\n"
    again = [primary.connect() for _ in batches]
    for client, batch in zip(again, batches, strict=True):
        assert primary.ask(batch + ";WAIT 1 100", client).endswith(b":0\r\n")
    replica.is_stopped = False
    for client in clients + again:
        assert primary.ask("WAIT 1 0", client) == b":1\r\n"


def test_a_client_that_has_written_nothing_gets_all_at_once(pair):
    _world, primary, replica = pair
    primary.ask("SET k v")
    replica.is_stopped = True
    client = primary.connect()
    primary.ask("GET k", client)
    primary.ask("DEL missing", client)
    assert primary.ask("WAIT 1 0", client) == b":1\r\n"
    assert primary.ask("WAIT 0 0", client) == b":1\r\n"


def test_it_never_blocks_in_a_transaction(pair):
    _world, primary, replica = pair
    replica.is_stopped = True
    reply = primary.ask("SET k v;MULTI;SET k w;WAIT 1 0;EXEC")
    assert reply.endswith(b"*2\r\n+OK\r\n:0\r\n")


def test_a_replica_that_has_gone_is_not_counted_and_counts_again_when_it_is_back(pair):
    world, primary, replica = pair
    replica.die()
    world.settle()
    for wire in world.wires:
        wire.break_off()
        wire.connection.connection_lost(None)
    assert primary.ask("SET k v;WAIT 1 100") == b"+OK\r\n:0\r\n"
    waiting = primary.begin("SET k w;WAIT 1 0")
    replica = replica.start_again()
    world.go_on(lambda: b"".join(waiting) == b"+OK\r\n:1\r\n")
    assert replica.ask("GET k") == b"$1\r\nw\r\n"


def test_it_counts_two_replicas(pair):
    world, primary, _replica = pair
    other = Node(world, 3)
    other.ask("REPLICAOF 127.0.0.1 1")
    assert primary.ask("SET k v;WAIT 2 0") == b"+OK\r\n:2\r\n"
    other.is_stopped = True
    assert primary.ask("SET k w;WAIT 2 300") == b"+OK\r\n:1\r\n"


def test_a_replica_that_cannot_write_its_journal_acknowledges_nothing(pair):
    _world, primary, replica = pair
    if replica.engine.state.config.values["appendfsync"] == "always":
        pytest.skip("it ends then")
    replica.disk.fail_at, replica.disk.fails_for = replica.disk.operations + 1, 10**9
    assert primary.ask("SET k v;WAIT 1 3000") == b"+OK\r\n:0\r\n"
    replica.disk.fail_at = 0
    assert primary.ask("SET k w;WAIT 1 0") == b"+OK\r\n:1\r\n"


def test_wait_at_a_replica_is_an_error(pair):
    _world, _primary, replica = pair
    assert replica.ask("WAIT 1 0").startswith(b"-ERR WAIT cannot be used with replica instances.")
