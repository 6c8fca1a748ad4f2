"""Pictures of a table of results: bars beside redis-server and curves of growth, the same for the same figures.

`python -m bench.plots` draws those of docs/speed.md in docs/pictures/, from the figures in bench/results/long.json.
"""

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.svg import Picture

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
FIGURES = ROOT / "bench" / "results" / "long.json"
Row = dict[str, object]
KINDS = (("streamd", "blue"), ("redis-server", "red"))
WIDTH, NAMES, ROW_HEIGHT, VALUE_WIDTH = 940, 410, 22, 44
TOP = 84  # of the first bar
PANEL_WIDTH, PANEL_HEIGHT = 300, 210
# What a bar is of: the file's ending, the title, which rows, whether less is better.
BARS: tuple[tuple[str, str, Callable[[Row], bool], bool], ...] = (
    ("ratios", "Speed over redis-server's: more is better", lambda row: not _is_cost(row), False),
    ("costs", "What is spent, over redis-server's or a plain XADD's: less is better", lambda row: _is_cost(row), True),
)


def _is_cost(row: Row) -> bool:
    """Say whether the ratio is one of bytes, seconds or CPU, and not one of rates."""
    return "wanted_at_most" in row or "figures" in row


def _limit(row: Row) -> float | None:
    """Return what is wanted of the ratio, at least or at most."""
    wanted = row.get("wanted") or row.get("wanted_at_most")
    text = str(row.get("wanted_text", "")).partition(" ")
    return float(text[0]) if text[2].startswith("x") else _number(wanted) if wanted else None


def draw(rows: list[Row], suite: str) -> dict[str, str]:
    """Return the pictures of a table: name of the file to its text."""
    drawn = {}
    for ending, title, is_of, is_less_better in BARS:
        chosen = [row for row in rows if row.get("ratio") and is_of(row)]
        if chosen:
            drawn[f"{suite}-{ending}.svg"] = bars(title, chosen, is_less_better)
    for row in rows:
        if "points" in row:
            drawn[f"{suite}-{str(row['name']).lower().replace(' ', '-')}.svg"] = curves(row)
    return drawn


def write(rows: list[Row], suite: str, directory: Path) -> list[Path]:
    """Draw a table into a directory; return the files."""
    paths = []
    for name, text in draw(rows, suite).items():
        path = directory / name
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def bars(title: str, rows: list[Row], is_less_better: bool) -> str:
    """Return bars that begin at 1, where both are equal: to the right for more, on a logarithmic scale."""
    values = [_number(row["ratio"]) for row in rows]
    compiled = [_number(row.get("compiled_ratio") or 0) for row in rows]
    wanted = [_limit(row) for row in rows]
    low, high = _decades([*values, *filter(None, compiled), *filter(None, wanted)])
    picture = Picture(WIDTH, TOP + 20 + ROW_HEIGHT * len(rows), f"{title}, {len(rows)} rows")
    picture.words(20, 30, title, size=15, weight=600)
    legend = f"blue: better than at 1; grey stroke: the {'most' if is_less_better else 'least'} that is wanted"
    legend += "; violet: compiled" if any(compiled) else ""
    picture.words(20, 50, legend, "faint", 11.5)
    left, right = NAMES, WIDTH - VALUE_WIDTH - 40

    def x_of(ratio: float) -> float:
        return round(left + (right - left) * math.log(ratio / low) / math.log(high / low), 1)

    bottom = TOP + ROW_HEIGHT * len(rows)
    for tick in _ticks(low, high):
        picture.line((x_of(tick), TOP - 4), (x_of(tick), bottom), colour="ink" if tick == 1 else "rule", width=1)
        picture.words(x_of(tick), TOP - 10, f"{tick:g}", "faint", 11, "middle")
    for number, (row, value, thin, limit) in enumerate(zip(rows, values, compiled, wanted, strict=True)):
        y = TOP + ROW_HEIGHT * number
        is_good = (value < 1) == is_less_better or value == 1
        start, end = sorted((x_of(1), x_of(value)))
        picture.words(NAMES - 12, y + 15, str(row["name"]), size=11.5, anchor="end", name="row")
        picture.box(start, y + 4, max(1.0, end - start), 9 if thin else 14, "blue" if is_good else "amber", name="bar")
        if thin:
            start, end = sorted((x_of(1), x_of(thin)))
            picture.box(start, y + 14, max(1.0, end - start), 4, "violet", name="compiled")
        if limit:
            picture.line((x_of(limit), y + 2), (x_of(limit), y + 20), colour="faint", width=2)
        picture.words(WIDTH - 20, y + 15, f"{value:.2f}", size=11, anchor="end", weight=600, name="value")
    return picture.text()


def curves(row: Row) -> str:
    """Return the cost of an operation as one number grows: rate, CPU, and latency if it was measured."""
    panels = [("operations a second", ""), ("server's CPU, µs each", "_cpu_us")]
    for title, ending in (("p50 in ms", "_p50_ms"), ("p99.9 in ms", "_p999_ms")):
        if _figures(row, ending):
            panels.append((title, ending))
    name = str(row["name"])
    lines = -(-len(panels) // 2)
    titles = ", ".join(title for title, _ in panels)
    picture = Picture(60 + 2 * (PANEL_WIDTH + 60), 80 + lines * (PANEL_HEIGHT + 80), f"{name}: {titles}")
    picture.words(20, 30, name, size=15, weight=600)
    for number, (kind, colour) in enumerate(KINDS):
        if kind in row:
            picture.dot(28 + 110 * number, 51, 5, colour)
            picture.words(38 + 110 * number, 55, kind, "faint")
    points = [_number(point) for point in row["points"]]  # type: ignore[attr-defined]
    label = str(row.get("xlabel") or name.partition(" by ")[2])
    for number, (title, ending) in enumerate(panels):
        left, top = 80 + (PANEL_WIDTH + 60) * (number % 2), 100 + (PANEL_HEIGHT + 80) * (number // 2)
        _panel(picture, left, top, title, points, _figures(row, ending))
        picture.words(left + PANEL_WIDTH / 2, top + PANEL_HEIGHT + 36, label, "faint", 11.5, "middle")
    return picture.text()


def _figures(row: Row, ending: str) -> dict[str, list[float]]:
    """Return the figures of each server that was measured, a number for each point."""
    found = {kind: row.get(kind + ending) for kind, _ in KINDS}
    return {
        kind: [_number(one) for one in values]
        for kind, values in found.items()
        if isinstance(values, list) and any(values)
    }


def _panel(
    picture: Picture, left: float, top: float, title: str, points: list[float], figures: dict[str, list[float]]
) -> None:
    """Draw one panel: x on a logarithmic scale, y from 0."""
    bottom = top + PANEL_HEIGHT
    highest = _round_up(max((value for values in figures.values() for value in values), default=1.0))
    span = math.log(points[-1] / points[0]) or 1.0

    def place(point: float, value: float) -> tuple[float, float]:
        x = left + PANEL_WIDTH * math.log(point / points[0]) / span
        return round(x, 1), round(bottom - PANEL_HEIGHT * value / highest, 1)

    picture.words(left, top - 16, title, size=12, weight=600)
    for quarter in range(5):
        _, y = place(points[0], highest * quarter / 4)
        picture.line((left, y), (left + PANEL_WIDTH, y), width=1)
        picture.words(left - 8, y + 4, short(highest * quarter / 4), "faint", 10.5, "end")
    for point in points:
        picture.words(place(point, 0)[0], bottom + 17, short(point), "faint", 10.5, "middle")
    for kind, colour in KINDS:
        places = [place(point, value) for point, value in zip(points, figures.get(kind, []), strict=False)]
        if places:
            picture.line(*places, colour=colour, width=2)
        for x, y in places:
            picture.dot(x, y, 3.5, colour)


def short(value: float) -> str:
    """Return a number as an axis shows it: 1500 is 1.5k."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _decades(values: Iterable[float]) -> tuple[float, float]:
    """Return the ends of a scale that holds 1 and all values, on marks of it."""
    least, most = min(0.5, *values), max(2.0, *values)
    marks = _ticks(10 ** math.floor(math.log10(least)), 10 ** math.ceil(math.log10(most)))
    return max(mark for mark in marks if mark <= least), min(mark for mark in marks if mark >= most)


def _ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 of each decade between two numbers."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = (digit * 10.0**power for power in powers for digit in (1, 2, 5))
    return [round(mark, 6) for mark in marks if low * 0.999 <= mark <= high * 1.001]


def _round_up(value: float) -> float:
    """Return the next number that begins with 1, 2, 4, 6 or 8: quarters of it are short."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(digit * power for digit in (1, 2, 4, 6, 8, 10) if digit * power >= value * 0.9999)


def newest() -> list[Row]:
    """Return the newest figures of all rows."""
    rows: list[Row] = json.loads(FIGURES.read_text(encoding="utf-8"))["rows"]
    return rows


if __name__ == "__main__":
    PICTURES.mkdir(parents=True, exist_ok=True)
    print(*write(newest(), "speed", PICTURES), sep="\n")
