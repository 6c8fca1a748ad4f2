"""Rows for `bench.trees` beside those of the table: of bench.over_own, of a user with rules, and of many streams with
a journal.
"""

import hiredis

from bench import rules
from bench.client import ask, request
from bench.measure import Sample, Work, timed
from bench.over_own import PAIRS
from bench.production import to_streams
from bench.rows import ALL
from bench.servers import Target
from bench.workloads import EVERYSEC, Workload

REQUESTS = 20_000


def _ruled(row: rules.Row) -> Work:
    """Return a row of bench.rules, sent by the user with rules."""
    sent = [request(*words) for number in range(row.depth) for words in row.make(number)]
    data, rounds = b"".join(sent), max(1, REQUESTS // len(sent))

    def work(target: Target) -> Sample:
        with target.connect() as sock:
            ask(sock, "DEL", "orders:g", "r:1")
        rules.prepare(target)
        with target.connect() as sock:
            ask(sock, "AUTH", "ann", "x")
            rules.converse(sock, hiredis.Reader(), data, len(sent), 1)
            return timed(
                target,
                rounds * len(sent),
                lambda: rules.converse(sock, hiredis.Reader(), data, len(sent), rounds),
            )

    return work


TREE_ROWS: tuple[Workload, ...] = (
    *ALL,
    *(Workload(pair.name, pair.work, 0) for pair in PAIRS),
    *(Workload(f"rules: {row.name}", _ruled(row), 0, options=("--user", rules.RULES)) for row in rules.ROWS),
    Workload("everysec: XADD to 1,000 streams, 50 clients, pipeline 16", to_streams(300_000), 0, options=EVERYSEC),
)
