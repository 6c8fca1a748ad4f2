"""The table of a run: one line for each workload, both forms of streamd beside redis-server and the newest Redis."""

import datetime
import json
import os
import time
from pathlib import Path

from bench import plots
from bench.servers import KINDS
from scripts.python_build import described

RESULTS = Path(__file__).parent / "results"
MADE_BY = {
    "short": "`make bench`",
    "long": "`make bench-long`",
    "spark": "`make bench ARGS=spark`",
    "large-streams": "`python -m bench.large_streams`",
}
# What a row calls the ratio of a server: to redis-server, or to another workload of the same server.
RATIO_OF = {
    "streamd": "ratio",
    "compiled": "compiled_ratio",
    "redis-server": "redis_ratio",
    "newest-redis": "newest_ratio",
}
# What it calls the ratio of a form of streamd to the newest Redis.
OVER_NEWEST = {"streamd": "over_newest", "compiled": "compiled_over_newest"}
# How the names of a server's figures begin.
SERVERS = {"streamd": "streamd", "compiled": "compiled", "redis-server": "redis", "newest-redis": "newest"}

# A row: name; wanted (at least), wanted_at_most, or wanted_text; wanted_pure, where the pure form has a target of its
# own; wanted_newest, a text on the ratios to the newest Redis; the ratios named above; figures by server and their
# unit; streamd_per_s, compiled_per_s, redis_per_s, newest_per_s, and so for cpu_us and p999_ms; measured: the date,
# where that is of an earlier table.
Row = dict[str, object]

_PLACES = (("per_s", "{:,.0f}"), ("cpu_us", "{:.2f}"), ("p999_ms", "{:.2f}"))
_TITLES = ("per second", "CPU us each", "p99.9 ms")


def ratio_text(value: object) -> str:
    """Return a ratio as the table shows it."""
    return "-" if value is None else f"{value:.2f}"


def figure_text(value: float, unit: str) -> str:
    """Return a figure with its unit."""
    return f"{value:.3f} {unit}" if unit == "s" and value < 10 else f"{value:.2f} {unit}".strip()


def single(name: str, figure: float, unit: str) -> Row:
    """Return a row of one figure of the pure form, with its target behind the unit."""
    unit, _, wanted = unit.partition(", wanted ")
    return {"name": name, "unit": unit, "wanted_text": wanted, "figures": {"streamd": figure}}


def write(rows: list[Row], suite: str, partial: bool, started: float) -> None:
    """Write the table as JSON and as Markdown, and say where it is; `started`: by the monotonic clock."""
    RESULTS.mkdir(exist_ok=True)
    about = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": described(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "suite": suite,
        "minutes": round((time.monotonic() - started) / 60, 1),
    }
    name = f"{suite}-partial" if partial else suite
    (RESULTS / f"{name}.json").write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    lines = [
        f"{MADE_BY[suite]}, {about['date']}, {about['minutes']} minutes, Python {about['python']}, "
        f"{about['cpus']} cores, load {about['load'][0]:.1f}",  # type: ignore[index]
        "",
        "A ratio is that of rates to redis-server's, of bytes and seconds to redis-server's, or what the row says.",
        "",
        *_head(),
    ]
    lines += [table_row(row) for row in rows if row.get("flat", True)]
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    print(f"\nwritten: {RESULTS / (name + '.md')}, after {about['minutes']} minutes")
    for path in plots.write(rows, name, RESULTS):
        print(f"drawn: {path}")


def carried_over(rows: list[Row], suite: str) -> list[Row]:
    """Return the rows of the last table that were not measured again, each with its date."""
    try:
        before = json.loads((RESULTS / f"{suite}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    names = {row["name"] for row in rows}
    date = before["about"]["date"].split()[0]
    return [{"measured": date, **row} for row in before["rows"] if row["name"] not in names]


def _head() -> list[str]:
    """Return the first two lines of the table."""
    newest = KINDS["newest-redis"]
    places = [f"{title}: {kind}" if at == 0 else kind for title in _TITLES for at, kind in enumerate(KINDS.values())]
    columns = ["workload", "wanted", "pure", "compiled", f"of {newest}: pure", "compiled", *places]
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def wanted_text(row: Row) -> str:
    """Return what is wanted of a row, as the table shows it."""
    texts = [str(row.get("wanted_text", ""))]
    if "wanted" in row:
        texts = [f">= {row['wanted']}"]
    elif "wanted_at_most" in row:
        texts = [f"<= {row['wanted_at_most']}"]
    if "wanted_pure" in row:
        texts.append(f"pure {row['wanted_pure']}")
    if "wanted_newest" in row:
        texts.append(f"of {KINDS['newest-redis']} {row['wanted_newest']}")
    return ", ".join(filter(None, texts))


def table_row(row: Row) -> str:
    """Return a row as a line of the table."""
    cells = [
        form.format(value) if isinstance(value := row.get(f"{server}_{place}"), float) and value else ""
        for place, form in _PLACES
        for server in SERVERS.values()
    ]
    places = [RATIO_OF["streamd"], RATIO_OF["compiled"], *OVER_NEWEST.values()]
    ratios = [ratio_text(row[place]) if row.get(place) is not None else "" for place in places]
    wanted = wanted_text(row)
    figures = row.get("figures")
    name = row["name"]
    if isinstance(figures, dict):
        texts = {kind: figure_text(value, str(row["unit"])) for kind, value in figures.items()}
        if set(figures) - set(OVER_NEWEST):
            cells[: len(KINDS)] = [texts.get(kind, "") for kind in KINDS]
        else:
            ratios[:2] = [texts.get("streamd", ""), texts.get("compiled", "")]
    elif "growth" in row:
        name, wanted, ratios[0] = f"{row['name']}: {row['what']}", "1", ratio_text(row["growth"])
    for at, kind in enumerate(KINDS):
        if kind not in OVER_NEWEST and row.get(RATIO_OF[kind]) is not None:
            cells[at] = f"{ratio_text(row[RATIO_OF[kind]])} of its own"
    if "measured" in row:
        name = f"{name} (of {row['measured']})"
    return f"| {name} | {wanted} | {' | '.join(ratios)} | {' | '.join(cells)} |"
