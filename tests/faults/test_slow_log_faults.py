"""The slow log while requests are executed in runs: it lists the requests that were slow themselves, and no other."""

import pytest

from tests.session import Session

US = 1_000
MS = 1_000_000
RUNS = {
    "XADD": "XADD s * f v",
    "XADD idempotent": "XADD s IDMP p i{} * f v",
    "SET": "SET k{} v",
    "GET": "GET k{}",
    "ZADD": "ZADD z {} m{}",
    "ZSCORE": "ZSCORE z m",
    "XACK": "XACK s g {}-1",
    "XDEL": "XDEL s {}-1",
    "XRANGE": "XRANGE s {}-1 + COUNT 1",
}


class Took:
    """A stopwatch: what a list says is what passes between two looks at it, the first to the last, and then nothing."""

    def __init__(self, session: Session) -> None:
        self.steps: list[int] = []
        self.now_ns = 0
        self.each_ns = 0
        session.engine.calls.stopwatch = self

    def __call__(self) -> int:
        self.now_ns += self.steps.pop(0) if self.steps else self.each_ns
        return self.now_ns


def requests_of(kind: str, count: int) -> list[list[str]]:
    return [RUNS[kind].format(*[number] * 2).split() for number in range(1, count + 1)]


@pytest.fixture
def session() -> Session:
    session = Session()
    session.do("XADD s 1-1 f v")
    session.do("XGROUP CREATE s g 0")
    session.do("ZADD z 1 m")
    return session


def send(client, kind: str, count: int) -> None:
    client.send(*requests_of(kind, count))
    assert len(client.replies()) == count


def slow(session: Session) -> list[tuple[int, list[bytes]]]:
    return [(row[2], row[3]) for row in session.do("SLOWLOG GET -1")]


@pytest.mark.parametrize("kind", RUNS)
def test_faults2_4_5_of_a_run_that_was_slow_once_one_request_is_listed(session, kind):
    session.do("CONFIG SET slowlog-log-slower-than 500")
    send(session, kind, 100)
    took = Took(session)
    took.steps = [0, 0, 51 * MS]
    send(session, kind, 50)
    took.steps = []
    (only,) = slow(session)
    assert only[0] == 51_000
    assert only[1] == [kind.split()[0].encode(), b"... (one of 50 requests that were executed as one)"]
    assert b"calls=%d," % (150 + kind.startswith(("XADD", "ZADD"))) in session.do("INFO commandstats")


@pytest.mark.parametrize("kind", RUNS)
def test_faults2_4_5_a_run_of_quick_requests_is_no_slow_request_however_long_it_is(session, kind):
    session.do("CONFIG SET slowlog-log-slower-than 500")
    send(session, kind, 200)
    took = Took(session)
    took.steps = [0, 0, 100 * 10 * US]  # twice the threshold in all
    send(session, kind, 100)
    assert slow(session) == []


@pytest.mark.parametrize("kind", RUNS)
def test_faults2_4_5_all_are_listed_where_all_are_asked_for(session, kind):
    session.do("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 1000")
    session.do("SLOWLOG RESET")
    took = Took(session)
    took.each_ns = 100 * US
    send(session, kind, 50)
    took.each_ns = 0
    found = [words for _, words in slow(session)]
    assert found[::-1][1:51] == [[word.encode() for word in one] for one in requests_of(kind, 50)]


@pytest.mark.parametrize("option", ["MAXLEN 2", "MINID 3000"])
@pytest.mark.parametrize("streams", [1, 2])
def test_faults2_4_5_a_request_that_trims_much_is_executed_and_so_timed_alone(option: str, streams: int):
    session = Session()
    for name in range(streams):
        session.send(*([b"XADD", b"s%d" % name, b"%d-1" % number, b"f", b"v"] for number in range(1, 3_000)))
    session.replies()
    seen = session.batches(b"xadd")
    requests = [["XADD", f"s{number % streams}", *option.split(), "*", "f", "v"] for number in range(50)]
    session.send(*requests)
    assert len(session.replies()) == 50
    assert seen[0] == 0
    assert 50 - streams - 1 <= sum(seen) <= 50 - streams  # (a run is not tried at each request)
    assert session.do("XLEN s0") == (2 if option == "MAXLEN 2" else 50 // streams)


def test_faults2_4_5_latency_has_one_event_and_counts_each_call(session):
    session.do("CONFIG SET latency-monitor-threshold 5 latency-tracking yes slowlog-log-slower-than -1")
    session.do("CONFIG RESETSTAT")
    took = Took(session)
    took.steps = [0, 0, 51 * MS]
    send(session, "XADD", 50)
    took.steps = []
    (latest,) = session.do("LATENCY LATEST")
    assert latest[0] == b"fast-command"
    assert latest[2:] == [50, 50]
    assert session.do("LATENCY HISTOGRAM xadd")[1][1] == 50
    assert slow(session) == []


def test_faults2_4_5_of_what_several_clients_sent_one_request_is_listed(session):
    session.do("CONFIG SET slowlog-log-slower-than 500")
    clients = [session.connect() for _ in range(50)]
    took = Took(session)
    took.each_ns = 0
    for client in clients:
        assert session.engine.gathering.take(client.client, [[b"XADD", b"s", b"*", b"f", b"v"]])
    took.steps = [0, 40 * MS]
    session.engine.end_turn()
    took.steps = []
    assert all(len(client.replies()) == 1 for client in clients)
    assert [words for _, words in slow(session)] == [[b"XADD", b"... (one of 50 requests that were executed as one)"]]
