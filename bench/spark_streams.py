"""Many small streams in one micro-batch: what a stream costs a query that has little to read in each."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.client import ask, load, request
from bench.spark import Bench, Jobs

STREAMS = 2_000


def stream_jobs(bench: Bench, place: Path) -> Jobs:
    """Return queries with Trigger.AvailableNow that read one entry of each of many streams, in one batch."""
    with bench.target.connect() as sock:
        load(sock, [request("XADD", f"small-{n}", "*", "n", n, "shop", "s", "item", "i") for n in range(STREAMS)])
    numbers = count()

    def query(sink: str) -> Callable[[], None]:
        def job() -> None:
            number = next(numbers)
            rows = bench.spark.readStream.format("streamd").options(
                port=bench.target.port, streamPattern="small-*", startingOffsets="earliest"
            )
            writing = rows.load().select("stream", "id", "fields").writeStream.format(sink)
            writing = writing.option("checkpointLocation", str(place / f"checkpoint-{number}"))
            if sink == "streamd":
                writing = writing.options(port=bench.target.port, stream=f"copies-{number}")
            done = writing.trigger(availableNow=True).start()
            done.awaitTermination()
            assert [one["numInputRows"] for one in done.recentProgress] == [STREAMS]
            if sink == "streamd":
                with bench.target.connect() as sock:
                    assert ask(sock, "XLEN", f"copies-{number}") == STREAMS

        return job

    return {
        f"a query of one batch, {STREAMS:,} streams of one entry, into noop": query("noop"),
        f"a query of one batch, {STREAMS:,} streams of one entry, into a stream": query("streamd"),
    }
