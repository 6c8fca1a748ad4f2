"""What the stream commands record is enough: repeated on an empty server, it makes the same streams."""

import random

import pytest

from streamd.durability.replay import Replay
from streamd.stream.stream import Stream
from tests.session import Session


def state(session):
    """All that streams are made of, the times at which consumers were seen aside."""
    found = {}
    for key, stream in session.state.keyspace[0].values.items():
        if type(stream) is not Stream:
            continue
        groups = {
            name: (
                group.last_id,
                group.entries_read,
                sorted(group.consumers),
                [(row[0], None if row[1] is None else row[1].name, row[2], row[3]) for row in group.pending.iterate()],
                list(group.pending.nacked),
            )
            for name, group in (stream.groups or {}).items()
        }
        counters = (stream.last_id, stream.entries_added, stream.max_deleted_id)
        settings = (stream.idmp.duration_s, stream.idmp.maxsize)
        found[key] = (list(stream.log.iterate()), counters, settings, groups)
    return found


def replayed(session, records):
    """A server that did nothing but what was recorded, much later."""
    other = Session()
    other.clock.set(session.clock.now_ms() + 10_000_000)
    replay = Replay(other.state)
    for db_index, words in records:
        if words[0] != b"XGROUPSEEN":
            assert replay.apply(db_index, words) is None, words
    return other


def request(chance):
    """A random request that has good chances to change something."""

    def number(most):
        return str(chance.randrange(1, most))

    def ids(most):
        return [f"{chance.randrange(1, 30)}-0" for _ in range(chance.randrange(1, most))]

    key, group, consumer = chance.choice("st"), chance.choice("gh"), chance.choice("abc")
    references = chance.choice([[], ["KEEPREF"], ["DELREF"], ["ACKED"]])
    some = ids(5)
    return chance.choice(
        [
            ["XADD", key, f"{chance.randrange(1, 30)}-0", "f", number(99)],
            ["XADD", key, f"{chance.randrange(1, 30)}-0", "f", number(99)],
            [
                "XADD",
                key,
                "MAXLEN",
                chance.choice("=~"),
                number(9),
                *references,
                f"{chance.randrange(1, 30)}-0",
                "f",
                "v",
            ],
            ["XADD", key, "IDMP", "p", number(4), "*", "f", "v"],
            ["XADD", key, "IDMPAUTO", "p", "*", "f", number(4)],
            ["XDEL", key, *some],
            ["XTRIM", key, "MINID", chance.choice("=~"), number(20), *references],
            ["XSETID", key, "1000000000000-50", "ENTRIESADDED", "99"],
            ["XCFGSET", key, "IDMP-MAXSIZE", number(5)],
            ["XIDMP", "CFGSET", key, "DURATION", number(100)],
            ["XGROUP", "CREATE", key, group, chance.choice(["0", "$", "5-0"]), "MKSTREAM"],
            ["XGROUP", "CREATE", key, group, "0", "ENTRIESREAD", number(9)],
            ["XGROUP", "CREATE", key, group, "0", "FILTER", "FIELD", "f", chance.choice(["EQ", "GLOB"]), number(9)],
            ["XGROUP", "SETID", key, group, "0"],
            ["XGROUP", "DESTROY", key, group] if chance.random() < 0.2 else ["PING"],
            ["XGROUP", "DELCONSUMER", key, group, consumer] if chance.random() < 0.3 else ["PING"],
            ["XREADGROUP", "GROUP", group, consumer, "COUNT", number(9), "STREAMS", key, ">"],
            ["XREADGROUP", "GROUP", group, consumer, "STREAMS", key, ">"],
            ["XREADGROUP", "GROUP", group, consumer, "COUNT", number(9), "STREAMS", key, "0"],
            ["XREADGROUP", "GROUP", group, consumer, "NOACK", "COUNT", "1", "STREAMS", key, ">"],
            ["XREADGROUP", "GROUP", group, consumer, "CLAIM", number(20), "STREAMS", key, ">"],
            ["XREADGROUP", "GROUP", group, consumer, "STREAMS", "s", "t", ">", ">"],
            ["XACK", key, group, *some],
            ["XCLAIM", key, group, consumer, "0", *some, *chance.choice([[], ["FORCE"], ["JUSTID"], ["IDLE", "7"]])],
            ["XCLAIM", key, group, consumer, "0", *some, "LASTID", some[0]],
            ["XAUTOCLAIM", key, group, consumer, number(20), "-", "COUNT", number(5)],
            ["XDELEX", key, *references, "IDS", str(len(some)), *some],
            ["XACKDEL", key, group, *references, "IDS", str(len(some)), *some],
            ["XNACK", key, group, chance.choice(["SILENT", "FAIL", "FATAL"]), "IDS", str(len(some)), *some],
            ["XNACK", key, group, "FAIL", "IDS", str(len(some)), *some, "RETRYCOUNT", number(9), "FORCE"],
        ]
    )


@pytest.mark.parametrize("seed", range(30))
def test_the_records_of_random_commands_make_the_same_streams(seed):
    chance = random.Random(seed)
    session = Session()
    records = session.record()
    session.do("CONFIG SET stream-node-max-entries 4")
    for _ in range(250):
        session.execute(request(chance))
        session.clock.advance(chance.randrange(9))
        assert session.state.stats.internal_errors == 0
    other = replayed(session, records)
    assert state(other) == state(session)
