"""Random requests while blocks come and go: each client gets the replies that it gets without cold entries."""

import random

import pytest

from tests.cold.cold_server import ColdSession, evict, list_of, make_cold
from tests.session import Error, Session, SessionClient

CLIENTS = 3
STEPS = 250


class Writer:
    """Makes the requests of one client, all to one stream."""

    def __init__(self, number: int, seed: int) -> None:
        self.chance = random.Random(seed * 100 + number)
        self.key = b"s%d" % number
        self.last = 0

    def id(self) -> bytes:
        return b"%d-0" % self.chance.randint(1, self.last + 2)

    def requests(self) -> list[list[bytes]]:
        chance, key = self.chance, self.key
        kind = chance.choice(
            ["add"] * 3 + ["range"] * 3 + ["back", "del", "trim", "len", "info", "read", "many", "multi", "group"]
            + ["new", "history", "ack", "claim", "pending", "split"]
        )  # fmt: skip
        count = b"%d" % chance.choice((1, 2, 10, 150))
        if kind == "add":
            added = []
            for _ in range(chance.choice((1, 10, 300))):
                self.last += chance.choice((1, 1, 2))
                value = chance.randbytes(chance.choice((10, 100, 400)))
                added.append([b"XADD", key, b"%d-0" % self.last, b"f", value])
            return added
        if kind == "range":
            return [[b"XRANGE", key, self.id(), b"+", b"COUNT", count]]
        if kind == "back":
            return [[b"XREVRANGE", key, self.id(), self.id(), b"COUNT", count]]
        if kind == "del":
            return [[b"XDEL", key, *[self.id() for _ in range(chance.choice((1, 5)))]]]
        if kind == "trim":
            if chance.random() < 0.5:
                return [[b"XTRIM", key, b"MAXLEN", chance.choice((b"=", b"~")), b"%d" % (self.last // 2)]]
            return [[b"XTRIM", key, b"MINID", b"=", b"%d-0" % (self.last // 4)]]
        if kind == "len":
            return [[b"XLEN", key], [b"EXISTS", key]]
        if kind == "info":
            return [[b"XINFO", b"STREAM", key], [b"XINFO", b"STREAM", key, b"FULL", b"COUNT", b"3"]]
        if kind == "read":
            return [[b"XREAD", b"COUNT", count, b"STREAMS", key, self.id()]]
        if kind == "many":
            return [[b"XRANGE", key, self.id(), b"+", b"COUNT", b"2"] for _ in range(20)]
        if kind == "multi":
            read = [b"XRANGE", key, self.id(), b"+", b"COUNT", count]
            return [[b"MULTI"], read, [b"XDEL", key, self.id()], [b"EXEC"]]
        if kind == "group":
            return [[b"XGROUP", b"CREATE", key, b"g", self.id()]]
        if kind == "new":
            return [[b"XREADGROUP", b"GROUP", b"g", b"ann", b"COUNT", count, b"STREAMS", key, b">"]]
        if kind == "history":
            return [[b"XREADGROUP", b"GROUP", b"g", b"ann", b"COUNT", count, b"STREAMS", key, b"0"]]
        if kind == "ack":
            return [[b"XACK", key, b"g", self.id(), self.id()]]
        if kind == "claim":
            return [[b"XCLAIM", key, b"g", b"bob", b"0", self.id(), self.id()],
                    [b"XAUTOCLAIM", key, b"g", b"ann", b"0", b"0", b"COUNT", b"5"]]  # fmt: skip
        if kind == "pending":
            return [[b"XPENDING", key, b"g"], [b"XPENDING", key, b"g", b"-", b"+", b"10"]]
        return [[b"XSPLIT", key, b"-", b"+", b"100"]]


def is_alike(one: object, other: object) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_alike, one, other))
    return one == other


@pytest.mark.parametrize("seed", range(8))
def test_the_replies_are_those_without_cold_entries(seed):
    chance = random.Random(seed)
    cold, plain = ColdSession(), Session()
    records, wanted_records = cold.record(), plain.record()
    cold.store.cache.bytes_max = chance.choice((400_000, 4_000_000))
    disk = cold.store.files._files
    writers = [Writer(number, seed) for number in range(CLIENTS)]
    clients = [cold.connect() for _ in writers]
    twins = [plain.connect() for _ in writers]
    for step in range(STEPS):
        number = chance.randrange(CLIENTS)
        requests = writers[number].requests()
        clients[number].send(*requests)
        twins[number].send(*requests)
        for _ in range(chance.choice((0, 0, 1, 3))):
            if cold.reader.jobs:
                cold.reader.jobs.pop(chance.randrange(len(cold.reader.jobs))).wait()
        cold.turn()
        if chance.random() < 0.2:
            keys = [one.key for one in writers if cold.do(f"EXISTS {one.key.decode()}")]
            keys = [key for key in keys if cold.engine.state.keyspace[0].values[key].log.sealed is not None]
            if any(list_of(cold.engine, key).oldest_unwritten(1) for key in keys):
                make_cold(cold.engine, *keys)
        if chance.random() < 0.3:
            evict(cold.engine)
        disk.is_cached = chance.random() < 0.2
        if step % 10 == 9:
            cold.read()
            for one, (client, twin) in enumerate(zip(clients, twins, strict=True)):
                check(client, twin, f"client {one} of seed {seed} in front of step {step}")
    for one in writers:
        key = one.key
        assert [words for _, words in records if key in words] == [words for _, words in wanted_records if key in words]
    assert cold.state.stats.internal_errors == 0
    assert cold.reader.count > 5
    assert cold.store.in_place == 0
    assert all(not one.pins for one in cold.store.cache._blocks.values())


def check(client: SessionClient, twin: SessionClient, where: str) -> None:
    found, wanted = client.replies(), twin.replies()
    assert len(found) == len(wanted), where
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, Error):
            assert is_alike(one, other), where
        else:
            assert one == other, where
