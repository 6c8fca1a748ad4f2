"""The delay of other clients during a scrape of /metrics, with 100,000 streams: `python -m bench.scrape`."""

import argparse
import http.client
import socket
import sys
import threading
import time

from streamd.base.clock import Clock
from streamd.base.collector import keep_out
from streamd.testing import EmbeddedServer


def main() -> int:
    """Print the times of pings alone and while scrapes run, and how long a scrape takes."""
    parser = argparse.ArgumentParser(prog="python -m bench.scrape", description=__doc__)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--scrapes", type=int, default=10)
    arguments = parser.parse_args()
    for name, values in measure(arguments.streams, arguments.scrapes).items():
        values.sort()
        half, most = values[len(values) // 2], values[-1]
        print(f"{name}: {len(values)} times, median {half:.2f} ms, longest {most:.2f} ms")
    return 0


def measure(streams: int, scrapes: int) -> dict[str, list[float]]:
    """Return the milliseconds of CPU of each slice of some scrapes, on a server with this many streams, and the
    milliseconds of each scrape for its client.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with EmbeddedServer(Clock(), admin_port=port) as server:
        engine = server._server.engine
        filling = engine.connect()
        for number in range(streams):
            engine.call(filling, [b"XADD", b"s%d" % number, b"IDMP", b"p", b"i", b"*", b"f", b"v"])
        keep_out()  # as a start does when it has loaded so many
        return _measure(port, scrapes)


def _measure(port: int, scrapes: int) -> dict[str, list[float]]:
    slices: list[float] = []
    taken: list[float] = []
    from streamd.net import server as module

    scrape = module.Server.scrape

    def timed(self, write):  # type: ignore[no-untyped-def]
        steps = scrape(self, write)
        while True:
            began = time.thread_time()
            if next(steps, None) is None:
                return
            slices.append((time.thread_time() - began) * 1000)
            yield 1

    module.Server.scrape = timed  # type: ignore[method-assign,assignment]

    def ask() -> None:
        for _ in range(scrapes):
            began = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/metrics")
            connection.getresponse().read()
            connection.close()
            taken.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    module.Server.scrape = scrape  # type: ignore[method-assign]
    return {"a slice, CPU": slices, "a scrape": taken}


if __name__ == "__main__":
    sys.exit(main())
