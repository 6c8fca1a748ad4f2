"""Idempotent XADDs beside the newest Redis, which knows them too: the CPU of each, and what it adds to a plain one.

A round runs all servers in turn: the XADD with its idempotent ID, then the plain one. What is added is the difference
of a round's two figures, and a share is that of the medians.
"""

from dataclasses import dataclass
from statistics import median

from bench.measure import Work
from bench.over_own import PLAIN_CHANGING
from bench.production import again, ready_made
from bench.progress import said
from bench.servers import IDEMPOTENT, KINDS, Target
from bench.table import OVER_NEWEST, Row, ratio_text
from bench.workloads import CHANGING, xadd

NEWEST = "newest-redis"
# Less than this, in us, is no base for a share of what is added.
ADDED_LEAST_US = 0.05
_FIVE = tuple(word for n in range(5) for word in (f"field{n}", "x__rand_int__"))


@dataclass(frozen=True)
class Added:
    """One row: an idempotent XADD and the plain one, and how much of the newest Redis's CPU is wanted at most, in the
    compiled form and in the pure one.
    """

    name: str
    work: Work
    base: Work
    wanted: float
    wanted_pure: float


def _sent(*words: str) -> Work:
    """Return XADDs of redis-benchmark, 50 clients, 16 in a pipeline."""
    return xadd(50, 16, 300_000, ("XADD", "s", *words))


_PLAIN, _READY = _sent(*PLAIN_CHANGING[2:]), ready_made()
_VALUE = ("*", "f", CHANGING)

ROWS: tuple[Added, ...] = (
    Added("IDMP", _sent("IDMP", "p", "__rand_int__", *_VALUE), _PLAIN, 0.5, 0.65),
    Added("IDMPAUTO, one field", _sent("IDMPAUTO", "p", *_VALUE), _PLAIN, 0.55, 0.65),
    Added("IDMPAUTO, five fields", _sent("IDMPAUTO", "p", "*", *_FIVE), _sent("*", *_FIVE), 0.7, 0.8),
    Added("one iid again and again", _sent("IDMP", "p", "order-1", *_VALUE), _PLAIN, 0.65, 0.7),
    Added("duplicates of 8,000 iids, scattered", again(scattered=True), _READY, 0.65, 0.7),
    Added("IDMP, 1,000 producers mixed", ready_made("IDMP", "{pid}", "{iid}"), _READY, 0.7, 1.0),
)


def run_idempotent(kinds: list[str], only: str, rounds: int) -> list[Row]:
    """Return two rows of each: the CPU of a request, and what it adds."""
    rows: list[Row] = []
    chosen = [one for one in ROWS if only.lower() in _title(one).lower()]
    if not chosen:
        return rows
    targets = [Target(kind) for kind in kinds if kind in IDEMPOTENT]
    try:
        for one in chosen:
            rows += _rows(one, *_measured(one, targets, rounds))
    finally:
        for target in targets:
            target.stop()
    return rows


def _title(one: Added) -> str:
    return f"{one.name}, 50 clients, pipeline 16: CPU"


Costs = dict[str, list[float]]


def _measured(one: Added, targets: list[Target], rounds: int) -> tuple[Costs, Costs]:
    """Return the CPU of a request in us, of each server and round, and what it is more than a plain one's."""
    whole: Costs = {target.kind: [] for target in targets}
    added: Costs = {target.kind: [] for target in targets}
    for number in range(rounds):
        for target in targets if number % 2 == 0 else reversed(targets):
            with said(f"{one.name}, round {number + 1} of {rounds} on {target.kind}"):
                cost_us = one.work(target).cpu_us
                added[target.kind].append(cost_us - one.base(target).cpu_us)
            whole[target.kind].append(cost_us)
    return whole, added


def _rows(one: Added, whole: Costs, added: Costs) -> list[Row]:
    row: Row = {"name": _title(one), "unit": "us", "figures": {kind: median(costs) for kind, costs in whole.items()}}
    row["wanted_text"] = f"of {KINDS[NEWEST]} <= {one.wanted}, pure {one.wanted_pure}"
    more = {kind: median(costs) for kind, costs in added.items()}
    rest: Row = {"name": f"{_title(one)} added to a plain XADD", "unit": "us", "figures": more}
    for kind, place in OVER_NEWEST.items():
        if NEWEST in whole and kind in whole:
            row[place] = median(a / b for a, b in zip(whole[kind], whole[NEWEST], strict=True))
            if more[NEWEST] >= ADDED_LEAST_US:
                rest[place] = more[kind] / more[NEWEST]
    for shown in (row, rest):
        figures = shown["figures"]
        assert isinstance(figures, dict)
        texts = []
        for kind, value in figures.items():
            share = shown.get(OVER_NEWEST.get(kind, ""))
            texts.append(f"{kind} {value:.2f} us" + (f" ({ratio_text(share)})" if share is not None else ""))
        print(f"{shown['name']:72} {shown.get('wanted_text', '')}  {'  '.join(texts)}", flush=True)
    return [row, rest]
