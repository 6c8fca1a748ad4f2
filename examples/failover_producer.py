"""A producer behind Sentinels: no order is lost and none is stored twice, although the primary's machine is lost.

    python examples/failover_producer.py [--sentinel 10.0.0.5:26379] [--name mymaster] [--replicas 2] [--orders 300]
        [--pause-ms 0] [--url redis://127.0.0.1:6379]

The producer asks Sentinel for the primary. It gives each order a name, and waits until so many replicas have it. After
an error, or if too few replicas have it, the producer sends the same order again, to the server that is then the
primary. `--sentinel` is given once for each Sentinel. `--replicas` has to be the number of all replicas that Sentinel
may elect. The password of the servers, if they have one, stands in the variable REDISCLI_AUTH.

Ends with exit code 0 if each order is there once, in order, else 1. Without --sentinel and --url it starts a server of
its own, which has no replicas.
"""

import argparse
import os
import sys
import time
from contextlib import ExitStack

import redis
from redis.sentinel import Sentinel

PRODUCER = "shop-1"  # the producer's name, the same after each of its starts
STREAM = "orders"
# The window must hold what may be sent again, and outlast the longest time between a first try and its repetition.
WINDOW = ("IDMP-DURATION", 3600, "IDMP-MAXSIZE", 10_000)
TIMEOUT_S, WAIT_MS, PAUSE_S = 1.0, 500, 0.05  # WAIT ends before the client gives the connection up
# Errors that end when there is a primary again, with its replicas; redis-py has a class only for some.
PASSING = (redis.ConnectionError, redis.TimeoutError, redis.ReadOnlyError, redis.exceptions.MasterDownError)
PASSING_WORDS = ("UNBLOCKED", "NOREPLICAS")


def store(primary: redis.Redis, name: str, order: dict, replicas: int) -> int:
    """Store an order once, and return only when so many replicas have it; return how many tries that took."""
    tries = 0
    while True:
        tries += 1
        pipeline = primary.pipeline(transaction=False)  # WAIT counts for the connection that wrote
        pipeline.xadd(STREAM, order, idmp=(PRODUCER, name))
        pipeline.execute_command("WAIT", replicas, WAIT_MS)
        try:
            _, reached = replies = pipeline.execute(raise_on_error=False)
        except PASSING as error:
            replies = [error]
        failed = [reply for reply in replies if isinstance(reply, Exception)]
        if not failed and reached >= replicas:
            return tries
        if failed and not isinstance(failed[0], PASSING) and not str(failed[0]).startswith(PASSING_WORDS):
            raise failed[0]
        time.sleep(PAUSE_S)  # the next try asks Sentinel again


def run(primary: redis.Redis, orders: int, replicas: int, pause_s: float) -> int:
    """Store the orders and look at the stream; return the exit code."""
    if not primary.exists(STREAM):  # the stream has to be there before its window can be set
        primary.xgroup_create(STREAM, "billing", id="0", mkstream=True)
    primary.execute_command("XCFGSET", STREAM, *WINDOW)
    tries = 0
    for number in range(orders):
        tries += store(primary, f"order-{number}", {"order": f"order-{number}", "cents": 100 + number}, replicas)
        time.sleep(pause_s)
    found = [int(fields[b"order"].partition(b"-")[2]) for _, fields in primary.xrange(STREAM)]
    lost, twice = len(set(range(orders)) - set(found)), len(found) - len(set(found))
    order = "in order" if found == sorted(found) else "not in order"
    print(f"orders {orders}, sent {tries} times, each on {replicas} replicas")
    print(f"lost {lost}, there twice {twice}, {order}")
    return 0 if lost == twice == 0 and found == sorted(found) else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a producer behind Sentinels that loses nothing with the primary")
    parser.add_argument("--sentinel", action="append", metavar="HOST:PORT", help="a Sentinel; may be given repeatedly")
    parser.add_argument("--name", default="mymaster", help="of the primary, as the Sentinels know it")
    parser.add_argument("--replicas", type=int, help="to wait for; by default 2 with --sentinel, otherwise 0")
    parser.add_argument("--orders", type=int, default=300)
    parser.add_argument("--pause-ms", type=int, default=0, help="between two orders")
    parser.add_argument("--url", help="a running server, without Sentinel; by default one is started in this process")
    arguments = parser.parse_args()
    replicas = arguments.replicas if arguments.replicas is not None else 2 if arguments.sentinel else 0
    with ExitStack() as stack:
        where = arguments.url or ", ".join(arguments.sentinel or ())
        if arguments.sentinel:
            places = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in arguments.sentinel)]
            sentinel = Sentinel(places, socket_timeout=TIMEOUT_S)
            password = os.environ.get("REDISCLI_AUTH")
            primary = sentinel.master_for(arguments.name, socket_timeout=TIMEOUT_S, password=password)
        else:
            if arguments.url is None:
                from streamd.testing import Clock, EmbeddedServer

                where = stack.enter_context(EmbeddedServer(clock=Clock())).url
            primary = redis.Redis.from_url(where, socket_timeout=TIMEOUT_S)
        try:
            return run(primary, arguments.orders, replicas, arguments.pause_ms / 1000)
        except redis.RedisError as error:
            needs = "; this needs streamd, or Redis from 8.6 on" if isinstance(error, redis.ResponseError) else ""
            print(f"failover_producer: {where}: {error}{needs}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
