"""Trims that look at the groups take the entries that Redis 8.10.2 takes, and a journal repeats them in other nodes."""

import random

import pytest
import redis

from streamd.durability.replay import Replay
from tests.differential.redis_process import needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port, redis.Redis(port=port, protocol=2) as client:
        client.response_callbacks.clear()
        yield client


class Both:
    """Redis, and an engine that notes its journal's records."""

    def __init__(self, server):
        self.server = server
        server.flushall()
        self.session = Session()
        self.records = self.session.record()
        self.repeating = Session()
        self.repeating.do("CONFIG SET stream-node-max-entries 4")
        self.replay = Replay(self.repeating.state)

    def do(self, line):
        """Return the reply, which is the same of both."""
        found, wanted = self.session.do(line), self.server.execute_command(*line.split())
        assert found == (wanted.decode() if wanted == b"OK" else wanted), line
        return found

    def entries(self):
        """Return the IDs of the stream, the same in both and in an engine with other nodes."""
        found = [one[0] for one in self.do("XRANGE s - +")]
        for record in self.records:
            assert self.replay.apply(*record) is None
        self.records.clear()
        assert [one[0] for one in self.repeating.do("XRANGE s - +")] == found
        return found


@pytest.mark.parametrize("line", ["XTRIM s MAXLEN {} ACKED", "XTRIM s MAXLEN ~ {} ACKED LIMIT 100"])
@pytest.mark.parametrize("acked", range(1, 9))
@pytest.mark.parametrize("node", [1, 2, 3, 100])
def test_a_trim_to_a_length_ends_behind_the_first_node_that_may_not_go_whole(server, line, acked, node):
    for length in range(9):
        both = Both(server)
        both.do(f"CONFIG SET stream-node-max-entries {node}")
        for number in range(1, 9):
            both.do(f"XADD s {number}-0 f v")
        both.do("XGROUP CREATE s g 0")
        both.do("XREADGROUP GROUP g c STREAMS s >")
        both.do("XACK s g " + " ".join(f"{number}-0" for number in range(acked, min(acked + 3, 9))))
        both.do(line.format(length))
        both.entries()


@pytest.mark.parametrize("seed", range(40))
def test_random_trims_take_the_same_entries(server, seed):
    choose = random.Random(seed)
    both = Both(server)
    both.do(f"CONFIG SET stream-node-max-entries {choose.choice([1, 2, 3, 5])}")
    for group in "gh"[: 1 + seed % 2]:
        both.do(f"XGROUP CREATE s {group} 0 MKSTREAM")
    number, trims = 0, 0
    for _ in range(120):
        kind, group = choose.random(), choose.choice("gh"[: 1 + seed % 2])
        ids = [one.decode() for one in both.entries()]
        length = max(len(ids) - choose.choice([0, 1, 1, 2, 3, 5, 9]), 0)
        least = choose.choice(ids) if ids else "5-0"
        strategies = ["MAXLEN {0}", "MAXLEN ~ {0}", "MAXLEN ~ {0} LIMIT 4", "MINID {1}", "MINID ~ {1}"]
        how = choose.choice(strategies).format(length, least)
        references = choose.choice(["ACKED", "ACKED", "DELREF", "KEEPREF"])
        if kind < 0.4:
            number += 1
            both.do(f"XADD s {number}-0 f v")
        elif kind < 0.5:
            number += 1
            both.do(f"XADD s {how} {references} {number}-0 f v")
        elif kind < 0.65:
            both.do(f"XREADGROUP GROUP {group} c COUNT {choose.randrange(1, 6)} STREAMS s >")
        elif kind < 0.8 and ids:
            both.do(f"XACK s {group} {' '.join(choose.choices(ids, k=3))}")
        elif kind < 0.85 and ids:
            both.do(f"XDEL s {choose.choice(ids)}")
        else:
            trims += both.do(f"XTRIM s {how} {references}")
    assert trims
