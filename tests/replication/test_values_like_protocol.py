"""Values that are pieces of protocol stay values: frames taken by columns against frames taken record by record."""

import random

import pytest

from streamd.journal.alike import Shapes
from streamd.journal.record import encode_command, encode_note, encode_select
from streamd.replication.applying import records_of
from streamd.replication.frame import make_ask, make_frame, make_time
from tests.replication.cluster import Node, World, is_level, state_of

PIECES = [
    *(encode_select(index) for index in (0, 3, 12)),
    encode_select(3)[:-3],
    encode_select(3)[4:],
    *(encode_command(words) for words in ([b"MULTI"], [b"EXEC"], [b"PING"], [b"FLUSHALL"])),
    encode_command([b"XADD", b"s", b"1-1", b"f", b"v"]),
    b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n",
    encode_note(3, [b"DEFAULTS", b"1", b"1"]),
    b"#streamd cut\n",
    make_frame("a" * 40, 0, 5, b"hello").data,
    make_ask(7) + make_time(9),
    b"\r\n", b"\n", b"$", b"*2\r\n", b"x", b"aaaaaaaaaaaaaaaa", b"$5\r\nhello",
]  # fmt: skip


def value(chance: random.Random, length: int) -> bytes:
    """Return bytes made of pieces; length: of them, 0 for any."""
    made = b"".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 5)))
    return (made * length)[:length] if length else made


def hollow(select: bytes) -> tuple[bytes, bytes]:
    """Return a field and a value that are another field and value, as RESP, if a SELECT is cut out of the field."""
    text = b"\r\n$5\r\nhello"
    pad = len(select) - len(b"\r\n$27\r\n")
    return b"x" + select, b"a" * pad + text


def body_of(units: list[bytes], select: bytes, run: int) -> bytes:
    """Return a frame's body; run: the number of units behind each SELECT."""
    return b"".join(select + b"".join(units[at : at + run]) for at in range(0, len(units), run))


def taken_apart(body: bytes, select: bytes, shapes: Shapes) -> list[list[bytes]] | None:
    """Return the records of a body as columns give them; None if it is not taken by columns."""
    found = shapes.columns_of_frame(body, select)
    if found is None:
        return None
    columns, count = found
    return [[place if isinstance(place, bytes) else place[at] for place in columns] for at in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_a_frame_are_the_words_of_its_records(seed):
    chance, shapes, taken = random.Random(seed), Shapes(), 0
    for number in range(60):
        db = chance.choice((0, 3, 12))
        select = encode_select(db) if db or chance.random() < 0.3 else b""
        length, run = chance.choice((0, 21, 40, 63, 120)), chance.choice((1, 3, 100))
        fields = [chance.choice((b"f", value(chance, 0))) for _ in range(chance.choice((1, 2)))]
        units = []
        for at in range(chance.choice((8, 9, 30, 120))):
            pairs = [word for field in fields for word in (field, value(chance, length))]
            units.append(encode_command([b"XADD", b"s", b"17%03d-%03d" % (number, at), *pairs]))
        body = body_of(units, select, run if select else len(units))

        rows = taken_apart(body, select, shapes)

        assert rows is None or [(db, words) for words in rows] == records_of(body, 16)
        taken += rows is not None
    assert taken > 40


@pytest.mark.parametrize("select", [encode_select(3), encode_select(12)])
def test_a_select_in_a_value_at_each_place_of_a_shape_that_is_known(select):
    """A value moves a SELECT to each of its places, the one where a record of that size would begin included."""
    shapes = Shapes()
    size = len(encode_command([b"XADD", b"s", b"1-%02d" % 0, b"f", bytes(200)]))
    for place in range(200 - len(select)):
        text = (b"y" * place + select).ljust(200, b"z")
        plain = [encode_command([b"XADD", b"s", b"1-%02d" % at, b"f", b"%0200d" % at]) for at in range(10)]
        whole = body_of(plain, select, 4)
        assert taken_apart(whole, select, shapes) == [words for _, words in records_of(whole, 16)]
        for chosen in (plain[:5], []):
            units = [*chosen, *(unit[: size - 202] + text + b"\r\n" for unit in plain[len(chosen) :])]
            body = body_of(units, select, 4)
            assert taken_apart(body, select, shapes) == [words for _, words in records_of(body, 16)]


def test_records_of_another_database_are_not_taken_for_those_of_the_first():
    units = [encode_command([b"XADD", b"s", b"1-%d" % at, b"f", b"v"]) for at in range(9)]
    body = body_of(units, encode_select(3), 9) + encode_select(4) + units[0]
    assert Shapes().columns_of_frame(body, encode_select(3)) is None


def test_a_value_with_the_select_of_its_database_is_the_same_on_a_replica():
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    field, text = hollow(encode_select(3))
    client = primary.connect()
    primary.run([b"SELECT", b"3"], *[[b"XADD", b"s", b"*", b"f", field, text, b"v"]] * 8, client=client)
    primary.end_turn_soon()
    world.link_up(replica, primary)

    assert state_of(replica) == state_of(primary)


def history(chance: random.Random, world: World, primary: Node, replica: Node) -> None:
    """Let a primary have a history of pipelines whose values are pieces of protocol."""
    for number in range(chance.randrange(4, 10)):
        client, db = primary.connect(), chance.choice((0, 3, 12))
        requests = [[b"SELECT", b"%d" % db]]
        key, field = chance.choice((b"s", b"t", PIECES[1])), chance.choice((b"f", PIECES[1]))
        kind, length = chance.choice(("plain", "named", "set", "mixed", "hollow")), chance.choice((0, 21, 63))
        for at in range(chance.choice((3, 8, 30, 230))):
            text = value(chance, length)
            if kind == "set":
                requests.append([b"SET", b"k%d" % (at % 5), text])
            elif kind == "named":
                requests.append([b"XADD", key, b"IDMP", PIECES[1], b"%d %d %b" % (number, at, text), b"*", field, text])
            elif kind == "mixed" and at % 7 == 3:
                requests += [[b"MULTI"], [b"XADD", key, b"*", text, text], [b"SET", text, text], [b"EXEC"]]
            elif kind == "hollow":
                requests.append([b"XADD", key, b"*", b"f", *hollow(encode_select(db)), text[:1]])
            else:
                requests.append([b"XADD", key, b"*", field, text])
        primary.run(*requests, client=client)
        primary.end_turn_soon()
        for _ in range(chance.choice((0, 5, 60))):
            world.step()
        if chance.random() < 0.2:
            chance.choice((primary, replica)).begin("BGREWRITEAOF")


@pytest.mark.parametrize("seed", range(12))
def test_a_replica_of_any_history_has_its_primarys_values(seed):
    chance, world = random.Random(seed), World(seed)
    world.clock.tick_us = 500
    primary, replica = Node(world, 1), Node(world, 2)
    if chance.random() < 0.5:
        history(chance, world, primary, primary)
    replica.ask("REPLICAOF 127.0.0.1 1")
    if chance.random() < 0.7:
        world.link_up(replica, primary)
    history(chance, world, primary, replica)
    if chance.random() < 0.4:
        world.settle()
        replica.die()
        replica = replica.start_again()
        history(chance, world, primary, replica)
    world.go_on(lambda: is_level(replica, primary))
    world.settle()
    expected = state_of(primary)

    assert state_of(replica) == expected
    assert replica.engine.state.stats.internal_errors == 0
    primary.die()
    replica.ask("REPLICAOF NO ONE")
    world.settle()
    assert state_of(replica) == expected
    replica.die()
    assert state_of(replica.start_again()) == expected
