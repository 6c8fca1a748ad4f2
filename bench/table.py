"""The table of a run: one line for each workload, both forms of streamd beside redis-server."""

import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import plots

RESULTS = Path(__file__).parent / "results"
MADE_BY = {
    "short": "`make bench`",
    "long": "`make bench-long`",
    "spark": "`make bench ARGS=spark`",
    "large-streams": "`python -m bench.large_streams`",
}
# What a row calls the ratio of a server: to redis-server, or to another workload of the same server.
RATIO_OF = {"streamd": "ratio", "compiled": "compiled_ratio", "redis-server": "redis_ratio"}

# A row: name; wanted (at least), wanted_at_most, or wanted_text; ratio, compiled_ratio, redis_ratio; figures by server
# and their unit; streamd_per_s, compiled_per_s, redis_per_s, and so for cpu_us and p999_ms; measured: the date, where
# that is of an earlier table.
Row = dict[str, object]

_SERVERS = ("streamd", "compiled", "redis")
_PLACES = (("per_s", "{:,.0f}"), ("cpu_us", "{:.2f}"), ("p999_ms", "{:.2f}"))


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
        "python": _python(),
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
        "| workload | wanted | pure | compiled | per second: pure | compiled | redis-server "
        "| CPU us each: pure | compiled | redis-server | p99.9 ms: pure | compiled | redis-server |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
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


def table_row(row: Row) -> str:
    """Return a row as a line of the table."""
    cells = [
        form.format(value) if isinstance(value := row.get(f"{server}_{place}"), float) and value else ""
        for place, form in _PLACES
        for server in _SERVERS
    ]
    ratios = [ratio_text(row[place]) if row.get(place) is not None else "" for place in RATIO_OF.values()]
    wanted = str(row.get("wanted_text", ""))
    if "wanted" in row:
        wanted = f">= {row['wanted']}"
    elif "wanted_at_most" in row:
        wanted = f"<= {row['wanted_at_most']}"
    figures = row.get("figures")
    name = row["name"]
    if isinstance(figures, dict):
        texts = {kind: figure_text(value, str(row["unit"])) for kind, value in figures.items()}
        if "redis-server" in figures:
            cells[:3] = [texts.get(kind, "") for kind in RATIO_OF]
        else:
            ratios[:2] = [texts.get("streamd", ""), texts.get("compiled", "")]
    elif "growth" in row:
        name, wanted, ratios[0] = f"{row['name']}: {row['what']}", "1", ratio_text(row["growth"])
    elif ratios[2]:
        cells[2] = f"{ratios[2]} of its own"
    if "measured" in row:
        name = f"{name} (of {row['measured']})"
    return f"| {name} | {wanted} | {ratios[0]} | {ratios[1]} | {' | '.join(cells)} |"


def _python() -> str:
    """Return Python's version, and whose it is if it is the system's: how it was built counts."""
    version = platform.python_version()
    if sys.base_prefix != "/usr":
        return version
    try:
        return f"{version} of {platform.freedesktop_os_release()['PRETTY_NAME']}"
    except OSError:
        return version
