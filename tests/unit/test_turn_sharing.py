"""Which turns are taken for those of one client, and end with its requests."""

import pytest

from streamd.base.clock import ManualClock
from streamd.base.config import Config
from streamd.catalog import Context
from streamd.engine.engine import Engine
from streamd.engine.runs import ALONE_LOOK_EVERY, ALONE_TURNS_MIN

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
