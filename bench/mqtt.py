"""`python -m bench.mqtt`: the gateway beside mosquitto, the same loads in alternating turns."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

from bench import mqtt_large, table
from bench.mqtt_brokers import FAST, PLAIN, PURE, Broker, kinds, running
from bench.mqtt_rows import FIGURES, ROWS, Row, Wanted
from bench.progress import said
from streamd.clients.mqtt.bench.file_limit import make_room

ROUNDS = 3
SECONDS = 10.0
CONNECTIONS_MAX = 10_000
TIMEOUT_S = 600
EXIT_LOST = 1
_COLUMNS = ("CPU", "messages/s", "in + out per core", "PUBACK mean", "PUBACK p99", "delivery mean", "delivery p99")
_OF_IDLE = ("memory of a client", "idle CPU", "CPU of a connect")
_OF_OTHERS = ("round trip",)

# The figures of one turn by their names; of a row, by kind of broker, a round at a time; of all rows.
Turn = dict[str, float]
Found = dict[str, list[Turn]]
Rows = dict[str, Found]


def turn(broker: Broker, words: Sequence[str], seconds: float) -> Turn:
    """Run the load generator once. Lost, duplicated and misordered messages are figures, too."""
    if words[0] == mqtt_large.WORD:
        return mqtt_large.turn(broker.port, seconds)
    command = [sys.executable, "-m", "streamd.clients.mqtt.bench", *words, "--port", str(broker.port), "--json"]
    command += ["--seconds", str(seconds)]
    for process in broker.processes:
        command += ["--process", str(process)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode not in (0, EXIT_LOST):
        raise SystemExit(f"bench: {' '.join(words)} on {broker.kind}: {done.stderr.strip()}")
    values = json.loads(done.stdout)
    figures = {}
    for name in _OF_IDLE if words[0] == "idle" else _COLUMNS:
        place, times, _ = FIGURES[name]
        value: Any = values
        for part in place.split("."):
            value = None if value is None else value.get(part)
        if value is not None:
            figures[name] = value * times
    return figures | {name: values.get(name, 0) for name in ("lost", "duplicated", "misordered")}


def measure(rows: Sequence[Row], rounds: int, seconds: float) -> Iterator[tuple[Row, Found]]:
    """Yield the figures of each row. Rows that stand together and have the same options share their brokers."""
    at = 0
    while at < len(rows):
        first = rows[at]
        end = at + 1
        while not first.fresh and end < len(rows) and not rows[end].fresh and rows[end].options == first.options:
            end += 1
        with ExitStack() as stack:
            brokers = [] if first.fresh else [stack.enter_context(running(kind, first.options)) for kind in kinds()]
            for row in rows[at:end]:
                yield row, _measure_row(row, brokers, rounds, seconds)
        at = end


def _measure_row(row: Row, brokers: Sequence[Broker], rounds: int, seconds: float) -> Found:
    found: Found = {kind: [] for kind in kinds()}
    for number in range(rounds):
        order = kinds() if number % 2 == 0 else list(reversed(kinds()))
        for kind in order:
            with said(f"{row.name}, round {number + 1} of {rounds} on {kind}"), ExitStack() as stack:
                broker = next((one for one in brokers if one.kind == kind), None)
                if broker is None:
                    broker = stack.enter_context(running(kind, row.options, row.gateway))
                found[kind].append(turn(broker, row.words, seconds))
    return found


def figure(found: Found, kind: str, name: str) -> float | None:
    """Return the median of a figure over the rounds; None if it was not measured."""
    values = [one[name] for one in found.get(kind, []) if name in one]
    return median(values) if values else None


def against(rows: Rows, row: Row, wanted: Wanted, kind: str) -> float | None:
    """Return what a target is held against: a figure, or the median of a ratio over the rounds."""
    if wanted.over is None:
        return figure(rows[row.name], kind, wanted.figure)
    ours, other = rows[row.name].get(kind, []), rows.get(wanted.row or row.name, {})
    theirs = other.get(PLAIN if wanted.of_mosquitto else kind, [])
    pairs = zip(ours, theirs, strict=False)
    ratios = [a[wanted.figure] / b[wanted.over] for a, b in pairs if wanted.figure in a and b.get(wanted.over)]
    return median(ratios) if ratios else None


def _limit(wanted: Wanted, kind: str) -> float:
    limit = wanted.most if wanted.least is None else wanted.least
    if kind == FAST and wanted.compiled is not None:
        limit = wanted.compiled
    assert limit is not None
    return limit


def _is_met(wanted: Wanted, kind: str, value: float) -> bool:
    limit = _limit(wanted, kind)
    return value <= limit if wanted.least is None else value >= limit


def _name(wanted: Wanted) -> str:
    if wanted.of_mosquitto:
        return f"{wanted.figure} over mosquitto's"
    if wanted.over is None:
        return wanted.figure
    return f"{wanted.figure} over {f'that of {wanted.row}' if wanted.row else f'its {wanted.over}'}"


def _unit(wanted: Wanted) -> str:
    return "x" if wanted.over is not None else FIGURES[wanted.figure][2]


def _text(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    return f"{f'{value:,.0f}' if abs(value) >= 1_000 else f'{value:.2f}'} {unit}".rstrip()


def side_by_side(rows: Rows) -> list[str]:
    """Return the figures of all brokers, as tables: of messages, and of idle clients."""
    lines = []
    for names in (_COLUMNS, _OF_IDLE, _OF_OTHERS):
        some = {name: found for name, found in rows.items() if (names[0] in _any_turn(found))}
        if not some:
            continue
        heads = [f"{name}{f', {FIGURES[name][2]}' if FIGURES[name][2] else ''}" for name in names]
        lines += ["", f"| load | broker | {' | '.join(heads)} | lost, doubled, misordered |"]
        lines.append("|---" * (len(names) + 3) + "|")
        for row, found in some.items():
            for kind, turns in found.items():
                faults = [f"{sum(one[name] for one in turns):,.0f}" for name in ("lost", "duplicated", "misordered")]
                cells = [_text(figure(found, kind, name)) for name in names]
                lines.append(f"| {row} | {kind} | {' | '.join(cells)} | {', '.join(faults)} |")
    return lines


def _any_turn(found: Found) -> Turn:
    return next((turns[0] for turns in found.values() if turns), {})


def targets(rows: Rows, chosen: Sequence[Row]) -> list[str]:
    """Return the table of what is wanted, and whether it was reached."""
    lines = ["", "| load | figure | wanted: pure | pure | wanted: compiled | compiled |", "|---|---|---|---|---|---|"]
    for row in chosen:
        for wanted in row.wanted:
            sign, unit, cells = "<=" if wanted.least is None else ">=", _unit(wanted), []
            for kind in (PURE, FAST):
                value = against(rows, row, wanted, kind)
                is_missed = value is not None and not _is_met(wanted, kind, value)
                cells.append(f"{sign} {_text(_limit(wanted, kind), unit)}")
                cells.append(_text(value, unit) + (" **missed**" if is_missed else ""))
            lines.append(f"| {row.name} | {_name(wanted)} | {' | '.join(cells)} |")
    return lines


def rows_of_table(rows: Rows, row: Row) -> list[table.Row]:
    """Return the targets of a row as lines of `make bench-long`'s table."""
    made: list[table.Row] = []
    for wanted in row.wanted:
        values = {kind: against(rows, row, wanted, kind) for kind in (PURE, FAST)}
        line: table.Row = {"name": f"mqtt: {row.name}: {_name(wanted)}"}
        limit = _limit(wanted, PURE)
        if wanted.over is not None:
            line |= {"wanted_at_most": limit, "ratio": values[PURE], "compiled_ratio": values[FAST]}
            for kind in (PURE, FAST):
                line[f"{kind}_per_s"] = figure(rows[row.name], kind, "messages/s")
                line[f"{kind}_cpu_us"] = figure(rows[row.name], kind, "CPU")
        else:
            text = f"{'<=' if wanted.least is None else '>='} {_text(limit, _unit(wanted))}"
            present = {kind: value for kind, value in values.items() if value is not None}
            line |= {"unit": _unit(wanted), "wanted_text": text, "figures": present}
        made.append(line)
    return made


def run_mqtt(only: str, rounds: int = ROUNDS, seconds: float = SECONDS) -> list[table.Row]:
    """Measure the rows whose name contains a text; print them, write them to results, and return their targets."""
    chosen = [row for row in ROWS if only.lower() in f"mqtt {row.name}".lower()]
    if not chosen:
        return []
    if PLAIN not in kinds():
        print("mosquitto is not installed: figures of the gateway only")
    make_room(CONNECTIONS_MAX)  # the brokers get the limit that this process has
    started, load = time.monotonic(), os.getloadavg()[0]
    rows: Rows = {}
    for row, found in measure(chosen, rounds, seconds):
        rows[row.name] = found
        print("\n".join(f"{row.name:48}{kind:24}{_said(found, kind)}" for kind in found), flush=True)
    loads = f"{load:.1f} before and {os.getloadavg()[0]:.1f} behind"
    date = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    about = [
        f"`python -m bench.mqtt`, {date},"
        f" {(time.monotonic() - started) / 60:.0f} minutes, {os.cpu_count()} cores, load {loads}: medians of"
        f" {rounds} rounds of {seconds:g} s, the brokers in alternating turns. CPU is that of the broker's processes,"
        " gateway and store together, for each message (in, out once; of fan-out for each delivery); a ratio is the"
        " median of those within a round.",
    ]
    text = "\n".join([*about, *targets(rows, chosen), *side_by_side(rows)])
    print(f"\n{text}")
    name = "mqtt" if len(chosen) == len(ROWS) else "mqtt-partial"
    table.RESULTS.mkdir(exist_ok=True)
    (table.RESULTS / f"{name}.md").write_text(text + "\n")
    written = {"about": {"date": date, "rounds": rounds, "seconds": seconds, "cpus": os.cpu_count()}, "rows": rows}
    (table.RESULTS / f"{name}.json").write_text(json.dumps(written, indent=1) + "\n")
    return [line for row in chosen for line in rows_of_table(rows, row)]


def _said(found: Found, kind: str) -> str:
    """Return a broker's figures of a row on one line."""
    values = {name: figure(found, kind, name) for name in (*_COLUMNS, *_OF_IDLE, *_OF_OTHERS)}
    parts = [f"{name} {_text(value, FIGURES[name][2])}" for name, value in values.items() if value is not None]
    return ", ".join(parts)


def main() -> int:
    """Measure; return the exit code: 0 also when a target was missed, which the table shows."""
    parser = argparse.ArgumentParser(prog="python -m bench.mqtt", description=__doc__)
    parser.add_argument("--only", default="", help="the rows whose name contains this text")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each broker (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each turn (default: %(default)g)")
    arguments = parser.parse_args()
    if not run_mqtt(arguments.only, arguments.rounds, arguments.seconds):
        print(f"bench: no row has {arguments.only!r} in its name", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
