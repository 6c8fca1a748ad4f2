"""The demo's output: progress while it runs, the tables at its end."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table

from demo.check import Comparison, Fields

PLAIN_LINE_SECONDS = 1.0


class Display:
    """Two bars on a terminal, a line now and then elsewhere; `say()` adds a line to the story."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._started = time.monotonic()
        self._last_line = self._started
        self._last_text = ""
        self._progress = Progress(
            TextColumn("{task.description:<19}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._bars: list[TaskID] = [
            self._progress.add_task(text, total=total, note="") for text in ("producers -> orders", "Spark -> enriched")
        ]

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print a line of the story, with the seconds since the start."""
        self._console.print(f"{time.monotonic() - self._started:5.1f} s  {text}", highlight=False, soft_wrap=True)

    def update(self, orders: int, enriched: int, cuts: int, batches: int) -> None:
        """Show how many entries both streams hold."""
        self._progress.update(self._bars[0], completed=orders, note=f"cut connections: {cuts}")
        self._progress.update(self._bars[1], completed=enriched, note=f"batches: {batches}")
        now = time.monotonic()
        text = f"orders {orders:,} of {self._total:,}, enriched {enriched:,}, cut connections {cuts}"
        if not self._console.is_terminal and now - self._last_line >= PLAIN_LINE_SECONDS and text != self._last_text:
            self._last_line, self._last_text = now, text
            self.say(text)


@dataclass(frozen=True)
class StreamResult:
    """One stream at the end: `requests` XADDs were sent for it, the server recognized `duplicates` of them."""

    name: str
    writer: str
    requests: int
    duplicates: int
    comparison: Comparison


def result_table(results: Sequence[StreamResult]) -> Table:
    """Return the table that the demo is for: a column per stream, narrow enough for 80 characters."""
    table = Table(title="Every entry compared: ID and content")
    table.add_column("")
    for result in results:
        table.add_column(result.name, justify="right", min_width=16)
    table.add_row("written by", *(result.writer for result in results))
    table.add_row("XADDs sent", *(f"{result.requests:,}" for result in results))
    table.add_row("duplicates suppressed", *(f"{result.duplicates:,}" for result in results), style="bold")
    comparisons = [result.comparison for result in results]
    table.add_row("entries expected", *(f"{one.expected:,}" for one in comparisons))
    table.add_row("entries found", *(f"{one.found:,}" for one in comparisons), end_section=True)
    table.add_row("lost", *(_wrong(one.lost) for one in comparisons), style="bold")
    table.add_row("duplicated", *(_wrong(one.duplicated) for one in comparisons), style="bold")
    table.add_row("altered", *(_wrong(one.altered) for one in comparisons))
    return table


def _wrong(keys: list[str]) -> str:
    return f"[{'red' if keys else 'green'}]{len(keys):,}"


def aggregate_table(rows: Iterable[Fields]) -> Table:
    """Return orders and turnover per shop, the largest first, from the entries of the second stream."""
    orders: Counter[str] = Counter()
    turnover: Counter[str] = Counter()
    large: Counter[str] = Counter()
    countries: dict[str, str] = {}
    for row in rows:
        shop, eur_cents = row["shop"], int(row["eur_cents"])
        countries[shop] = row["country"]
        orders[shop] += 1
        turnover[shop] += eur_cents
        large[shop] += row["size"] == "large"
    table = Table(title="Turnover per shop, from the second stream")
    for column in ("shop", "country", "orders", "large", "EUR", ""):
        table.add_column(column, justify="right" if column in ("orders", "large", "EUR") else "left")
    widest = max(turnover.values(), default=1)
    for shop, eur_cents in turnover.most_common():
        bar = "█" * max(1, round(16 * eur_cents / widest))
        share = f"{large[shop] / orders[shop]:.0%}"
        table.add_row(shop, countries[shop], f"{orders[shop]:,}", share, f"{eur_cents / 100:,.2f}", bar)
    return table
