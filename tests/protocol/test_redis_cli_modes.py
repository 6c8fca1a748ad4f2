"""redis-cli's modes for operators run against streamd, and so do the requests that RedisInsight sends."""

import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.session import Error

PATIENCE_S = 20
needs_redis_cli = [
    pytest.mark.redis,
    pytest.mark.skipif(shutil.which("redis-cli") is None, reason="there is no redis-cli"),
    pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals"),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with EmbeddedServer(Clock()) as server:
        client = server.client()
        for number in range(300):
            client.xadd("orders", {"n": number}, idmp=("p", str(number).encode()))
        client.set("text", "x" * 500)
        client.hset("hash", mapping={"a": 1, "b": 2})
        client.rpush("list", *range(50))
        client.sadd("set", "a", "b", "c")
        client.zadd("zset", {"a": 1})
        yield server.port
        assert server.internal_errors == 0


def cli(port: int, *words: str, text: str = "") -> str:
    done = subprocess.run(
        ["redis-cli", "-p", str(port), *words], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stderr + done.stdout


def shown(port: int, wanted: str, *words: str) -> str:
    """Return what redis-cli shows on a terminal up to what matches `wanted`; it goes on for ever by itself."""
    near, far = pty.openpty()
    process = subprocess.Popen(["redis-cli", "-p", str(port), *words], stdin=far, stdout=far, stderr=far)
    os.close(far)
    text = ""
    try:
        while re.search(wanted, text) is None:
            text += os.read(near, 4096).decode()
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        os.close(near)
    return text


class TestModes:
    pytestmark = needs_redis_cli

    def test_bigkeys_finds_the_biggest_of_each_type(self, port):
        text = cli(port, "--bigkeys")
        for words in (
            "Biggest   list found '\"list\"' has 50 items",
            "Biggest   hash found '\"hash\"' has 2 fields",
            "Biggest string found '\"text\"' has 500 bytes",
            "Biggest stream found '\"orders\"' has 300 entries",
            "Biggest    set found '\"set\"' has 3 members",
            "Biggest   zset found '\"zset\"' has 1 members",
            "Sampled 6 keys",
        ):
            assert words in text

    def test_memkeys_asks_each_key_for_its_memory(self, port):
        text = cli(port, "--memkeys")
        assert re.search(r"Biggest stream found '\"orders\"' has \d{4,} bytes", text)
        assert "Sampled 6 keys" in text

    def test_stat_shows_keys_memory_clients_and_requests(self, port):
        text = shown(port, r"\n6 +\S+", "--stat", "-i", "0.1")
        assert re.search(r"keys +mem +clients +blocked +requests +connections", text)
        assert re.search(r"6 +[\d.]+[KMG] +\d+ +0 +\d+ \(\+\d+\) +\d+", text)

    def test_latency_and_its_history_measure(self, port):
        assert re.search(r"min: \d+, max: \d+, avg: [\d.]+ \(\d+ samples\)", shown(port, r"samples\)", "--latency"))
        history = shown(port, r"seconds range", "--latency-history", "-i", "1")
        assert "min: " in history

    def test_scan_lists_keys_by_pattern_and_type(self, port):
        assert sorted(cli(port, "--scan").split()) == ["hash", "list", "orders", "set", "text", "zset"]
        assert sorted(cli(port, "--scan", "--pattern", "*s*").split()) == ["hash", "list", "orders", "set", "zset"]
        assert sorted(cli(port, "--scan", "--pattern", "?set").split()) == ["zset"]

    def test_pipe_sends_all_and_counts_replies_and_errors(self, port):
        requests = "".join(f"*3\r\n$3\r\nSET\r\n$4\r\npipe\r\n${len(str(n))}\r\n{n}\r\n" for n in range(5000))
        text = cli(
            port, "--pipe", text=requests + "*2\r\n$3\r\nGET\r\n$6\r\norders\r\n*2\r\n$3\r\nDEL\r\n$4\r\npipe\r\n"
        )
        assert "WRONGTYPE" in text
        assert text.endswith("errors: 1, replies: 5002\n")


# What RedisInsight sends when it connects, shows the keys, opens one of each type, and shows its pages. Of what it asks
# to find out whether something is there, `!` says that it is not.
INSIGHT = """
CLIENT SETNAME redisinsight-common-1a2b3c4d
INFO
CONFIG GET databases
MODULE LIST
!FT._LIST
COMMAND
INFO keyspace
DBSIZE
INFO server
INFO cluster
INFO replication
SCAN 0 MATCH * COUNT 500
SCAN 0 MATCH * COUNT 500 TYPE stream
TYPE orders
TTL orders
MEMORY USAGE orders SAMPLES 0
XLEN orders
XINFO STREAM orders
XREVRANGE orders + - COUNT 500
XRANGE orders - + COUNT 1
XGROUP CREATE orders insight 0
XINFO GROUPS orders
XREADGROUP GROUP insight me COUNT 2 STREAMS orders >
XINFO CONSUMERS orders insight
XPENDING orders insight
XPENDING orders insight - + 500 me
XGROUP DESTROY orders insight
STRLEN text
GETRANGE text 0 4999
OBJECT ENCODING text
HLEN hash
HSCAN hash 0 MATCH * COUNT 500
LLEN list
LRANGE list 0 499
SCARD set
SSCAN set 0 MATCH * COUNT 500
ZCARD zset
ZRANGE zset 0 499 WITHSCORES
ZSCAN zset 0 MATCH * COUNT 500
CONFIG GET slowlog*
SLOWLOG LEN
SLOWLOG GET 50
CLIENT LIST
MEMORY DOCTOR
MEMORY STATS
LATENCY LATEST
PUBSUB CHANNELS
COMMAND DOCS xadd
"""


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_requests_of_redisinsight_are_answered(engine, protocol):
    engine.do("XADD orders IDMP p 1 * f v")
    engine.do("XADD orders IDMP p 2 * f v")
    for line in ("SET text x", "HSET hash f v", "RPUSH list 1", "SADD set a", "ZADD zset 1 a"):
        engine.do(line)
    if protocol == 3:
        engine.do("HELLO 3")
    for line in INSIGHT.strip().splitlines():
        reply = engine.do(line.removeprefix("!"))
        if line.startswith("!"):
            assert str(reply.text).startswith("ERR unknown command"), line
        else:
            assert type(reply) is not Error, (line, reply)
    assert engine.do("MODULE LIST") == []
    engine.say("PSUBSCRIBE *")
    engine.connect().say("MONITOR")


def test_the_rates_of_info_are_those_of_the_last_second(engine):
    stats = engine.state.stats
    stats.sample(1_000, 10, 500, 100)
    stats.sample(3_000, 210, 500 + 4096, 100 + 1024)
    text = engine.do("INFO stats")
    assert b"instantaneous_ops_per_sec:100\r\n" in text
    assert b"instantaneous_input_kbps:2.00\r\n" in text
    assert b"instantaneous_output_kbps:0.50\r\n" in text
    engine.do("CONFIG RESETSTAT")
    stats.sample(4_000, 0, 0, 0)
    assert b"instantaneous_ops_per_sec:0\r\n" in engine.do("INFO stats")
