"""What commands on strings, hashes and keys leave for the journal: what was decided, which replays to the same."""

import pytest

from streamd.data.hash import Hash
from streamd.data.timed_hash import times_of
from streamd.durability.replay import Replay
from tests.session import Session

REQUESTS = """
SET a 1|SET a 2 EX 100|SET a 3 KEEPTTL|SET a 4 NX|SET a 5 XX GET PX 5000|SET b 1 PXAT 1000000005000|GETSET a 7
SETNX c 1|SETNX c 2|SETEX d 10 v|PSETEX e 10 v|GETDEL c|GETDEL nokey|GETEX d EX 50|GETEX d PERSIST|GETEX d PXAT 1
MSET x 1 y 2|MSETNX x 1 z 2|MSETNX z 1 w 2|INCR x|DECRBY x 5|INCRBYFLOAT x 0.5|APPEND y z|SETRANGE y 5 Q|SETRANGE y 0 R
HSET h a 1 b 2 c 3|HMSET h d 4|HSETNX h a 9|HSETNX h e 9|HINCRBY h a 5|HDEL h b nofield|HSET gone f v|HDEL gone f
HPEXPIRE h 90 FIELDS 3 a c e|HINCRBY h a 1|HPERSIST h FIELDS 1 c|HSETEX t EX 9 FIELDS 2 f 1 g 2
HSETEX t KEEPTTL FIELDS 1 f 3|HGETEX t PX 70 FIELDS 1 f|HSET t g 1|HGETDEL t FIELDS 1 g|HSET t g 1
HEXPIRE t 0 FIELDS 1 g|COPY t t2|HPEXPIRE t2 0 FIELDS 1 f
BITFIELD bits SET u8 0 7|BITFIELD bits OVERFLOW FAIL INCRBY u2 100 9 GET u8 0
EXPIRE x 100|PEXPIRE y 7|PERSIST x|EXPIREAT x 1000000100|EXPIRE x 50 LT|EXPIRE w -1|EXPIRE nokey 5
RENAME x x2|RENAMENX x2 y|RENAMENX x2 x3|RENAME x3 y|COPY y y2|COPY y y2 REPLACE|COPY y y3 DB 3|MOVE y2 3|MOVE y2 4
DEL a b nokey|UNLINK h|SWAPDB 0 3|SET after swap|SELECT 3|SET in three|SELECT 0|FLUSHDB|SET one more
MULTI|SET m 1|INCR m|DEL m|SET m 5|EXEC|SELECT 2|SET q 1|FLUSHALL|HSET last f v
""".replace("\n", "|")


def state_of(session: Session) -> list[tuple[dict, dict, dict]]:
    return [
        (
            db.values,
            db.expires_ms,
            {key: times_of(value) for key, value in db.values.items() if isinstance(value, Hash)},
        )
        for db in session.state.keyspace
    ]


def replayed(records: list[tuple[int, list[bytes]]]) -> Session:
    session = Session()
    replay = Replay(session.state)
    replay.borrow()
    for db_index, words in records:
        assert replay.apply(db_index, words) is None
    replay.finish()
    return session


def test_replaying_the_records_of_every_prefix_gives_the_state_that_was_there(engine):
    records = engine.record()
    for request in filter(None, REQUESTS.split("|")):
        engine.do(request)
        assert state_of(replayed(records)) == state_of(engine), request


@pytest.mark.parametrize(
    ("request_", "records"),
    [
        ("SET k v EX 10", ["SET k v PXAT 1000000010000"]),
        ("SET k v NX", []),
        ("GETEX k EX 10", ["PEXPIREAT k 1000000010000"]),
        ("GETEX k EXAT 1", ["DEL k"]),
        ("EXPIRE k 10", ["PEXPIREAT k 1000000010000"]),
        ("EXPIRE k 0", ["DEL k"]),
        ("INCR k", ["INCRBY k 1"]),
        ("INCRBYFLOAT k 1.5", ["SET k 2.5 KEEPTTL"]),
        ("GETDEL k", ["DEL k"]),
        ("UNLINK k nokey k2", ["DEL k", "DEL k2"]),
        ("MSET k 1 k2 2", ["SET k 1", "SET k2 2"]),
        ("RENAMENX k j", ["RENAME k j"]),
        ("RENAMENX k k2", []),
        ("COPY k j", ["COPY k j DB 0 REPLACE"]),
        ("MOVE k 1", ["MOVE k 1"]),
        ("HSETNX h f v", ["HSET h f v"]),
        ("HINCRBY h f 5", ["HSET h f 5"]),
        ("GET k", []),
        ("SETRANGE k 0 ", []),
    ],
)
def test_what_was_decided_is_recorded(engine, request_, records):
    engine.do("SET k 1")
    engine.do("SET k2 1")
    recorded = engine.record()
    engine.execute(request_.split(" "))
    assert [b" ".join(words).decode() for _, words in recorded] == records


def test_a_key_that_a_read_finds_expired_is_recorded_as_deleted(engine, clock):
    engine.do("SELECT 2")
    engine.do("SET k v PX 10")
    recorded = engine.record()
    clock.advance(10)
    engine.do("GET k")
    assert recorded == [(2, [b"DEL", b"k"])]
