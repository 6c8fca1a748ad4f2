"""How many changes a request counts as, in rdb_changes_since_last_save: as in Redis."""

import pytest

PREPARED = (
    *(f"XADD s {number}-1 f v" for number in range(1, 5)),
    "XGROUP CREATE s g 0",
    "XGROUP CREATECONSUMER s g c",
    "XGROUP CREATE s full 0",
    "XREADGROUP GROUP full c COUNT 3 STREAMS s >",
    "HSET h f 1",
    "RPUSH l a b",
    "SADD st a b",
)

CHANGES = {
    "XREADGROUP GROUP g c STREAMS s >": 1,
    "XREADGROUP GROUP g c COUNT 3 STREAMS s >": 1,
    "XREADGROUP GROUP g c NOACK STREAMS s >": 1,
    "XREADGROUP GROUP g new STREAMS s >": 2,
    "XREADGROUP GROUP full c STREAMS s 0": 0,
    "XREADGROUP GROUP full new STREAMS s 0": 1,
    "XACK s full 1-1 2-1": 2,
    "XCLAIM s full c 0 1-1 2-1": 2,
    "XCLAIM s full new 0 1-1 2-1": 3,
    "XAUTOCLAIM s full c 0 0": 3,
    "XDEL s 1-1 2-1": 2,
    "XTRIM s MAXLEN 1": 3,
    "XADD s * f v": 1,
    "XADD s MAXLEN 2 * f v": 1,
    "HSET h f 1 g 2": 2,
    "HMSET h a 1 b 2": 2,
    "HDEL h f none": 1,
    "HINCRBY h f 1": 1,
    "LPUSH l a b c": 3,
    "LPOP l 2": 2,
    "SADD st a d e": 2,
    "SREM st a b": 2,
    "MSET a 1 b 2": 2,
    "FLUSHDB": 4,
    "FLUSHALL": 4,
}


@pytest.mark.parametrize("with_journal", [False, True], ids=["in memory", "with a journal"])
@pytest.mark.parametrize("line", CHANGES)
def test_a_request_counts_as_so_many_changes(engine, line, with_journal):
    if with_journal:
        engine.record()
    for prepared in PREPARED:
        engine.do(prepared)
    before = engine.state.dirty

    engine.do(line)

    assert engine.state.dirty - before == CHANGES[line]
