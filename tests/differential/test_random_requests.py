"""Random requests on strings, hashes, keys, expiry and transactions get, byte for byte, the replies of redis-server.

The two servers' clocks may differ by a millisecond, so nothing is asked for that shows it.
"""

import random
import time

import pytest

from streamd.acl.user import merged_rules
from streamd.base.clock import ManualClock
from tests.differential.redis_process import RawClient, needs_redis, running_redis
from tests.session import Session

pytestmark = needs_redis

STEPS = 500

# What the words of the table stand for. Half of the numbers are none, or too large: errors are replies too.
WORDS: dict[str, list[bytes]] = {
    "key": [b"a", b"b", b"c", b"h", b"h2", b"s"],
    "value": [b"v", b"12", b"", b"hello world", b"\x00\xff\r\n", b"9223372036854775807", b"0.5", b"3.0e3", b"-7"],
    "field": [b"f", b"g", b"h", b""],
    "int": [
        *(b"0", b"1", b"-1", b"5", b"100", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808"),
        *(b"x", b"", b" 1", b"1.5", b"01", b"-0", b"+1", b"1e3", b"4294967296"),
    ],
    "float": [b"0.1", b"1", b"-3.25", b"1e10", b"x", b"5e-5", b"", b"0x10", b"1e99999", b"inf", b"nan"],
    "small": [b"0", b"3", b"10", b"-1", b"x"],
    "pattern": [b"*", b"a*", b"[ab]", b"?", b"[^a]", b"", b"h[", b"\\a"],
    "ttl": [b"100", b"1000000", b"0", b"-1", b"x", b"9223372036854775807", b"99999999999999", b"1e3"],
    "ttl_ms": [b"1000000", b"0", b"-1", b"x", b"9223372036854775807"],
    "time": [b"99999999999", b"0", b"-1", b"x", b"9223372036854775807"],
    "time_ms": [b"99999999999999", b"1", b"-1", b"x", b"9223372036854775807"],
    "db": [b"0", b"1", b"2", b"16", b"-1", b"x"],
    "digest": [b"0" * 16, b"x", b"2d06800538d394c2", b"2D06800538D394C2", b""],
    "cursor": [b"0", b"5", b"x", b""],
}
# Lower-case words are chosen from WORDS; what is in brackets comes none, one or two times, one of its alternatives.
REQUESTS = """
SET key value [NX|XX|GET|EX ttl|PX ttl_ms|EXAT time|PXAT time_ms|KEEPTTL|FOO|IFEQ value|IFNE value]
SET key value [NX|XX|EX ttl|PX ttl_ms|KEEPTTL|FOO|IFEQ value|IFNE value|IFDEQ digest|IFDNE digest]
DELEX key [IFEQ value|IFNE value|IFDEQ digest|IFDNE digest|FOO]
MSETEX small key value key value [NX|XX|EX ttl|PX ttl_ms|EXAT time|PXAT time_ms|KEEPTTL|FOO]
DIGEST key|MSETEX 1 key value|MSETEX int key value
INCREX key [BYINT int|BYFLOAT float|LBOUND int|UBOUND int|SATURATE|EX ttl|PXAT time_ms|PERSIST|ENX|FOO]
INCREX key BYINT int LBOUND int UBOUND int [SATURATE|EX ttl|PERSIST|ENX]
HEXPIRE key ttl FIELDS small field [NX|XX|GT|LT|FOO|FIELDS 1 field]
HPEXPIREAT key time_ms FIELDS 1 field [NX|XX|GT|LT]
HEXPIREAT key time NX FIELDS 2 field field [NX|XX|GT|LT]
HSETEX key FIELDS 1 field value [FNX|FXX|EX ttl|PX ttl_ms|EXAT time|PXAT time_ms|KEEPTTL|FOO|FIELDS 1 field value]
HSETEX key FXX EX ttl FIELDS small field value field value [FNX|FXX|KEEPTTL]
HGETEX key FIELDS small field field [EX ttl|PX ttl_ms|EXAT time|PXAT time_ms|PERSIST|FOO|FIELDS 1 field]
HGETEX key PERSIST FIELDS 1 field|HGETDEL key FIELDS small field field|HPERSIST key FIELDS small field field
HGETDEL key FIELDS 1 field|HPEXPIRETIME key FIELDS 2 field field
GETEX key [EX ttl|PX ttl_ms|EXAT time|PXAT time_ms|PERSIST|FOO]
GET key|GETSET key value|GETDEL key|SETNX key value|SETEX key ttl value|PSETEX key ttl_ms value
MGET key key|MSET key value key value|MSETNX key value key value|MSET key value key
INCR key|DECRBY key int|INCRBY key int|INCRBYFLOAT key float|APPEND key value|STRLEN key|GETRANGE key int int
SETRANGE key small value|HSET key field value|HSET key field value field value|HSET key field value field
HMSET key field value|HSETNX key field value|HGET key field|HMGET key field field|HDEL key field field|HLEN key
HEXISTS key field|HINCRBY key field int|HSTRLEN key field|HGETALL key|HKEYS key|HVALS key
HSCAN key cursor [MATCH pattern|COUNT int|NOVALUES]
DEL key key|UNLINK key|EXISTS key key|TYPE key|TOUCH key key|KEYS pattern|DBSIZE|RENAME key key|RENAMENX key key
COPY key key [REPLACE|DB db|FOO]
MOVE key db|SWAPDB db db|SELECT db
EXPIRE key ttl [NX|XX|FOO]
PEXPIRE key ttl_ms [NX|XX]
EXPIREAT key time [NX|XX|GT|LT]
PEXPIREAT key time_ms [NX|XX|GT|LT]
PERSIST key|MULTI|EXEC|DISCARD|WATCH key|UNWATCH
"""
TABLE = [one for line in REQUESTS.strip().splitlines() for one in ([line] if "[" in line else line.split("|"))]
UNORDERED = {b"KEYS", b"HGETALL", b"HKEYS", b"HVALS", b"HSCAN", b"EXEC"}


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with running_redis(tmp_path_factory.mktemp("redis")) as port:
        yield port


def made(template: str, choose: random.Random) -> list[bytes]:
    """Return a request: from the table, now and then a word too short or too long."""
    head, _, options = template.partition(" [")
    text = head
    for _ in range(choose.randrange(3) if options else 0):
        text += " " + choose.choice(options.rstrip("]").split("|"))
    words = [choose.choice(WORDS[word]) if word in WORDS else word.encode() for word in text.split()]
    if choose.random() < 0.03:
        words.append(choose.choice(WORDS["value"]))
    return words[:-1] if choose.random() < 0.03 and len(words) > 1 else words


@pytest.mark.parametrize("seed", range(16))
def test_random_requests_are_answered_as_redis_answers_them(port, seed):
    refused = compare(port, seed)
    assert refused == 0


USERS = [
    b"-getdel -@hash +hget +hset +select|1 ~a ~c ~h",
    b"-@write +set +del +select ~a %R~b %W~c %RW~s",
    b"-@all +@string +copy +rename +exists +@transaction ~a (~b +@all) (%R~* +@read)",
    b"-@slow +mset +mget +keys %R~[ab] %W~? (%W~h* +@write)",
]


@pytest.mark.parametrize("seed", range(12))
def test_random_requests_of_a_user_are_answered_as_redis_answers_them(port, seed):
    refused = compare(port, seed, USERS[seed % len(USERS)])
    assert STEPS / 20 < refused < STEPS * 0.9


def compare(port: int, seed: int, rules: bytes = b"") -> int:
    """Send both servers the same random requests, as a user with rules if there are some; return how many of them the
    rules refused.
    """
    choose = random.Random(seed)
    redis, clock = RawClient(port), ManualClock()
    streamd = Session(clock)
    redis.ask([b"FLUSHALL"])
    if seed % 2:
        redis.ask([b"HELLO", b"3"])
        streamd.raw([b"HELLO", b"3"])
    if rules:
        for words in (
            [b"ACL", b"SETUSER", b"ann", b"reset", b"on", b"nopass", b"+@all", *merged_rules(rules.split())],
            [b"AUTH", b"ann", b"x"],
        ):
            assert redis.ask(words) == streamd.raw(words) == b"+OK\r\n"
    refused = 0
    history = []
    for _ in range(STEPS):
        request = made(choose.choice(TABLE), choose)
        history.append(request)
        clock.set(time.time_ns() // 1_000_000)
        theirs, ours = redis.ask(request), streamd.raw(request)
        if request[0] in UNORDERED:
            assert sorted(theirs.split(b"\r\n")) == sorted(ours.split(b"\r\n")), history
        else:
            assert theirs == ours, history
        refused += ours.startswith(b"-NOPERM")
    redis.close()
    return refused
