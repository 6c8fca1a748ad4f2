"""Runs of requests that are executed as one, on a stream whose entries are in segment files."""

import pytest

from streamd.engine.admission import find_command
from streamd.resp.template import RequestRows
from streamd.stream.log.absent import Absent
from tests.cold.cold_twins import Twins, state_of
from tests.session import Session

RUNS = {
    "deletions": [f"XDEL s {ms}-0" for ms in (170, 175, 180, 330, 290, 470, 590)],
    "acknowledgements": [f"XACK s g {ms}-0" for ms in (170, 175, 180, 330)],
    "ranges": [f"XRANGE s {ms} + COUNT 4" for ms in (170, 175, 300, 480, 0)],
    "entries": [f"XADD s * n {number}" for number in range(5)],
    "entries and a length": [f"XADD s MAXLEN 30 * n {number}" for number in range(5)],
    "entries and about a length": [f"XADD s MAXLEN ~ 30 * n {number}" for number in range(5)],
    "entries and a first ID": [f"XADD s MINID 345 * n {number}" for number in range(5)],
    "entries and a first ID with a limit": [f"XADD s MINID ~ 345 LIMIT 100 * n {number}" for number in range(5)],
    "entries and references": [f"XADD s DELREF MAXLEN 30 * n {number}" for number in range(5)],
    "entries of two streams": [f"XADD {'s' if number % 2 else 'other'} MINID 345 * n {number}" for number in range(6)],
}


def take(session: Session, lines: list[str]) -> tuple[int, bytes]:
    """Return how many of some requests a batch function took, and their replies. Raises: Absent."""
    rows = [[word.encode() for word in line.split()] for line in lines]
    client = session.engine.connect()
    session.state.time.ms = session.clock.now_ms()
    command = find_command(session.engine.commands, rows[0])
    assert command.batch is not None
    try:
        taken = command.batch.take(client, RequestRows(rows))
        return taken, b"".join(client.out)
    finally:
        client.out.clear()


@pytest.mark.interpreted(reason="stores and files of the test")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_what_it_takes_in_memory_or_has_changed_nothing(tmp_path, name):
    twins = Twins(str(tmp_path))
    for session in (twins.plain, twins.cold):
        session.execute(["CONFIG", "SET", "notify-keyspace-events", ""])
    expected = take(twins.plain, RUNS[name])
    assert expected[0] == len(RUNS[name])
    before = state_of(twins.cold)
    taken = -1, b""

    for accesses in range(1_000):
        twins.store.left = accesses
        try:
            taken = take(twins.cold, RUNS[name])
        except Absent:
            assert not name.startswith("entries"), "XADD never waits"
            assert state_of(twins.cold) == before
            continue
        finally:
            twins.store.left = None
        if taken[0] == expected[0]:
            break
        # A part of them: the next one waits.
        assert name == "ranges"
        assert expected[1].startswith(taken[1])
        assert state_of(twins.cold) == before

    assert taken == expected
    plain, cold = twins.states()
    assert cold == plain
