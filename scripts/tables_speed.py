"""Writes the tables of speed and memory of the documents and of bench/NOTES.md, from the figures in bench/results."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

from scripts import tables_idempotence
from scripts.newest_redis import VERSION

ROOT = Path(__file__).resolve().parent.parent
NEWEST: Final = f"Redis {VERSION}"
FIGURES = ROOT / "bench" / "results" / "long.json"
GATEWAY_FIGURES = ROOT / "bench" / "results" / "mqtt.json"
SCALE_FIGURES = ROOT / "bench" / "results" / "mqtt-scale.json"
PROPOSAL_FIGURES = ROOT / "bench" / "results" / "proposal.json"
WINDOW_FIGURES = ROOT / "bench" / "results" / "windows.json"
SPARK_FIGURES = ROOT / "bench" / "results" / "spark_beside.json"
BEGIN_MARK, END_MARK = "<!-- the {} table begins -->", "<!-- the {} table ends -->"

# The name of a row of `make bench-long`, and what it is called here if that says more. What production does first, the
# rows that fall short included.
ROWS: Final = {
    "XADD MAXLEN ~ 1000, 50 clients, pipeline 16": "XADD `MAXLEN ~ 1000`, 50 clients, pipeline 16",
    "XADD to 1,000 streams, 50 clients, pipeline 16": "",
    "XADD 10 fields, 50 clients, pipeline 16": "XADD of 10 fields, 50 clients, pipeline 16",
    "XADD, 10 clients, pipeline 4": "",
    "everysec: XADD, 1 client": "`everysec`: XADD, 1 client",
    "everysec: XADD, 50 clients": "`everysec`: XADD, 50 clients",
    "everysec: XADD, 50 clients, pipeline 16": "`everysec`: XADD, 50 clients, pipeline 16",
    "always: XADD, 1 client": "`always`: XADD, 1 client",
    "always: XADD, 50 clients": "`always`: XADD, 50 clients",
    "500 readers of a group wait, an XADD for each": "",
    "XREADGROUP COUNT 100, 1 client": "",
    "XACK of one ID, random, 50 clients, pipeline 16": "XACK of one ID at random places, 50 clients, pipeline 16",
    "XDEL of one ID, random, 50 clients, pipeline 16": "XDEL of one ID at random places, 50 clients, pipeline 16",
    "XPENDING of 100, random places of 1,000,000": "XPENDING of 100",
    "XAUTOCLAIM COUNT 100, random places of 1,000,000": "XAUTOCLAIM COUNT 100",
    "XRANGE COUNT 10, random places of 1,000,000": "",
    "XRANGE COUNT 100, drained": "XRANGE COUNT 100, read on and on",
    "broker: messages of 1,000 subscribers, stored and removed": "a broker's messages, 1,000 subscribers",
    "ZADD, 50 clients": "",
    "SET EX, 50 clients": "",
    "XADD, 1 client": "",
    "XADD, 50 clients": "",
    "XADD, 50 clients, pipeline 16": "",
}
# What most programs do; the README shows these between the best and the worst of all rows above.
COMMON_ROWS: Final = ("XADD, 50 clients, pipeline 16", "XADD, 1 client", "everysec: XADD, 50 clients")
# Rows on bytes, seconds and CPU: their name here, and what they are compared with.
COST_ROWS: Final = {
    "memory: 8 random bytes, one entry per ms": ("memory of an entry with 8 random bytes", "redis-server"),
    "memory: 64 random bytes, one entry per ms": ("with 64 random bytes", "redis-server"),
    "memory: 512 random bytes, one entry per ms": ("with 512 random bytes", "redis-server"),
    "memory: JSON of about 90 bytes, one entry per ms": ("with JSON of about 90 bytes", "redis-server"),
    "memory: a pending entry, delivered 100 at a time": ("memory of a pending entry", "redis-server"),
    "memory: a group": ("memory of a consumer group", "redis-server"),
    "start with 200,000 plain entries": ("start with 200,000 entries", "redis-server"),
    "IDMP, 50 clients, pipeline 16: CPU over plain": ("CPU of XADD IDMP, 50 clients, pipeline 16", "a plain XADD"),
    "IDMPAUTO, 50 clients, pipeline 16: CPU over plain": ("CPU of XADD IDMPAUTO, the same", "a plain XADD"),
    "IDMP, 1,000 producers mixed: CPU over plain": ("CPU of XADD IDMP, 1,000 producers mixed", "a plain XADD"),
    "IDMP, 50 clients, pipeline 16: CPU": ("CPU of XADD IDMP, 50 clients, pipeline 16", NEWEST),
    "IDMPAUTO, one field, 50 clients, pipeline 16: CPU": ("CPU of XADD IDMPAUTO, the same", NEWEST),
    "IDMPAUTO, five fields, 50 clients, pipeline 16: CPU": ("with five fields", NEWEST),
    "one iid again and again, 50 clients, pipeline 16: CPU": ("CPU of one duplicate again and again", NEWEST),
    "duplicates of 8,000 iids, scattered, 50 clients, pipeline 16: CPU": ("CPU of scattered duplicates", NEWEST),
    "IDMP, 1,000 producers mixed, 50 clients, pipeline 16: CPU": ("CPU of XADD IDMP, 1,000 producers mixed", NEWEST),
    "memory: an iid of 20 bytes, windows turned over, 1 x 10,000": ("memory of an idempotent ID, of 10,000", NEWEST),
    "memory: an iid of 20 bytes, windows turned over, 1,000 x 1,000": ("of 1,000 producers' 1,000 each", NEWEST),
    "memory: a producer with one iid": ("memory of a producer with one idempotent ID", NEWEST),
}
# The row of the gateway's scale that is a table of its own.
SHAPES_ROW: Final = "gateways and stores"
# The rows of topics, measured in the pure form; their name here, and the format of their figures.
TOPIC_ROWS: Final = {
    "as quick as fetching all from redis-server: devices/d7/k3": (
        "one topic of 10,000, beside fetching all from redis-server and filtering with redis-py",
        "{:.0f} times as quick",
    ),
    "as quick as fetching all from redis-server: devices/+/temperature": (
        "`devices/+/temperature`, one kind of 100",
        "{:.0f} times",
    ),
    "XFILTER # as quick as XRANGE": ("`XFILTER` with `#`, beside XRANGE and the client's filter", "{:.2f}"),
    "segments looked through for one topic of 10,000": ("segments looked through for one topic", "{:.1f} %"),
    "index of the topics, of the entries' memory": ("memory of the index, of the entries'", "{:.1f} %"),
    "publish, 1,000 wait for other topics: CPU over nobody waiting": (
        "publish while 1,000 wait for other topics, CPU, over while nobody waits for that stream",
        "{:.2f}",
    ),
    "one XADD wakes 1,000 in XFILTER BLOCK: CPU over XREAD BLOCK": (
        "one XADD wakes 1,000 in XFILTER BLOCK, beside XREAD BLOCK, CPU",
        "{:.2f}",
    ),
    "publish_many as quick as pipelined XADD": ("`publish_many`, beside XADDs in redis-py's pipelines", "{:.2f}"),
    "four members over one": ("four members of a shared replay over one", "{:.2f}"),
}


def tables() -> dict[tuple[Path, str], str]:
    """Return document and name of each table, and the table that the figures make."""
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    about, rows = found["about"], {row["name"]: row for row in found["rows"]}
    speed, notes = ROOT / "docs" / "speed.md", ROOT / "bench" / "NOTES.md"
    idempotence = ROOT / "docs" / "idempotence.md"
    windows = json.loads(WINDOW_FIGURES.read_text(encoding="utf-8"))
    return {
        (speed, "speed"): _long(about, rows, ROWS),
        (speed, "cost"): _costs(rows, COST_ROWS),
        (speed, "gateway"): _gateway(json.loads(GATEWAY_FIGURES.read_text(encoding="utf-8"))),
        (ROOT / "docs" / "mqtt.md", "scale"): _scale(json.loads(SCALE_FIGURES.read_text(encoding="utf-8"))),
        (notes, "form"): _forms(rows, ROWS),
        (notes, "topics"): _topics(rows, TOPIC_ROWS),
        (ROOT / "docs" / "spark-reference.md", "speed"): _spark(json.loads(SPARK_FIGURES.read_text(encoding="utf-8"))),
        (ROOT / "README.md", "speed"): _short(rows),
        (idempotence, "proposal"): tables_idempotence.proposal(
            json.loads(PROPOSAL_FIGURES.read_text(encoding="utf-8"))
        ),
        (idempotence, "windows"): tables_idempotence.windows(windows),
        (ROOT / "docs" / "operations.md", "memory"): tables_idempotence.memory(rows, windows),
    }


def _long(about: dict[str, Any], rows: dict[str, Any], names: Iterable[str]) -> str:
    newest = any("newest_per_s" in rows[name] for name in names)
    kinds = ["pure", "compiled", "redis-server", *([NEWEST] if newest else [])]
    over = ["pure / redis", "compiled / redis", *([f"pure / {NEWEST}", f"compiled / {NEWEST}"] if newest else [])]
    lines = [f"`make bench-long` of {about['date']}, Python {about['python']}, {about['cpus']} cores:", ""]
    lines += [f"| | {' | '.join([*kinds, *over])} |", "|---" * (1 + len(kinds) + len(over)) + "|"]
    for name in names:
        row = rows[name]
        servers = ("streamd", "compiled", "redis", "newest")[: len(kinds)]
        cells = [f"{row[f'{kind}_per_s']:,.0f}/s" if f"{kind}_per_s" in row else "–" for kind in servers]
        cells += [*_ratios(row), *(_ratios(row, ("over_newest", "compiled_over_newest")) if newest else [])]
        lines.append(f"| {ROWS[name] or name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(rows: dict[str, Any]) -> str:
    lines = ["| rate over that of redis-server | pure | compiled |", "|---|---|---|"]
    best, *_, worst = sorted(ROWS, key=lambda name: rows[name]["ratio"], reverse=True)
    for name, mark in ((best, "best: "), *((name, "") for name in COMMON_ROWS), (worst, "worst: ")):
        lines.append(f"| {mark}{ROWS[name] or name} | {' | '.join(_ratios(rows[name]))} |")
    return "\n".join(lines)


def _costs(rows: dict[str, Any], names: dict[str, tuple[str, str]]) -> str:
    lines = ["| | over that of | pure | compiled |", "|---|---|---|---|"]
    for name, (called, other) in names.items():
        keys = ("over_newest", "compiled_over_newest") if other == NEWEST else ("ratio", "compiled_ratio")
        if any(key in rows.get(name, ()) for key in keys):
            lines.append(f"| {called} | {other} | {' | '.join(_ratios(rows[name], keys))} |")
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


def _spark(found: dict[str, Any]) -> str:
    sizes = ", ".join(dict.fromkeys(f"{part['rows']:,} rows" for part in found["parts"]))
    lines = [f"{found['day']}, {sizes}, the medians of {found['rounds']} rounds.", ""]
    lines += ["| what | rows per second | CPU of a row in µs: server, JVM, workers |", "|---|---|---|"]
    for part in found["parts"]:
        for way in part["ways"]:
            # Of a worker that ended meanwhile nobody knows the CPU any more.
            known = [f"{us:.1f}" if us >= 0 else "unknown" for us in way["cpu_us"] or ()]
            cpu = ", ".join(known) or "one process"
            lines.append(f"| {part['title'].lower()}: {way['name']} | {way['rows_per_s']:,.0f} | {cpu} |")
    lines += ["", "| in pairs of a round | ratio of the rates |", "|---|---|"]
    for pair in (pair for part in found["parts"] for pair in part["pairs"]):
        ratio = f"{pair['ratio']:.2f} ({pair['least']:.2f} to {pair['most']:.2f})"
        lines.append(f"| {pair['one']}, of {pair['other']} | {ratio} |")
    return "\n".join(lines)


def _gateway(found: dict[str, Any]) -> str:
    about, loads, idle = found["about"], [], []
    for name, row in found["rows"].items():
        medians = {kind: _medians(turns) for kind, turns in row.items()}
        pure, compiled, other = medians["streamd"], medians["compiled"], medians["mosquitto"]
        if "CPU" not in pure:
            cells = [
                f"{one['memory of a client']:,.0f} B, {one['idle CPU']:.2f} %, {one['CPU of a connect']:.0f} us"
                for one in (other, pure, compiled)
            ]
            idle.append(f"| {name} | {' | '.join(cells)} |")
            continue
        ratios = []
        for kind in ("streamd", "compiled"):
            pairs = zip(row[kind], row["mosquitto"], strict=True)
            ratios.append(f"{median(a['CPU'] / b['CPU'] for a, b in pairs):.2f}")
        cells = [f"{one['CPU']:.1f} us" for one in (other, pure, compiled)] + ratios
        waits = [f"{pure[one]:,.1f} ms" if one in pure else "–" for one in ("PUBACK mean", "delivery mean")]
        loads.append(f"| {name} | {' | '.join(cells + waits)} |")
    return "\n".join(
        (
            f"`python -m bench.mqtt` of {about['date']}, {about['cpus']} cores, medians of {about['rounds']} rounds:",
            "",
            "| CPU of a message | mosquitto | pure | compiled | pure / mosquitto | compiled / mosquitto"
            " | PUBACK, pure | delivery, pure |",
            "|---|---|---|---|---|---|---|---|",
            *loads,
            "",
            "| memory of a client, idle CPU, CPU of a connect | mosquitto | pure | compiled |",
            "|---|---|---|---|",
            *idle,
        )
    )


def _scale(found: dict[str, Any]) -> str:
    about, rows = found["about"], dict(found["rows"])
    shapes = rows.pop(SHAPES_ROW)
    forms = list(shapes)
    called = [{"streamd": "pure"}.get(form, form) for form in forms]
    lines = [
        f"`python -m bench.mqtt_scale` of {about['date']}, {about['cpus']} cores, load {about['load'][0]} before and"
        f" {about['load'][1]} behind:",
        "",
        f"| | CPU of a message, messages/s, CPU over that of one gateway: {' | '.join(called)} |",
        "|---|" + "---|" * len(forms),
    ]
    # "2 gateways on 1 store, 2,000 messages/s a gateway: CPU of a message"
    loads = dict.fromkeys(one["name"].rpartition(": ")[0] for one in shapes[forms[0]])
    for load in loads:
        of_forms = []
        for form in forms:
            figures = [one for one in shapes[form] if one["name"].rpartition(": ")[0] == load]
            of_forms.append(", ".join(_measured(one) for one in figures))
        lines.append(f"| {load} | {' | '.join(of_forms)} |")
    lines += ["", f"| | | wanted | {' | '.join(called)} |", "|---|---|---|" + "---|" * len(forms)]
    for row, by_form in rows.items():
        for at, one in enumerate(by_form[forms[0]]):
            figures = [by_form[form][at] for form in forms]
            about_it = f" ({one['note']})" if one["note"] else ""
            cells = " | ".join(map(_measured, figures))
            lines.append(f"| {'' if at else row} | {one['name']}{about_it} | {one['wanted']} | {cells} |")
    return "\n".join(lines)


def _measured(figure: dict[str, Any]) -> str:
    if figure["value"] is None:
        return f"{figure['verdict']}{': ' if figure['note'] else ''}{figure['note']}"
    return str(figure["shown"])


def _medians(turns: list[dict[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in turns) for name in turns[0]}


def _topics(rows: dict[str, Any], names: dict[str, tuple[str, str]]) -> str:
    lines = ["| | a million entries | wanted |", "|---|---|---|"]
    for name, (called, form) in names.items():
        row = rows[name]
        lines.append(f"| {called} | {form.format(row['figures']['streamd'])} | {row['wanted_text']} |")
    return "\n".join(lines)


def _ratios(row: dict[str, Any], names: tuple[str, ...] = ("ratio", "compiled_ratio")) -> list[str]:
    return [f"{row[name]:.2f}" if row.get(name) is not None else "–" for name in names]


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
