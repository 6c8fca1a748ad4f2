"""`python -m bench.window_memory`: memory of an idempotent ID in a window, by producers and IDs of each.

python -m bench.window_memory [--form pure|compiled] [--names 1000000] [--turned 2.5]
"""

import argparse
import time
from socket import socket

from bench.client import ask, load, request
from bench.servers import COMPILED, Target

# How many producers, and of how many bytes a name is; None: made by IDMPAUTO. Windows are filled to their size.
ROWS: tuple[tuple[int, int, int | None], ...] = (
    (1, 10_000, 20),
    (5, 10_000, 20),
    (1_000, 1_000, 20),
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
_BATCH = 1_000


def bytes_of_a_name(
    kind: str, producers: int, names: int, length: int | None, names_max: int, turned: float = 0
) -> float:
    """Return the growth of the server's memory per idempotent ID, producers included, when `turned` times as many as a
    window holds have been pushed out again.
    """
    producers = max(1, min(producers, names_max // names))
    with Target(kind) as target, target.connect() as sock:
        ask(sock, "XADD", "s", "*", "f", "v")
        ask(sock, "XCFGSET", "s", "IDMP-DURATION", 86_400, "IDMP-MAXSIZE", names)
        fill(sock, "warm", 1, min(names, 1_000), length)
        time.sleep(0.5)
        before = target.anonymous_bytes()
        fill(sock, "producer", producers, round(names * (1 + turned)), length)
        time.sleep(0.5)
        return (target.anonymous_bytes() - before) / (producers * names)


def fill(sock: socket, prefix: str, producers: int, names: int, length: int | None) -> None:
    """Record this many idempotent IDs of each producer, the producers taking turns; no entry is kept."""
    sent = []
    for name in range(names):
        for producer in range(producers):
            pid = f"{prefix}:{producer}"
            if length is None:
                named = ["IDMPAUTO", pid, "*", "f", f"{producer}:{name}"]
            else:
                named = ["IDMP", pid, f"{name:0{length}d}", "*", "f", "v"]
            sent.append(request("XADD", "s", "MAXLEN", 0, *named))
            if len(sent) == 20 * _BATCH:
                load(sock, sent, batch=_BATCH)
                sent = []
    load(sock, sent, batch=_BATCH)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.window_memory", description=__doc__)
    parser.add_argument("--form", choices=("pure", "compiled"), default="pure")
    parser.add_argument("--names", type=int, default=1_000_000, help="at most so many names in all")
    parser.add_argument("--turned", type=float, default=0, help="so many times full windows have turned over")
    arguments = parser.parse_args()
    if arguments.form == "compiled" and not COMPILED.is_file():
        parser.error("there is no compiled form: make compiled")
    kind = "compiled" if arguments.form == "compiled" else "streamd"
    print("| producers | names of each | of so many bytes | bytes for each name |\n|---|---|---|---|")
    for producers, names, length in ROWS:
        took = bytes_of_a_name(kind, producers, names, length, arguments.names, arguments.turned)
        shown = max(1, min(producers, arguments.names // names))
        kind_of_name = "16, by IDMPAUTO" if length is None else str(length)
        print(f"| {shown:,} | {names:,} | {kind_of_name} | {took:.0f} |", flush=True)


if __name__ == "__main__":
    main()
