"""Memory that requests leave behind once they are answered."""

import gc
import tracemalloc
import weakref

import pytest

from streamd.base import heap
from streamd.base.glob import compile_glob
from streamd.base.kept import KEPT_BYTES_MAX
from streamd.stream.search.patterns import entry_filter


class Word(bytes):
    """A word of a request that says when it is freed."""

    freed = 0

    def __del__(self) -> None:
        Word.freed += 1


@pytest.fixture
def without_collector():
    """Have objects freed by their references alone, as they are until the collector runs."""
    gc.collect()
    Word.freed = 0
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "request_", ["SET k {} nonsense", "SET k {} EX 0", "INCRBY k {}", "XADD s 0-0 f {}", "LPUSH text {}"]
)
def test_faults2_2_2_an_error_keeps_nothing_of_its_request(engine, request_, without_collector):
    engine.do("SET text x")
    large = Word(b"v" * 1_000)
    engine.send([large if word == "{}" else word for word in request_.split()])
    del large
    assert type(engine.replies()[0]).__name__ == "Error"
    assert Word.freed == 1


@pytest.mark.parametrize("request_", ["SET k {}", "APPEND k {}", "XADD s * f {}", "RPUSH l {}", "HSET h f {}"])
@pytest.mark.parametrize("way", ["plain", "pipelined", "queued"])
def test_faults2_2_2_a_refusal_for_lack_of_memory_keeps_nothing_of_its_request(
    engine, request_, way, without_collector
):
    engine.state.refuse_growth(True)
    if way == "queued":
        engine.do("MULTI")
    sent = [[Word(b"v" * 1_000) if word == "{}" else word for word in request_.split()] for _ in range(3)]
    engine.send(*sent[: 3 if way == "pipelined" else 1])
    count = len(engine.replies())
    del sent
    if way == "queued":
        assert engine.do("EXEC").text.startswith("EXECABORT")
    assert count == (3 if way == "pipelined" else 1)
    assert Word.freed == 3
    assert engine.do("INFO errorstats").count(b"errorstat_OOM:") == 1


def states() -> int:
    """Return how many states of Lua are in memory."""
    return sum(type(thing).__name__ == "LuaRuntime" for thing in gc.get_objects())


def test_faults2_2_3_script_flush_frees_the_scripts(engine, without_collector):
    before = states()
    for number in range(5):
        for text in range(3):
            engine.execute(["SCRIPT", "LOAD", f"return {number} -- {text}"])
        engine.execute(["EVAL", f"return redis.call('PING') .. {number}", 0])
        assert engine.do("SCRIPT FLUSH") == "OK"
        assert states() == before


def test_faults2_2_4_codes_of_errors_are_short_and_few(engine):
    script = "return redis.error_reply(string.rep('E', 1000000) .. ARGV[1] .. ' text')"
    different = "return redis.error_reply(ARGV[1] .. string.rep('E', 1000) .. ' text')"
    for number in range(200):
        engine.execute(["EVAL", different, 0, number])
        if number < 20:
            engine.execute(["EVAL", script, 0, number])
    assert len(engine.do("INFO errorstats")) < 50_000
    assert sum(map(len, engine.state.stats.errors)) < 20_000


@pytest.fixture
def traced():
    """Return a function that says by how many bytes memory has grown since it was called last."""
    tracemalloc.start()
    last = 0

    def grown() -> int:
        nonlocal last
        gc.collect()
        before, last = last, tracemalloc.get_traced_memory()[0]
        return last - before

    yield grown
    tracemalloc.stop()


@pytest.mark.parametrize("pending", [0, 20])
def test_faults2_2_5_cycles_behind_a_claim_leave_nothing(engine, pending, traced):
    def cycles(first: int) -> None:
        for number in range(first, first + 1_000):
            engine.execute(["XADD", "s", "MAXLEN", 100, f"{number}-1", "f", "v"])
            engine.execute(["XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", "s", ">"])
            engine.clock.advance(1)
            if number > pending:
                engine.execute(["XACK", "s", "g", f"{number}-1"])

    engine.do("XGROUP CREATE s g $ MKSTREAM")
    engine.do("XREADGROUP GROUP g c COUNT 10 CLAIM 1 STREAMS s >")
    cycles(1)
    traced()
    cycles(1_001)
    cycles(2_001)
    assert traced() < 30_000


def test_faults2_2_1_long_patterns_are_kept_within_a_number_of_bytes(engine, traced):
    def ask(number: int) -> None:
        text = f"{number}" + "p" * 300_000
        engine.execute(["XFILTER", "s", "-", "+", "COUNT", 1, "FIELD", "f", "EQ", text])

    for number in range(1, 500):
        engine.execute(["XADD", "s", f"{number}-1", "f", number])
    ask(0)
    traced()
    for number in range(60):
        ask(number)
    assert traced() < 4_500_000


@pytest.mark.interpreted("a compiled function cannot be referred to weakly")
@pytest.mark.parametrize("kind", ["GLOB", "MQTT", "KEYS"])
def test_faults2_2_1_what_long_patterns_are_made_to_is_kept_within_a_number_of_bytes(kind):
    def matcher(number: int) -> weakref.ref[object]:
        text = b"%d" % number + b"p" * 50_000 + b"/+/*"[: 2 if kind == "MQTT" else 4]
        made = compile_glob(text) if kind == "KEYS" else entry_filter(b"f", kind.encode(), text).pattern.matches
        return weakref.ref(getattr(made, "__self__", made))

    matchers = [matcher(number) for number in range(8)]
    gc.collect()
    kept = 0 if kind == "KEYS" else KEPT_BYTES_MAX // 50_000
    assert [one() is not None for one in matchers] == [False] * (8 - kept) + [True] * kept


def test_faults2_2_1_a_pattern_is_made_once_while_it_is_kept(engine):
    for size in (10, 1_000, 20_000):
        assert entry_filter(b"f", b"GLOB", b"a" * size + b"*") is entry_filter(b"f", b"GLOB", b"a" * size + b"*")
    made = [entry_filter(b"f", b"EQ", b"%d" % number + b"a" * 100_000) for number in range(3)]
    assert entry_filter(b"f", b"EQ", made[2].pattern.text) is made[2]
    assert entry_filter(b"f", b"EQ", made[0].pattern.text) is not made[0]


def test_faults2_2_1_entries_of_many_fields_leave_nothing_where_they_were_read(engine, traced):
    fields = [word for number in range(2_000) for word in (f"f{number}", "value")]
    traced()
    for number in range(1, 21):
        engine.execute(["XADD", "s", f"{number}-1", *fields])
    for count in range(1, 21):
        assert engine.raw(["XRANGE", "s", "-", "+", "COUNT", count]).startswith(b"*%d\r\n" % count)
    for number in range(40):
        for entry in range(3):
            engine.execute(["XADD", f"s{number}", f"{entry + 1}-1", str(number) + "f" * 100_000, "v"])
        assert len(engine.raw(["XRANGE", f"s{number}", "-", "+"])) > 300_000
        engine.execute(["DEL", f"s{number}"])
    engine.do("DEL s")
    engine.do("MEMORY PURGE")
    assert traced() < 4_000_000


def test_faults2_2_1_an_idle_server_gives_back_what_large_requests_took(monkeypatch):
    given = []
    monkeypatch.setattr(heap, "unused_bytes", lambda: 0)
    monkeypatch.setattr(heap, "give_back", lambda: given.append(True))
    trim = heap.IdleTrim(lambda: iter(()))
    much = heap.CHANGES_MIN * heap.CHANGE_BYTES
    looks = [(5, much - 1, 0), (5, 3 * much, 10 * much), (5, 3 * much, 0), (5, 3 * much, 0), (5, 4 * much - 1, 50)]
    assert [trim.look(*one) for one in looks] == [False, False, True, False, False]
    assert [trim.look(5, traffic, 0.0) for traffic in (0, much - 1, much)] == [False, False, True]
    assert len(given) == 2


def test_faults2_2_5_small_streams_with_groups_are_freed_at_once(engine):
    for number in range(10):
        engine.execute(["XADD", f"s{number}", "IDMP", "p", "i", "1-1", "f", "v"])
        for group in range(number % 3):
            engine.execute(["XGROUP", "CREATE", f"s{number}", f"g{group}", 0])
            engine.execute(["XREADGROUP", "GROUP", f"g{group}", "c", "STREAMS", f"s{number}", ">"])
        engine.execute(["DEL", f"s{number}"])
    assert not engine.state.keyspace.trash
    engine.execute(["XADD", "large", "1-1", "f", "v"])
    for group in range(20):
        engine.execute(["XGROUP", "CREATE", "large", f"g{group}", 0])
    engine.execute(["DEL", "large"])
    assert engine.state.keyspace.trash
