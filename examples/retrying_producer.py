"""A producer that tries again over a network that breaks: of each order one entry remains.

    python examples/retrying_producer.py [--url redis://127.0.0.1:6379] [--orders 300] [--cut-every 3]

A small proxy stands between the producer and the server. Of every third XADD it cuts the connection: one time before
the server has the request, one time after the server has done it and before the reply. The producer cannot tell these
apart, so redis-py sends the request again, as it does by default. The same orders are written in three ways: by a plain
XADD, by XADD IDMP under the order's own number, and by XADD IDMPAUTO, where the server makes the idempotent ID of the
content.

Ends with exit code 0 if IDMP and IDMPAUTO left one entry of each order, else 1. Without --url it starts a server of its
own.
"""

import argparse
import asyncio
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PRODUCER = "shop-1"  # the producer's name, the same after each of its starts
RETRIES = 5
# The window must hold what may be sent again, and outlast the longest time between a first try and its repetition.
WINDOW = ("IDMP-DURATION", 3600, "IDMP-MAXSIZE", 10_000)
BEFORE, AFTER = "before the server had the request", "before the reply came back"


class CuttingProxy:
    """Hands on what client and server say, and cuts the connection at every so many XADDs.

    `port` is where it listens; `cuts` counts the cuts by their kind.
    """

    def __init__(self, host: str, port: int, cut_every: int) -> None:
        self.port, self.cuts = 0, Counter[str]()
        self._target, self._cut_every = (host, port), cut_every
        self._adds, self._is_ready = 0, threading.Event()

    def __enter__(self) -> "CuttingProxy":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._stopping.wait()
        server.close()

    async def _connection(self, requests: asyncio.StreamReader, replies: asyncio.StreamWriter) -> None:
        try:
            await self._between(requests, replies, *await asyncio.open_connection(*self._target))
        except (OSError, asyncio.CancelledError):
            pass  # the server is gone, or all is over
        replies.close()

    async def _between(
        self,
        requests: asyncio.StreamReader,
        replies: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        is_withheld = False

        async def hand_back() -> None:
            while data := await from_server.read(65_536):
                if is_withheld:  # the server has done it, and the client will never know
                    break
                replies.write(data)
            replies.close()

        handing_back = asyncio.create_task(hand_back())
        while data := await requests.read(65_536):
            if b"XADD" in data:
                self._adds += 1
                if self._adds % self._cut_every == 0:
                    kind = (BEFORE, AFTER)[self._adds // self._cut_every % 2]
                    self.cuts[kind] += 1
                    if kind == BEFORE:
                        break
                    is_withheld = True
            to_server.write(data)
        to_server.close()
        await handing_back


def produce(client: redis.Redis, stream: str, orders: int, how: str) -> None:
    """Write orders one by one. What breaks is sent again by redis-py: with a name by which it is known, or without."""
    for number in range(orders):
        order = {"order": f"order-{number}", "cents": 100 + number}
        if how == "IDMP":
            client.xadd(stream, order, idmp=(PRODUCER, order["order"]))
        elif how == "IDMPAUTO":
            client.xadd(stream, order, idmpauto=PRODUCER)
        else:
            client.xadd(stream, order)


def run(url: str, orders: int, cut_every: int) -> int:
    """Write the orders in three ways, and count; return the exit code."""
    server = redis.Redis.from_url(url, decode_responses=True)
    where = urlsplit(url)
    is_right = True
    for how in ("plain", "IDMP", "IDMPAUTO"):
        stream = f"orders-{how}"
        server.delete(stream)
        if how != "plain":  # the stream has to be there before its window can be set
            server.xgroup_create(stream, "billing", id="0", mkstream=True)
            server.execute_command("XCFGSET", stream, *WINDOW)
        with CuttingProxy(where.hostname or "127.0.0.1", where.port or 6379, cut_every) as proxy:
            through_proxy = where._replace(netloc=f"{where.netloc.rpartition('@')[0]}@127.0.0.1:{proxy.port}").geturl()
            client = redis.Redis.from_url(through_proxy, retry=Retry(NoBackoff(), RETRIES))
            produce(client, stream, orders, how)
            client.close()
        found = Counter(fields["order"] for _, fields in server.xrange(stream))
        lost, twice = orders - len(found), found.total() - len(found)
        known = server.xinfo_stream(stream).get("iids-duplicates", 0)
        cuts = ", ".join(f"{count} {kind}" for kind, count in sorted(proxy.cuts.items()))
        print(f"{how}: {orders} orders, connection cut {proxy.cuts.total()} times ({cuts})")
        print(f"  entries {found.total()}, retries known as duplicates {known}, lost {lost}, there twice {twice}")
        if how != "plain":
            is_right &= lost == twice == 0
    return 0 if is_right else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a producer that tries again, and writes nothing twice")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--orders", type=int, default=300)
    parser.add_argument("--cut-every", type=int, default=3, metavar="N", help="cut at every N-th XADD, at least 2")
    arguments = parser.parse_args()
    if arguments.orders < 1 or arguments.cut_every < 2:
        parser.error("--orders is at least 1, --cut-every at least 2: else nothing ever comes through")
    if arguments.url is not None and not arguments.url.startswith("redis://"):
        parser.error("--url begins with redis:// here: the proxy has to see what is sent")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.orders, arguments.cut_every)
        except redis.RedisError as error:
            needs = "; this needs streamd, or Redis from 8.6 on" if isinstance(error, redis.ResponseError) else ""
            print(f"retrying_producer: {url}: {error}{needs}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
