"""Which turns are taken for those of one client, and end with its requests."""

import pytest

from streamd.base.clock import ManualClock
from streamd.catalog import Context
from streamd.configuration.server_options import Config
from streamd.engine.engine import Engine
from streamd.engine.gathering import ALONE_LOOK_EVERY, ALONE_TURNS_MIN

EVERY_TURN_SYNCS = {"appendonly": True, "appendfsync": "always"}


def turn(engine: Engine, *clients: Context) -> bool:
    """Have a turn of these clients; return whether the next is taken for one of several."""
    for client in clients:
        engine.run(client, [[b"PING"]])
    engine.end_turn()
    return engine.gathering.is_shared


@pytest.mark.parametrize("options", [{}, EVERY_TURN_SYNCS], ids=["no journal", "every turn syncs"])
def test_a_client_that_was_alone_for_a_while_has_its_turns_end_at_once(options):
    engine = Engine(ManualClock(), Config(**options))
    client = engine.connect()
    shared = [turn(engine, client) for _ in range(2 * ALONE_LOOK_EVERY)]
    assert shared.count(True) <= ALONE_TURNS_MIN + 2
    assert any(shared[ALONE_TURNS_MIN + 1 :])


def test_where_turns_sync_those_of_fifty_clients_are_one_as_soon_as_a_second_one_sends():
    engine = Engine(ManualClock(), Config(**EVERY_TURN_SYNCS))
    first, second = engine.connect(), engine.connect()
    while turn(engine, first):
        pass
    assert turn(engine, second)


def test_where_nothing_is_synced_clients_that_take_turns_are_alone():
    engine = Engine(ManualClock(), Config())
    first, second = engine.connect(), engine.connect()
    while turn(engine, first):
        pass
    assert not turn(engine, second)
    assert turn(engine, first, second)


def test_changing_the_policy_changes_whose_turns_are_shared():
    engine = Engine(ManualClock(), Config(**EVERY_TURN_SYNCS))
    first, second = engine.connect(), engine.connect()
    engine.call(first, [b"CONFIG", b"SET", b"appendfsync", b"everysec"])
    while turn(engine, first):
        pass
    assert not turn(engine, second)
    engine.call(first, [b"CONFIG", b"SET", b"appendfsync", b"always"])
    while turn(engine, first):
        pass
    assert turn(engine, second)


def looks(engine: Engine, *newcomers: list[Context]) -> list[bool]:
    """Have some clients send, then ask whether to look again, for each of these lists; return the answers."""
    answers = []
    for clients in newcomers:
        for client in clients:
            engine.run(client, [[b"PING"]])
        answers.append(engine.gathering.looks_again())
    return answers


def test_a_turn_that_syncs_goes_on_while_looking_again_brings_somebody_but_not_for_ever():
    engine = Engine(ManualClock(), Config(**EVERY_TURN_SYNCS))
    one, two, three, four = [engine.connect() for _ in range(4)]
    assert looks(engine, [one], []) == [True, False]
    engine.end_turn()
    assert looks(engine, [one, two], [three], [four]) == [True, True, False]
    engine.end_turn()
    assert looks(engine, [], [one], []) == [False, True, False]


def test_what_many_sent_and_waits_to_be_executed_together_is_somebody_too():
    engine = Engine(ManualClock(), Config(**EVERY_TURN_SYNCS))
    clients = [engine.connect() for _ in range(2)]
    answers = []
    for client in clients:
        assert engine.gathering.take(client, [[b"XADD", b"s", b"*", b"f", b"v"]])
        answers.append(engine.gathering.looks_again())
    assert (answers, engine.gathering.looks_again()) == ([True, True], False)


def test_a_turn_that_waits_for_no_sync_or_is_that_of_one_client_does_not_look_again():
    engine = Engine(ManualClock(), Config())
    assert looks(engine, [engine.connect()]) == [False]
    engine = Engine(ManualClock(), Config(**EVERY_TURN_SYNCS))
    client = engine.connect()
    while turn(engine, client):
        pass
    assert looks(engine, [client]) == [False]
