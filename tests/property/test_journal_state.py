"""A restart changes nothing that clients see: random histories of all write commands, rewritten at random places."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.examples import examples
from tests.unit.rdb.payloads import payloads

key = st.sampled_from([b"s", b"s", b"t"])
PAYLOADS = [payload.data for payload in payloads()]
any_key = st.sampled_from([b"s", b"t", b"k", b"l"])
plain = st.sampled_from([b"k", b"l"])
small = st.integers(0, 12).map(lambda number: b"%d" % number)
value = st.sampled_from([b"1", b"22", b"three", b"", b"\x00\xff\r\n"])
entry_id = st.sampled_from(
    [b"%d-%d" % (ms, seq) for ms in (1, 2, 3) for seq in (1, 2)] + [b"1699999999999-0", b"1700000001000-0"]
)
some_ids = st.lists(entry_id, min_size=1, max_size=3)
group = st.sampled_from([b"g", b"h"])
consumer = st.sampled_from([b"ann", b"bob"])
fields = st.lists(value, min_size=1, max_size=2).map(lambda texts: [word for text in texts for word in (text, text)])
references = st.sampled_from([[], [b"KEEPREF"], [b"DELREF"], [b"ACKED"]])
kind = st.sampled_from([b"MQTT", b"GLOB", b"EQ"])
pid, iid = st.sampled_from([b"p", b"q", b"\x01 ~%"]), st.sampled_from([b"1", b"2", b"3", b"4", b"~"])


def request(*parts):
    """A strategy for a request: words as they are, lists of words spread."""

    def flatten(drawn):
        return [word for part in drawn for word in (part if isinstance(part, list) else [part])]

    return st.tuples(*(st.just(part) if isinstance(part, bytes) else part for part in parts)).map(flatten)


def optional(*parts):
    return st.one_of(st.just([]), request(*parts))


trimming = st.one_of(
    request(b"MAXLEN", st.sampled_from([b"=", b"~"]), small), request(b"MINID", st.sampled_from([b"=", b"~"]), entry_id)
)
streams = st.one_of(
    request(b"XADD", key, references, st.one_of(st.just([]), trimming), b"*", fields),
    request(b"XADD", key, b"IDMP", pid, iid, b"*", fields),
    request(b"XADD", key, b"IDMP", pid, iid, b"*", fields),
    request(b"XADD", key, b"IDMPAUTO", pid, st.one_of(st.just([]), trimming), b"*", fields),
    request(b"XADD", key, entry_id, fields),
    request(b"XTRIM", key, trimming, references),
    request(b"XDEL", key, some_ids),
    request(b"XDELEX", key, references, some_ids.map(lambda ids: [b"IDS", b"%d" % len(ids), *ids])),
    request(b"XSETID", key, entry_id, optional(b"ENTRIESADDED", small), optional(b"MAXDELETEDID", entry_id)),
    request(b"XCFGSET", key, b"IDMP-DURATION", small, b"IDMP-MAXSIZE", small),
    request(b"XIDMP", b"CFGSET", key, b"DURATION", small, b"MAXSIZE", small),
    request(b"XIDMPRECORD", key, pid, iid, entry_id),
)
groups = st.one_of(
    request(b"XGROUP", b"CREATE", key, group, st.sampled_from([b"0", b"$", b"2-1"]), b"MKSTREAM"),
    request(b"XGROUP", b"CREATE", key, group, b"0", b"MKSTREAM", b"FILTER", b"FIELD", value, kind, value),
    request(b"XGROUP", b"SETID", key, group, entry_id, optional(b"ENTRIESREAD", small)),
    request(b"XGROUP", b"DESTROY", key, group),
    request(b"XGROUP", b"CREATECONSUMER", key, group, consumer),
    request(b"XGROUP", b"DELCONSUMER", key, group, consumer),
    request(b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", small, optional(b"NOACK"), b"STREAMS", key, b">"),
    request(b"XREADGROUP", b"GROUP", group, consumer, b"STREAMS", key, b">"),
    request(b"XREADGROUP", b"GROUP", group, consumer, b"CLAIM", b"5", b"STREAMS", key, b">"),
    request(b"XREADGROUP", b"GROUP", group, consumer, b"STREAMS", key, b"0"),
    request(b"XACK", key, group, some_ids),
    request(b"XCLAIM", key, group, consumer, b"0", some_ids, optional(b"IDLE", small), optional(b"FORCE")),
    request(b"XAUTOCLAIM", key, group, consumer, b"0", b"0", optional(b"COUNT", b"2")),
    request(b"XNACK", key, group, st.sampled_from([b"SILENT", b"FAIL", b"FATAL"]),
            some_ids.map(lambda ids: [b"IDS", b"%d" % len(ids), *ids]), optional(b"FORCE")),
    request(b"XACKDEL", key, group, references, some_ids.map(lambda ids: [b"IDS", b"%d" % len(ids), *ids])),
)  # fmt: skip
score = st.sampled_from([b"1", b"2.5", b"-0.1", b"inf", b"1e300"])
pairs = st.lists(st.tuples(score, value), min_size=1, max_size=3).map(
    lambda drawn: [word for one in drawn for word in one]
)
sorted_sets = st.one_of(
    request(b"ZADD", plain, pairs),
    request(b"ZADD", plain, pairs),
    request(b"ZADD", plain, st.sampled_from([b"NX", b"XX", b"GT"]), pairs),
    request(b"ZINCRBY", plain, score, value),
    request(b"ZREM", any_key, value),
    request(b"ZPOPMAX", any_key, optional(small)),
    request(b"ZREMRANGEBYRANK", any_key, small, small),
    request(b"ZREMRANGEBYSCORE", any_key, score, score),
    request(b"ZRANGESTORE", plain, any_key, b"0", small),
    request(b"ZUNIONSTORE", plain, b"2", plain, any_key, b"WEIGHTS", score, b"1"),
    request(b"ZDIFFSTORE", plain, b"2", plain, any_key),
)
end = st.sampled_from([b"LEFT", b"RIGHT"])
place = st.sampled_from([b"0", b"1", b"-1", b"3"])
lists = st.one_of(
    request(b"RPUSH", plain, value, value),
    request(b"LMOVE", plain, any_key, end, end),
    request(b"LMOVEM", plain, any_key, end, end, optional(b"COUNT", b"2", st.sampled_from([b"OBO", b"BULK"]))),
    request(b"LMPOP", b"2", plain, any_key, end, b"COUNT", b"2"),
    request(b"LSET", any_key, place, value),
    request(b"LINSERT", any_key, b"AFTER", value, value),
    request(b"LTRIM", any_key, place, place),
    request(b"LREM", any_key, place, value),
)
sets = st.one_of(
    request(b"SADD", plain, value, value),
    request(b"SPOP", any_key, optional(small)),
    request(b"SMOVE", any_key, plain, value),
    request(b"SUNIONSTORE", plain, any_key, plain),
    request(b"SDIFFSTORE", plain, any_key, plain),
    request(b"HINCRBYFLOAT", plain, value, score),
    request(
        b"HPEXPIRE", any_key, st.sampled_from([b"0", b"9", b"9", b"100000"]), st.just(b"FIELDS"), st.just(b"1"), value
    ),
    request(b"HSETEX", plain, optional(b"PX", st.sampled_from([b"9", b"100000"])), b"FIELDS", b"1", value, value),
    request(b"HGETEX", any_key, b"PERSIST", b"FIELDS", b"1", value),
    request(b"SORT", any_key, b"ALPHA", b"STORE", plain),
    request(b"SETBIT", plain, small, st.sampled_from([b"0", b"1"])),
    request(b"BITOP", st.sampled_from([b"DIFF", b"DIFF1", b"ANDOR", b"ONE"]), plain, any_key, plain),
    request(b"BITOP", b"XOR", plain, any_key, plain),
)
others = st.one_of(
    request(b"SET", plain, value, optional(b"PX", st.sampled_from([b"5", b"100000"]))),
    request(b"SET", plain, value, st.sampled_from([b"IFEQ", b"IFNE"]), value, optional(b"KEEPTTL")),
    request(b"MSETEX", b"2", plain, value, plain, value, optional(b"PX", st.sampled_from([b"5", b"100000"]))),
    request(
        b"INCREX", plain, b"BYINT", small, optional(b"SATURATE"), optional(b"UBOUND", b"20"), optional(b"PX", b"100000")
    ),
    request(b"INCREX", plain, b"BYFLOAT", score, optional(b"PERSIST")),
    request(b"DELEX", any_key, optional(st.sampled_from([b"IFEQ", b"IFNE"]), value)),
    request(b"APPEND", plain, value),
    request(b"INCRBY", plain, small),
    request(b"SETRANGE", plain, small, value),
    request(b"GETDEL", any_key),
    request(b"HSET", plain, fields),
    request(b"HDEL", any_key, value),
    request(b"RPUSH", plain, value),
    request(b"LPOP", any_key),
    request(b"SADD", plain, value),
    request(b"DEL", any_key),
    request(b"UNLINK", any_key, any_key),
    request(b"RENAME", any_key, any_key),
    request(b"COPY", any_key, any_key, optional(b"DB", b"1"), optional(b"REPLACE")),
    request(b"MOVE", any_key, b"1"),
    request(
        b"RESTORE", any_key, st.sampled_from([b"0", b"9", b"100000"]), st.sampled_from(PAYLOADS), optional(b"REPLACE")
    ),
    request(b"PEXPIRE", any_key, st.sampled_from([b"0", b"9", b"100000"])),
    request(b"PERSIST", any_key),
    request(b"SELECT", st.sampled_from([b"0", b"1"])),
    st.sampled_from([[b"FLUSHDB"], [b"FLUSHALL"], [b"SWAPDB", b"0", b"1"], [b"MULTI"], [b"EXEC"], [b"DISCARD"]]),
    request(b"CONFIG", b"SET", b"stream-idmp-maxsize", st.sampled_from([b"2", b"3", b"100"])),
)
# Rewrites come in pieces between the others: `step` is a slice of at most so many operations.
special = st.one_of(
    st.tuples(st.just("wait"), st.sampled_from([1, 10, 2_500])),
    st.tuples(st.just("rewrite"), st.just(0)),
    st.tuples(st.just("slice"), st.integers(1, 3)),
)
# Something to work on: entries with and without iids, a group that has read some, in both databases.
BEGINNING = [
    line.split()
    for line in (
        b"XADD s IDMP p 1 * f v", b"XADD s * f v", b"XADD s IDMP q 2 * f v g w", b"XADD t IDMP p 3 * f v",
        b"XADD s * f v",
        b"XGROUP CREATE s g 0", b"XREADGROUP GROUP g ann COUNT 2 STREAMS s >", b"XGROUP CREATE t h $", b"SET k 1",
        b"SELECT 1", b"XADD t IDMP p 1 * f v", b"SET l 2", b"SELECT 0",
    )
]  # fmt: skip
steps = st.one_of(streams, groups, others, sorted_sets, lists, sets, special)
histories = st.lists(steps, min_size=15, max_size=60).map(lambda drawn: BEGINNING + drawn)


def play(server: Restartable, history: list) -> None:
    for step in history:
        if isinstance(step, list):
            server.run(step)
            server.end_turn()
            server.clock.advance(1)
        elif step[0] == "wait":
            server.clock.advance(step[1])
            server.engine.tick()
        elif step[0] == "rewrite":
            if not server.persistence.is_rewriting:
                server.persistence.start_rewrite()
        else:
            rewrite = server.persistence.journal.rewrite
            if rewrite is not None and not rewrite.is_complete and not rewrite.must_restart:
                left = [None] * step[1]
                rewrite.step(lambda left=left: not left or left.pop() is not None)
    assert server.engine.state.stats.internal_errors == 0


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Rewrite in pieces that short histories see: streams of three entries are copied, a run has a few commands.

    And note each time that a consumer is seen, not once a second.
    """
    monkeypatch.setattr("streamd.commands.stream.group_effects.SEEN_NOTED_EVERY_MS", 0)
    monkeypatch.setattr("streamd.journal.rewrite._AT_ONCE_ENTRIES_MAX", 2)
    monkeypatch.setattr("streamd.journal.base_writer._RUN_BYTES", 100)
    monkeypatch.setattr("streamd.journal.base_writer._JOB_BYTES", 250)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(histories)
def test_the_state_after_a_restart_is_the_state_before(history):
    server = Restartable(stream_node_max_entries=3)
    play(server, history)
    before = dump(server.engine)

    killed = server.restart(server.disk.kill())
    assert dump(killed.engine) == before

    server.cron()  # ends a rewrite that is under way
    after = dump(server.engine)
    rewritten = server.restart(server.disk.kill())
    assert dump(rewritten.engine) == after

    rewritten.rewrite()
    assert not rewritten.persistence.is_rewriting
    assert dump(rewritten.restart().engine) == after
