"""All keys of a database in parts: the streams among them, while keys come and go."""

import pytest

from streamd.data import listing
from streamd.data.listing import streams_of
from tests.session import Session

KEYS = 1_000

pytestmark = pytest.mark.interpreted(reason="it changes constants of a module")


@pytest.fixture
def session(monkeypatch):
    monkeypatch.setattr(listing, "KEYS_PER_SLICE", 60)
    monkeypatch.setattr(listing, "LOOKED_AT", 10)
    session = Session()
    session.send(*[["XADD", f"s{number}", "*", "f", "v"] for number in range(0, KEYS, 2)])
    session.send(*[["SET", f"k{number}", "v"] for number in range(1, KEYS, 2)])
    session.received()
    session.execute(["SELECT", "1"])
    session.execute(["XADD", "other", "*", "f", "v"])
    session.execute(["SELECT", "0"])
    return session


def steps(session, monkeypatch, between=lambda: None):
    """Return the streams that were found, and the most keys that were listed or looked at in one step."""
    most, work = 0, 0
    islice = listing.islice

    def counting(keys, count):
        nonlocal work
        part = list(islice(keys, count))
        work += len(part)
        return part

    monkeypatch.setattr(listing, "islice", counting)
    found = []
    for stream in streams_of(session.state.keyspace):
        if stream is not None:
            found.append(stream)
            work += 1
            continue
        most, work = max(most, work), 0
        between()
    return found, max(most, work)


def all_streams(session):
    return [value for db in session.state.keyspace for value in db.values.values() if hasattr(value, "log")]


def test_all_streams_are_found_and_no_step_takes_more_than_a_part(session, monkeypatch):
    found, most = steps(session, monkeypatch)
    assert len(found) == KEYS // 2 + 1
    assert {*map(id, found)} == {*map(id, all_streams(session))}
    assert most == 60


def test_streams_that_stay_are_found_where_keys_come_all_the_time(session, monkeypatch):
    there = all_streams(session)
    come = iter(range(100_000))
    found, most = steps(session, monkeypatch, lambda: session.execute(["SET", f"new{next(come)}", "v"]))
    assert {*map(id, there)} <= {*map(id, found)}
    assert most < KEYS


def test_a_stream_that_goes_is_passed_over(session, monkeypatch):
    gone = iter(range(0, KEYS, 2))
    found, _ = steps(session, monkeypatch, lambda: session.execute(["DEL", f"s{next(gone, 0)}"]))
    assert {*map(id, found)} >= {*map(id, all_streams(session))}
