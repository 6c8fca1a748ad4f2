"""In each scenario of scenarios/ every client gets, byte for byte, what Redis 8.10.2 would have sent it."""

import re
import shlex
import time
from pathlib import Path

import pytest

from scripts.newest_redis import VERSION
from streamd.base.clock import ManualClock
from streamd.base.version import REDIS_VERSION
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

Step = tuple[str, list[list[bytes]]]
TABLES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
# The module that Redis 8 has built in, in the reply to HELLO.
MODULE = re.compile(rb"\*1\r\n(?:%4|\*8)\r\n\$4\r\nname\r\n\$9\r\nvectorset\r\n(?:\S*\r\n)*?\$4\r\nargs\r\n\*0\r\n")
MONITOR_TIME = re.compile(rb"\d{10}\.\d{6} \[(\d+) [^\]]*\]")


def scenarios(table: Path) -> list[list[Step]]:
    """Return the steps of each scenario, (client, requests); blank lines stand between scenarios."""
    found: list[list[Step]] = [[]]
    for line in table.read_text().splitlines():
        if not line and found[-1]:
            found.append([])
        elif line and not line.startswith("#"):
            client, text = line.split(": ", 1)
            requests = [[as_bytes(word) for word in shlex.split(one)] for one in text.split(" ; ")]
            found[-1].append((client, requests))
    return [steps for steps in found if steps]


def as_bytes(word: str) -> bytes:
    return word.encode().decode("unicode_escape").encode("latin-1")


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def normal(data: bytes) -> bytes:
    data = MODULE.sub(b"*0\r\n", data.replace(REDIS_VERSION.encode(), VERSION.encode()))
    return re.sub(rb"(\$2\r\nid\r\n):\d+", rb"\1:0", MONITOR_TIME.sub(rb"TIME [\1 ADDRESS]", data))


def run_on_redis(port: int, steps: list[Step]) -> list[dict[str, bytes]]:
    """Return what each client got in each step.

    Two round trips on a further connection, of a command that MONITOR does not show, end a step: the first is
    answered not before the step's requests were read, the second not before what they caused was sent.
    """
    control = RawClient(port)
    control.ask([b"FLUSHALL"])
    clients: dict[str, RawClient] = {}
    got = []
    for name, requests in steps:
        if name not in clients:
            clients[name] = RawClient(port)
        clients[name].send(*requests)
        # (Redis frees in the background what FLUSHALL removes, and replies when that is done.)
        for _ in range(500 if any(request[0].lower().startswith(b"flush") for request in requests) else 2):
            control.ask([b"CLIENT", b"LIST"])
        got.append({name: data for name, client in clients.items() if (data := normal(client.arrived()))})
    for client in (*clients.values(), control):
        client.close()
    return got


def run_on_streamd(steps: list[Step]) -> list[dict[str, bytes]]:
    session = Session(ManualClock(time.time_ns() // 1_000_000))
    clients = {}
    got = []
    for name, requests in steps:
        if name not in clients:
            clients[name] = session.connect()
        clients[name].send(*requests)
        if clients[name].client.close_soon:
            clients[name].disconnect()
        got.append({name: data for name, client in clients.items() if (data := normal(client.received()))})
    return got


def marks_of(table: Path, at: int) -> list:
    """Return the marks of a scenario: the third of clients.txt shows a difference that docs/differences.md lists."""
    listed = pytest.mark.xfail(strict=True, reason="docs/differences.md: a client that publishes to itself")
    return [listed] if (table.stem, at) == ("clients", 3) else []


def named_scenarios() -> list:
    """Return each scenario with a name: its table and its first request."""
    return [
        pytest.param(steps, id=f"{table.stem}: {steps[0][1][0][0].decode()} {at}", marks=marks_of(table, at))
        for table in TABLES
        for at, steps in enumerate(scenarios(table), 1)
    ]


@pytest.mark.parametrize("steps", named_scenarios())
def test_every_client_gets_what_redis_would_have_sent(port, steps):
    theirs, ours = run_on_redis(port, steps), run_on_streamd(steps)
    differences = [
        (step, redis, streamd) for step, redis, streamd in zip(steps, theirs, ours, strict=True) if redis != streamd
    ]
    assert differences == []
