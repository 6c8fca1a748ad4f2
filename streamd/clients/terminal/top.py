"""`streamd top`: a server's streams, groups, rates and clients, as they change."""

import re
import time
from collections.abc import Callable
from typing import Final

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from streamd.clients.server_role import role_of
from streamd.clients.terminal.asking import Seconds, Source, url_option
from streamd.clients.terminal.sampling import Sample, Sampler, Stream
from streamd.clients.terminal.showing import console, count, printable, size, span

# Lines of a view that are not rows: the lines on top, and name, head, lines and gap of three tables.
_FRAME: Final = 15
_ROWS_IN_A_PIPE: Final = 50
_CLIENTS_SHOWN: Final = 5
# On a narrower terminal the columns that are needed least are left out, so that names can be told apart.
_WIDTH_OF_ALL: Final = 66
_WITHOUT_IF_NARROW: Final = frozenset({"last ID", "duplicates", "read/s", "consumers", "last command", "connected for"})

ORDERS: Final[dict[str, Callable[[Stream], tuple[float, ...]]]] = {
    "rate": lambda one: (one.rate or 0, one.length),
    "length": lambda one: (one.length,),
    "groups": lambda one: (one.groups, one.length),
}


@click.command()
@click.option("--match", default="*", metavar="PATTERN", show_default=True, help="Only streams with such a name.")
@click.option("--sort", type=click.Choice([*ORDERS, "name"]), default="rate", show_default=True, help="Streams first.")
@click.option(
    "--interval",
    type=Seconds(min=0.1, max=3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks.",
)
@click.option("--count", "views", type=click.IntRange(min=1), metavar="N", help="End after so many views.")
@url_option
def top(match: str, sort: str, interval: float, views: int | None, url: str) -> None:
    """Watch a server: its streams, groups, rates and clients, until Ctrl-C.

    In a pipe each view is printed below the one before, without colours; `--count 1` gives one with its rates.
    """
    with Source(url, "streamd-top") as source:
        screen = console()
        sampler = Sampler(source, match)
        sample = sampler.sample()
        if not screen.is_terminal:
            _print_views(screen, source, sampler, sort, interval, views)
            return
        with Live(view(sample, source.place, sort, screen), console=screen, screen=True, auto_refresh=False) as live:
            left = views
            while left is None or left > 1:
                time.sleep(interval)
                live.update(view(sampler.sample(), source.place, sort, screen), refresh=True)
                left = None if left is None else left - 1


def _print_views(
    screen: Console, source: Source, sampler: Sampler, sort: str, interval: float, views: int | None
) -> None:
    left = views
    while left is None or left > 0:
        time.sleep(interval)
        screen.print(view(sampler.sample(), source.place, sort, screen))
        screen.print()
        screen.file.flush()
        left = None if left is None else left - 1


def view(sample: Sample, place: str, sort: str, screen: Console) -> RenderableType:
    """Return one view of a sample, with as many rows as the terminal has room for."""
    room = max(screen.height - _FRAME, 6) if screen.is_terminal else 3 * _ROWS_IN_A_PIPE
    clients = min(len(sample.clients), _CLIENTS_SHOWN, room // 3)
    groups = min(len(sample.groups), max((room - clients) // 2, room - clients - len(sample.streams)))
    streams = room - clients - groups
    parts: list[RenderableType] = [_head(sample, place), "", *_streams(sample, sort, streams)]
    if sample.groups:
        parts += ["", *_groups(sample, groups)]
    if clients:
        parts += ["", *_clients(sample, clients)]
    if screen.width < _WIDTH_OF_ALL:
        for part in parts:
            if isinstance(part, Table):
                _narrow(part)
    return Group(*parts)


def _narrow(table: Table) -> None:
    """Remove the columns that are needed least."""
    table.columns = [column for column in table.columns if column.header not in _WITHOUT_IF_NARROW]
    for number, column in enumerate(table.columns):
        column._index = number


def _head(sample: Sample, place: str) -> Text:
    info, rates = sample.info, sample.rates
    if "streamd_version" in info:
        server = f"streamd {info['streamd_version']} (Redis {info.get('redis_version', '?')})"
    else:
        server = f"Redis {info.get('redis_version', '?')}"
    keys = sum(int(number) for line in info.values() for number in re.findall(r"^keys=(\d+)", line))
    clients = info.get("connected_clients", "?")
    commands = rates.get("total_commands_processed")
    lines = Text(no_wrap=True, overflow="ellipsis")
    lines.append(server, "bold")
    lines.append(f"  {place}  up {span(int(info.get('uptime_in_seconds', 0)))}\n", "dim")
    facts = [
        f"{count(commands)} commands/s",
        f"in {size(rates['total_net_input_bytes'])}/s" if "total_net_input_bytes" in rates else "",
        f"out {size(rates['total_net_output_bytes'])}/s" if "total_net_output_bytes" in rates else "",
        f"memory {size(int(info.get('used_memory', 0)))}",
        f"{count(keys)} key" + "s" * (keys != 1),
        f"{clients} client{'s' * (clients != '1')}, {info.get('blocked_clients', '?')} waiting",
    ]
    lines.append("   ".join(fact for fact in facts if fact))
    if (role := role_of(info)) is not None:
        lines.append("\n")
        lines.append(printable(role.text.encode()), "" if role.is_well else "red")
    return lines


def _titled(title: str, table: Table) -> list[RenderableType]:
    """Return a title, which may be wider than its table, and the table."""
    return [Text(title, "bold", no_wrap=True, overflow="ellipsis"), table]


def _table(*columns: str) -> Table:
    """Return a table; the columns before `|` are for names, and the columns behind it for numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    at = columns.index("|")
    for number, column in enumerate(columns):
        if number < at:
            table.add_column(column, max_width=40)  # where there is no room names are cut, and not numbers
        elif number > at:
            table.add_column(column, no_wrap=True, justify="right")
    return table


def _no_streams(sample: Sample) -> str:
    if not sample.walked:
        return "no streams found yet"
    if sample.pattern != "*":
        return f"no stream is called {printable(sample.pattern.encode())}; leave out --match to see all"
    return "no streams here; XADD makes one"


def _streams(sample: Sample, sort: str, rows: int) -> list[RenderableType]:
    found = list(sample.streams.values())
    if not found:
        return [Text(_no_streams(sample), "yellow")]
    found.sort(key=lambda one: one.key)
    if sort != "name":
        found.sort(key=ORDERS[sort], reverse=True)
    shown = found[:rows]
    hidden = len(found) - len(shown)
    title = f"Streams: {len(found)}" + (f", {hidden} more below" if hidden else "") + _left_out(sample)
    windows = any(one.duplicates is not None for one in shown)
    columns = ["stream", "|", "entries", "added/s", "groups", "last ID"] + ["duplicates"] * windows
    table = _table(*columns)
    for one in shown:
        row: list[Text | str] = [
            _cut(one.key),
            count(one.length),
            _rate(one.rate),
            count(one.groups),
            one.last_id.decode(),
        ]
        table.add_row(*row, *[count(one.duplicates)] * windows)
    return _titled(title, table)


def _left_out(sample: Sample) -> str:
    """Return what is said of streams that were not sampled, if there are any."""
    text = ""
    if sample.found > len(sample.streams):
        text = f" of {sample.found:,}: the largest, and those furthest behind"
        if sample.surveyed < sample.found:
            text += f", among {sample.surveyed:,} looked at so far"
        text += "; --match chooses others"
    return text if sample.walked else f"{text}; the other keys are still being looked through"


def _groups(sample: Sample, rows: int) -> list[RenderableType]:
    # Those that are furthest behind come first: they are why somebody looks.
    found = sorted(sample.groups.values(), key=lambda one: (-(one.lag or 0), -one.pending, one.stream, one.name))
    hidden = len(found) - rows
    title = f"Groups: {len(found)}" + (f", {hidden} more below" if hidden > 0 else "")
    table = _table("group", "stream", "|", "lag", "pending", "read/s", "consumers")
    for one in found[:rows]:
        lag = Text(count(one.lag), "yellow" if one.lag else "")
        names = _cut(one.name), _cut(one.stream)
        table.add_row(*names, lag, count(one.pending), _rate(one.read_rate), count(one.consumers))
    return _titled(title, table)


def _clients(sample: Sample, rows: int) -> list[RenderableType]:
    found = sorted(sample.clients, key=lambda one: (int(one.get("idle", 0)), -int(one.get("age", 0))))
    title = f"Clients: {len(found)}" + (f", the {rows} that asked last" if rows < len(found) else "")
    table = _table("address", "name", "last command", "|", "idle", "connected for")
    for one in found[:rows]:
        names = (_cut(one.get(word, "").encode()) for word in ("addr", "name", "cmd"))
        table.add_row(*names, span(int(one.get("idle", 0))), span(int(one.get("age", 0))))
    return _titled(title, table)


def _cut(name: bytes) -> Text:
    return Text(printable(name, 40), no_wrap=True, overflow="ellipsis")


def _rate(rate: float | None) -> Text:
    return Text(count(rate), "green" if rate else "")
