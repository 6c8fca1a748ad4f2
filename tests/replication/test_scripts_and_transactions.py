"""Transactions and scripts meet the role that a server has when they are executed."""

import pytest

from tests.replication.cluster import Node, World

WRITING = b"#!lua\nreturn redis.call('get', 'k')"
READING = b"#!lua flags=no-writes\nreturn redis.call('get', 'k')"
STALE = b"#!lua flags=no-writes,allow-stale\nreturn 1"


def run(node, *words, client=None):
    """Execute a request in this moment, with no later turn, and return the reply."""
    client = client or node.connect()
    before = len(client.out)
    node.run([*words], client=client)
    return b"".join(client.out[before:])


@pytest.fixture
def node():
    node = Node(World(), 1)
    node.ask("SET k v")
    return node


@pytest.mark.parametrize("queued", [b"GET k", b"PING"])
def test_exec_is_refused_when_a_replica_became_stale_after_reads_were_queued(node, queued):
    node.ask("CONFIG SET replica-serve-stale-data no")
    client = node.connect()
    run(node, b"MULTI", client=client)
    assert run(node, *queued.split(), client=client) == b"+QUEUED\r\n"
    assert run(node, b"REPLICAOF", b"127.0.0.1", b"9") == b"+OK\r\n"
    reply = run(node, b"EXEC", client=client)
    assert reply.startswith(b"-EXECABORT Transaction discarded because of: MASTERDOWN ")


def test_a_transaction_of_what_a_stale_replica_answers_is_executed(node):
    node.ask("CONFIG SET replica-serve-stale-data no")
    node.ask("REPLICAOF 127.0.0.1 9")
    client = node.connect()
    for words in ((b"MULTI",), (b"INFO", b"replication"), (b"REPLICAOF", b"NO", b"ONE")):
        run(node, *words, client=client)
    assert run(node, b"EXEC", client=client).endswith(b"+OK\r\n")
    assert node.ask("GET k") == b"$1\r\nv\r\n"


def test_a_server_that_becomes_a_replica_is_stale_at_once(node):
    node.ask("CONFIG SET replica-serve-stale-data no")
    run(node, b"REPLICAOF", b"127.0.0.1", b"9")
    assert run(node, b"GET", b"k").startswith(b"-MASTERDOWN ")
    run(node, b"REPLICAOF", b"NO", b"ONE")
    assert run(node, b"GET", b"k") == b"$1\r\nv\r\n"


@pytest.mark.parametrize(
    ("request_", "code"),
    [("CONFIG SET min-replicas-to-write 1", b"-NOREPLICAS "), ("REPLICAOF 127.0.0.1 9", b"-READONLY ")],
)
def test_a_script_that_may_write_is_refused_where_writes_are(node, request_, code):
    node.ask(request_)
    assert run(node, b"EVAL", WRITING, b"0").startswith(code)
    assert run(node, b"EVAL", READING, b"0") == b"$1\r\nv\r\n"


def test_on_a_stale_replica_scripts_run_that_say_so(node):
    node.ask("CONFIG SET replica-serve-stale-data no")
    node.ask("REPLICAOF 127.0.0.1 9")
    assert run(node, b"EVAL", READING, b"0").startswith(b"-MASTERDOWN ")
    assert run(node, b"EVAL", STALE, b"0") == b":1\r\n"
