"""`python -m bench.mqtt_live`: a steady load of pairs, whose deliveries are told each tenth of a second."""

import argparse
import asyncio
import secrets
import sys
from itertools import cycle
from time import monotonic

from streamd.clients.mqtt.bench.connecting import Opener, close_all
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.pacer import Pacer
from streamd.clients.mqtt.bench.publisher import Publisher
from streamd.clients.mqtt.bench.subscriber import Subscriber
from streamd.clients.mqtt.bench.tally import Tally

_TOLD_S = 0.1


async def run(port: int, pairs: int, rate: float) -> None:
    """Publish until standard input ends; print lines of the time, deliveries, and seconds of all of them."""
    loop = asyncio.get_running_loop()
    load, tally, name = Load("p2p", port=port, clients=pairs, rate=rate, prefix="live"), Tally(), secrets.randbits(32)
    lost: asyncio.Future[None] = loop.create_future()
    publishers, subscribers = [], []
    for number in range(pairs):
        client, topic = f"live-{name:08x}-{number}", f"live/{name:08x}/{number}"
        subscribers.append(Subscriber(load, tally, lost, f"{client}-s", topic, name, None))
        publishers.append(Publisher(load, tally, lost, f"{client}-p", topic.encode(), name, number))
    await Opener(load).open_all([*subscribers, *publishers])
    turns = cycle(publishers)
    pacer = Pacer(rate, lambda now_s: next(turns).publish(now_s))
    ended = loop.run_in_executor(None, sys.stdin.read)
    seconds = 0.0
    while not ended.done():
        await asyncio.wait([ended, lost], timeout=_TOLD_S, return_when=asyncio.FIRST_COMPLETED)
        if lost.done():
            lost.result()
        seconds += tally.deliveries.total_s
        print(monotonic(), tally.delivered, seconds, flush=True)
        tally.deliveries.clear()
    pacer.stop()
    await close_all(load, [*subscribers, *publishers])


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench.mqtt_live", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--rate", type=float, default=1_000.0)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.port, arguments.pairs, arguments.rate))


if __name__ == "__main__":
    main()
