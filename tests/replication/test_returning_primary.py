"""Primaries that come back with more, less or other than their replicas have; roles that go to and fro."""

import pytest

from tests.replication.cluster import Node, World, is_level, state_of
from tests.replication.test_replica_links import Trio


def lose_power(trio, node, seed):
    """Have a server start again on what is left on its disk after a power loss."""
    node.die()
    for wire in trio.world.wires:
        if wire.primary is node:
            wire.connection.connection_lost(None)
    return node.start_again(node.disk.cut_power(seed))


# -- a primary that has lost what its replicas have ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_an_everysec_primary_without_power_begins_a_history_that_nobody_continues(seed):
    trio = Trio()
    world = trio.world
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.a)
    trio.a.ask("XADD s IDMP p 1 * n 1")
    world.clock.advance(1_100)
    world.settle()
    for number in range(2, 5):
        trio.a.ask(f"XADD s IDMP p {number} * n {number};SET k {number}")
    world.link_up(trio.b, trio.a)
    if seed % 2:
        world.link_up(trio.c, trio.a)
    old = trio.b.fields()
    copies = [node.replication.link.copies for node in (trio.b, trio.c)]

    trio.a = lose_power(trio, trio.a, seed)
    new = trio.a.fields()
    assert new["master_replid"] != old["master_replid"]
    assert new["master_replid2"] in ("0" * 40, old["master_replid"])
    for number in range(3):  # in part the same as before, and as many bytes
        trio.a.ask(f"XADD s IDMP p {number} * n {number};SET k {number}")
    world.link_up(trio.b, trio.a)
    world.link_up(trio.c, trio.a)

    assert [node.replication.link.copies for node in (trio.b, trio.c)] == [count + 1 for count in copies]
    assert state_of(trio.a) == state_of(trio.b) == state_of(trio.c)


@pytest.mark.parametrize("seed", range(6))
def test_a_chain_whose_middle_has_lost_what_its_end_has(seed):
    trio = Trio()
    world = trio.world
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    world.clock.advance(1_100)
    world.settle()
    trio.a.ask("XADD s IDMP p 1 * n 1;SET k v")
    world.link_up(trio.b, trio.a)
    world.link_up(trio.c, trio.b)
    trio.b = lose_power(trio, trio.b, seed)
    assert trio.b.offset <= trio.c.offset
    if seed % 2:
        trio.a.ask("SET k w")
    world.link_up(trio.b, trio.a)
    world.link_up(trio.c, trio.b)
    assert state_of(trio.a) == state_of(trio.b) == state_of(trio.c)


@pytest.mark.parametrize("seed", range(6))
def test_a_promoted_server_without_power_has_what_it_had_and_another_history(seed):
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.a)
    trio.a.ask("XADD s IDMP p 1 * n 1")
    for node in (trio.b, trio.c):
        trio.world.link_up(node, trio.a)
    trio.a.die()
    assert trio.b.ask("REPLICAOF NO ONE") == b"+OK\r\n"
    at_promotion, promoted = state_of(trio.b), trio.b.fields()["master_replid"]
    trio.b.begin("SET k v")
    trio.world.soon.clear() if seed % 2 else trio.world.settle()

    trio.b = lose_power(trio, trio.b, seed)
    assert trio.b.fields()["role"] == "master"
    assert trio.b.fields()["master_replid"] not in (promoted, trio.c.fields()["master_replid"])
    assert all(state_of(trio.b)[0][key] == value for key, value in at_promotion[0].items())
    assert trio.follow(trio.c, trio.b) == 1


# -- the old primary comes back ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("has_more", "copies"),
    [("nothing", 0), ("a heartbeat", 0), ("an entry", 1), ("a duplicate's count", 1), ("a consumer's time", 1)],
)
@pytest.mark.parametrize("how", ["demoted", "stopped"])
def test_an_old_primary_takes_a_copy_only_if_it_has_more_than_heartbeats(has_more, copies, how):
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.a.ask("XGROUP CREATE s g 0 MKSTREAM;XADD s IDMP p 1 * f v;XREADGROUP GROUP g c STREAMS s >")
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("REPLICAOF NO ONE")
    trio.cut()
    if has_more == "a heartbeat":
        for _ in range(40):
            trio.world.clock.advance(100)
            trio.world.settle()
            trio.a.engine.tick()
    elif has_more == "an entry":
        trio.a.ask("XADD s 2900000000000-1 f v")
    elif has_more == "a duplicate's count":
        trio.a.ask("XADD s IDMP p 1 * f v")
    elif has_more == "a consumer's time":
        trio.world.clock.advance(60_000)
        trio.a.ask("XREADGROUP GROUP g c STREAMS s >")
    trio.b.ask("XADD s IDMP p 2 * f w")
    if how == "stopped":
        trio.a = trio.stop(trio.a)
    assert trio.follow(trio.a, trio.b) == copies
    assert trio.follow(trio.c, trio.b) == 1


def other_bytes(node):
    """Have a server write what has as many bytes as what the other one writes."""
    return node.ask(f"SET k {node.port};SET l {node.port}")


@pytest.mark.parametrize("whole", [False, True])
def test_two_servers_from_one_directory_are_told_apart_by_their_last_frame(whole):
    """A machine that was restored from a picture of its disk goes on with the same ID, at the same offsets."""
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.a.replication.close()
    trio.a.persistence.close()
    trio.a.die()
    picture = trio.a.disk.kill()
    trio.a = trio.a.start_again()
    trio.world.link_up(trio.b, trio.a)
    other_bytes(trio.a)
    trio.world.link_up(trio.b, trio.a)
    if whole:  # a replica whose state ends with a copy, and not with a frame
        trio.b.die()
        trio.b = Node(trio.world, 2)
        trio.follow(trio.b, trio.a)
    restored = Node(trio.world, 4, picture)
    assert restored.fields()["master_replid"] == trio.a.fields()["master_replid"]
    trio.follow(trio.c, restored)  # it makes frames
    other_bytes(restored)
    assert restored.offset == trio.b.offset

    assert trio.follow(trio.b, restored) == 1


# -- to and fro ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("steps", [0, 3, 20, 200])
def test_roles_go_to_and_fro_within_two_seconds_and_a_third_follows(seed, steps):
    world = World(seed)
    a, b, c = (Node(world, port) for port in (1, 2, 3))
    for node in (b, c):
        node.ask("REPLICAOF 127.0.0.1 1")
        world.link_up(node, a)
    began_ms = world.clock.monotonic_ms()
    number = 0
    primary, other = a, b
    for _ in range(4):
        for _ in range(3):
            number += 1
            primary.begin(f"XADD s IDMP p {number} * n {number};RPUSH l {number}")
        for _ in range(steps):
            world.step()
        other.begin("REPLICAOF NO ONE")
        primary.begin(f"REPLICAOF 127.0.0.1 {other.port}")
        for _ in range(steps):
            world.step()
        c.begin(f"REPLICAOF 127.0.0.1 {other.port}")
        primary, other = other, primary
        world.clock.advance(400)
    assert world.clock.monotonic_ms() - began_ms < 2_000
    world.settle()
    for node in (other, c):
        world.link_up(node, primary)
    world.settle()
    assert all(is_level(node, primary) for node in (other, c))
    assert state_of(a) == state_of(b) == state_of(c)
    if steps == 200:  # all had come over before each change
        assert primary.ask("LRANGE l 0 -1").split()[2::2] == [b"%d" % one for one in range(1, number + 1)]
    for node in (a, b, c):
        assert node.engine.state.stats.internal_errors == 0


def test_a_handover_to_and_fro_copies_nothing():
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.a)
    copies = [node.replication.link.copies for node in (trio.a, trio.b, trio.c)]
    primary, other = trio.a, trio.b
    for number in range(4):
        assert primary.ask(f"XADD s IDMP p {number} * n {number};FAILOVER TO 127.0.0.1 {other.port}").endswith(
            b"+OK\r\n"
        )
        trio.world.go_on(lambda old=primary: old.fields()["role"] == "slave")
        primary, other = other, primary
        trio.world.link_up(other, primary)
        trio.follow(trio.c, primary)
    assert [node.replication.link.copies for node in (trio.a, trio.b, trio.c)] == copies
    assert primary.ask("XLEN s") == b":4\r\n"


@pytest.mark.parametrize("promoted", ["before", "amid", "after"])
def test_a_chain_whose_middle_is_promoted_while_its_end_is_behind(promoted):
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    trio.c.is_stopped = True
    trio.a.ask("XADD s IDMP p 1 * f v")
    trio.world.link_up(trio.b, trio.a)
    if promoted == "before":
        trio.b.ask("REPLICAOF NO ONE;XADD s IDMP p 2 * f v")
    elif promoted == "amid":
        trio.b.begin("REPLICAOF NO ONE;XADD s IDMP p 2 * f v")
    trio.c.is_stopped = False
    trio.world.settle()
    if promoted == "after":
        trio.b.ask("REPLICAOF NO ONE;XADD s IDMP p 2 * f v")
    assert trio.copies(trio.c, trio.b) == 0
    assert trio.c.ask("XLEN s") == b":2\r\n"
    assert trio.follow(trio.a, trio.b) == 0


def test_a_chain_whose_middle_is_promoted_before_its_end_has_had_a_frame():
    trio = Trio()
    trio.a.ask("SET k v")
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    trio.b.ask("REPLICAOF NO ONE")
    trio.b.ask("SET k w")
    assert trio.copies(trio.c, trio.b) == 0


@pytest.mark.parametrize("first", ["b", "c"])
def test_a_chain_whose_links_are_cut_while_the_primary_writes(first):
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    for number in range(5):
        for wire in trio.world.wires:
            if wire.replica is getattr(trio, first):
                wire.break_off()
        trio.a.ask(f"XADD s IDMP p {number} * n {number}")
        if number % 2:
            trio.cut()
        trio.world.link_up(trio.b, trio.a)
        assert trio.copies(trio.c, trio.b) == 0
        trio.world.clock.advance(1_100)
        trio.world.settle()
    assert [node.replication.link.copies for node in (trio.b, trio.c)] == [1, 1]


@pytest.mark.parametrize("how", ["DEBUG RELOAD", "DEBUG LOADAOF", "SAVE"])
def test_a_server_that_loads_its_journal_again_goes_on(how):
    trio = Trio()
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    for number in range(3):
        trio.a.ask(f"XADD s IDMP p {number} * f v;INCR n")
        for node in (trio.b, trio.a, trio.c):
            assert node.ask(how) == b"+OK\r\n"
            trio.a.ask("INCR n;XADD s IDMP q 1 * f v")
        trio.world.link_up(trio.b, trio.a)
        trio.world.link_up(trio.c, trio.b)
        assert state_of(trio.a) == state_of(trio.b) == state_of(trio.c)
    assert [node.replication.link.copies for node in (trio.b, trio.c)] == [1, 1]
