"""A session has one owner: all orders in which two gateways' requests can reach the store."""

from itertools import combinations

import pytest
import redis

from streamd.base.clock import Clock
from streamd.clients.mqtt.store.records import (
    Found,
    Pointer,
    Record,
    creation,
    data_key,
    is_taken,
    parse_record,
    pointer_key,
    removal,
    resting,
    taking,
)
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis


@pytest.fixture(params=["streamd", pytest.param("redis", marks=needs_redis)])
def client(request, tmp_path):
    if request.param == "redis":
        with running_redis(tmp_path, None) as port, redis.Redis(port=port) as found:
            yield found
    else:
        with EmbeddedServer(Clock()) as server, server.client() as found:
            yield found


def execute(client, *requests):
    """Return the replies to requests as a link has them: errors are values, and a transaction is one unit."""
    pipeline = client.pipeline(transaction=bool(requests) and requests[0] == ("MULTI",))
    for words in requests:
        if words not in (("MULTI",), ("EXEC",)):
            pipeline.execute_command(*words)
    found = pipeline.execute(raise_on_error=False)
    return [found] if requests[0] == ("MULTI",) else found


class Gateway:
    """The requests of a gateway that owns a session, or wants to, each of which reaches the store as one."""

    def __init__(self, client, name, pointer=None):
        self.client, self.name, self.pointer = client, name, pointer
        self.read = None
        self.acted = []

    def look(self):
        text = self.client.get(pointer_key("c"))
        self.seen = None if text is None else Pointer.from_text(text)

    def take(self):
        if self.seen is None:
            return
        mine, commands = taking("c", self.seen, f"{self.name}.1")
        replies = execute(self.client, *commands)
        if is_taken(replies[-1]):
            self.pointer = mine
            fields = self.client.hgetall(data_key("c", mine.epoch))
            self.read = parse_record("c", Found(mine, [one for pair in fields.items() for one in pair]))

    def write(self, field):
        """Note something, and act on it if the session is still its own."""
        if self.pointer is None:
            return
        key = data_key("c", self.pointer.epoch)
        _, whose = execute(self.client, ("HSET", key, f"s {field}", '{"qos":1}'), ("GET", pointer_key("c")))
        if whose == self.pointer.to_text().encode():
            self.acted.append(field)
        else:
            self.client.unlink(key)
            self.pointer = None

    def leave(self):
        if self.pointer is not None:
            self.client.execute_command(*resting("c", self.pointer))
            self.pointer = None

    def end(self):
        if self.pointer is not None:
            execute(self.client, *removal("c", self.pointer, None, []))
            self.pointer = None


def orders(one, other):
    """Yield all orders of two lists."""
    size = len(one) + len(other)
    for places in combinations(range(size), len(one)):
        ones, others = iter(one), iter(other)
        yield [next(ones) if at in places else next(others) for at in range(size)]


@pytest.mark.parametrize("last", ["write", "leave", "end"])
def test_what_one_has_acted_on_the_other_finds_and_nothing_else_reaches_it(client, last):
    """The one writes, and leaves or ends the session; the other takes it amid that, and writes, too."""
    steps_a = [("a", "write", "1"), ("a", "write", "2")]
    steps_a.append(("a", "write", "3") if last == "write" else ("a", last))
    steps_b = [("b", "look"), ("b", "take"), ("b", "write", "4")]
    for order in orders(steps_a, steps_b):
        client.flushall()
        record = Record("c", expiry_s=60, pointer=Pointer(5, "a.1"))
        for words in creation(record):
            client.execute_command(*words)
        a, b = Gateway(client, "a", record.pointer), Gateway(client, "b")
        gateways = {"a": a, "b": b}
        acted_before = []
        for who, what, *rest in order:
            getattr(gateways[who], what)(*rest)
            if what == "take":
                acted_before = list(a.acted)
        a_owned_last = b.read is None
        if not a_owned_last:
            assert list(b.read.subscriptions) == acted_before, order
            assert a.acted == acted_before, order  # it has acted on nothing since
            text = client.get(pointer_key("c"))
            fields = client.hgetall(data_key("c", Pointer.from_text(text).epoch))
            expected = {f"s {one}".encode() for one in [*acted_before, *b.acted]}
            assert {one for one in fields if one.startswith(b"s ")} == expected, order
        text = client.get(pointer_key("c"))
        assert text is None or client.exists(data_key("c", Pointer.from_text(text).epoch)), (order, "nobody finds it")
        # Nothing lies beside the session.
        keys = set(client.keys("mqtt:session:*"))
        assert len(keys) == (0 if a_owned_last and last == "end" else 2), (order, keys)


def test_of_two_that_begin_a_session_one_has_it(client):
    records = [Record("c", expiry_s=60, pointer=Pointer(epoch, f"{epoch}.1")) for epoch in (7, 8)]
    steps = [[(at, words) for words in creation(record)] for at, record in enumerate(records)]
    for order in orders(*steps):
        client.flushall()
        last = {}
        for at, words in order:
            last[at] = client.execute_command(*words)
        assert sorted(map(bool, last.values())) == [False, True]
        (winner,) = [at for at, reply in last.items() if reply]
        assert client.get(pointer_key("c")) == records[winner].pointer.to_text().encode()
        assert client.hget(records[winner].key, "uid") == records[winner].uid.encode()


@pytest.mark.parametrize("owner", [None, "dead.1"])
def test_of_two_that_take_a_session_one_has_it(client, owner):
    steps = [[(at, "look"), (at, "take")] for at in range(2)]
    for order in orders(*steps):
        client.flushall()
        record = Record("c", expiry_s=60, pointer=Pointer(5, owner))
        for words in creation(record):
            client.execute_command(*words)
        gateways = [Gateway(client, "x"), Gateway(client, "y")]
        for at, what in order:
            getattr(gateways[at], what)()
        owners = [one for one in gateways if one.pointer is not None]
        text = client.get(pointer_key("c"))
        assert text in [one.pointer.to_text().encode() for one in owners], order
        assert client.exists(data_key("c", Pointer.from_text(text).epoch))
        assert len(client.keys("mqtt:session:*")) == 2
