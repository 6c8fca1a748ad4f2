"""`python -m bench.mqtt_scale`: what one gateway, and one log, hold: each figure with its target."""

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from bench import mqtt_connections, mqtt_foreign, mqtt_gateways, mqtt_returning, mqtt_stalled, table
from bench.mqtt_brokers import FAST, PURE, kinds
from bench.mqtt_scale_figures import Figure, text
from bench.progress import said
from streamd.clients.mqtt.bench.file_limit import make_room

_FILES: Final = 4_000  # of all measurements but that of connections, which raises its own
SESSIONS: Final = 1_000

# What a row measures, by its name.
ROWS: Final[dict[str, Callable[[str, argparse.Namespace], list[Figure]]]] = {
    "sessions that return": lambda kind, asked: mqtt_returning.measure(kind, SESSIONS, asked.messages),
    "another gateway's messages": lambda kind, asked: mqtt_foreign.measure(kind, asked.rounds, asked.seconds),
    "connections": lambda kind, asked: mqtt_connections.measure(kind, asked.connections),
    "a stalled backend": lambda kind, asked: mqtt_stalled.measure(kind, asked.rounds, asked.seconds),
    "gateways and stores": lambda kind, asked: mqtt_gateways.measure(kind, asked.rounds, asked.seconds),
}


def lines_of(rows: dict[str, dict[str, list[Figure]]]) -> list[str]:
    """Return the table of all figures; rows: the figures by row and form."""
    lines = ["| row | figure | form | measured | wanted | | depends on |", "|---|---|---|---|---|---|---|"]
    for row, by_form in rows.items():
        for kind, figures in by_form.items():
            form = "pure" if kind == PURE else kind
            for one in figures:
                value = "" if one.value is None else text(one.value, one.unit)
                lines.append(f"| {row} | {one.name} | {form} | {value} | {one.wanted} | {one.verdict} | {one.note} |")
    return lines


def main(words: Sequence[str] | None = None) -> int:
    """Measure and write the results; return the exit code: 0 also when a target was missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="python -m bench.mqtt_scale", description=__doc__)
    parser.add_argument("--only", default="", help="the rows whose name contains this text")
    parser.add_argument("--messages", type=int, default=100_000, help="that sessions return to (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=10_000, help="that are asked for (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="of rows with pairs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a turn (default: %(default)g)")
    asked = parser.parse_args(words)
    chosen = [name for name in ROWS if asked.only.lower() in name]
    if not chosen:
        print(f"bench: no row has {asked.only!r} in its name", file=sys.stderr)
        return 2
    make_room(_FILES)
    started, load = time.monotonic(), os.getloadavg()[0]
    found: dict[str, dict[str, list[Figure]]] = {}
    for name in chosen:
        found[name] = {}
        for kind in (one for one in kinds() if one in (PURE, FAST)):
            with said(f"{name}, {kind}"):
                found[name][kind] = ROWS[name](kind, asked)
            print("\n".join(lines_of({name: {kind: found[name][kind]}})[2:]), flush=True)
    about: dict[str, Any] = {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "cpus": os.cpu_count(),
        "minutes": round((time.monotonic() - started) / 60, 1),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        **{name: value for name, value in vars(asked).items() if name != "only"},
    }
    _write(about, found, is_whole=len(chosen) == len(ROWS))
    return 0


def _as_json(figure: Figure) -> dict[str, Any]:
    shown = "" if figure.value is None else text(figure.value, figure.unit)
    return {**asdict(figure), "wanted": figure.wanted, "verdict": figure.verdict, "shown": shown}


def _write(about: dict[str, Any], rows: dict[str, dict[str, list[Figure]]], is_whole: bool) -> None:
    title = (
        f"`python -m bench.mqtt_scale`, {about['date']}, {about['minutes']} minutes, {about['cpus']} cores, load"
        f" {about['load'][0]} before and {about['load'][1]} behind. CPU is that of gateway and store together, where"
        " the figure names none of them."
    )
    name = "mqtt-scale" if is_whole else "mqtt-scale-partial"
    table.RESULTS.mkdir(exist_ok=True)
    (table.RESULTS / f"{name}.md").write_text("\n".join([title, "", *lines_of(rows)]) + "\n")
    written = {
        "about": about,
        "rows": {
            row: {kind: [_as_json(one) for one in figures] for kind, figures in by_form.items()}
            for row, by_form in rows.items()
        },
    }
    (table.RESULTS / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")
    print(f"bench: wrote {table.RESULTS / name}.md")


if __name__ == "__main__":
    sys.exit(main())
