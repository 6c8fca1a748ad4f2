"""CLIENT TRACKING: every client gets, byte for byte and in that order, what redis-server would have sent it."""

import re
import time
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.differential.test_scenarios import Step, normal, scenarios
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
        for _ in range(2):
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


def comparable(got: dict[str, bytes]) -> dict[str, bytes]:
    return {name: normal(MADE_ID.sub(b"ID", data)) for name, data in got.items()}


def received(clients: dict) -> dict[str, bytes]:
    return {name: data for name, client in clients.items() if (data := client.received())}


@pytest.mark.parametrize("steps", scenarios(TABLE), ids=lambda steps: " ".join(map(bytes.decode, steps[0][1][-1])))
def test_every_client_is_told_what_redis_would_have_told_it(port, steps: list[Step]):
    redis = Redis(port, list(dict.fromkeys(name for name, _ in steps)))
    session, clients = streamd_beside(redis)

    def with_ids(request: list[bytes]) -> list[bytes]:
        return [ID_OF.sub(lambda found: b"%d" % redis.ids[found[1].decode()], word) for word in request]

    differences = []
    for name, requests in steps:
        requests = [with_ids(request) for request in requests]
        theirs = redis.run(name, requests)
        clients[name].send(*requests)
        if clients[name].client.close_soon:
            clients[name].disconnect()
        ours = received(clients)
        if comparable(theirs) != comparable(ours):
            differences.append((name, requests, theirs, ours))
    redis.close()
    assert differences == [], "\n".join(map(str, differences))
    assert session.state.stats.internal_errors == 0
