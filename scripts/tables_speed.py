"""Writes the speed tables of docs/speed.md and the README, from the figures in bench/results/long.json."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ROOT / "bench" / "results" / "long.json"
BEGIN_MARK, END_MARK = "<!-- the {} table begins -->", "<!-- the {} table ends -->"

# The name of a row of `make bench-long`, and what it is called here if that says more. What production does first, the
# rows that fall short included.
ROWS: Final = {
    "XADD MAXLEN ~ 1000, 50 clients, pipeline 16": "XADD `MAXLEN ~ 1000`, 50 clients, pipeline 16",
    "XADD to 1,000 streams, 50 clients, pipeline 16": "",
    "XADD to 1,000 streams MAXLEN ~ 1000, 50 clients, pipeline 16": "the same with `MAXLEN ~ 1000`",
    "XADD 10 fields, 50 clients, pipeline 16": "XADD of 10 fields, 50 clients, pipeline 16",
    "XADD, 10 clients, pipeline 4": "",
    "everysec: XADD, 1 client": "`everysec`: XADD, 1 client",
    "everysec: XADD, 50 clients": "`everysec`: XADD, 50 clients",
    "everysec: XADD, 50 clients, pipeline 16": "`everysec`: XADD, 50 clients, pipeline 16",
    "always: XADD, 1 client": "`always`: XADD, 1 client",
    "always: XADD, 50 clients": "`always`: XADD, 50 clients",
    "always: XADD, 50 clients, pipeline 16": "`always`: XADD, 50 clients, pipeline 16",
    "500 readers of a group wait, an XADD for each": "",
    "4,000 readers of a group wait, 200 XADDs": "4,000 readers of a group wait",
    "XREADGROUP COUNT 100, 1 client": "",
    "XACK of one ID, random, 50 clients, pipeline 16": "XACK of one ID at random places, 50 clients, pipeline 16",
    "XDEL of one ID, random, 50 clients, pipeline 16": "XDEL of one ID at random places, 50 clients, pipeline 16",
    "XDEL of 100 IDs, random": "XDEL of 100 IDs at random places",
    "XPENDING of 100, random places of 1,000,000": "XPENDING of 100",
    "XAUTOCLAIM COUNT 100, random places of 1,000,000": "XAUTOCLAIM COUNT 100",
    "XRANGE COUNT 10, random places of 1,000,000": "",
    "XRANGE COUNT 100, random places of 1,000,000": "",
    "XRANGE COUNT 100, drained": "XRANGE COUNT 100, read on and on",
    "broker: messages of 1,000 subscribers, stored and removed": "a broker's messages, 1,000 subscribers",
    "ZADD, 50 clients": "",
    "SET EX, 50 clients": "",
    "XADD, 1 client": "",
    "XADD, 50 clients": "",
    "XADD, 50 clients, pipeline 16": "",
    "XADD, 1 client, pipeline 100": "",
    "GET, 50 clients": "",
}
README_ROWS: Final = (
    "XADD MAXLEN ~ 1000, 50 clients, pipeline 16",
    "XADD to 1,000 streams, 50 clients, pipeline 16",
    "XADD 10 fields, 50 clients, pipeline 16",
    "XADD, 10 clients, pipeline 4",
    "everysec: XADD, 1 client",
    "everysec: XADD, 50 clients",
    "always: XADD, 50 clients",
    "500 readers of a group wait, an XADD for each",
    "XREADGROUP COUNT 100, 1 client",
    "XRANGE COUNT 10, random places of 1,000,000",
    "XRANGE COUNT 100, drained",
    "broker: messages of 1,000 subscribers, stored and removed",
    "XADD, 50 clients, pipeline 16",
)


def tables() -> dict[tuple[Path, str], str]:
    """Return document and name of each table, and the table that the figures make."""
    rows = {row["name"]: row for row in json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]}
    speed = ROOT / "docs" / "speed.md"
    return {
        (speed, "speed"): _long(rows, ROWS),
        (speed, "form"): _forms(rows, ROWS),
        (ROOT / "README.md", "speed"): _short(rows, README_ROWS),
    }


def _long(rows: dict[str, Any], names: Iterable[str]) -> str:
    lines = ["| | pure | compiled | redis-server | pure / redis | compiled / redis |", "|---|---|---|---|---|---|"]
    for name in names:
        row = rows[name]
        rates = [row[f"{kind}_per_s"] for kind in ("streamd", "compiled", "redis")]
        cells = [*(f"{rate:,.0f}/s" for rate in rates), *_ratios(row)]
        lines.append(f"| {ROWS[name] or name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(rows: dict[str, Any], names: Iterable[str]) -> str:
    lines = ["| rate, of that of redis-server | pure | compiled |", "|---|---|---|"]
    lines += [f"| {ROWS[name] or name} | {' | '.join(_ratios(rows[name]))} |" for name in names]
    return "\n".join(lines)


def _forms(rows: dict[str, Any], names: Iterable[str]) -> str:
    lines = ["| CPU of the server per request | pure | compiled | compiled / pure |", "|---|---|---|---|"]
    parts = []
    for name in names:
        pure_us, compiled_us = (rows[name][f"{kind}_cpu_us"] for kind in ("streamd", "compiled"))
        parts.append(compiled_us / pure_us)
        lines.append(f"| {ROWS[name] or name} | {pure_us:.3g} us | {compiled_us:.3g} us | {parts[-1]:.2f} |")
    lines.append(f"| the median | | | {median(parts):.2f} |")
    return "\n".join(lines)


def _ratios(row: dict[str, Any]) -> list[str]:
    return [f"{row[name]:.2f}" for name in ("ratio", "compiled_ratio")]


def shown(text: str, name: str) -> str:
    """Return the table of this name that a document shows."""
    return text.split(BEGIN_MARK.format(name))[1].split(END_MARK.format(name))[0].strip()


def main() -> int:
    """Write the tables; return an exit code."""
    for (path, name), table in tables().items():
        begin, end = BEGIN_MARK.format(name), END_MARK.format(name)
        text = path.read_text(encoding="utf-8")
        before, behind = text.split(begin)[0], text.split(end)[1]
        path.write_text(f"{before}{begin}\n\n{table}\n\n{end}{behind}", encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
