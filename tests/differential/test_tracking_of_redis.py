"""CLIENT TRACKING: every client gets, byte for byte and in that order, what redis-server would have sent it."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.differential.test_scenarios import Step, normal, scenarios
from tests.examples import examples
from tests.session import Session

pytestmark = needs_redis

TABLE = Path(__file__).with_name("tracking.txt")
ID_OF = re.compile(rb"\{id (\w+)\}")
# What differs for other reasons: the milliseconds in an ID that the server made.
MADE_ID = re.compile(rb"\d{13}-\d+")


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


class Redis:
    """The clients of a scenario on redis-server; ids: name -> number."""

    def __init__(self, port: int, names: list[str]) -> None:
        self.control = RawClient(port)
        self.control.ask([b"FLUSHALL"])
        self.clients = {name: RawClient(port) for name in names}
        self.ids = {name: int(client.ask([b"CLIENT", b"ID"])[1:]) for name, client in self.clients.items()}

    def run(self, name: str, requests: list[list[bytes]]) -> dict[str, bytes]:
        """Return who got what.

        Two round trips of a further client end a step: the first is answered not before the step's requests were read,
        the second not before what they caused was sent.
        """
        self.clients[name].send(*requests)
        # (Redis frees in the background what FLUSHALL removes, and replies when that is done.)
        for _ in range(500 if any(request[0].startswith(b"flush") for request in requests) else 2):
            self.control.ask([b"PING"])
        return {name: data for name, client in self.clients.items() if (data := client.arrived())}

    def close(self) -> None:
        for client in (*self.clients.values(), self.control):
            client.close()


def streamd_beside(redis: Redis) -> tuple[Session, dict]:
    """Return a session with the same clients, which have the same numbers."""
    session = Session(ManualClock(time.time_ns() // 1_000_000))
    clients = {}
    for name, number in redis.ids.items():
        session.state.last_client_id = number - 1
        clients[name] = session.connect()
    return session, clients


def differences_of(port: int, steps: list[Step]) -> list[tuple]:
    """Return the steps in which somebody got something else, with what both sent."""
    redis = Redis(port, list(dict.fromkeys(name for name, _ in steps)))
    session, clients = streamd_beside(redis)

    def with_ids(request: list[bytes]) -> list[bytes]:
        return [ID_OF.sub(lambda found: b"%d" % redis.ids[found[1].decode()], word) for word in request]

    differences = []
    for name, requests in steps:
        requests = [with_ids(request) for request in requests]
        session.clock.set(time.time_ns() // 1_000_000)
        theirs = redis.run(name, requests)
        clients[name].send(*requests)
        if clients[name].client.close_soon:
            clients[name].disconnect()
        ours = received(clients)
        if comparable(theirs) != comparable(ours):
            differences.append((name, requests, theirs, ours))
        if any(b"px" in word for request in requests for word in request):
            redis.control.ask([b"DEBUG", b"SLEEP", b"0.003"])  # the key's time passes, on both
    redis.close()
    assert session.state.stats.internal_errors == 0
    return differences


def comparable(got: dict[str, bytes]) -> dict[str, bytes]:
    return {name: normal(MADE_ID.sub(b"ID", data)) for name, data in got.items()}


def received(clients: dict) -> dict[str, bytes]:
    return {name: data for name, client in clients.items() if (data := client.received())}


# What docs/differences.md says of tracking; these scenarios show it.
DIFFERING = {3, 6, 7, 9, 18}


def marked_scenarios() -> list:
    """Return the scenarios; those that show a listed difference have to fail."""
    listed = pytest.mark.xfail(strict=True, reason="docs/differences.md: CLIENT TRACKING")
    return [
        pytest.param(steps, id=f"{at}", marks=[listed] if at in DIFFERING else [])
        for at, steps in enumerate(scenarios(TABLE))
    ]


@pytest.mark.parametrize("steps", marked_scenarios())
def test_every_client_is_told_what_redis_would_have_told_it(port, steps: list[Step]):
    differences = differences_of(port, steps)
    assert differences == [], "\n".join(map(str, differences))


WRITES = [
    line.encode().split()
    for line in (
        "set K 1", "set K 1 px 1", "del K", "mset K 1 J 2", "rename K J", "renamenx K J", "move K 1", "move K 0",
        "copy K J", "copy K J db 1 replace", "expire K 100", "persist K", "expire K -1", "getdel K", "incr K",
        "append K x", "setrange K 0 ab", "getex K persist", "xadd X * f v", "xadd X maxlen 1 * f v", "xtrim X maxlen 0",
        "xdel X 1-1", "xadd X 1-1 f v", "lpush L a", "lpop L", "rpoplpush L L2", "del L X", "zadd Z 1 m", "zadd Z 2 m",
        "zrem Z m", "hset H f v", "hdel H f", "sadd S m", "srem S m", "swapdb 0 1", "unlink K J",
        "sort L alpha store K",
    )
    # (Of FLUSHDB and FLUSHALL the order of reply and push differs: docs/differences.md.)
]  # fmt: skip
READS = [
    line.encode().split()
    for line in (
        "get K", "mget K J", "exists K L X", "ttl K", "strlen J", "xlen X", "xrange X 9 9",
        "xread streams X 99999999999999", "llen L", "lrange L2 5 6",
        "zcard Z", "zscore Z m", "hget H f", "hlen H", "scard S", "type K",
        "client caching yes", "client caching no", "touch J",
    )
]  # fmt: skip
KEYS = {b"K": b"k", b"J": b"ka", b"X": b"x", b"L": b"l", b"L2": b"kl", b"Z": b"z", b"H": b"h", b"S": b"s"}


def named(request: list[bytes]) -> list[bytes]:
    return [KEYS.get(word, word) for word in request]


plain = st.sampled_from([named(one) for one in WRITES + READS + READS])
request = st.one_of(plain, plain, plain, st.sampled_from([[b"select", b"0"], [b"select", b"1"]]))
several = st.one_of(
    st.lists(request, min_size=1, max_size=4),
    st.lists(request, min_size=1, max_size=4).map(lambda requests: [[b"multi"], *requests, [b"exec"]]),
)
MODES = ["", "noloop", "optin", "optout", "bcast", "bcast noloop", "bcast prefix k", "bcast prefix ka prefix x"]


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(MODES), st.sampled_from(MODES), st.lists(st.tuples(st.sampled_from("aabbc"), several), max_size=14)
)
def test_random_requests_invalidate_what_they_do_in_redis(port, mode, other_mode, steps):
    begin: list[Step] = [
        ("a", [[b"hello", b"3"], b"client tracking on".split() + mode.encode().split()]),
        ("c", [[b"hello", b"3"], b"client tracking on".split() + other_mode.encode().split()]),
        ("b", [[b"debug", b"set-active-expire", b"0"]]),
    ]
    differences = differences_of(port, begin + steps)
    assert differences == [], "\n".join(map(str, differences))
