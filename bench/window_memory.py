"""`python -m bench.window_memory`: memory of an idempotent ID in a window, by producers and IDs of each.

python -m bench.window_memory [--form pure|compiled|redis] [--iids 1000000] [--turned-over 2.5]

Windows are filled to their size, and then with so many times as many new IDs: in use for a while they take more than
when they are new. Each line has Pss_Anon and what MEMORY USAGE says, also for each type of values. A run of all rows on
all servers writes bench/results/windows.json and the tables of docs.
"""

import argparse
import datetime
import json
import time
from collections.abc import Iterator

from bench.client import load, request
from bench.progress import said
from bench.servers import IDEMPOTENT, KINDS, Target, all_kinds
from bench.small_memory import TURNED_OVER, window_bytes
from bench.table import RESULTS
from bench.type_memory import TYPE_ROWS, beside, usage
from scripts import tables_idempotence, tables_speed

# How many producers, and of how many bytes an ID is; None: made by IDMPAUTO.
ROWS: tuple[tuple[int, int, int | None], ...] = (
    (100, 10_000, 16),
    (100, 10_000, 36),
    (100, 10_000, None),
    (1_000, 1_000, 16),
    (1_000, 1_000, 30),
    (1_000, 100, 16),
    (2_000, 500, 16),
    (10_000, 100, 16),
    (10_000, 100, 36),
)
FORMS = {"pure": "streamd", "compiled": "compiled", "redis": "newest-redis"}
STREAMS = 20_000


def bytes_of_an_iid(
    kind: str, producers: int, iids: int, length: int | None, turned_over: float, iids_max: int
) -> tuple[float, float]:
    """Return the growth of the server's memory per idempotent ID, producers included, and what MEMORY USAGE says."""
    producers = max(1, min(producers, iids_max // iids))
    with Target(kind) as target, target.connect() as sock:
        grown = window_bytes(target, 1, producers, iids, turned_over, length)
        return grown / (producers * iids), usage(sock, "s0") / (producers * iids)


def bytes_of_a_stream(kind: str, streams: int) -> float:
    """Return the growth of the server's memory per stream that has one entry, with an idempotent ID."""

    def sent(name: str, count: int) -> Iterator[bytes]:
        return (request("XADD", f"{name}{n}", "IDMP", "p", f"{n:016d}", "*", "f", "v") for n in range(count))

    with Target(kind) as target, target.connect() as sock:
        load(sock, list(sent("warm", streams // 10)))
        time.sleep(0.5)
        before = target.anonymous_bytes()
        load(sock, list(sent("stream", streams)))
        time.sleep(0.5)
        return (target.anonymous_bytes() - before) / streams


def main() -> None:
    """Measure, print a table, and write figures and documents if all was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.window_memory", description=__doc__.partition("\n")[0])
    parser.add_argument("--form", choices=FORMS, help="this server alone")
    parser.add_argument("--iids", type=int, default=1_000_000, help="at most so many idempotent IDs in all")
    parser.add_argument("--turned-over", type=float, default=TURNED_OVER, help="how often a full window is filled anew")
    arguments = parser.parse_args()
    wanted = [FORMS[arguments.form]] if arguments.form else IDEMPOTENT
    kinds = [kind for kind in all_kinds() if kind in wanted]
    if not kinds:
        parser.error(f"{KINDS[wanted[0]]} is not here")
    rows = []
    for producers, iids, length in ROWS:
        figures = {}
        for kind in kinds:
            name = f"windows: {producers:,} x {iids:,} of {length or 'IDMPAUTO'} on {kind}"
            with said(name):
                grown, told = bytes_of_an_iid(kind, producers, iids, length, arguments.turned_over, arguments.iids)
            figures[kind] = grown
            print(beside(name, grown, told), flush=True)
        rows.append(
            {
                "producers": max(1, min(producers, arguments.iids // iids)),
                "iids": iids,
                "bytes": length,
                "figures": figures,
            }
        )
    for kind in kinds:
        for row in TYPE_ROWS:
            print(beside(f"{row.name} on {kind}", *row.measure(kind)), flush=True)
    streams = max(100, min(STREAMS, arguments.iids // 50))
    found = {
        "about": {
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "turned_over": arguments.turned_over,
        },
        "rows": rows,
        "stream": {kind: bytes_of_a_stream(kind, streams) for kind in kinds},
    }
    print(tables_idempotence.windows(found))
    if arguments.form is None and arguments.iids == parser.get_default("iids"):
        (RESULTS / "windows.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        tables_speed.main()


if __name__ == "__main__":
    main()
