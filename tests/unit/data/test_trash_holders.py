"""Values that were removed while somebody holds them: in whatever form streamd runs, `make test-compiled` too."""

import pytest

from streamd.data.trash import Trash

COUNT = 5_000


def steps_of(trash):
    """Have all freed; return how many steps it took."""
    steps = 0

    def stop():
        nonlocal steps
        steps += 1
        return False

    trash.free(stop)
    return steps


@pytest.mark.parametrize(
    "make",
    [lambda: {number: [number] for number in range(COUNT)}, lambda: list(range(COUNT)), lambda: set(range(COUNT))],
)
def test_only_what_nobody_holds_is_taken_apart(make):
    held = make()
    whole = held.copy()

    trash = Trash()
    trash.add(held)
    assert steps_of(trash) == 1
    assert held == whole

    trash.add(make())
    assert steps_of(trash) > 15


def test_what_is_freed_is_counted_so_that_an_idle_server_gives_its_memory_back():
    trash = Trash()
    trash.add({number: [number] for number in range(COUNT)})
    trash.add(list(range(COUNT)))
    assert trash.freed == 0
    steps_of(trash)
    assert 2 * COUNT <= trash.freed <= 2 * COUNT + 10


def test_what_stands_in_something_held_by_nobody_may_be_held():
    inner = {number: [number] for number in range(COUNT)}
    whole = dict(inner)

    trash = Trash()
    trash.add({number: inner if number == 7 else [number] for number in range(COUNT)})
    assert steps_of(trash) > 15

    assert inner == whole


def test_a_snapshot_stays_whole_when_its_stream_is_removed(engine):
    engine.send(*[[b"XADD", b"k", b"IDMP", b"p", b"%d" % number, b"*", b"f", b"v"] for number in range(COUNT)])
    engine.replies()
    engine.do("XGROUP CREATE k g 0")
    engine.do(f"XREADGROUP GROUP g c COUNT {COUNT} STREAMS k >")
    past = engine.state.keyspace[0].values[b"k"].snapshot()

    engine.do("DEL k")
    while engine.state.keyspace.trash.free(lambda: True):
        pass

    assert sum(1 for _ in past.log.iterate()) == COUNT
    assert sum(1 for _ in past.groups[b"g"].pending.iterate()) == COUNT
    assert sum(1 for _ in past.idmp) == 100  # what a window remembers of a producer
