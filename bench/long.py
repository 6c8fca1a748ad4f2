"""Measurements other than request rates: memory, large things, topics, growth curves."""

from collections.abc import Callable

from bench.growth import CURVES, Curve
from bench.large import LARGE
from bench.leak_shapes import MB, SHAPES
from bench.leaks import Memory, allowed_bytes
from bench.leaks import measure as measure_leak
from bench.measure import alternate
from bench.progress import said
from bench.servers import Target
from bench.session_memory import SESSION_MEMORY
from bench.small_memory import SMALL
from bench.special import SPECIAL
from bench.starts import STARTS
from bench.table import OVER_NEWEST, RATIO_OF, Row, figure_text, ratio_text, single
from bench.topics import TOPICS
from bench.workloads import MEMORY


def run_starts(kinds: list[str], only: str) -> list[Row]:
    """Starts of each server, and the size of its journal."""
    rows: list[Row] = []
    for name, measure, unit, wanted, able in STARTS:
        if only.lower() not in name.lower():
            continue
        each = {}
        for kind in kinds:
            if kind in able:
                with said(f"{name} on {kind}"):
                    each[kind] = measure(kind)
        rows.append(_figures(name, each, unit, wanted))
    return rows


def _figures(name: str, each: dict[str, float], unit: str, wanted: str) -> Row:
    """Return a row of one figure for each server, and print it."""
    shown = "  ".join(f"{kind} {figure_text(value, unit)}" for kind, value in each.items())
    row: Row = {"name": name, "unit": unit, "wanted_text": wanted, "figures": each}
    for kind, over in OVER_NEWEST.items():
        if "redis-server" in each and kind in each:
            row[RATIO_OF[kind]] = each[kind] / each["redis-server"]
        if "newest-redis" in each and kind in each:
            row[over] = each[kind] / each["newest-redis"]
    ratio = row.get("ratio", row.get("over_newest"))
    print(f"{name:64}{ratio_text(ratio):>8}{wanted:>16}  {shown}", flush=True)
    return row


def spoken(measure: Callable[..., object]) -> str:
    """Return the name of a measurement in words."""
    return measure.__name__.strip("_").replace("_", " ")


def run_memory(kinds: list[str], only: str) -> list[Row]:
    """Bytes per entry on each server, fresh for every row; both forms take the same."""
    rows: list[Row] = []
    for name, measure, most in (*MEMORY, *SESSION_MEMORY):
        if only.lower() not in f"memory {name}".lower():
            continue
        each = {}
        for kind in kinds:
            if kind != "compiled":
                with said(f"memory: {name} on {kind}"), Target(kind) as target:
                    each[kind] = measure(target)
        rows.append(_figures(f"memory: {name}", each, "B", f"{most} x"))
    return rows


def run_small_memory(kinds: list[str], only: str) -> list[Row]:
    """Bytes of the small things, fresh for every row."""
    rows: list[Row] = []
    for row in SMALL:
        if only.lower() not in f"memory {row.name}".lower():
            continue
        each = {}
        for kind in kinds:
            if kind in row.kinds:
                with said(f"memory: {row.name} on {kind}"), Target(kind) as target:
                    each[kind] = row.measure(target)
        rows.append(_figures(f"memory: {row.name}", each, "B", row.wanted))
    return rows


def run_leaks(kinds: list[str], only: str) -> list[Row]:
    """The growth of each server's memory after operations that should leave none."""
    rows: list[Row] = []
    kinds = [kind for kind in kinds if kind != "newest-redis"]
    for shape in SHAPES:
        name = f"memory left: {shape.title()}"
        if only.lower() not in name.lower():
            continue
        each: dict[str, Memory] = {}
        for kind in kinds:
            with said(f"{name} on {kind}"):
                found = measure_leak(kind, shape)
            if found is not None:
                each[kind] = found
        wanted = f"{allowed_bytes(each.get('redis-server')) / MB:.0f} MB"
        figures = {kind: one.growth / MB for kind, one in each.items()}
        # (No ratio, which would be one of next to nothing to nothing.)
        rows.append({"name": name, "unit": "MB", "wanted_text": wanted, "figures": figures})
        shown = "  ".join(f"{kind} {figure_text(value, 'MB')}" for kind, value in figures.items())
        print(f"{name:64}{'':8}{wanted:>16}  {shown}", flush=True)
        if shape.whole_mb is not None:
            whole = {kind: one.after / MB for kind, one in each.items()}
            rows.append(_figures(f"memory: a server after {shape.title()}", whole, "MB", f"{shape.whole_mb:.0f} MB"))
    return rows


def run_large(kinds: list[str], only: str) -> list[Row]:
    """Seconds of each large operation, beside redis-server's."""
    rows: list[Row] = []
    for scenario in LARGE:
        if only.lower() not in f"large {scenario.__name__}".lower():
            continue
        times: dict[str, dict[str, float]] = {}
        for kind in kinds:
            with said(f"{spoken(scenario)} on {kind}"), Target(kind) as target:
                for name, seconds in scenario(target):
                    times.setdefault(name, {})[kind] = seconds
        rows += [_figures(name, each, "s", "") for name, each in times.items()]
    return rows


def run_special(only: str) -> list[Row]:
    """Figures without another server beside."""
    rows: list[Row] = []
    for measure in SPECIAL:
        if only.lower() not in f"special {measure.__name__}".lower():
            continue
        with said(spoken(measure)):
            figures = measure()
        for name, figure, unit in figures:
            print(f"{name:56}{figure:10.3f} {unit}", flush=True)
            rows.append(single(name, figure, unit))
    return rows


def run_topics(only: str, entries: int) -> list[Row]:
    """Figures of topics, on streams of this many entries."""
    rows: list[Row] = []
    for measure in TOPICS:
        if only.lower() not in f"topics {measure.__name__}".lower():
            continue
        with said(f"topics: {spoken(measure)}"):
            figures = measure(entries)
        for name, figure, unit in figures:
            print(f"{name:56}{figure:10.3f} {unit}", flush=True)
            rows.append(single(name.strip(), figure, unit))
    return rows


def run_curves(kinds: list[str], only: str) -> list[Row]:
    """Growth curves; for a flat one, the cost at the largest x over that at the smallest."""
    rows: list[Row] = []
    for curve in CURVES:
        if only.lower() in f"growth {curve.name}".lower():
            own = [
                one
                for one in ("streamd", "redis-server")
                if one in kinds and (one == "streamd" or not curve.only_streamd)
            ]
            rows.append(_run_curve(curve, own))
    return rows


def _run_curve(curve: Curve, kinds: list[str]) -> Row:
    targets = [Target(kind) for kind in kinds]
    results = []
    try:
        for x in curve.points:
            result = alternate(f"{curve.name}: {x}", targets, lambda target, x=x: curve.measure(target, x), 2)  # type: ignore[misc]
            results.append(result)
            shown = "  ".join(
                f"{kind} {result.median(kind, 'rate'):,.0f}/s {result.median(kind, 'cpu_us'):.2f} us" for kind in kinds
            )
            print(f"{result.name:56}{ratio_text(result.ratio('rate')):>8}          {shown}", flush=True)
    finally:
        for target in targets:
            target.stop()
    growth = results[-1].median("streamd", "cpu_us") / results[curve.growth_from].median("streamd", "cpu_us")
    what = f"CPU at {curve.points[-1]:,} over {curve.points[curve.growth_from]:,}"
    row: Row = {"name": curve.name, "points": curve.points, "growth": growth, "what": what, "flat": curve.flat}
    row["xlabel"] = curve.xlabel
    for kind in kinds:
        row[kind] = [result.median(kind, "rate") for result in results]
        for figure in ("cpu_us", "p50_ms", "p999_ms"):
            row[f"{kind}_{figure}"] = [result.median(kind, figure) for result in results]
    if curve.flat:
        print(f"{curve.name + ': ' + what:56}{growth:8.2f}", flush=True)
    return row
