"""LATENCY and MEMORY: what took long, how long commands take, what the process takes, in the shapes of Redis 7.0."""

import pytest

from streamd.base.process import ProcessFacts, read_process_facts
from streamd.connected.latency import SAMPLES_MAX, CommandTimes, Event, graph
from tests.session import Error, Session


class Watch:
    """A stopwatch by which each command takes as long as it is set to."""

    def __init__(self, session: Session) -> None:
        self.took_ns = 0
        self._now_ns = 0
        session.engine.calls.stopwatch = self._read

    def _read(self) -> int:
        self._now_ns += self.took_ns
        return self._now_ns


@pytest.fixture
def watch(engine):
    return Watch(engine)


def took(engine, watch, milliseconds: float, request: str = "XADD s * f v") -> None:
    watch.took_ns = int(milliseconds * 1_000_000)
    engine.do(request)
    watch.took_ns = 0


def test_nothing_is_noted_unless_asked_for(engine, watch):
    took(engine, watch, 1000)
    assert engine.do("LATENCY LATEST") == []
    assert engine.do("LATENCY HISTOGRAM") == []
    assert engine.do("INFO latencystats") == b"# Latencystats\r\n"


def test_commands_above_the_threshold_are_events_by_the_second(engine, clock, watch):
    engine.do("CONFIG SET latency-monitor-threshold 10 slowlog-log-slower-than -1")
    start_s = clock.now_ms() // 1000
    took(engine, watch, 9.9)
    took(engine, watch, 12)
    took(engine, watch, 30)
    took(engine, watch, 20)
    clock.advance(2000)
    took(engine, watch, 15)
    took(engine, watch, 11, "LRANGE l 0 -1")
    assert engine.do("LATENCY HISTORY fast-command") == [[start_s, 30], [start_s + 2, 15]]
    assert engine.do("LATENCY HISTORY command") == [[start_s + 2, 11]]
    assert engine.do("LATENCY HISTORY other") == []
    assert engine.do("LATENCY LATEST") == [
        [b"fast-command", start_s + 2, 15, 30],
        [b"command", start_s + 2, 11, 11],
    ]
    assert engine.do("SLOWLOG LEN") == 0
    assert engine.do("LATENCY RESET command nothing command") == 1
    assert engine.do("LATENCY RESET") == 1
    assert engine.do("LATENCY LATEST") == []


def test_the_slow_log_takes_what_it_took_whatever_latency_asks_for(engine, watch):
    engine.do("CONFIG SET slowlog-log-slower-than 5000 latency-monitor-threshold 1 latency-tracking yes")
    engine.do("SLOWLOG RESET")
    took(engine, watch, 4.9)
    assert engine.do("SLOWLOG LEN") == 0
    took(engine, watch, 5.1)
    assert [row[3] for row in engine.do("SLOWLOG GET")] == [[b"XADD", b"s", b"*", b"f", b"v"]]
    engine.do("CONFIG SET slowlog-log-slower-than -1 latency-monitor-threshold 0 latency-tracking no")
    took(engine, watch, 1000)
    assert engine.do("SLOWLOG LEN") == 1
    assert engine.do("LATENCY HISTOGRAM") == []


def test_a_histogram_counts_calls_by_redis_buckets_batches_too(engine, watch):
    engine.do("CONFIG SET latency-tracking yes")
    for microseconds in (0.5, 1.5, 3, 3, 300):
        took(engine, watch, microseconds / 1000)
    engine.do("CONFIG GET port")
    assert engine.do("LATENCY HISTOGRAM xadd") == [
        b"xadd", [b"calls", 5, b"histogram_usec", [1, 1, 2, 2, 4, 4, 528, 5]],
    ]  # fmt: skip
    assert engine.do("LATENCY HISTOGRAM CONFIG nothing config")[::2] == [b"config|get", b"config|set"]
    assert b"latency_percentiles_usec_xadd:p50=4.128,p99=528.416,p99.9=528.416\r\n" in engine.do("INFO latencystats")
    engine.send(*(["XADD", "s", "*", "f", "v"] for _ in range(10)))
    engine.replies()
    assert engine.do("LATENCY HISTOGRAM xadd")[1][1] == 15
    engine.do("CONFIG RESETSTAT")
    assert engine.do("LATENCY HISTOGRAM xadd") == []


def test_so_many_samples_are_kept_and_the_most_ever(engine):
    event = Event()
    event.add(0, 10**6)
    for second in range(SAMPLES_MAX):
        event.add(second + 1, 5)
    assert (len(event.samples), event.samples[0], event.most_ms) == (SAMPLES_MAX, (1, 5), 10**6)


def test_times_beyond_all_buckets_are_counted():
    times = CommandTimes()
    times.add(10**15)
    assert list(times.buckets().values()) == [1]
    assert times.percentile_us(99) > 10**9


def test_the_graph_is_the_one_that_redis_draws():
    event = Event()
    for second, took_ms in enumerate((52, 12, 30, 30)):
        event.add(100 + second, took_ms)
    assert graph("command", event, 105).split("\n") == [
        "command - high 52 ms, low 12 ms (all time high 52 ms)",
        "-" * 80,
        "#   ",
        "|   ",
        "| ##",
        "|_||",
        "",
        "5432",
        "ssss",
        "",
    ]


def test_the_graph_of_what_never_was_is_an_error(engine):
    assert engine.do("LATENCY GRAPH nope") == Error("ERR No samples available for event 'nope'")


def test_the_doctor_says_how_to_begin_what_was_and_what_may_help(engine, watch):
    assert b"CONFIG SET latency-monitor-threshold" in engine.do("LATENCY DOCTOR")
    engine.do("CONFIG SET latency-monitor-threshold 10")
    assert b"No command took 10 ms or more" in engine.do("LATENCY DOCTOR")
    took(engine, watch, 20)
    text = engine.do("LATENCY DOCTOR")
    assert b"1. fast-command: 1 latency spikes (average 20 ms, worst 20 ms)" in text
    assert b"SLOWLOG GET" in text


# -- MEMORY -----------------------------------------------------------------------------------------------------------


def facts(**given: int) -> ProcessFacts:
    real = read_process_facts()
    return ProcessFacts(**{name: given.get(name, getattr(real, name)) for name in ProcessFacts._fields})


def test_memory_stats_have_redis_fields_and_the_process_sizes(engine):
    engine.engine.process_facts = lambda: facts(memory_bytes=1000, memory_peak_bytes=2000)
    engine.do("SET a 1")
    engine.do("SET b 1 PX 1000")
    stats = dict(zip(*[iter(engine.do("MEMORY STATS"))] * 2, strict=True))
    assert (stats[b"total.allocated"], stats[b"peak.allocated"], stats[b"keys.count"]) == (1000, 2000, 2)
    assert (stats[b"keys.bytes-per-key"], stats[b"peak.percentage"]) == (500, b"50")
    assert stats[b"db.0"][::2] == [
        b"overhead.hashtable.main",
        b"overhead.hashtable.expires",
        b"overhead.hashtable.slot-to-keys",
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"memory_bytes": 100 << 20, "memory_peak_bytes": 400 << 20}, b"MEMORY PURGE does it now"),
        ({"memory_bytes": 100 << 20, "memory_peak_bytes": 100 << 20}, b"the limit maxmemory is 101 MB"),
    ],
)
def test_the_memory_doctor_says_what_stands_out(engine, given, words):
    assert b"no keys" in engine.do("MEMORY DOCTOR")
    engine.do("SET a 1")
    engine.engine.process_facts = lambda: facts(memory_bytes=1 << 20, memory_peak_bytes=1 << 20)
    assert engine.do("MEMORY DOCTOR") == b"Nothing stands out.\n"
    engine.do("CONFIG SET maxmemory 101mb")
    engine.engine.process_facts = lambda: facts(**given)
    assert words in engine.do("MEMORY DOCTOR")
