"""Workloads of XADD as in production: trimmed, to many streams, by many producers, sent again."""

import random
from itertools import count

from bench.client import ask, load, request
from bench.group_workloads import pipelines
from bench.measure import Sample, Work, redis_benchmark
from bench.servers import Target
from bench.workloads import CHANGING, VALUE, Workload, xadd

TRIMMED = ("XADD", "s", "MAXLEN", "~", "1000", "*", "f", CHANGING)
PRODUCERS, STREAMS = 1_000, 1_000
# Requests of one measurement with ready-made bytes.
SENT = 96_000
# So many iids of a producer a stream remembers if nothing else is said.
REMEMBERED = 100
# So many of one producer a stream remembers (the most it can be told), and so many are sent again each time.
AGAIN = 8_000
_BULK_LINES = 2
_numbers = count()


def to_streams(requests: int, *options: str) -> Work:
    """Return XADDs to random streams, 50 clients, 16 in a pipeline."""
    words = ("XADD", "s:__rand_int__", *options, "*", "f", CHANGING)

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "FLUSHALL")
        return redis_benchmark(target, requests, 50, 16, words, space=STREAMS)

    return work


def ready_made(*options: str) -> Work:
    """Return XADDs whose words `{pid}` and `{iid}` are producers in turn and new iids, 50 clients, 16 in a pipeline.

    Values differ, as in production. The windows are full before the first one, as in production, too.
    """

    def made(number: int) -> bytes:
        named = [word.format(pid=f"p{number % PRODUCERS}", iid=f"order-{number:010d}") for word in options]
        return request("XADD", "s", *named, "*", "f", _value(number))

    def work(target: Target) -> Sample:
        sent = [made(next(_numbers)) for _ in range(SENT)]
        with target.connect() as sock:
            ask(sock, "DEL", "s")
            if "IDMP" in options:
                load(sock, [made(next(_numbers)) for _ in range(PRODUCERS * REMEMBERED)])
        return pipelines(target, sent, reply_lines=_BULK_LINES)

    return work


def _value(number: int) -> str:
    return f"{number:0{len(VALUE)}d}"


def again(scattered: bool = False) -> Work:
    """Return XADDs of one producer whose iids are all known, in order or scattered, 50 clients, 16 in a pipeline."""

    def work(target: Target) -> Sample:
        sent = [request("XADD", "s", "IDMP", "p", f"order-{n:010d}", "*", "f", _value(n)) for n in range(AGAIN)]
        with target.connect() as sock:
            ask(sock, "DEL", "s")
            ask(sock, "XADD", "s", "*", "f", VALUE)
            ask(sock, "XCFGSET", "s", "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 10_000)
            load(sock, sent)
        repeated = sent * (SENT // AGAIN)
        if scattered:
            random.Random(6).shuffle(repeated)
        return pipelines(target, repeated, reply_lines=_BULK_LINES)

    return work


PRODUCTION_WORKLOADS: tuple[Workload, ...] = (
    Workload("XADD MAXLEN ~ 1000, 50 clients, pipeline 16", xadd(50, 16, 300_000, TRIMMED), 0.9, short=True),
    Workload("XADD MAXLEN ~ 1000, 1 client, pipeline 100", xadd(1, 100, 300_000, TRIMMED), 0.9, short=True),
    Workload("XADD to 1,000 streams, 50 clients, pipeline 16", to_streams(300_000), 1.0, short=True, least_pure=0.7),
    Workload(
        "XADD to 1,000 streams MAXLEN ~ 1000, 50 clients, pipeline 16",
        to_streams(300_000, "MAXLEN", "~", "1000"),
        0.65,
    ),
)
