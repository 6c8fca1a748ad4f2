"""A replica takes other data than those that it is a copy of only right after a REPLICAOF of an operator."""

import pytest

from tests.crash.simulated_disk import SimulatedDisk
from tests.replication.cluster import Node, World


@pytest.fixture
def world():
    """Return a primary with two replicas: all have the key k."""
    world = World(3)
    primary, *replicas = (Node(world, port) for port in (1, 2, 3))
    primary.ask("SET k v")
    for replica in replicas:
        replica.ask("REPLICAOF 127.0.0.1 1")
        world.link_up(replica, primary)
    world.settle()
    return world


def lose(world, port):
    """Let a server come back without its disk."""
    world.nodes[port].die()
    return world.nodes[port].start_again(SimulatedDisk())


def refuses(replica):
    """Return whether a replica keeps what it has, though it tries to follow."""
    world, attempts = replica.world, replica.replication.link.attempts
    world.go_on(lambda: replica.replication.link.attempts >= attempts + 3)
    return replica.ask("GET k") == b"$1\r\nv\r\n" and replica.replication.link.state != "connected"


@pytest.mark.parametrize("written", ["", "SET other v", "XADD s IDMP p 1 * f v"])
def test_a_machine_without_its_disk_is_not_followed_whether_clients_write_to_it_or_not(world, written):
    primary = lose(world, 1)
    if written:
        primary.ask(written)
    replica = world.nodes[2]
    assert refuses(replica)

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.ask("GET k") == b"$-1\r\n"


def test_a_replicaof_does_not_count_once_the_link_was_up(world):
    new, replica = world.nodes[2], world.nodes[3]
    new.ask("REPLICAOF NO ONE")
    replica.ask("REPLICAOF 127.0.0.1 2")
    world.link_up(replica, new)
    assert replica.replication.link.copies == 1, "it went on from where it was"

    lose(world, 2)

    assert refuses(replica)


def test_what_becomes_of_servers_does_not_make_their_data_others(world):
    """A crash, a promotion, a restart of the replica and a doubt of the journal begin histories of the same data."""
    primary, replica = world.nodes[1], world.nodes[2]
    primary.die()
    primary = primary.start_again()
    primary.ask("SET k w")
    world.link_up(replica, primary)

    replica.die()
    replica = replica.start_again()
    primary.replication.doubt()
    primary.ask("SET k x")
    world.link_up(replica, primary)

    replica.ask("REPLICAOF NO ONE")
    replica.die()
    replica = replica.start_again()
    replica.ask("SET k y")
    primary.ask("REPLICAOF 127.0.0.1 2")
    world.link_up(primary, replica)
    replica.die()
    replica = replica.start_again()
    world.link_up(primary, replica)
    assert primary.ask("GET k") == b"$1\r\ny\r\n"


@pytest.mark.parametrize("how", ["killed", "killed behind a rewrite", "ended in order"])
def test_a_machine_that_was_told_to_follow_does_so_though_it_starts_again_before_its_copy(world, how):
    primary = lose(world, 1)
    primary.ask("SET other v")
    replica = world.nodes[2]
    assert refuses(replica)  # it has asked, so what the primary has is a data set of its own
    replica.ask("REPLICAOF NO ONE")

    primary.begin("REPLICAOF 127.0.0.1 2")
    primary.end_turn_soon()
    primary.engine.end_turn()
    if how == "killed behind a rewrite":
        primary.at_once, before = True, [name for name in primary.disk.names if ".base." in name]
        primary.rewrite()
        assert primary.replication.link.state == "connecting"
        assert before[0] not in primary.disk.names
    if how == "ended in order":
        primary.replication.close()
        primary.persistence.close()
    primary.die()
    primary = primary.start_again()

    world.link_up(primary, replica)
    assert primary.ask("GET k") == b"$1\r\nv\r\n"


def start_again_in_the_middle(world, replica, wanted):
    """Kill and start a replica that was told to follow, when its link is in a state and nothing else was noted."""
    replica.ask("REPLICAOF 127.0.0.1 2")
    world.link_up(replica, world.nodes[2])
    world.settle()
    replica.ask("REPLICAOF 127.0.0.1 77")
    replica.begin("REPLICAOF 127.0.0.1 2")
    replica.end_turn_soon()
    replica.engine.end_turn()
    if wanted == "up":
        link, history = replica.replication.link, replica.replication.standing.history
        world.go_on(lambda: link.state == "connected")
        replica.engine.cron()
        replica.engine.end_turn()
        assert (link.copies, replica.offset) == (1, history.offset), "it went on from where it was"
    replica.die()
    return replica.start_again()


@pytest.mark.parametrize("wanted", ["down", "up"])
def test_a_replica_that_was_told_to_follow_and_starts_again_still_has_the_data_of_the_others(world, wanted):
    """Their name, that is: else nobody follows it when it is promoted."""
    primary, new, replica = world.nodes.values()
    new.ask("REPLICAOF NO ONE")
    replica = start_again_in_the_middle(world, replica, wanted)
    if wanted == "up":
        world.link_up(replica, new)
    replica.ask("REPLICAOF NO ONE")
    replica.ask("SET k w")

    sentinel = Sentinel()
    for one in (primary, new):
        sentinel.tell(one, "127.0.0.1 3")
        world.link_up(one, replica)
        assert one.ask("GET k") == b"$1\r\nw\r\n"


def test_a_replicaof_does_not_count_once_the_link_was_up_though_the_replica_starts_again(world):
    new, replica = world.nodes[2], world.nodes[3]
    new.ask("REPLICAOF NO ONE")
    replica = start_again_in_the_middle(world, replica, "up")
    lose(world, 2).ask("SET other v")
    assert refuses(replica)


def test_a_sentinel_replaces_nothing_that_others_have_on_a_replica_that_starts_again(world, sentinel):
    """Though an operator has told it before to follow another server, and the link was not up since."""
    new, replica = world.nodes[2], world.nodes[3]
    new.ask("REPLICAOF NO ONE")
    replica = start_again_in_the_middle(world, replica, "down")
    primary = lose(world, 1)
    primary.ask("SET other v")
    sentinel.tell(replica, "127.0.0.1 1")
    assert refuses(replica)


def said(caplog, event):
    """Return the lines of a kind in the log."""
    return [one.getMessage() for one in caplog.records if event in one.getMessage()]


def test_a_refusal_names_both_ways_on_and_what_is_replaced_is_said(world, caplog):
    primary, replica = lose(world, 1), world.nodes[2]
    assert refuses(replica)
    line = said(caplog, "another data set")[0]
    assert "so 1 key here is kept: REPLICAOF NO ONE makes this server a primary, REPLICAOF 127.0.0.1 1 replaces" in line
    assert said(caplog, "replaces the 1 key here") == []

    history = replica.replication.standing.history
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    (line,) = said(caplog, "replaces the 1 key here")
    assert line.endswith(f"those of the history {history.replid} at offset {history.offset}")


def test_a_server_with_data_of_its_own_that_is_only_started_as_a_replica_keeps_them(caplog):
    world = World(3)
    primary, other = Node(world, 1), Node(world, 2)
    primary.ask("SET there v")
    other.ask("SET k v")
    other.die()
    other = other.start_again()
    other.replication.standing.primary = ("127.0.0.1", 1)  # as by --replicaof
    other.replication.begin()
    assert refuses(other)
    other.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(other, primary)
    assert other.ask("GET there") == b"$1\r\nv\r\n"


def test_the_same_reason_is_said_of_each_primary(world, caplog):
    replica = world.nodes[2]
    for port in (77, 78, 77):
        replica.ask(f"REPLICAOF 127.0.0.1 {port}")
        attempts = replica.replication.link.attempts
        world.go_on(lambda attempts=attempts: replica.replication.link.attempts > attempts + 1)
    assert [line.split(": ")[0] for line in said(caplog, "refused")] == [
        "the primary at 127.0.0.1:77",
        "the primary at 127.0.0.1:78",
    ]


class Sentinel:
    """Sends what a Sentinel sends."""

    def __init__(self) -> None:
        self._clients = {}

    def tell(self, node, where):
        """Send SLAVEOF as a Sentinel does."""
        client = self._clients.get(node)
        if client is None:
            client = self._clients[node] = node.connect()
            node.ask("CLIENT SETNAME sentinel-5e7a0b1c-cmd", client)
        node.ask(f"MULTI;SLAVEOF {where};CLIENT KILL TYPE pubsub;EXEC", client)


@pytest.fixture
def sentinel():
    return Sentinel()


@pytest.mark.parametrize("is_promoted", [False, True])
@pytest.mark.parametrize("written", ["", "SET other v"])
def test_a_sentinel_that_gives_a_failover_up_empties_nothing(world, sentinel, written, is_promoted, caplog):
    primary, replica = lose(world, 1), world.nodes[2]
    if written:
        primary.ask(written)
    assert refuses(replica)
    if is_promoted:
        sentinel.tell(replica, "NO ONE")
        assert replica.ask("ROLE").startswith(b"*3\r\n$6\r\nmaster")

    for one in (replica, world.nodes[3], replica):
        sentinel.tell(one, "127.0.0.1 1")
        assert refuses(one)
    assert "REPLICAOF 127.0.0.1 1 replaces them" in said(caplog, "another data set")[-1]

    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.ask("GET k") == b"$-1\r\n"


@pytest.mark.parametrize("starts_again", [False, True])
@pytest.mark.parametrize("written", ["", "SET other v"])
def test_an_emptied_primary_that_a_sentinel_demotes_gets_everything(world, sentinel, written, starts_again):
    primary, replica = lose(world, 1), world.nodes[2]
    if written:
        primary.ask(written)
    assert refuses(replica)  # it has asked for what the primary has, and has not taken it
    if starts_again:
        world.settle()
        primary.die()
        primary = primary.start_again()
        assert refuses(replica)
    sentinel.tell(replica, "NO ONE")
    for one in (primary, world.nodes[3]):
        sentinel.tell(one, "127.0.0.1 2")
        world.link_up(one, replica)
        assert one.ask("GET k") == b"$1\r\nv\r\n"


@pytest.mark.parametrize("starts_again", [False, True])
def test_data_that_another_server_has_make_no_room_because_a_sentinel_says_so(world, sentinel, starts_again):
    """Of two data sets that are both on two servers neither replaces the other."""
    primary = lose(world, 1)
    primary.ask("SET other v")
    new = Node(world, 4)
    new.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(new, primary)
    world.settle()
    if starts_again:
        primary.die()
        primary = primary.start_again()
    sentinel.tell(primary, "127.0.0.1 2")
    attempts = primary.replication.link.attempts
    world.go_on(lambda: primary.replication.link.attempts >= attempts + 3)
    assert primary.ask("GET other") == b"$1\r\nv\r\n"


def test_what_an_operator_has_allowed_is_not_taken_back_by_a_sentinel_that_names_the_same_primary(world, sentinel):
    primary, replica = lose(world, 1), world.nodes[2]
    primary.ask("SET other v")
    assert refuses(replica)
    primary.die()
    replica.ask("REPLICAOF 127.0.0.1 1")
    sentinel.tell(replica, "127.0.0.1 1")
    primary = primary.start_again()
    world.link_up(replica, primary)
    assert replica.ask("GET other") == b"$1\r\nv\r\n"


@pytest.mark.parametrize("name", ["sentinel", "sentinel-5e7a0b1c-pubsub", "my-sentinel-5e7a0b1c-cmd"])
def test_a_client_with_another_name_is_an_operator(world, name):
    primary, replica = lose(world, 1), world.nodes[2]
    primary.ask("SET other v")
    assert refuses(replica)
    replica.ask(f"CLIENT SETNAME {name};REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    assert replica.ask("GET k") == b"$-1\r\n"
