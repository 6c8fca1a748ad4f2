"""One producer of the demo: writes its share of the feed with idempotent XADDs and retries failed ones."""

import argparse
import json
import sys
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from demo import feed

ATTEMPTS_MAX = 100


def main() -> int:
    """Write the share, print one JSON object of counters, return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo.producer")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--feed", type=Path, required=True)
    parser.add_argument("--number", type=int, required=True, help="which producer this is, from 0")
    parser.add_argument("--of", type=int, required=True, help="how many producers there are")
    parser.add_argument("--pipeline", type=int, default=25, help="requests sent at a time")
    parser.add_argument("--at-once", type=int, required=True, help="orders that were waiting: written without a pause")
    parser.add_argument("--rate", type=float, required=True, help="orders per second after that")
    options = parser.parse_args()

    # redis-py would retry by itself; here the demo does, so that it can count.
    client = redis.Redis(port=options.port, retry=Retry(NoBackoff(), 0))
    share = [order for index, order in enumerate(feed.read(options.feed)) if index % options.of == options.number]
    producer_id = f"till-{options.number + 1}"
    sent = retries = 0
    live_since = time.monotonic()
    for start in range(0, len(share), options.pipeline):
        batch = share[start : start + options.pipeline]
        for attempt in range(ATTEMPTS_MAX):
            sent += len(batch)
            retries += attempt > 0
            try:
                write(client, options.stream, producer_id, batch)
                break
            except (redis.ConnectionError, redis.TimeoutError):
                pass  # nobody knows how much of it was written: all of it again
        else:
            print(f"{producer_id}: no connection after {ATTEMPTS_MAX} attempts", file=sys.stderr)
            return 1
        if start < options.at_once:
            live_since = time.monotonic()
        else:
            due = live_since + (start - options.at_once) / options.rate
            time.sleep(max(0.0, due - time.monotonic()))
    print(json.dumps({"sent": sent, "retries": retries}))
    return 0


def write(client: redis.Redis, stream: str, producer_id: str, batch: list[feed.Order]) -> None:
    """Write orders in one pipeline; the order number is the idempotent ID, so writing them again changes nothing."""
    pipeline = client.pipeline(transaction=False)
    for order in batch:
        pipeline.xadd(stream, dict(feed.as_fields(order).items()), idmp=(producer_id, str(order["order"]).encode()))
    pipeline.execute()


if __name__ == "__main__":
    sys.exit(main())
