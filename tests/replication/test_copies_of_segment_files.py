"""Replicas of a primary with cold segments: copies of its segment files beside a replica's own."""

import errno
import gc
import random
import re

import pytest

from streamd.cold.files import STREAM
from tests.cold.cold_restartable import ColdRestartable
from tests.cold.cold_server import evict, make_cold
from tests.cold.world import WatchedDisk
from tests.replication.cluster import Node, Wire, World, state_of

PLACE = "data/appendonlydir/"
OPTIONS = {"stream_memory": 16 * 1024 * 1024, "stream_node_max_entries": 10}


def seen(node):
    """Return all that clients see; blocks are read in place."""
    store = node.engine.state.cold
    if store is None:
        return state_of(node)
    store.in_place += 1
    try:
        return state_of(node)
    finally:
        store.in_place -= 1


def fill(node, key, since=1, entries=100):
    node.begin(";".join(f"XADD {key} {number}-1 f value-{number}" for number in range(since, since + entries)))


def cool(node, key, since=1):
    fill(node, key, since)
    make_cold(node.engine, key.encode())
    evict(node.engine)


def segments(node):
    return sorted(path for path in node.disk.names if path.endswith(".seg"))


def in_use(node):
    return sorted({one.path for one in node.engine.state.cold.files._whole.values() if one.holders[STREAM]})


def pair(seed=0, of_primary=None, of_replica=None):
    world = World(seed)
    primary = Node(world, 1, **(OPTIONS if of_primary is None else of_primary))
    replica = Node(world, 2, **(OPTIONS if of_replica is None else of_replica))
    return world, primary, replica


def follow(world, replica, primary):
    replica.ask(f"REPLICAOF 127.0.0.1 {primary.port}")
    world.link_up(replica, primary)
    world.settle()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Send a copy in many parts."""
    monkeypatch.setattr("streamd.replication.feeding.READ_BYTES_MAX", 3_000)


def fill_primary(primary):
    cool(primary, "s")
    cool(primary, "t")
    primary.begin("XDEL s 5-1 17-1 18-1;XTRIM t MAXLEN 63;XGROUP CREATE s g 0")
    primary.begin("XREADGROUP GROUP g ann COUNT 30 STREAMS s >")
    primary.begin("XADD s IDMP p again 1000-1 f v;SET string v")


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("of_replica", [None, {"stream_node_max_entries": 10}], ids=["cold", "without the option"])
def test_a_replica_has_the_state_of_its_primary_and_its_segment_files(seed, of_replica):
    world, primary, replica = pair(seed, of_replica=of_replica)
    fill_primary(primary)
    for key in ("s", "u"):  # files with the numbers of the primary's
        if of_replica is None:
            cool(replica, key)
        else:
            fill(replica, key)
    follow(world, replica, primary)
    assert seen(replica) == seen(primary)
    assert len(segments(replica)) == 2
    assert segments(replica) == in_use(replica)
    assert all("-" in path.removeprefix(PLACE) for path in segments(replica))
    assert not any(replica.disk.names[path].data == b"" for path in segments(replica))

    cool(primary, "s", 2_000)
    primary.begin("XDEL s 7-1 8-1;XTRIM s MINID 15-1")
    world.link_up(replica, primary)
    assert seen(replica) == seen(primary)
    again = replica.start_again()
    world.link_up(again, primary)
    assert seen(again) == seen(primary)
    again.ask("BGREWRITEAOF")
    world.settle()
    third = again.start_again()
    world.link_up(third, primary)
    assert seen(third) == seen(primary)
    for node in (primary, replica, again, third):
        assert node.engine.state.stats.internal_errors == 0


@pytest.mark.interpreted(reason="a constant is replaced")
def test_roles_change_and_each_server_takes_the_others_files():
    world, first, second = pair(1)
    fill_primary(first)
    follow(world, second, first)
    second.ask("REPLICAOF NO ONE")
    first.ask("FLUSHALL")
    cool(first, "other")
    second.ask("BGREWRITEAOF")
    world.settle()
    cool(second, "s", 2_000)
    before = seen(second)
    follow(world, first, second)
    assert seen(first) == seen(second) == before
    world.settle()
    assert len(segments(first)) == len(segments(second)) == 3
    again = first.start_again()
    world.link_up(again, second)
    assert seen(again) == before


@pytest.mark.interpreted(reason="a constant is replaced")
def test_a_copy_of_a_file_that_is_there_already_takes_its_place():
    world, primary, replica = pair(2)
    fill_primary(primary)
    follow(world, replica, primary)
    first = segments(replica)
    damaged = replica.disk.names[first[0]]
    damaged.data[200] ^= 1  # within a block
    damaged.durable = bytes(damaged.data)
    replica.replication.link._must_copy = True
    replica.replication.link.lost("the test")
    world.link_up(replica, primary)
    world.settle()
    assert seen(replica) == seen(primary)
    assert len(segments(replica)) == 2
    assert not {*segments(replica)} & {*first}
    again = replica.start_again()
    world.link_up(again, primary)
    assert seen(again) == seen(primary)


@pytest.mark.interpreted(reason="a constant is replaced")
def test_a_replica_that_does_not_know_segment_files_is_told_so_in_words(monkeypatch, caplog):
    monkeypatch.setattr("streamd.replication.following.TAKES_SEGMENTS", b"nothing")
    world, primary, replica = pair(3)
    fill_primary(primary)
    replica.ask("SET own v")
    replica.ask("REPLICAOF 127.0.0.1 1")
    for _ in range(3_000):
        world.step_or_wait()
    assert replica.replication.link.state != "connected"
    assert "segment files, which the replica does not know: install streamd" in caplog.text
    assert replica.ask("GET own") == b"$1\r\nv\r\n"
    assert not primary.persistence.backups._pinned


class Recorded(Wire):
    """A connection that keeps what the primary sends."""

    sent = b""

    def write(self, data):
        self.sent += data
        super().write(data)


def lines_of_copies(wires):
    """Return the words of the lines around files; a segment file does not end a line."""
    line = re.compile(rb"#streamd (?:files|segment|file|whole) [^\n]*(?=\n)")
    return [found.split() for wire in wires for found in line.findall(wire.sent)]


def test_only_a_state_with_segment_files_is_sent_in_another_way():
    for of_primary, is_cold in (({"stream_node_max_entries": 10}, False), (OPTIONS, False), (OPTIONS, True)):
        world, primary, replica = pair(4, of_primary, {})
        wires = []
        world.make_wire = lambda *arguments, wires=wires: wires.append(Recorded(*arguments)) or wires[-1]
        (cool if is_cold else fill)(primary, "s")
        follow(world, replica, primary)
        lines = lines_of_copies(wires)
        assert [words[1] for words in lines] == [b"files", *([b"segment"] * is_cold), b"file", b"file", b"whole"]
        assert lines[0][2] == b"2"
        assert lines[0][6:-1] == ([b"1"] if is_cold else [])
        assert [len(words) for words in lines[1:]] == [4] * (3 + is_cold)
        assert seen(replica) == seen(primary)


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("what", ["a bit", "the end"])
def test_damage_on_the_way_is_noticed_and_leaves_nothing(what):
    world, primary, replica = pair(5)
    fill_primary(primary)
    cool(replica, "mine")
    before = seen(replica), segments(replica)
    (one,) = {hold.file.path for hold in primary.persistence.journal.holds} or {segments(primary)[0]}
    data = primary.disk.names[one].data
    if what == "a bit":
        data[-60] ^= 1  # of the footer
    else:
        del data[-100:]
    replica.ask("REPLICAOF 127.0.0.1 1")
    for _ in range(4_000):
        world.step_or_wait()
    assert replica.replication.link.attempts > 1
    assert replica.replication.link.state != "connected"
    replica.ask("REPLICAOF NO ONE")
    world.settle()
    assert (seen(replica), segments(replica)) == before


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_moment_of_a_copy_leaves_the_old_state_or_the_new_one(seed):
    world = World(seed)
    primary = Node(world, 1, **OPTIONS)
    disk = WatchedDisk()
    replica = Node(world, 2, disk, **OPTIONS, appendfsync="always")
    fill_primary(primary)
    cool(replica, "s")
    replica.ask("SET own v")
    replica.ask("BGREWRITEAOF")
    world.settle()
    if seed % 2:
        replica.ask("XADD u 1-1 f v")
    chance = random.Random(seed)
    old = seen(replica)[0]
    cuts = {"old": 0, "new": 0}

    def cut():
        again = ColdRestartable(disk.cut_power(chance.getrandbits(32)), stream_memory=OPTIONS["stream_memory"])
        found = again.seen()
        assert found in (old, new)
        cuts["new" if found == new else "old"] += 1
        there = {path for path in again.disk.names if path.endswith(".seg")}
        held = {one.path for one in again.store.files._whole.values()}
        assert there == held
        again.persistence.close()

    new = seen(primary)[0]
    disk.before = cut
    follow(world, replica, primary)
    disk.before = None
    assert seen(replica)[0] == new
    assert cuts["old"] > 20
    assert cuts["new"] > 1


@pytest.fixture
def no_collector():
    """Have no cycle of references freed: on servers that is done once in a long time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("fails", [False, True], ids=["taken", "given up"])
def test_files_of_a_state_that_is_no_more_go_without_the_collector(no_collector, monkeypatch, fails):
    world, primary, replica = pair(6)
    fill_primary(primary)
    follow(world, replica, primary)
    before = segments(replica)
    replica.replication.link._must_copy = True
    if fails:
        monkeypatch.setattr("streamd.replication.taking_over.TakingOver.finish", lambda taking, note: _fail())
    replica.replication.link.lost("the test")
    if fails:
        world.go_on(lambda: replica.replication.link.copies > 3)
        monkeypatch.undo()
    world.link_up(replica, primary)
    world.settle()
    assert seen(replica) == seen(primary)
    assert len(segments(replica)) == 2
    assert not {*segments(replica)} & {*before}
    primary.begin("FLUSHALL")
    primary.ask("BGREWRITEAOF")
    world.link_up(replica, primary)
    replica.ask("BGREWRITEAOF")
    world.settle()
    world.go_on(lambda: not segments(replica) and not segments(primary))


def _fail():
    raise OSError(5, "the test")


@pytest.mark.interpreted(reason="a constant is replaced")
@pytest.mark.parametrize("failure", [errno.EIO, errno.ENOSPC, "short"])
def test_a_disk_that_fails_during_a_copy_costs_time_and_leaves_nothing(failure):
    world = World(8)
    primary = Node(world, 1, **OPTIONS)
    fill_primary(primary)
    failed = 0
    for step in range(1, 60, 3):
        replica = Node(world, 10 + step, **OPTIONS)
        cool(replica, "s")
        disk = replica.disk
        replica.begin("REPLICAOF 127.0.0.1 1")
        world.go_on(lambda link=replica.replication.link: link.copies > 0)
        disk.forgets, disk.failure, disk.fail_at = True, failure, disk.operations + step
        world.link_up(replica, primary)
        disk.fail_at = 0
        world.settle()
        assert seen(replica) == seen(primary)
        assert len(segments(replica)) == 2
        failed += len(disk.failed)
        replica.die()
        del world.nodes[replica.port]
    assert failed > 10
