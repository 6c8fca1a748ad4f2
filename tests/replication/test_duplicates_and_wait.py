"""A duplicate, whichever way it comes, is never called replicated while only the primary has its entry."""

import pytest

from tests.replication.cluster import Node, World, state_of

NAMED = "XADD s IDMP p 1 * f v"
SCRIPT = b"return redis.call('XADD', KEYS[1], 'IDMP', 'p', '1', '*', 'f', 'v')"
SCRIPT_AUTO = b"return redis.pcall('XADD', KEYS[1], 'IDMPAUTO', 'p', '*', 'f', 'v')"
LIBRARY = (
    b"#!lua name=l\nredis.register_function('again', function(keys) return redis.call('XADD', keys[1], 'IDMP', 'p', "
    b"'1', '*', 'f', 'v') end)"
)
WAYS = {
    "alone": [b"XADD s IDMP p 1 * f v"],
    "by its content": [b"XADD s IDMPAUTO p * f v"],
    "with other fields": [b"XADD s NOMKSTREAM IDMP p 1 * f other"],
    "with a trim": [b"XADD s IDMP p 1 MAXLEN 100 * f v"],
    "in a transaction": [b"MULTI", b"XADD s IDMP p 1 * f v", b"EXEC"],
    "by its content in a transaction": [b"MULTI", b"GET k", b"XADD s IDMPAUTO p * f v", b"EXEC"],
    "in a script": [[b"EVAL", SCRIPT, b"1", b"s"]],
    "by its content in a script": [[b"EVAL", SCRIPT_AUTO, b"1", b"s"]],
    "in a script in a transaction": [b"MULTI", [b"EVAL", SCRIPT, b"1", b"s"], b"EXEC"],
    "in a function": [b"FCALL again 1 s"],
    "of an entry that was deleted": [b"XTRIM s MAXLEN 0", b"XADD s IDMP p 1 * f v"],
    "behind reads": [b"XLEN s", b"GET k", b"XADD s IDMP p 1 * f v", b"GET k", b"XRANGE s - +"],
    "many times": [b"XADD s IDMP p 1 * f v"] * 40,
}


@pytest.fixture(params=["everysec", "always"])
def pair(request):
    world = World(11)
    primary, replica = (Node(world, port, appendfsync=request.param) for port in (1, 2))
    primary.run([b"FUNCTION", b"LOAD", LIBRARY])
    primary.end_turn_soon()
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    world.settle()
    return world, primary, replica


def begin(node, requests, client):
    """Execute requests in a turn, of which some have words with spaces."""
    node.run(*(one.split() if isinstance(one, bytes) else one for one in requests), client=client)
    node.end_turn_soon()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wait", ["WAIT 1 100", "WAITAOF 0 1 100"])
def test_a_duplicate_on_a_new_connection_waits_for_its_entry(pair, way, wait):
    world, primary, replica = pair
    replica.is_stopped = True
    made = primary.ask("XADD s IDMPAUTO p * f v" if "content" in way else NAMED)
    again = primary.connect()
    begin(primary, WAYS[way], again)
    world.settle()
    assert made in b"".join(primary.replies[again])

    assert primary.ask(wait, again).endswith(b":0\r\n")

    replica.is_stopped = False
    assert primary.ask(wait.replace("100", "0"), again).endswith(b":1\r\n")
    assert state_of(replica) == state_of(primary)


@pytest.mark.parametrize("first", ["alone", "in a transaction", "in a script", "many times"])
@pytest.mark.parametrize("then", ["alone", "in a transaction", "in a script", "in a function", "many times"])
def test_clients_that_write_one_name_in_one_turn_all_wait_for_it(pair, first, then):
    world, primary, replica = pair
    replica.is_stopped = True
    clients = [primary.connect() for _ in range(5)]
    for number, client in enumerate(clients):
        begin(primary, [*WAYS[then if number else first], b"WAIT 1 100"], client)
    world.go_on(lambda: all(b"".join(primary.replies[client]).endswith(b":0\r\n") for client in clients))
    assert primary.ask("XLEN s") == b":1\r\n"
    for number, client in enumerate(clients):
        begin(primary, [*WAYS[then if number else first], b"WAIT 1 0"], client)
    world.settle()
    assert not any(b"".join(primary.replies[client]).endswith(b":1\r\n") for client in clients)
    replica.is_stopped = False
    world.go_on(lambda: all(b"".join(primary.replies[client]).endswith(b":1\r\n") for client in clients))
    assert state_of(replica) == state_of(primary)


@pytest.mark.parametrize("count", [2, 30])
def test_a_batch_of_old_and_new_names_of_several_clients_waits_for_the_last(pair, count):
    world, primary, replica = pair
    batches = [[b"XADD s IDMP p%d %d * f v" % (one, n) for n in range(count)] for one in range(3)]
    for batch in batches:
        begin(primary, batch[: count // 2], primary.connect())
    world.link_up(replica, primary)
    world.settle()
    replica.is_stopped = True
    clients = [primary.connect() for _ in batches]
    for client, batch in zip(clients, batches, strict=True):
        begin(primary, [*batch[: count // 2], b"WAIT 1 100"], client)  # these the replica has, but for their counts
    world.go_on(lambda: all(b"".join(primary.replies[client]).count(b":0\r\n") == 1 for client in clients))
    for client, batch in zip(clients, batches, strict=True):
        begin(primary, [*batch, *batch, b"WAIT 1 100"], client)
    world.go_on(lambda: all(b"".join(primary.replies[client]).count(b":0\r\n") == 2 for client in clients))
    replica.is_stopped = False
    assert [primary.ask("WAIT 1 0", client) for client in clients] == [b":1\r\n"] * 3
    assert replica.ask("XLEN s") == b":%d\r\n" % (3 * count)


def test_a_duplicate_waits_for_a_replica_that_takes_its_copy_later(pair):
    """The entry is older than the replica, and so no frame has it."""
    world, primary, replica = pair
    replica.ask("REPLICAOF NO ONE")
    world.settle()
    primary.ask(NAMED)
    again = primary.connect()
    assert primary.ask(NAMED + ";WAIT 1 100", again).endswith(b":0\r\n")
    waiting = primary.begin(NAMED + ";WAIT 1 0", primary.connect())
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.go_on(lambda: b"".join(waiting).endswith(b":1\r\n"))
    assert replica.ask("XLEN s") == b":1\r\n"


def test_wait_counts_in_the_history_that_begins_after_a_bug(pair):
    """A bug may have left the replica with another state, so it copies everything: an earlier write is part of that."""
    world, primary, replica = pair
    client = primary.connect()
    for number in range(20):
        primary.ask(f"SET k {number}", client)
    before = primary.fields()["master_replid"]
    primary.engine.state.note_bug("a test", error=RuntimeError("of a test"))
    world.link_up(replica, primary)
    assert primary.fields()["master_replid"] != before
    assert primary.ask("WAIT 1 0", client) == b":1\r\n"
    assert state_of(replica) == state_of(primary)
