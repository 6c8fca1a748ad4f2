"""The tables on idempotent XADDs in docs/idempotence.md and docs/operations.md, from the figures in bench/results."""

from statistics import median
from typing import Any, Final

from scripts.newest_redis import VERSION

# Servers in the order of the columns, and what they are called.
SERVERS: Final = {"streamd": "pure", "compiled": "compiled", "newest-redis": f"Redis {VERSION}"}
# Of the XADDs with idempotent IDs: at most so many per cent below a plain one; RSS at most so many per cent above.
BELOW_PERCENT_MAX: Final = {"IDMP": 5.0, "IDMPAUTO": 5.2}
RSS_PERCENT_MAX: Final = 1.4
# Bytes of an idempotent ID in `an example of a machine`, and how many there are.
EXAMPLE_PRODUCERS, EXAMPLE_IIDS, EXAMPLE_BYTES = 1_000, 10_000, 36

Ways = dict[str, dict[str, float]]


def proposal(found: dict[str, Any]) -> str:
    """Return the tables of the proposal's measurement: of each size, of all, and of memory."""
    about, sizes = found["about"], found["sizes"]
    head = f"`python -m bench.proposal` of {about['date']}, Python {about['python']}, {about['cpus']} cores"
    if sizes:
        head += f", load {about['load']} behind; {about['operations']:,} requests in each of {about['runs']} runs,"
        head += f" memory behind {about.get('resident', about['operations']):,}"  # (before, it was of one run)
    lines = [f"{head}:"]
    if sizes:
        ways = list(next(iter(next(iter(sizes.values())).values())))
        lines += ["", f"| value | server | {' | '.join(ways)} |", "|---" * (2 + len(ways)) + "|"]
        for size, of_size in sizes.items():
            for kind, of_kind in of_size.items():
                cells = " | ".join(proposal_cell(of_kind, way) for way in ways)
                lines.append(f"| {int(size):,} B | {SERVERS[kind]} | {cells} |")
    kinds = list(next(iter(sizes.values()))) if sizes else list(found["memory"][0]["figures"])
    lines += ["", f"| | wanted | {' | '.join(SERVERS[kind] for kind in kinds)} |", "|---" * (2 + len(kinds)) + "|"]
    if sizes:
        for way, most in BELOW_PERCENT_MAX.items():
            lines.append(_over_sizes(f"{way}: throughput below plain", most, sizes, kinds, way, "per_s", -1))
        for way in BELOW_PERCENT_MAX:
            lines.append(_over_sizes(f"{way}: RSS above plain", RSS_PERCENT_MAX, sizes, kinds, way, "rss_mb", 1))
    for row in found["memory"]:
        cells = " | ".join(f"{row['figures'][kind]:,.0f} {row['unit']}" for kind in kinds)
        lines.append(f"| memory: {row['name']} | ≤ {row['wanted']:,} {row['unit']} | {cells} |")
    return "\n".join(lines)


def proposal_cell(ways: Ways, way: str) -> str:
    """Return the figures of one kind of XADD: a second, beside plain; the average and p99 of its latency; RSS."""
    one = ways[way]
    beside = "" if way == "plain" else f" ({_percent(ways, way, 'per_s'):+.1f} %)"
    more = "" if way == "plain" else f" ({_percent(ways, way, 'rss_mb'):+.1f} %)"
    latency = f"{one['mean_ms'] * 1000:.0f} µs, p99 {one['p99_ms'] * 1000:.0f}"
    return f"{one['per_s']:,.0f}/s{beside}, {latency}, {one['rss_mb']:.1f} MB{more}"


def _percent(ways: Ways, way: str, figure: str) -> float:
    """Return by how many per cent a figure is above that of a plain XADD."""
    return (ways[way][figure] / ways["plain"][figure] - 1) * 100


def _over_sizes(
    name: str, most: float, sizes: dict[str, dict[str, Ways]], kinds: list[str], way: str, figure: str, sign: int
) -> str:
    cells = []
    for kind in kinds:
        values = [sign * _percent(of_size[kind], way, figure) for of_size in sizes.values()]
        cells.append(f"{median(values):.1f} % ({min(values):.1f} to {max(values):.1f})")
    return f"| {name}, the median of the sizes | ≤ {most} % | {' | '.join(cells)} |"


def windows(found: dict[str, Any]) -> str:
    """Return the table of the memory of an idempotent ID in a window."""
    about, rows = found["about"], found["rows"]
    kinds = list(rows[0]["figures"])
    lines = [
        f"`python -m bench.window_memory` of {about['date']}; windows that have turned over {about['turned_over']}"
        " times:",
        "",
        f"| producers of a stream | iids of each | bytes of an iid | {' | '.join(SERVERS[kind] for kind in kinds)} |",
        "|---" * (3 + len(kinds)) + "|",
    ]
    for row in rows:
        length = "16, by IDMPAUTO" if row["bytes"] is None else str(row["bytes"])
        cells = " | ".join(f"{row['figures'][kind]:.0f} bytes" for kind in kinds)
        lines.append(f"| {row['producers']:,} | {row['iids']:,} | {length} | {cells} |")
    return "\n".join(lines)


def memory(entries: dict[str, Any], found: dict[str, Any]) -> str:
    """Return the table of what data takes: entries by the rows of `make bench-long`, windows by bench.window_memory."""
    rows = found["rows"]
    kinds = [kind for kind in rows[0]["figures"] if kind != "newest-redis"]

    def span(chosen: list[dict[str, Any]]) -> str:
        of_kinds = []
        for kind in kinds:
            values = sorted(round(row["figures"][kind]) for row in chosen)
            text = f"{values[0]}" if values[0] == values[-1] else f"{values[0]} to {values[-1]}"
            of_kinds.append(f"{text} ({SERVERS[kind]})" if len(kinds) > 1 else text)
        return ", ".join(of_kinds)

    random_bytes, json = (
        entries[f"memory: {name}, one entry per ms"]["figures"]["streamd"]
        for name in ("64 random bytes", "JSON of about 90 bytes")
    )
    few = [row for row in rows if row["iids"] <= 100]
    many = [row for row in rows if row["iids"] > 100]
    streams = ", ".join(f"{round(found['stream'][kind], -1):,.0f} ({SERVERS[kind]})" for kind in kinds)
    lines = [
        "| data | bytes of memory |",
        "|---|---|",
        f"| an entry with 64 random bytes | about {random_bytes:.0f} |",
        f"| an entry with 90 bytes of JSON | about {json:.0f} |",
        f"| an [idempotent ID](idempotence.md#how-long-a-name-is-known-the-window), a hundred of each producer |"
        f" {span(few)} |",
        f"| an idempotent ID in larger windows | {span(many)} |",
        f"| a stream with a window and one producer | about {streams} |",
    ]
    example = next(row for row in rows if (row["iids"], row["bytes"]) == (EXAMPLE_IIDS, EXAMPLE_BYTES))
    gigabytes = ", ".join(
        f"{example['figures'][kind] * EXAMPLE_PRODUCERS * EXAMPLE_IIDS / 1e9:.1f} GB ({SERVERS[kind]})"
        for kind in kinds
    )
    lines += [
        "",
        f"So {EXAMPLE_PRODUCERS:,} producers with {EXAMPLE_IIDS:,} idempotent IDs of {EXAMPLE_BYTES} bytes each take"
        f" about {gigabytes}.",
    ]
    return "\n".join(lines)
