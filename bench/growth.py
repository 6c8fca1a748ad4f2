"""Growth: what an operation costs as one number grows; most curves should be flat."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.client import ask, load, request
from bench.measure import Sample, redis_benchmark, timed
from bench.servers import Target
from bench.workloads import CHANGING, VALUE


@dataclass(frozen=True)
class Curve:
    """One plot: `measure(target, x)` at each x.

    flat: whether the cost should not depend on x. growth_from: where in `points` growth begins: requests that are alike
    are done as one, so a pipeline to one stream costs less than one to several.
    """

    name: str
    xlabel: str
    points: tuple[int, ...]
    measure: Callable[[Target, int], Sample]
    flat: bool = False
    only_streamd: bool = False
    growth_from: int = 0


def _fresh(target: Target) -> None:
    with target.connect() as sock:
        ask(sock, "FLUSHALL")


def by_pipeline(target: Target, depth: int) -> Sample:
    """XADD, 10 clients."""
    _fresh(target)
    return redis_benchmark(target, 60_000 if depth < 8 else 240_000, 10, depth, ("XADD", "s", "*", "f", CHANGING))


def by_value_size(target: Target, size: int) -> Sample:
    """XADD, 50 clients, pipeline 16."""
    _fresh(target)
    return redis_benchmark(
        target, max(4_000, min(200_000, 200_000_000 // size)), 50, 16, ("XADD", "s", "*", "f", "x" * size)
    )


def by_clients(target: Target, clients: int) -> Sample:
    """XADD without pipeline."""
    _fresh(target)
    return redis_benchmark(target, 80_000, clients, 1, ("XADD", "s", "*", "f", CHANGING))


def _fill(target: Target, key: str, entries: int) -> None:
    with target.connect() as sock:
        have = int(str(ask(sock, "XLEN", key)))
        if have < entries:
            batch = 5_000
            one = [request("XADD", key, "*", "f", "v" * 8)] * batch
            for _ in range((entries - have) // batch + 1):
                load(sock, one, batch=batch)


def by_length(target: Target, entries: int) -> Sample:
    """XADD to a stream of this length."""
    _fill(target, "long", entries)
    return redis_benchmark(target, 100_000, 10, 16, ("XADD", "long", "*", "f", CHANGING))


def by_length_read(target: Target, entries: int) -> Sample:
    """XRANGE COUNT 10 at the end of a stream of this length."""
    _fill(target, "long", entries)
    return redis_benchmark(target, 40_000, 10, 4, ("XREVRANGE", "long", "+", "-", "COUNT", "10"))


def by_streams(target: Target, streams: int) -> Sample:
    """XADD to streams in turn."""
    _fresh(target)
    with target.connect() as sock:
        sent = [request("XADD", f"s{n % streams}", "*", "f", VALUE) for n in range(max(50_000, streams))]
        load(sock, sent)
        return timed(target, 50_000, lambda: load(sock, sent[:50_000]))


def by_producers(target: Target, producers: int) -> Sample:
    """XADD IDMP by producers in turn, each with a new iid."""
    _fresh(target)
    with target.connect() as sock:
        load(sock, [request("XADD", "s", "IDMP", f"p{n}", "first", "*", "f", VALUE) for n in range(producers)])
        sent = [request("XADD", "s", "IDMP", f"p{n % producers}", f"i{n}", "*", "f", VALUE) for n in range(50_000)]
        return timed(target, 50_000, lambda: load(sock, sent))


def by_iids(target: Target, iids: int) -> Sample:
    """XADD IDMP of one producer whose window is full with this many iids."""
    _fresh(target)
    with target.connect() as sock:
        ask(sock, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        ask(sock, "XCFGSET", "s", "IDMP-MAXSIZE", iids)
        load(sock, [request("XADD", "s", "IDMP", "p", f"first{n}", "*", "f", VALUE) for n in range(iids)])
        sent = [request("XADD", "s", "IDMP", "p", f"i{n}", "*", "f", VALUE) for n in range(50_000)]
        return timed(target, 50_000, lambda: load(sock, sent))


CURVES: tuple[Curve, ...] = (
    Curve("XADD by pipeline depth", "pipeline depth", (1, 2, 4, 8, 16, 32, 64, 128), by_pipeline),
    Curve("XADD by value size", "bytes in the value", (8, 64, 512, 4_096, 32_768), by_value_size),
    Curve("XADD by clients", "clients", (1, 10, 50, 200, 1_000), by_clients),
    Curve("XADD by stream length", "entries in the stream", (10**3, 10**4, 10**5, 10**6, 10**7), by_length, flat=True),
    Curve("XREVRANGE 10 by stream length", "entries in the stream", (10**3, 10**5, 10**7), by_length_read, flat=True),
    Curve("XADD by streams", "streams", (1, 100, 10_000, 100_000), by_streams, True, growth_from=1),
    Curve("XADD IDMP by producers", "producers", (1, 100, 10_000, 100_000), by_producers, True, True, 1),
    Curve("XADD IDMP by iids of a producer", "iids", (10, 100, 1_000, 10_000), by_iids, True, True),
)
