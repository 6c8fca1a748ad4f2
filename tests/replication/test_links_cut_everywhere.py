"""A link that is cut at any byte, of whatever is under way, in either direction, goes on with equal states."""

import pytest

from tests.replication.cluster import Node, Wire, World, is_level, state_of

SCRIPT = b"redis.call('SET','x',ARGV[1]) redis.call('XADD','s','*','f','v') return redis.call('INCR','n')"
# Each is one turn, and so one frame, of few bytes: a command, a transaction, notes of names, of groups and of times.
TURNS = {
    "transaction": [b"MULTI", b"INCR n", b"SET k w", b"RPUSH l 1", b"EXEC"],
    "name": [b"XADD s IDMP p %d * f v"],
    "group": [b"XADD s * f v", b"XREADGROUP GROUP g c COUNT 2 STREAMS s >"],
    "times": [b"HSET h f v", b"HPEXPIRE h 900000 FIELDS 1 f", b"PEXPIRE k 9000000"],
    "script": [b"EVAL"],
    "databases": [b"SELECT 1", b"SET k w", b"SWAPDB 0 1", b"FLUSHDB"],
}


class Cut:
    """Where a link breaks: behind so many bytes of a direction, `replica` or `primary`. of: only that replica's."""

    def __init__(self, towards: str, left: int, of: Node | None = None) -> None:
        self.towards, self.left, self.of = towards, left, of


class CutWire(Wire):
    """A connection that breaks where its world's cut says; what comes behind it is lost, in both directions."""

    def reach_primary(self, data: bytes) -> None:
        self._reach("primary", data, super().reach_primary)

    def reach_replica(self, data: bytes) -> None:
        self._reach("replica", data, super().reach_replica)

    def _reach(self, towards, data, reach):
        cut = self.world.cut
        if cut is not None and (cut.towards != towards or cut.of not in (None, self.replica) or self.is_closed_there):
            cut = None
        if cut is None or len(data) < cut.left:
            if cut is not None:
                cut.left -= len(data)
            reach(data)
            return
        self.world.cut = None
        if cut.left:
            reach(data[: cut.left])
        self.break_off()


class Cuts:
    """A primary and a replica; the link is cut once for each byte that goes over it."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed)
        self.world.make_wire = CutWire
        self.world.cut = None
        self.primary, self.replica = Node(self.world, 1), Node(self.world, 2)
        self.replica.ask("REPLICAOF 127.0.0.1 1")
        self.world.link_up(self.replica, self.primary)
        self.number = 0
        self.states = {}

    @property
    def link(self):
        return self.replica.replication.link

    def turn(self, requests):
        """Have the primary write in a turn, and note its state there."""
        self.number += 1
        made = []
        for text in requests:
            if text == b"EVAL":
                made.append([b"EVAL", SCRIPT, b"0", b"%d" % self.number])
            else:
                made.append((text % self.number if b"%" in text else text).split())
        self.primary.run(*made, client=self.primary.connect())
        self.primary.engine.end_turn()
        self.states[self.primary.offset] = state_of(self.primary)

    def everywhere(self, towards, happen):
        """Cut at each byte of what `happen` has sent in a direction; return how many that were."""
        place = 0
        while True:
            self.primary.ask("FLUSHALL;XADD s * f v;XGROUP CREATE s g 0;SET k v")
            self.world.link_up(self.replica, self.primary)
            self.states = {self.primary.offset: state_of(self.primary)}
            before = state_of(self.replica), self.replica.offset
            copies = self.link.copies
            self.world.cut = Cut(towards, place)
            happen()
            self.world.settle()
            is_cut, self.world.cut = self.world.cut is None, None
            if self.replica.offset in self.states:
                assert state_of(self.replica) == self.states[self.replica.offset], place
            else:
                assert (state_of(self.replica), self.replica.offset) == before, place
            self.world.link_up(self.replica, self.primary)
            assert state_of(self.replica) == state_of(self.primary), place
            assert self.link.copies == copies, place
            self.pause()
            if not is_cut:
                return place
            place += 1

    def pause(self):
        """Let the link hold for a while."""
        self.world.clock.advance(1_100)
        self.replica.engine.tick()
        self.world.settle()


@pytest.mark.parametrize("kind", TURNS)
def test_a_link_cut_in_frames_goes_on_behind_the_last_whole_one(kind):
    cuts = Cuts()

    def write():
        cuts.turn(TURNS[kind])
        if kind == "transaction":
            cuts.turn([b"INCR behind"])

    assert cuts.everywhere("replica", write) > 100


@pytest.mark.parametrize("towards", ["replica", "primary"])
def test_a_link_cut_in_the_handshake_goes_on_all_the_same(towards):
    cuts = Cuts()

    def come_again():
        attempts = cuts.link.attempts
        for wire in cuts.world.wires:
            wire.break_off()
        cuts.world.cut, cut = None, cuts.world.cut
        cuts.world.settle()
        cuts.world.cut = cut
        cuts.turn([b"INCR n", b"XADD s IDMP p %d * f v"])
        cuts.world.go_on(lambda: cuts.link.attempts > attempts)

    assert cuts.everywhere(towards, come_again) > 150


@pytest.mark.parametrize("towards", ["replica", "primary"])
def test_a_link_cut_in_a_copy_leaves_one_state_whole(towards):
    cuts = Cuts()
    world, primary, replica = cuts.world, cuts.primary, cuts.replica
    primary.ask("XADD s IDMP p 1 * f v;XGROUP CREATE s g 0;XREADGROUP GROUP g c STREAMS s >;HSET h f v;RPUSH l 1 2 3")
    place, is_cut = 0, True
    while is_cut:
        replica.ask("REPLICAOF NO ONE")
        replica.ask(f"SET own {place}")
        own = state_of(replica)
        for _ in range(60):  # so many places, then the whole copy
            world.cut = Cut(towards, place)
            replica.begin("REPLICAOF 127.0.0.1 1")
            world.go_on(lambda: world.cut is None or is_level(replica, primary))
            is_cut, world.cut = world.cut is None, None
            if not is_cut:
                break
            world.settle()
            assert state_of(replica) in (own, state_of(primary)), place
            assert (state_of(replica) == own) == (replica.offset != primary.offset), place
            place += 1
        world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary), place
        cuts.pause()
    assert place > 200


def test_a_link_cut_in_an_acknowledgement_says_nothing_too_early():
    cuts = Cuts()

    def wait():
        waiting = cuts.primary.begin("SET k w;WAIT 1 0")
        cuts.world.go_on(lambda: b"".join(waiting) == b"+OK\r\n:1\r\n")
        assert state_of(cuts.replica) == state_of(cuts.primary)
        cuts.states[cuts.primary.offset] = state_of(cuts.primary)

    assert cuts.everywhere("primary", wait) > 50


@pytest.mark.parametrize("towards", ["replica", "primary"])
def test_a_link_cut_in_a_handover_leaves_one_primary(towards):
    cuts = Cuts()
    world, primary, replica = cuts.world, cuts.primary, cuts.replica
    place, is_cut = 0, True
    while is_cut:
        primary.ask(f"XADD s IDMP p {place} MAXLEN 5 * f v")
        world.cut = Cut(towards, place, primary)
        primary.begin(f"FAILOVER TO 127.0.0.1 {replica.port}")
        writer = primary.connect()
        waiting = primary.begin("INCR n", writer)  # waits until it is decided
        world.go_on(lambda one=primary: one.fields()["master_failover_state"] == "no-failover")
        is_cut, world.cut = world.cut is None, None
        world.settle()
        roles = [one.fields()["role"] for one in (primary, replica)]
        assert sorted(roles) == ["master", "slave"], place
        if roles[0] == "slave":
            primary, replica = replica, primary
            assert not b"".join(waiting).startswith(b":")
            primary.ask("INCR n")
        world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)
        place += 1
        assert primary.ask("GET n").split()[1] == b"%d" % place
        assert [one.replication.link.copies for one in (primary, replica)] in ([0, 1], [1, 0])
        cuts.pause()
    assert place > 30


@pytest.mark.parametrize("ends", ["by its return", "by ABORT"])
def test_a_handover_whose_target_is_lost_waits_for_it_or_is_aborted(ends):
    cuts = Cuts()
    world, primary, replica = cuts.world, cuts.primary, cuts.replica
    primary.ask("SET k v")
    primary.begin("FAILOVER TO 127.0.0.1 2")
    waiting = primary.begin("INCR n")
    world.go_on(lambda: replica.fields()["role"] == "master")
    replica.die()
    for wire in world.wires:
        wire.break_off()  # and the answer is lost
    for _ in range(200):
        world.step_or_wait()
    assert primary.fields()["master_failover_state"] == "failover-in-progress"
    assert waiting == []
    if ends == "by its return":
        replica = replica.start_again()
        world.link_up(primary, replica)
        assert replica.fields()["role"] == "master"
        assert b"".join(waiting).startswith((b"-READONLY", b"-UNBLOCKED"))
        assert primary.replication.link.copies == 1  # a primary that dies begins another history
    else:
        assert primary.ask("FAILOVER ABORT") == b"+OK\r\n"
        world.go_on(lambda: b"".join(waiting) == b":1\r\n")
        assert primary.fields()["role"] == "master"
        assert primary.ask("SET k w") == b"+OK\r\n"
    assert primary.fields()["master_failover_state"] == "no-failover"
