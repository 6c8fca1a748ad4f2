"""Workloads of what a gateway asks of its store: small transactions in batches, and small reads of a few streams."""

import time

from bench.client import Replies, ask, drain, load, request
from bench.measure import Sample, Work, timed
from bench.servers import Target
from bench.workloads import Workload

# A message of a device: its topic, 62 bytes, its client.
_STREAM, _AWAITED = "{mqtt/0}:g1", "{mqtt/0}:in:device-000017"
_MESSAGE = ("t", "devices/17/temperature", "p", b"x" * 62, "c", "device-000017")
_BATCH = 100


def transactions(batches: int) -> Work:
    """Return transactions that store a message and note its packet ID, of one client, `_BATCH` in a pipeline."""

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "DEL", _STREAM, _AWAITED)
            sent = [
                b"".join(
                    request("MULTI")
                    + request("XADD", _STREAM, "*", *_MESSAGE[:-2], "c", f"device-{number:06d}")
                    + request("HSET", _AWAITED, packet_id, "1")
                    + request("EXEC")
                    for number, packet_id in enumerate(range(first, first + _BATCH))
                )
                for first in range(1, 10 * _BATCH, _BATCH)
            ]
            replies = Replies(sock)

            def action() -> None:
                for number in range(batches):
                    sock.sendall(sent[number % len(sent)])
                    for _ in range(4 * _BATCH):
                        replies.reply()

            return timed(target, batches * _BATCH, action)

    return work


def small_reads(requests: int, news: bool, pause_s: float = 0.0) -> Work:
    """Return XREADs of the ends of four streams, one at a time; with `news` each finds an entry in one of them.

    That is another one than the time before, and its ID is a new word, as for a client that follows a stream.
    """

    def work(target: Target) -> Sample:
        names = [f"{{mqtt/{shard}}}:g1" for shard in range(4)]
        with target.connect() as sock:
            ask(sock, "DEL", *names)
            for name in names:
                load(sock, [request("XADD", name, f"{10**12 + entry}-0", *_MESSAGE) for entry in range(1_000)])
            end = f"{10**12 + 999}-0"
            sent = [
                request("XREAD", "COUNT", 1, "STREAMS", *names, _behind(number) if news else end, end, end, end)
                for number in range(requests)
            ]
            sock.sendall(sent[0])
            size = len(sock.recv(1 << 16))

            def action() -> None:
                for one in sent:
                    sock.sendall(one)
                    drain(sock, size)
                    if pause_s:
                        time.sleep(pause_s)

            return timed(target, requests, action)

    return work


def _behind(number: int) -> str:
    """Return an ID, another one each time, between two of the newest entries."""
    return f"{10**12 + 930 + number % 60}-{number + 1}"


GATEWAY_WORKLOADS: tuple[Workload, ...] = (
    Workload("MULTI, XADD, HSET, EXEC, 1 client, 100 in a pipeline", transactions(300), 0.5, rounds=5),
    Workload("XREAD of 4 streams, 1 client, nothing new", small_reads(10_000, False), 0.8, rounds=5),
    Workload("XREAD of 4 streams, 1 client, one new entry", small_reads(10_000, True), 0.8, rounds=5),
    Workload("XREAD of 4 streams, 1 client, one new entry, 2 ms apart", small_reads(1_000, True, 0.002), 0.8, rounds=5),
)
