"""Which requests count as hits and misses of the keyspace, and which end a key's idle time."""

import re

import pytest

from tests.accesses import ACCESSES, KEYS, PREPARED


def stat(engine, name):
    text = b"".join(engine.execute(["INFO", section]) for section in ("stats", "keyspace")).decode()
    return int(re.search(rf"{name}:(\d+)", text)[1])


def idle(engine, key):
    return engine.execute(["OBJECT", "IDLETIME", key])


@pytest.mark.parametrize(("request_", "hits", "misses", "touched"), ACCESSES, ids=[row[0] for row in ACCESSES])
def test_a_request_counts_and_touches_what_it_does_in_redis(engine, clock, request_, hits, misses, touched):
    for line in PREPARED:
        engine.do(line)
    clock.advance(1_000_000)
    engine.do("CONFIG RESETSTAT")

    engine.do(request_)

    assert (stat(engine, "keyspace_hits"), stat(engine, "keyspace_misses")) == (hits, misses)
    keys = [*KEYS.split(), "no", "other"]
    assert [key for key in keys if idle(engine, key) == 0] == [key for key in keys if key in touched.split()]


def test_a_pipeline_counts_each_of_its_requests(engine):
    engine.do("SET k v")

    engine.send(*[["GET", "k"]] * 50, *[["GET", "none"]] * 30)
    engine.replies()

    assert (stat(engine, "keyspace_hits"), stat(engine, "keyspace_misses")) == (50, 30)


@pytest.mark.parametrize(("request_", "hits"), [("XACK s g 1-{}", 6), ("XDEL s 1-{}", 0), ("XRANGE s 1-{} +", 6)])
def test_a_pipeline_on_a_stream_counts_and_touches_what_its_requests_do_alone(engine, clock, request_, hits):
    for line in ("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >"):
        engine.do(line)
    clock.advance(1_000_000)
    engine.do("CONFIG RESETSTAT")

    engine.send(*[request_.format(number).split() for number in range(1, 7)])
    engine.replies()

    assert (stat(engine, "keyspace_hits"), stat(engine, "keyspace_misses")) == (hits, 0)
    assert idle(engine, "s") == 0


def test_a_pipeline_of_xadds_ends_the_idle_time_of_its_stream(engine, clock):
    engine.do("XADD s * f v")
    clock.advance(5_000)
    assert idle(engine, "s") == 5

    engine.send(*[["XADD", "s", "*", "f", "v"]] * 20)
    engine.replies()

    assert idle(engine, "s") == 0


@pytest.mark.parametrize("words", [["IDMP", "p", "i", "*"], ["*"]])
def test_a_single_xadd_ends_the_idle_time_of_its_stream(engine, clock, words):
    engine.do("XADD s 1-1 f v")
    clock.advance(5_000)

    engine.execute(["XADD", "s", *words, "f", "v"])

    assert idle(engine, "s") == 0


def test_the_idle_time_is_in_whole_seconds_and_asking_does_not_end_it(engine, clock):
    engine.do("SET k v")
    clock.advance(2_999)

    assert [idle(engine, "k"), idle(engine, "k"), engine.do("OBJECT ENCODING k")] == [2, 2, b"embstr"]


def test_the_idle_time_of_a_key_that_was_removed_does_not_come_back(engine, clock):
    engine.do("SET k v")
    engine.do("DEL k")
    clock.advance(5_000)
    engine.do("SET k v")

    assert idle(engine, "k") == 0
    assert idle(engine, "none") is None


@pytest.mark.parametrize("line", ["SWAPDB 0 1", "MOVE k 1"])
def test_the_idle_time_is_known_in_another_database(engine, clock, line):
    engine.do("SET k v")
    clock.advance(3_000)
    engine.do(line)
    engine.do("SELECT 1")

    assert idle(engine, "k") == (3 if line.startswith("SWAPDB") else 0)


def test_a_client_with_no_touch_leaves_idle_times_alone_but_for_touch(engine, clock):
    engine.do("SET k v")
    clock.advance(4_000)
    engine.do("CLIENT NO-TOUCH ON")

    engine.do("GET k")
    engine.send(["GET", "k"], ["GET", "k"], ["GET", "k"], ["STRLEN", "k"])
    engine.replies()
    assert idle(engine, "k") == 4
    assert stat(engine, "keyspace_hits") == 6

    engine.do("TOUCH k")
    assert idle(engine, "k") == 0

    clock.advance(4_000)
    engine.do("SET new v")
    engine.do("CLIENT NO-TOUCH OFF")
    assert idle(engine, "new") == 0
    engine.do("GET k")
    assert idle(engine, "k") == 0


def test_no_touch_holds_in_a_transaction(engine, clock):
    engine.do("SET k v")
    clock.advance(4_000)
    engine.do("CLIENT NO-TOUCH ON")

    engine.send(["MULTI"], ["GET", "k"], ["EXEC"])
    engine.replies()

    assert idle(engine, "k") == 4


def test_resetting_the_statistics_resets_hits_and_misses(engine):
    engine.do("GET none")
    engine.do("CONFIG RESETSTAT")

    assert (stat(engine, "keyspace_hits"), stat(engine, "keyspace_misses")) == (0, 0)


def test_reset_ends_no_touch(engine, clock):
    engine.do("SET k v")
    engine.do("CLIENT NO-TOUCH ON")
    engine.do("RESET")
    clock.advance(4_000)

    engine.do("GET k")

    assert idle(engine, "k") == 0
