"""`streamd tail`: a stream's entries as lines, from a chosen position, then new ones as they come."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import click
from rich.console import Console
from rich.text import Text

from streamd.clients.terminal.asking import Source, paired, url_option
from streamd.clients.terminal.completing import complete_stream
from streamd.clients.terminal.delivery import Deliveries, Delivery
from streamd.clients.terminal.failing import Trouble
from streamd.clients.terminal.showing import console, printable

# Entries of one reply: a page, however long the stream is.
PAGE: Final = 200
# How long one XREAD waits; then it is asked again, so that a connection that died is noticed.
BLOCK_MS: Final = 1_000
LAST: Final = 10

_ID = re.compile(r"\d{1,20}(-\d{1,20})?")
_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Entry = tuple[bytes, list[bytes]]


@click.command()
@click.argument("stream", shell_complete=complete_stream)
@click.option(
    "--from",
    "start",
    metavar="5m|ID|earliest",
    help="Where to begin: so long ago (30s, 5m, 2h, 1d), at an entry ID or the first after it, at the earliest entry,"
    f" or `latest` for only what comes. Without it: the last {LAST} entries.",
)
@click.option(
    "--group",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Say of each entry how far this consumer group is with it, or every group if no name follows: waiting,"
    " pending and with whom, or done. Nothing is taken from the group.",
)
@click.option("--json", "as_json", is_flag=True, help="A JSON object on each line.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many entries.")
@click.option("--no-follow", is_flag=True, help="End when all that is there was printed.")
@url_option
def tail(
    stream: str, start: str | None, group: str | None, as_json: bool, count: int | None, no_follow: bool, url: str
) -> None:
    """Print the entries of STREAM, one on each line, and go on with what comes until Ctrl-C.

    A line is the entry ID, its time (of this machine's zone) and the fields. In a pipe there are no colours.

    \b
      streamd tail orders --from 5m
      streamd tail orders --from earliest --no-follow --json | jq .fields
      streamd tail orders --group billing
    """
    if start is not None:
        _check_start(start)
    with Source(url, "streamd-tail") as source:
        source.check_stream(stream)
        deliveries = None if group is None else Deliveries(source, stream, group)
        lines = _JsonLines() if as_json else _Lines()
        left = count
        for page in _pages(source, stream, start, count, not no_follow):
            page = page[:left]
            states = deliveries.of([entry_id for entry_id, _ in page]) if deliveries else [{}] * len(page)
            for (entry_id, fields), state in zip(page, states, strict=True):
                lines.show(entry_id, fields, state)
            left = None if left is None else left - len(page)
            if left == 0:
                return


def _pages(source: Source, stream: str, start: str | None, count: int | None, follow: bool) -> Iterator[list[Entry]]:
    """Yield entries a page at a time: the present ones and, with `follow`, then new ones."""
    if start is None:
        at = _so_far_back(source, stream, count if count and not follow else min(count or LAST, LAST))
    else:
        at = _first_id(source, start)
    last = _last_id(source, stream)
    first = _order(last) if at is None else _order(at.encode())
    while at is not None and (found := _entries(source.ask("XRANGE", stream, at, "+", "COUNT", PAGE))):
        yield found if follow else [one for one in found if _order(one[0]) <= _order(last)]
        at = "(" + found[-1][0].decode()
        if _order(found[-1][0]) >= _order(last):
            last = found[-1][0]
            break
    while follow:
        reply = source.ask("XREAD", "COUNT", PAGE, "BLOCK", BLOCK_MS, "STREAMS", stream, last)
        if reply:
            found = _entries(reply[0][1])
            last = found[-1][0]
            yield [one for one in found if _order(one[0]) >= first]


def _so_far_back(source: Source, stream: str, entries: int) -> str | None:
    """Return the ID of the entry that has `entries` - 1 entries behind it; at most a page of them is held."""
    at, left = "+", entries
    found = None
    while left > 0 and (page := source.ask("XREVRANGE", stream, at, "-", "COUNT", min(left, PAGE))):
        found = page[-1][0].decode()
        left -= len(page)
        at = f"({found}"
    return found


def _last_id(source: Source, stream: str) -> bytes:
    """Return the ID of the newest entry, or the last generated ID of an empty stream."""
    newest = source.ask("XREVRANGE", stream, "+", "-", "COUNT", 1)
    # (XINFO shows the first and the last entry, which may be large; an empty stream has none.)
    found: bytes = newest[0][0] if newest else paired(source.ask("XINFO", "STREAM", stream))["last-generated-id"]
    return found


def _entries(reply: list[Any]) -> list[Entry]:
    return [(entry_id, fields or []) for entry_id, fields in reply]


def _order(entry_id: bytes) -> tuple[int, int]:
    if entry_id == b"-":
        return 0, 0
    ms, _, sequence = entry_id.partition(b"-")
    return int(ms), int(sequence or 0)


def _first_id(source: Source, start: str) -> str | None:
    """Return the ID to begin at, None for new entries only. Raises: Trouble."""
    if start == "latest":
        return None
    if start == "earliest":
        return "-"
    if ago := _AGO.fullmatch(start):
        seconds, micros = source.ask("TIME")
        now_ms = int(seconds) * 1_000 + int(micros) // 1_000
        return str(max(now_ms - round(float(ago[1]) * _UNITS_MS[ago[2]]), 0))
    return start


def _check_start(start: str) -> None:
    """Check the words of --from before the server is asked for anything. Raises: Trouble."""
    if start not in ("latest", "earliest") and not _AGO.fullmatch(start) and not _ID.fullmatch(start):
        raise Trouble(f"--from {start}: give 30s, 5m, 2h or 1d, an entry ID, earliest, or latest")


class _Lines:
    """Lines for people."""

    def __init__(self) -> None:
        self._console: Console = console()

    def show(self, entry_id: bytes, fields: list[bytes], state: dict[str, Delivery]) -> None:
        """Print one entry."""
        line = Text()
        line.append(printable(entry_id), "bold cyan")
        line.append(f"  {_time(entry_id):%Y-%m-%d %H:%M:%S.%f}"[:-3] if _time(entry_id) else "", "dim")
        for name, value in zip(fields[::2], fields[1::2], strict=True):
            line.append("  ")
            line.append(printable(name), "green")
            line.append("=", "dim")
            line.append(printable(value))
        for group, delivery in state.items():
            line.append("  [", "dim")
            line.append(f"{printable(group.encode('utf-8', 'surrogateescape'))}: {delivery}", delivery.style)
            line.append("]", "dim")
        self._console.print(line, soft_wrap=True)


class _JsonLines:
    """Lines of JSON in ASCII, for programs; bytes that are no UTF-8 are escaped as by Python's surrogateescape."""

    def show(self, entry_id: bytes, fields: list[bytes], state: dict[str, Delivery]) -> None:
        """Print one entry; with `pairs` instead of `fields` if it has a field twice."""
        pairs = [(_decoded(name), _decoded(value)) for name, value in zip(fields[::2], fields[1::2], strict=True)]
        one: dict[str, object] = {"id": entry_id.decode()}
        if (time := _time(entry_id)) is not None:
            one["time"] = time.isoformat(timespec="milliseconds")
        if len(dict(pairs)) == len(pairs):
            one["fields"] = dict(pairs)
        else:
            one["pairs"] = pairs
        if state:
            one["groups"] = {group: delivery.as_json() for group, delivery in state.items()}
        click.echo(json.dumps(one))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _time(entry_id: bytes) -> datetime | None:
    """Return an entry ID's time in this machine's zone; None for one outside of the calendar."""
    try:
        return datetime.fromtimestamp(_order(entry_id)[0] / 1_000).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
