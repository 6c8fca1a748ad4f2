"""Large things: operations on a million entries, ten thousand groups, a hundred thousand streams."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.client import ask, load, request
from bench.servers import Target

MILLION = 1_000_000
Timing = tuple[str, float]  # (what was done, seconds)


@contextmanager
def _timing(into: list[Timing], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    into.append((name, time.perf_counter() - start))


def _entry_id(number: int) -> str:
    return f"{10**12 + number}-0"


def million_pending(target: Target) -> list[Timing]:
    """A group with 1,000,000 pending entries: acknowledge, claim, list ranges."""
    times: list[Timing] = []
    with target.connect() as sock:
        load(sock, [request("XADD", "big", _entry_id(n), "f", "v") for n in range(MILLION)])
        ask(sock, "XGROUP", "CREATE", "big", "g", "0")
        deliver = request("XREADGROUP", "GROUP", "g", "c", "COUNT", 1000, "STREAMS", "big", ">")
        with _timing(times, "XREADGROUP of 1,000,000 entries, 1000 at a time"):
            load(sock, [deliver] * (MILLION // 1000), batch=4)
        middle = MILLION // 2
        with _timing(times, "10,000 XACK of one ID in the middle of 1,000,000 pending"):
            load(sock, [request("XACK", "big", "g", _entry_id(middle + 2 * n)) for n in range(10_000)], 4)
        with _timing(times, "10,000 XCLAIM of one ID in the middle of 1,000,000 pending"):
            sent = [
                request("XCLAIM", "big", "g", "d", 0, _entry_id(middle + 2 * n + 1), "JUSTID") for n in range(10_000)
            ]
            load(sock, sent)
        with _timing(times, "1,000 XPENDING ranges of 10 in the middle"):
            sent = [request("XPENDING", "big", "g", _entry_id(middle + n), "+", 10) for n in range(1_000)]
            load(sock, sent)
        with _timing(times, "10 XPENDING IDLE over 1,000,000, none idle enough"):
            load(sock, [request("XPENDING", "big", "g", "IDLE", 10**9, "-", "+", 10)] * 10, batch=1)
        with _timing(times, "100 XPENDING summaries"):
            load(sock, [request("XPENDING", "big", "g")] * 100)
        with _timing(times, "100,000 XDEL of every tenth entry"):
            load(sock, [request("XDEL", "big", _entry_id(n)) for n in range(0, MILLION, 10)], 4)
        with _timing(times, "XTRIM MINID of 900,000 entries"):
            ask(sock, "XTRIM", "big", "MINID", _entry_id(900_000))
        with _timing(times, "DEL of the stream"):
            ask(sock, "DEL", "big")
    return times


def many_consumers_and_groups(target: Target) -> list[Timing]:
    """10,000 consumers in one group, 10,000 groups on one stream, 100,000 streams."""
    times: list[Timing] = []
    with target.connect() as sock:
        load(sock, [request("XADD", "s", _entry_id(n), "f", "v") for n in range(10_000)])
        ask(sock, "XGROUP", "CREATE", "s", "g", "0")
        with _timing(times, "XREADGROUP COUNT 1 by 10,000 consumers"):
            sent = [
                request("XREADGROUP", "GROUP", "g", f"c{n}", "COUNT", 1, "STREAMS", "s", ">") for n in range(10_000)
            ]
            load(sock, sent)
        with _timing(times, "10,000 XGROUP CREATE on one stream"):
            load(sock, [request("XGROUP", "CREATE", "s", f"g{n}", "$") for n in range(10_000)])
        with _timing(times, "1,000 XADD to a stream with 10,000 groups"):
            load(sock, [request("XADD", "s", "*", "f", "v")] * 1_000)
        with _timing(times, "XINFO GROUPS of 10,000 groups"):
            ask(sock, "XINFO", "GROUPS", "s")
        with _timing(times, "XADD to 100,000 new streams"):
            load(sock, [request("XADD", f"s{n}", "*", "f", "v") for n in range(100_000)])
        with _timing(times, "XADD to 100,000 streams again"):
            load(sock, [request("XADD", f"s{n}", "*", "f", "v") for n in range(100_000)])
    return times


LARGE: tuple[Callable[[Target], list[Timing]], ...] = (million_pending, many_consumers_and_groups)
