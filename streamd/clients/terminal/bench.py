"""`streamd bench`: the speed of a server, beside that of another one if there is one."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from time import monotonic

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from streamd.clients.terminal.asking import Seconds, Source
from streamd.clients.terminal.failing import Trouble
from streamd.clients.terminal.load import LOADS, Load, Loaded, Measured, NotThere
from streamd.clients.terminal.own_servers import OwnServer, is_installed
from streamd.clients.terminal.showing import console

_HEAD = f"{'':36}{'a second':>12}{'CPU us':>9}{'p50 ms':>9}{'p99 ms':>9}{'client':>8}"
_BESIDE = f"{'ratio':>8}{'beside':>12}{'CPU us':>9}"


@click.command()
@click.option(
    "--url",
    help="A running server: redis://[user:password@]host[:port]. Without it a streamd in memory is started, and a"
    " redis-server beside it if that is installed; both end with the command.",
)
@click.option("--beside", metavar="URL", help="A second server to compare with, in turn with the first.")
@click.option("--only", default="", metavar="TEXT", help="The rows whose name contains this.")
@click.option(
    "--rounds", type=click.IntRange(1, 20), default=3, show_default=True, help="Each row's median is of so many."
)
@click.option("--seconds", type=Seconds(0.05, 60), default=1.0, show_default=True, help="The most that one run takes.")
@click.option(
    "--requests",
    type=click.IntRange(100, 1_000_000),
    default=100_000,
    show_default=True,
    help="The most that one run sends, and so what it adds to a stream until it is removed.",
)
@click.option("--json", "as_json", is_flag=True, help="The rows as one JSON object at the end.")
def bench(
    url: str | None, beside: str | None, only: str, rounds: int, seconds: float, requests: int, as_json: bool
) -> None:
    """Measure a server: entries written one by one, by 50 clients, in pipelines, idempotently; read; acknowledged.

    It writes nothing but one key that begins with `streamd-bench:`, and removes that, at Ctrl-C, too. `a second` counts
    requests; `CPU us` is what each costs the server; `client` is how busy this program was: near 100 % it is the limit,
    and CPU us says more than the rate.
    """
    chosen = [load for load in LOADS if only.lower() in load.name.lower()]
    if not chosen:
        raise Trouble(f"--only {only}: no row is called so; there are: {'; '.join(load.name for load in LOADS)}")
    with ExitStack() as stack:
        stack.enter_context(_ended_like_ctrl_c())
        servers = [stack.enter_context(Loaded(source)) for source in _sources(stack, url, beside)]
        screen = console()
        if not as_json:
            names = " beside ".join(_name(server) for server in servers)
            bounds = f"at most {seconds:g} s and {requests:,} requests each"
            screen.print(f"{names}: median of {rounds} rounds, {bounds}", soft_wrap=True)
            screen.print(_HEAD + (_BESIDE if len(servers) == 2 else ""), style="dim", soft_wrap=True)
        total = len(chosen) * rounds * len(servers)
        place_of_bar = screen if screen.is_terminal else console(stderr=True)
        bar, log = stack.enter_context(_bar(place_of_bar)), _LogLines(place_of_bar, total)
        task = bar.add_task("", total=total)
        rows = []
        for load in chosen:
            found: list[list[Measured]] = [[] for _ in servers]
            missing = ""
            for number, place in _turns(rounds, len(servers)):
                what = f"{load.name}, round {number + 1} of {rounds}"
                bar.update(task, description=what)
                log.say(what)
                try:
                    found[place].append(servers[place].measure(load, requests, seconds))
                except NotThere as error:
                    missing = f"{_name(servers[place])} does not have it: {error}"
                bar.advance(task)
                log.runs_done += 1
            rows.append(_row(load, found))
            if not as_json:
                screen.print(_line(rows[-1], missing, len(servers)), soft_wrap=True)
        if as_json:
            click.echo(json.dumps({"servers": [_name(server) for server in servers], "rows": rows}, indent=1))


def _turns(rounds: int, servers: int) -> Iterator[tuple[int, int]]:
    """Yield (round, server), in alternating order."""
    for number in range(rounds):
        yield from ((number, place) for place in (range(servers) if number % 2 == 0 else reversed(range(servers))))


def _bar(screen: Console) -> Progress:
    """Return a bar, below the rows where both go to one terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    return Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)


class _LogLines:
    """The bar's text elsewhere than on a terminal: a line a second on the standard error stream.

    Steps shorter than a second show nothing.
    """

    def __init__(self, place_of_bar: Console, runs: int) -> None:
        self.runs_done = 0
        self._runs, self._is_needed = runs, not place_of_bar.is_terminal
        self._next_s = monotonic() + 1

    def say(self, what: str) -> None:
        """Show the step that begins, if it is time."""
        now_s = monotonic()
        if self._is_needed and now_s >= self._next_s:
            self._next_s = now_s + 1
            click.echo(f"bench: {what}: {self.runs_done} of {self._runs} runs", err=True)


def _sources(stack: ExitStack, url: str | None, beside: str | None) -> Iterator[Source]:
    urls = [url or stack.enter_context(OwnServer("streamd")).url]
    if beside:
        urls.append(beside)
    elif url is None and is_installed("redis-server"):
        urls.append(stack.enter_context(OwnServer("redis-server")).url)
    for one in urls:
        source = stack.enter_context(Source(one, "streamd-bench"))
        source.ask("PING")
        yield source


@contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the command like Ctrl-C, so that no server and no key stays behind."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(server: Loaded) -> str:
    info = server.source.info("server")
    if "streamd_version" in info:
        return f"streamd {info['streamd_version']}"
    return f"Redis {info.get('redis_version', '?')}"


def _row(load: Load, found: list[list[Measured]]) -> dict[str, object]:
    row: dict[str, object] = {"name": load.name}
    for prefix, runs in zip(("", "beside_"), found, strict=False):
        for figure in ("rate", "cpu_us", "p50_ms", "p99_ms", "client_busy"):
            if runs:
                row[prefix + figure] = round(median(getattr(run, figure) for run in runs), 3)
    if len(found) == 2 and all(found):
        row["ratio"] = round(median(one.rate / other.rate for one, other in zip(*found, strict=True)), 3)
    return row


def _line(row: dict[str, object], missing: str, servers: int) -> str:
    def cell(name: str, width: int, form: str) -> str:
        return f"{format(row[name], form) if name in row else '-':>{width}}"

    line = f"{row['name']:36}{cell('rate', 12, ',.0f')}{cell('cpu_us', 9, '.1f')}{cell('p50_ms', 9, '.2f')}"
    line += f"{cell('p99_ms', 9, '.2f')}{cell('client_busy', 8, '.0%')}"
    if servers == 2:
        line += f"{cell('ratio', 8, '.2f')}{cell('beside_rate', 12, ',.0f')}{cell('beside_cpu_us', 9, '.1f')}"
    return line + (f"  {missing}" if missing else "")
