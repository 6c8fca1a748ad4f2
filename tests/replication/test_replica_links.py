"""Which resync a link begins with, and what a replica keeps while it cannot have one."""

import pytest

from tests.replication.cluster import Node, World, state_of


class Trio:
    """Servers A, B and C at ports 1, 2 and 3."""

    def __init__(self, **options):
        self.world = World(3)
        self.a, self.b, self.c = (Node(self.world, port, **options) for port in (1, 2, 3))

    def follow(self, replica, primary):
        """Have a server follow another one; return the number of copies of the whole state that it took."""
        link = replica.replication.link
        before = link.copies
        assert replica.ask(f"REPLICAOF 127.0.0.1 {primary.port}").startswith(b"+OK")
        self.world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)
        return link.copies - before

    def copies(self, replica, primary):
        """Return how many copies a server has taken when its link, which was lost, is up again."""
        before = replica.replication.link.copies
        self.world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)
        return replica.replication.link.copies - before

    def cut(self):
        """Break all links, and let the servers notice."""
        for wire in self.world.wires:
            wire.break_off()
        self.world.settle()

    def stop(self, node):
        """Stop a server in order, and start it again."""
        node.replication.close()
        node.persistence.close()
        return self.kill(node)

    def kill(self, node):
        """Kill a server, and start it again."""
        node.die()
        for wire in self.world.wires:
            if wire.primary is node:
                wire.connection.connection_lost(None)
        return node.start_again()


@pytest.fixture
def trio():
    return Trio()


def test_a_replica_takes_the_whole_state_once_and_then_what_it_lacks(trio):
    trio.a.ask("SET k v")
    assert trio.follow(trio.b, trio.a) == 1
    trio.cut()
    assert trio.b.fields()["master_link_status"] == "down"
    assert trio.b.replication.role()[3] == b"connect"
    trio.a.ask("SET k w;RPUSH l 1 2 3")

    assert trio.copies(trio.b, trio.a) == 0

    assert trio.b.fields()["master_link_status"] == "up"
    assert trio.b.replication.role() == [b"slave", b"127.0.0.1", 1, b"connected", trio.a.offset]
    trio.world.go_on(lambda: trio.a.replication.role()[2] == [[b"127.0.0.1", b"2", b"%d" % trio.a.offset]])


def test_it_takes_the_whole_state_when_the_ring_has_lost_what_it_lacks(trio):
    trio.follow(trio.b, trio.a)
    trio.cut()
    trio.a.engine.state.config.values["repl-backlog-size"] = 100
    trio.world.settle()
    for number in range(10):
        trio.a.ask(f"SET k {number}")
    assert trio.copies(trio.b, trio.a) == 1


def test_a_frame_larger_than_the_ring_goes_to_those_that_are_there(trio):
    trio.follow(trio.b, trio.a)
    trio.a.engine.state.config.values["repl-backlog-size"] = 100
    trio.world.settle()
    trio.a.ask("SET k " + "v" * 10_000)
    trio.world.link_up(trio.b, trio.a)
    assert trio.b.replication.link.copies == 1
    trio.cut()
    assert trio.copies(trio.b, trio.a) == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_replica_that_starts_again_goes_on_where_its_journal_ends(trio, how):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.b = getattr(trio, how)(trio.b)
    trio.a.ask("SET k w")
    assert trio.copies(trio.b, trio.a) == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_so_does_one_whose_journal_was_rewritten_since_the_last_frame(trio, how):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("BGREWRITEAOF")
    trio.world.go_on(lambda: trio.b.persistence.rewriting.count == 1)
    trio.world.clock.advance(1_100)
    trio.world.settle()
    trio.b = getattr(trio, how)(trio.b)
    assert trio.copies(trio.b, trio.a) == 0


@pytest.mark.parametrize(("how", "copies"), [("kill", 1), ("stop", 0)])
def test_a_primary_that_starts_again_goes_on_only_after_an_end_in_order(trio, how, copies):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    before = trio.a.fields()["master_replid"]
    trio.a = getattr(trio, how)(trio.a)
    assert (trio.a.fields()["master_replid"] == before) == (how == "stop")
    assert trio.copies(trio.b, trio.a) == copies


def test_a_note_of_an_end_in_order_counts_once(trio):
    trio.follow(trio.b, trio.a)
    trio.a = trio.stop(trio.a)
    trio.a.begin("SET k v")
    trio.world.soon.clear()
    before = trio.a.fields()["master_replid"]
    trio.a = trio.kill(trio.a)
    assert trio.a.fields()["master_replid"] != before


def test_the_writes_of_the_last_turn_belong_to_the_history_that_ends_in_order(trio):
    trio.follow(trio.b, trio.a)
    trio.a.begin("SET k v")
    trio.a = trio.stop(trio.a)
    trio.copies(trio.b, trio.a)
    assert trio.b.ask("GET k") == b"$1\r\nv\r\n"


def test_a_promoted_replica_feeds_the_others_without_a_copy(trio):
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.world.link_up(trio.c, trio.a)
    trio.a.die()

    old = trio.b.fields()
    trio.b.ask("REPLICAOF NO ONE")
    new = trio.b.fields()
    assert new["master_replid"] != old["master_replid"] == new["master_replid2"]
    assert int(new["second_repl_offset"]) == int(old["master_repl_offset"]) + 1
    trio.b.ask("SET k w")

    assert trio.follow(trio.c, trio.b) == 0


def test_so_it_does_for_one_that_is_behind(trio):
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.a)
    trio.c.is_stopped = True
    trio.a.ask("SET k v;SET l v")
    trio.world.link_up(trio.b, trio.a)
    trio.a.die()
    trio.world.wires = [wire for wire in trio.world.wires if wire.replica is not trio.c]
    trio.c.is_stopped = False
    trio.b.ask("REPLICAOF NO ONE")
    trio.b.ask("SET k w")
    assert trio.follow(trio.c, trio.b) == 0


def test_the_old_primary_returns_without_a_copy_if_it_has_nothing_more(trio):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("REPLICAOF NO ONE")
    trio.b.ask("SET k w")
    trio.a = trio.stop(trio.a)
    assert trio.follow(trio.a, trio.b) == 0


def test_the_old_primary_takes_a_copy_if_it_has_an_entry_more(trio):
    trio.follow(trio.b, trio.a)
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("REPLICAOF NO ONE")
    trio.a.ask("XADD s 1-1 f v")
    assert trio.follow(trio.a, trio.b) == 1
    assert trio.a.ask("EXISTS s") == b":0\r\n"


def test_equal_offsets_with_other_bytes_are_another_history(trio):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("REPLICAOF NO ONE")
    trio.a.ask("SET k 1")
    trio.b.ask("SET k 2")
    while trio.b.offset < trio.a.offset:
        trio.b.ask("SET k 2")
    while trio.a.offset < trio.b.offset:
        trio.a.ask("SET k 1")
    assert trio.follow(trio.a, trio.b) == 1


def test_a_write_in_the_turn_of_the_demotion_is_not_taken_for_the_new_primarys(trio):
    trio.follow(trio.b, trio.a)
    trio.world.link_up(trio.b, trio.a)
    trio.b.ask("REPLICAOF NO ONE")
    replies = trio.a.begin("SET more v;REPLICAOF 127.0.0.1 2")
    trio.world.link_up(trio.a, trio.b)
    assert replies == [b"+OK\r\n"]  # of REPLICAOF: none for what is dropped
    assert trio.a.ask("EXISTS more") == b":0\r\n"
    assert state_of(trio.a) == state_of(trio.b)


def test_a_chain_whose_middle_is_promoted_and_whose_links_are_cut(trio):
    trio.follow(trio.b, trio.a)
    assert trio.follow(trio.c, trio.b) == 1
    trio.a.ask("SET k v;XADD s IDMP p 1 * f v")
    trio.world.link_up(trio.b, trio.a)
    assert trio.copies(trio.c, trio.b) == 0
    trio.cut()
    trio.a.ask("SET k w")
    trio.world.link_up(trio.b, trio.a)
    assert trio.copies(trio.c, trio.b) == 0

    trio.b.ask("REPLICAOF NO ONE")
    trio.b.ask("SET k x")
    assert trio.copies(trio.c, trio.b) == 0
    assert trio.c.fields()["master_replid"] == trio.b.fields()["master_replid"]
    assert trio.follow(trio.a, trio.b) == 0


def test_roles_outlive_a_rewrite_that_was_under_way_when_they_changed(trio):
    for number in range(20):
        trio.b.ask(f"SET key{number} v")
    trio.b.begin("BGREWRITEAOF;REPLICAOF 127.0.0.1 9")
    trio.world.go_on(lambda: trio.b.persistence.rewriting.count == 1)
    trio.b = trio.kill(trio.b)
    assert trio.b.fields()["role"] == "slave"
    trio.b.begin("BGREWRITEAOF;REPLICAOF NO ONE")
    trio.world.go_on(lambda: trio.b.persistence.rewriting.count == 1)
    trio.b = trio.kill(trio.b)
    assert trio.b.fields()["role"] == "master"


def test_what_a_turn_wrote_before_the_journal_was_rewritten_in_it_is_sent(trio):
    trio.follow(trio.b, trio.a)
    trio.a.ask("SET k v;SAVE;SET l w")
    trio.world.link_up(trio.b, trio.a)
    assert state_of(trio.b) == state_of(trio.a)
    assert trio.b.replication.link.copies == 1


def test_an_idle_link_stays_up(trio):
    trio.follow(trio.b, trio.a)
    for _ in range(3_000):
        trio.world.clock.advance(100)
        trio.world.settle()
    assert trio.b.replication.link.attempts == 1
    assert trio.b.fields()["master_link_status"] == "up"


def test_a_primary_lets_go_of_a_replica_that_is_silent_for_repl_timeout(trio):
    trio.a.ask("CONFIG SET repl-timeout 5")
    trio.follow(trio.b, trio.a)
    trio.b.is_stopped = True
    trio.world.go_on(lambda: not trio.a.replication.feeding.followers, ms_max=10_000)


@pytest.mark.parametrize("whom", [1, 9])
def test_a_replica_of_itself_or_of_nobody_keeps_its_data(trio, whom):
    trio.a.ask("SET k v")
    assert trio.a.ask(f"REPLICAOF 127.0.0.1 {whom}") == b"+OK\r\n"
    for _ in range(100):
        trio.world.settle()
        trio.world.clock.advance(100)
    assert trio.a.ask("GET k") == b"$1\r\nv\r\n"
    assert trio.a.ask(f"REPLICAOF 127.0.0.1 {whom}") == b"+OK Already connected to specified master\r\n"
    assert trio.a.ask("SET k w").startswith(b"-READONLY")
    trio.a.ask("REPLICAOF NO ONE")
    assert trio.a.ask("SET k w") == b"+OK\r\n"


def test_a_ring_of_replicas_keeps_its_data_until_one_is_promoted(trio):
    trio.a.ask("SET k v")
    trio.follow(trio.b, trio.a)
    trio.follow(trio.c, trio.b)
    trio.a.ask("REPLICAOF 127.0.0.1 3")
    for _ in range(100):
        trio.world.settle()
        trio.world.clock.advance(100)
    assert [node.ask("GET k") for node in (trio.a, trio.b, trio.c)] == [b"$1\r\nv\r\n"] * 3
    trio.b.ask("REPLICAOF NO ONE")
    trio.world.link_up(trio.c, trio.b)
    trio.world.link_up(trio.a, trio.c)
    assert state_of(trio.a) == state_of(trio.b) == state_of(trio.c)


def test_a_promotion_that_cannot_be_noted_does_not_happen(trio):
    trio.follow(trio.b, trio.a)
    trio.b.disk.fail_at, trio.b.disk.fails_for = trio.b.disk.operations + 1, 10**9
    assert trio.b.ask("REPLICAOF NO ONE").startswith(b"-ERR a new primary must note its role")
    trio.b.disk.fail_at = 0
    trio.a.ask("SET k v")
    trio.world.link_up(trio.b, trio.a)
    assert trio.b.ask("SET k w").startswith(b"-READONLY")
    trio.world.clock.advance(1_100)
    trio.world.settle()
    trio.b = trio.kill(trio.b)
    assert trio.b.fields()["role"] == "slave"
    trio.copies(trio.b, trio.a)


@pytest.mark.parametrize("at", range(1, 60))
def test_a_disk_that_fails_while_a_copy_is_taken_leaves_one_state_whole(trio, at):
    trio.a.ask("SET k new;SET l new")
    trio.b.ask("SET k old;SET m old")
    old, new = state_of(trio.b), state_of(trio.a)
    trio.world.settle()
    trio.b.disk.fail_at = trio.b.disk.operations + at
    trio.b.begin("REPLICAOF 127.0.0.1 1")
    link = trio.b.replication.link
    trio.world.go_on(lambda: link.state == "connected" or link.attempts > 1)
    assert trio.b.dead is None
    assert state_of(trio.b) in (old, new)
    killed = trio.kill(trio.b)
    assert state_of(killed) in (old, new)
    trio.copies(killed, trio.a) if killed.replication.standing.is_replica else trio.follow(killed, trio.a)


@pytest.mark.parametrize("whom", ["127.0.0.1 9", "NO ONE"])
@pytest.mark.parametrize("at", range(1, 60, 4))
def test_leaving_a_primary_in_the_middle_of_its_copy_keeps_one_state_whole(trio, whom, at):
    trio.a.ask("SET k new;SET l new")
    trio.b.ask("SET k old;SET m old")
    old, new = state_of(trio.b), state_of(trio.a)
    trio.b.begin("REPLICAOF 127.0.0.1 1")
    for _ in range(at):
        trio.world.step()
    trio.b.ask(f"REPLICAOF {whom}")
    assert state_of(trio.b) in (old, new)
    here = state_of(trio.b)
    trio.world.settle()
    trio.b = trio.kill(trio.b)
    assert state_of(trio.b) == here
    assert trio.b.fields()["role"] == ("master" if whom == "NO ONE" else "slave")


@pytest.mark.parametrize("place", range(0, 400, 23))
def test_a_copy_that_is_damaged_or_torn_is_thrown_away_and_the_next_one_taken(trio, place):
    trio.a.ask("SET k new;SET l new")
    trio.b.ask("SET k old")
    old = state_of(trio.b)
    trio.b.begin("REPLICAOF 127.0.0.1 1")
    link = trio.b.replication.link
    take, seen = link.received, [0]

    def damaged(data: bytes) -> None:
        start = data.find(b"#streamd file ") if not seen[0] else 0
        if start >= 0:
            at = place + start - seen[0]
            seen[0] += len(data) - start
            if 0 <= at < len(data):
                if place % 2:
                    data = data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]
                else:
                    data = data[:at]
                    trio.world.wires[-1].break_off()
        take(data)

    link.received = damaged
    is_decided = lambda: (link.state == "connect" and link.attempts > 0) or link.state == "connected"  # noqa: E731
    trio.world.go_on(is_decided)
    if link.state == "connect":
        assert state_of(trio.b) == old
    link.received = take
    trio.world.link_up(trio.b, trio.a)
    assert state_of(trio.b) == state_of(trio.a)


def test_a_primary_that_had_to_copy_as_a_replica_can_hand_its_role_over(trio):
    trio.follow(trio.b, trio.a)
    trio.b.replication.link._must_copy = True
    trio.b.ask("REPLICAOF NO ONE")
    assert trio.follow(trio.a, trio.b) == 0
    assert trio.b.ask("FAILOVER TO 127.0.0.1 1") == b"+OK\r\n"
    trio.world.go_on(lambda: trio.a.fields()["role"] == "master")
    trio.world.link_up(trio.b, trio.a)
    assert trio.b.ask("SET k v").startswith(b"-READONLY")
