"""Frames of one stream's entries are applied by columns: state, journal and waiting readers are as entry by entry."""

import random

import pytest

from tests.replication.cluster import Node, World, is_level, state_of

SHAPES = {
    "alike": lambda chance, n: f"XADD s * f {chance.randrange(10**9):012d}",
    "of different lengths": lambda chance, n: f"XADD s * f {'v' * chance.randrange(1, 40)}",
    "with names": lambda chance, n: f"XADD s IDMP p{chance.randrange(3)} i{chance.randrange(200)} * f {n}",
    "trimmed": lambda chance, n: f"XADD s MAXLEN ~ 20 * f {n}",
    "of two streams": lambda chance, n: f"XADD s{n % 2} * f {n}",
    "of different fields": lambda chance, n: f"XADD s * f{n % 2} {n}",
    "with looks of a request": lambda chance, n: "XADD s * f *2\\r\\n$6\\r\\nSELECT\\r\\n$1\\r\\n0\\r\\n",
}
TAKEN = {"alike", "of different lengths"}


def write(primary, chance, shape, db, count):
    client = primary.connect()
    lines = [f"SELECT {db}"] if db else []
    lines += [SHAPES[shape](chance, n) for n in range(count)]
    requests = [line.encode().decode("unicode_escape").encode("latin-1").split(b" ") for line in lines]
    primary.run(*requests, client=client)
    primary.end_turn_soon()


@pytest.mark.parametrize("db", [0, 1])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.interpreted(reason="calls are counted")
def test_a_replica_has_its_primarys_state_after_frames_of_many_entries(shape, db, monkeypatch):
    chance = random.Random(shape)
    world = World(7)
    world.clock.tick_us = 500
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    taken = []
    for number in range(12):
        write(primary, chance, shape, db, chance.choice((7, 8, 30, 250)))
        if number == 0:
            world.link_up(replica, primary)
            replay = replica.replication.side._applier._replay
            take = replay.take_columns

            def counting(index, columns, count, take=take):
                taken.append(take(index, columns, count))
                return taken[-1]

            replay.take_columns = counting
        if number % 4 == 1:
            replica.begin("BGREWRITEAOF")
        for _ in range(chance.choice((0, 5, 50))):
            world.step()
    world.link_up(replica, primary)
    world.settle()
    assert state_of(replica) == state_of(primary)
    assert any(taken) or shape not in TAKEN
    assert replica.engine.state.stats.internal_errors == 0
    before = replica.offset
    replica.die()
    replica = replica.start_again()
    assert state_of(replica) == state_of(primary)
    assert replica.offset == before


def test_a_reader_that_waits_on_a_replica_is_served_by_a_frame_of_many_entries():
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    write(primary, random.Random(1), "alike", 0, 30)
    world.link_up(replica, primary)
    replies = replica.begin("XREAD BLOCK 0 STREAMS s $")
    write(primary, random.Random(2), "alike", 0, 30)
    world.go_on(lambda: is_level(replica, primary) and bool(replies))
    assert replies[0].startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*30\r\n")
