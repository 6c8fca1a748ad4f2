"""INFO has what Sentinels read in each state of a server, and PING what they take for a sign of life."""

import asyncio
import socket

import pytest

from streamd.configuration.server_options import Config
from streamd.net.server import Server
from streamd.testing import Clock, EmbeddedServer
from tests.crash.simulated_disk import SimulatedDisk
from tests.replication.cluster import BEGAN_MS, Node, TickingClock, World
from tests.session import Error, decode

# Without master_host a Sentinel crashes, without the others it does not elect, or takes the wrong one.
OF_ALL = {"role", "connected_slaves", "master_failover_state", "master_replid", "master_repl_offset"}
OF_A_REPLICA = OF_ALL | {
    "master_host", "master_port", "master_link_status", "slave_repl_offset", "slave_priority", "replica_announced",
}  # fmt: skip
LINK_IS_DOWN = "master_link_down_since_seconds"
# What Sentinel 8.10.2 and 7.0.15 are content with.
RULES = (
    "+multi +slaveof +ping +exec +subscribe +config|rewrite +role +publish +info +client|setname +client|kill "
    "+script|kill &__sentinel__:*"
)
PROMOTION = "MULTI;SLAVEOF NO ONE;CONFIG REWRITE;CLIENT KILL TYPE normal;CLIENT KILL TYPE pubsub;EXEC"


def fields_of(reply):
    lines = decode(reply, 0)[0].decode().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def check(fields):
    """Raise AssertionError unless a Sentinel can work with the fields."""
    assert len(fields["run_id"]) == 40
    wanted = OF_A_REPLICA if fields["role"] == "slave" else OF_ALL
    assert wanted <= set(fields)
    if fields["role"] == "slave":
        assert fields["master_host"]
        assert int(fields["slave_repl_offset"]) >= 0
        assert (LINK_IS_DOWN in fields) == (fields["master_link_status"] == "down")
        assert 0 <= int(fields.get(LINK_IS_DOWN, 0)) < 1_000
    for number in range(int(fields["connected_slaves"])):
        assert fields[f"slave{number}"].startswith("ip=127.0.0.1,port=")


def info(node):
    fields = fields_of(node.ask("INFO"))
    check(fields)
    return fields


def is_alive(reply):
    """Return whether a Sentinel takes a reply of PING for a sign of life."""
    return reply.startswith((b"+PONG", b"-LOADING", b"-MASTERDOWN"))


@pytest.mark.parametrize("stale", ["yes", "no"])
def test_every_state_of_a_link_has_all_fields_and_answers_ping(stale):
    world = World(2)
    world.clock.tick_us = 700
    primary, replica = Node(world, 1), Node(world, 2)
    for number in range(300):
        primary.ask(f"SET k{number} {'v' * 1_000}")
    replica.ask(f"CONFIG SET replica-serve-stale-data {stale}")
    replica.begin("REPLICAOF 127.0.0.1 1")
    link, seen = replica.replication.link, set()
    for _ in range(10_000):
        if link.state not in seen:
            seen.add(link.state)
            client = replica.connect()
            replica.run([b"PING"], [b"INFO"], client=client)
            assert len(client.out) == 2
            assert is_alive(client.out[0])
            fields = fields_of(client.out[1])
            check(fields)
            assert fields["role"] == "slave"
            assert fields["master_sync_in_progress"] == str(int(link.state in ("sync", "load")))
        info_of_primary = primary.fields()
        assert info_of_primary["role"] == "master"
        if link.state == "connected":
            break
        if not world.step():
            world.clock.advance(100)
            replica.engine.tick()
    assert seen == {"connecting", "handshake", "sync", "load", "connected"}
    assert info(primary)["slave0"].startswith("ip=127.0.0.1,port=2,state=")
    primary.die()
    world.go_on(lambda: link.state == "connect" and link.attempts > 2)
    world.clock.advance(5_000)
    assert int(info(replica)[LINK_IS_DOWN]) >= 5
    assert info(replica)["slave_priority"] == "100"


def test_a_replica_that_has_had_no_copy_yet_has_the_priority_that_no_sentinel_elects():
    """Nobody would follow it: what only it has is another data set than that of its primary."""
    world = World(5)
    primary, replica, other = (Node(world, port) for port in (1, 2, 3))
    primary.ask("SET k v")
    replica.begin("REPLICAOF 127.0.0.1 1")
    assert info_now(replica)["slave_priority"] == "0"
    world.link_up(replica, primary)
    other.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(other, primary)
    world.settle()
    assert info(replica)["slave_priority"] == "100"
    replica.die()
    replica = replica.start_again()
    assert info_now(replica)["slave_priority"] == "100"
    world.link_up(replica, primary)

    primary.die()
    primary = primary.start_again(SimulatedDisk())
    primary.ask("SET other v")
    attempts = replica.replication.link.attempts
    world.go_on(lambda: replica.replication.link.attempts >= attempts + 3)
    assert info_now(replica)["slave_priority"] == "100"  # it has the data, and is to be elected
    replica.ask("REPLICAOF NO ONE")
    primary.begin("REPLICAOF 127.0.0.1 2")
    primary.end_turn_soon()
    primary.engine.end_turn()
    assert info_now(primary)["slave_priority"] == "0"
    primary.die()
    primary = primary.start_again()
    assert info_now(primary)["slave_priority"] == "0"
    world.link_up(primary, replica)
    assert info(primary)["slave_priority"] == "100"


def test_a_failover_by_hand_and_a_promotion_have_all_fields_at_each_step():
    world = World(4)
    nodes = [Node(world, port) for port in (1, 2)]
    nodes[1].ask("REPLICAOF 127.0.0.1 1")
    world.link_up(nodes[1], nodes[0])
    states = set()
    nodes[0].ask("FAILOVER TO 127.0.0.1 2")
    for _ in range(2_000):
        for node in nodes:
            states.add((node.port, info_now(node)["role"], info_now(node)["master_failover_state"]))
        if not world.step():
            break
    world.link_up(nodes[0], nodes[1])
    assert {(1, "slave", "no-failover"), (2, "master", "no-failover")} <= states | {
        (node.port, info(node)["role"], info(node)["master_failover_state"]) for node in nodes
    }
    nodes[0].ask("REPLICAOF NO ONE")
    assert info(nodes[0])["role"] == "master"


def info_now(node):
    """Return INFO without letting anything else happen."""
    client = node.connect()
    node.run([b"INFO"], client=client)
    fields = fields_of(client.out[0])
    check(fields)
    return fields


@pytest.mark.parametrize(("how", "role"), [("note", "slave"), ("option", "slave"), ("primary", "master")])
def test_a_server_that_loads_its_journal_shows_the_role_that_it_will_take(tmp_path, how, role):
    asyncio.run(_write_journal(tmp_path, how))
    seen = asyncio.run(_load_journal(tmp_path, {"replicaof": "127.0.0.1 1"} if how == "option" else {}))
    assert len(seen) > 3
    for ping, fields in seen:
        assert is_alive(ping)
        assert ping.startswith(b"-LOADING")
        check(fields)
    # The note of a role stands at the beginning of what a rewrite has left.
    assert {fields["role"] for _, fields in seen[1:]} == {role}
    if role == "slave":
        assert {fields["slave_repl_offset"] for _, fields in seen[1:]} == {"0"}


def options(place, **more):
    return Config(port=0, bind="127.0.0.1", appendonly=True, dir=str(place), **more)


async def _write_journal(place, how):
    server = Server(options(place), TickingClock(BEGAN_MS))
    await server.start()
    client = server.engine.connect()
    for number in range(3_000):
        server.engine.run(client, [[b"RPUSH", b"l%d" % number, b"v"]])
    if how == "note":
        server.engine.run(client, [[b"REPLICAOF", b"127.0.0.1", b"1"]])
    server.engine.run(client, [[b"SAVE"]])
    server.engine.end_turn()
    server.request_stop()
    await server.stopped.wait()


async def _load_journal(place, given):
    clock = TickingClock(BEGAN_MS)
    server = Server(options(place, **given), clock)
    clock.tick_us = 100_000
    seen = []

    def look(persistence):
        client = server.engine.connect()
        server.engine.run(client, [[b"PING"], [b"INFO"]])
        seen.append((client.out[0], fields_of(client.out[1])))
        client.out.clear()

    await server.start(look)
    clock.tick_us = 0
    server.request_stop()
    await server.stopped.wait()
    return seen


class Raw:
    """A connection that sends inline requests."""

    def __init__(self, server, *first):
        self.sock = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.data = b""
        for line in first:
            assert not isinstance(self.ask(line), Error)

    def reply(self):
        while True:
            try:
                found, at = decode(self.data, 0)
            except (ValueError, IndexError):
                more = self.sock.recv(1 << 16)
                if not more:
                    raise ConnectionError
                self.data += more
                continue
            self.data = self.data[at:]
            return found

    def ask(self, line):
        self.sock.sendall(line.encode() + b"\r\n")
        return self.reply()

    def info(self):
        lines = self.ask("INFO").decode().splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        check(fields)
        return fields

    def is_closed(self):
        try:
            return not self.sock.recv(1 << 16)
        except OSError:
            return True


@pytest.fixture
def server(tmp_path):
    with EmbeddedServer(clock=Clock(), appendonly=True, dir=str(tmp_path), busy_reply_threshold=1) as found:
        yield found


def promote(connection):
    """Send what a Sentinel sends; return the reply of EXEC."""
    *queued, ended = [connection.ask(line) for line in PROMOTION.split(";")]
    assert queued == ["OK", *["QUEUED"] * 4]
    return ended


def test_a_user_with_the_rules_of_a_sentinel_can_do_all_that_one_does(server):
    admin = Raw(server)
    assert admin.ask(f"ACL SETUSER sentinel on >secret {RULES}") == "OK"
    assert admin.ask("REPLICAOF 127.0.0.1 1") == "OK"
    commands, pubsub = (Raw(server, "AUTH sentinel secret", "CLIENT SETNAME sentinel-1") for _ in range(2))
    assert pubsub.ask("SUBSCRIBE __sentinel__:hello")
    assert commands.ask("PING") == "PONG"
    assert commands.ask("PUBLISH __sentinel__:hello text") == 1
    assert commands.info()["role"] == "slave"
    assert commands.ask("ROLE")[0] == b"slave"

    replies = promote(commands)

    assert replies[0] == "OK"
    assert isinstance(replies[1], Error)  # there is no file
    assert commands.ask("PING") == "PONG"
    assert commands.info()["role"] == "master"
    assert isinstance(commands.ask("GET k"), Error)
    assert admin.is_closed()
    pubsub.reply()  # what was published
    assert pubsub.is_closed()


def test_under_busy_a_server_answers_as_redis_does_and_its_script_can_be_killed(server):
    admin = Raw(server)
    admin.ask("REPLICAOF 127.0.0.1 1")
    running = Raw(server)
    running.sock.sendall(b"EVAL 'while true do end' 0\r\n")
    while not isinstance(answer := admin.ask("PING"), Error):
        pass
    assert answer.text.startswith("BUSY ")
    assert admin.ask("INFO").text.startswith("BUSY ")
    assert admin.ask("SCRIPT KILL") == "OK"
    while isinstance(admin.ask("PING"), Error):
        pass
    assert admin.info()["role"] == "slave"
    assert promote(admin)[0] == "OK"
    assert admin.info()["role"] == "master"


@pytest.mark.parametrize("role", ["slave", "master"])
def test_without_memory_and_with_too_many_clients_those_that_are_there_are_answered(server, role):
    admin = Raw(server)
    if role == "slave":
        admin.ask("REPLICAOF 127.0.0.1 1")
    assert admin.ask("CONFIG SET maxmemory 1mb") == "OK"
    assert admin.ask("CONFIG SET maxclients 1") == "OK"
    if role == "master":
        assert admin.ask("SET k v").text.startswith("OOM ")
    assert Raw(server).reply().text == "ERR max number of clients reached"
    assert admin.ask("PING") == "PONG"
    assert admin.info()["role"] == role
    assert promote(admin)[0] == "OK"
    assert admin.info()["role"] == "master"
