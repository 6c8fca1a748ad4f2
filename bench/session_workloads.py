"""Workloads of a broker's sessions, and of the commands in its scripts."""

from bench.broker import latency, throughput
from bench.client import ask
from bench.measure import Sample, Work, redis_benchmark
from bench.servers import Target
from bench.workloads import CHANGING, EVERYSEC, Workload

_MEMBER = "{device-000017}_messages___rand_int__"


def _commands(clients: int, pipeline: int, requests: int, *words: str) -> Work:
    """Return a workload of redis-benchmark on a set that begins with a hundred members."""

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "FLUSHALL")
            members = [word for number in range(100) for word in (number, f"member-{number}")]
            ask(sock, "ZADD", "refs", *members)
        return redis_benchmark(target, requests, clients, pipeline, words)

    return work


_COMMANDS = {
    "ZADD": ("ZADD", "queue", "__rand_int__", _MEMBER),
    "ZRANGE of 10": ("ZRANGE", "refs", "0", "9", "REV", "WITHSCORES"),
    "ZSCORE": ("ZSCORE", "refs", "member-50"),
    "SET EX": ("SET", "payload___rand_int__", CHANGING, "EX", "604800"),
}

SESSION_WORKLOADS: tuple[Workload, ...] = (
    Workload(
        "broker: messages of 1,000 subscribers, stored and removed", throughput(1_000, 150, 40_000), 0.5, least_pure=0.3
    ),
    Workload("broker: messages of 500 subscribers", throughput(500, 150, 40_000), 0.5, short=True, least_pure=0.3),
    *(
        Workload(
            f"broker: commands, {batch} in a batch",
            throughput(1_000, batch, 40_000, batch, by_command=True),
            0.5,
            least_pure=0.3,
        )
        for batch in (150, 300, 500)
    ),
    Workload("broker: one message at a time", throughput(1_000, 1, 5_000), 0.25),
    # Its figure is one over milliseconds: within twice redis-server's is 0.5.
    Workload("broker: 1 / p99 in ms at 2,000 messages/s", latency(1_000, 2_000, 5), 0.5),
    Workload(
        "everysec: broker: messages of 1,000 subscribers",
        throughput(1_000, 150, 40_000),
        0.5,
        options=EVERYSEC,
        least_pure=0.3,
    ),
    Workload("everysec: broker: 1 / p99 in ms at 2,000 messages/s", latency(1_000, 2_000, 5), 0.5, options=EVERYSEC),
    *(Workload(f"{name}, 50 clients", _commands(50, 1, 100_000, *words), 0.9) for name, words in _COMMANDS.items()),
    *(
        Workload(f"{name}, 50 clients, pipeline 16", _commands(50, 16, 200_000, *words), 0.5)
        for name, words in _COMMANDS.items()
    ),
)
