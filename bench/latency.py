"""The delay of other clients during one client's large request: the longest PING, beside redis-server's."""

import argparse
import multiprocessing
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

from bench.client import Replies, ask, request
from bench.latency_rows import JOURNAL, Row, background_rows, rows
from bench.measure import Result, alternate, redis_benchmark
from bench.servers import Target, forms, redis_binary
from streamd.base.progress import ProgressLine

END = b"the end of the reply"
PIPELINE = 2_000
ROUNDS = 5
DOCUMENT = Path("bench/NOTES.md")
BEGIN_MARK, END_MARK = "<!-- make latency writes from here -->", "<!-- to here -->"


@dataclass(frozen=True, slots=True)
class Waited:
    """PINGs during a row: the longest, the longest computing of the server during one, their 99th percentile; the time
    that the work took, and a remark.
    """

    longest_ms: float
    computed_ms: float
    p99_ms: float
    took_ms: float
    note: str = ""


FIGURES = ("longest_ms", "computed_ms", "p99_ms", "took_ms")


def measure(target: Target, row: Row) -> Waited:
    """Do the work of a row, and return the times of another client's PINGs meanwhile."""
    sock = target.connect()
    source = iter(row.prepare())
    while batch := list(islice(source, PIPELINE)):
        sock.sendall(b"".join(batch))
        replies = Replies(sock)
        for _ in batch:
            replies.reply()
    if row.make_ready is not None:
        row.make_ready(target)
    pieces = list(row.send())
    here, there = multiprocessing.Pipe()
    # (A process of its own: a thread would wait for the one that reads the reply.)
    pinger = multiprocessing.get_context("fork").Process(target=ping, args=(target, there))
    pinger.start()
    here.recv()
    started = time.perf_counter()
    note = ""
    if row.wait is not None:
        note = row.wait(target)
    else:
        reader = threading.Thread(target=_drain, args=(sock,))
        reader.start()
        for piece in pieces:
            sock.sendall(piece)
        sock.sendall(request("ECHO", END))
        reader.join()
    took_ms = (time.perf_counter() - started) * 1e3
    time.sleep(0.5)  # what is done behind the reply holds up as well
    here.send(None)
    longest_ms, computed_ms, p99_ms = here.recv()
    pinger.join()
    sock.close()
    return Waited(longest_ms, computed_ms, p99_ms, took_ms, note)


def ping(target: Target, stop: Connection) -> None:
    """Send PINGs until told to stop; reconnect to a server that is started again meanwhile."""
    sock, process = _connect(target)
    computed_ns = _computed_ns(process)
    stop.send(None)
    waits: list[float] = []
    most_ns = 0
    while not stop.poll():
        sent = time.perf_counter()
        try:
            sock.sendall(b"PING\r\n")
            if not sock.recv(64):
                raise OSError
        except OSError:
            try:
                sock, process = _connect(target)
            except (OSError, SystemExit):
                time.sleep(0.005)
            computed_ns = _computed_ns(process)
            continue
        waits.append(time.perf_counter() - sent)
        now_ns = _computed_ns(process)
        most_ns, computed_ns = max(most_ns, now_ns - computed_ns), now_ns
        if len(waits) % 64 == 0:
            time.sleep(0.001)  # that others find some of the processor
    waits.sort()
    stop.send((waits[-1] * 1e3, most_ns / 1e6, waits[len(waits) * 99 // 100] * 1e3))


def _computed_ns(process: int) -> int:
    """Return for how long the thread that executes commands has had a processor."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _connect(target: Target) -> tuple[socket.socket, int]:
    """Return a connection, and the process that it leads to."""
    sock = target.connect()
    text = bytes(ask(sock, "INFO", "server")).decode()  # type: ignore[call-overload]
    return sock, int(text.split("process_id:", 1)[1].splitlines()[0])


def _drain(sock) -> None:  # type: ignore[no-untyped-def]
    last = b""
    while not last.endswith(END + b"\r\n"):
        data = sock.recv(1 << 20)
        if not data:
            raise SystemExit("bench: the server closed the connection")
        last = (last + data)[-64:] if len(data) < 64 else data[-64:]


Found = dict[str, dict[str, Waited]]


def _measure_rows(kind: str, target: Target, some: Sequence[Row], only: str, found: Found) -> None:
    line = ProgressLine("latency")
    for row in some:
        if kind not in row.kinds:
            continue
        times, runs = row.times if only in row.name.lower() else 1, []
        for number in range(times):
            line.say(f"{kind}: {row.name}, {number + 1} of {times}")  # not by a thread: measure() forks
            runs.append(measure(target, row))
        line.end()
        columns = ([getattr(run, name) for run in runs] for name in FIGURES)
        result = Waited(*map(statistics.median, columns), runs[-1].note)
        found.setdefault(row.name, {})[kind] = result
        print(
            f"{kind}: {row.name}: {result.longest_ms:.0f} ms, computing {result.computed_ms:.0f}, p99 "
            f"{result.p99_ms:.1f}, of {result.took_ms:.0f}{result.note and '; '}{result.note}",
            file=sys.stderr,
        )


def _table(size: int, every: Sequence[Row], found: Found) -> list[str]:
    lines = [
        f"| one client does, with {size:,} entries, keys or fields | others' PING, at most | of that computed "
        "| redis-server's | of that computed | wanted |",
        "|---|---|---|---|---|---|",
    ]
    for row in every:
        if row.name not in found:
            continue
        ours, theirs = found[row.name]["streamd"], found[row.name].get("redis-server")
        wanted = "–" if row.wanted_ms is None else f"{row.wanted_ms:.0f} ms"
        if row.wanted_ms is None and theirs is not None:
            wanted = f"{theirs.longest_ms:.0f} ms"
        other = "– | –" if theirs is None else f"{theirs.longest_ms:.0f} ms | {theirs.computed_ms:.0f} ms"
        lines.append(f"| {row.name} | {ours.longest_ms:.0f} ms | {ours.computed_ms:.0f} ms | {other} | {wanted} |")
    return lines


def _notes(every: Sequence[Row], found: Found) -> list[str]:
    """Return remarks on rows, a line for each server."""
    return [
        f"* {row.name.strip('()')}, {kind}: {waited.note}; the 99th percentile of PING was {waited.p99_ms:.1f} ms."
        for row in every
        for kind, waited in found.get(row.name, {}).items()
        if waited.note
    ]


def _slowest(kinds: Sequence[str], rounds: int, journal: str, options: tuple[str, ...] = ()) -> list[str]:
    """Return a line for each form of streamd on XADD's slowest in a thousand, at 50 clients."""
    chosen = [kind for kind in forms() if kind in kinds or (kind == "compiled" and "streamd" in kinds)]
    targets = [Target(kind, options) for kind in chosen]
    try:
        words = ["XADD", "s", "MAXLEN", "~", "100000", "*", "f", "v" * 64]
        result = alternate("XADD", targets, lambda target: redis_benchmark(target, 200_000, 50, 1, words), rounds)
    finally:
        for target in targets:
            target.stop()
    return [_slowest_line(result, kind, journal) for kind in chosen if kind != "redis-server"]


def _slowest_line(result: Result, kind: str, journal: str) -> str:
    form = "compiled" if kind == "compiled" else "pure"
    slowest_ms, ratio = result.median(kind, "p999_ms"), result.ratio("p999_ms", kind)
    text = f"* {journal}, {form}: one in a thousand XADDs of 50 clients takes {slowest_ms:.2f} ms or longer"
    return text + (f", {ratio:.2f} times as long as with redis-server (wanted: 1.5)." if ratio is not None else ".")


def main() -> int:
    """Measure, print a table in Markdown, and write it into the document if all of it was measured."""
    parser = argparse.ArgumentParser(prog="python -m bench.latency", description=__doc__)
    parser.add_argument("--size", type=int, default=1_000_000, help="entries, keys and fields")
    parser.add_argument("--only", default="", help="measure the rows whose name contains this text; all are prepared")
    parser.add_argument("--kind", default="", help="streamd or redis-server alone")
    arguments = parser.parse_args()
    kinds = [kind for kind in ("streamd", "redis-server") if arguments.kind in ("", kind)]
    if not redis_binary("redis-server"):
        kinds = ["streamd"]
    only = arguments.only.lower()
    found: Found = {}
    for kind in kinds:
        with Target(kind) as target:
            _measure_rows(kind, target, rows(arguments.size), only, found)
        options: tuple[str, ...] = ()
        target_of_row: Target | None = None
        for row in background_rows(arguments.size):
            if only not in row.name.lower() or kind not in row.kinds:
                continue
            if target_of_row is None or row.options != options or not options:
                if target_of_row is not None:
                    target_of_row.stop()
                target_of_row, options = Target(kind, row.options), row.options
            _measure_rows(kind, target_of_row, [row], only, found)
        if target_of_row is not None:
            target_of_row.stop()
    every = [*rows(arguments.size), *background_rows(arguments.size)]
    lines = _table(arguments.size, every, found)
    lines += ["", *_notes(every, found)]
    if redis_binary("redis-benchmark") and only in "xadd of 50 clients":
        lines += _slowest(kinds, ROUNDS, "Without a journal")
        lines += _slowest(kinds, ROUNDS, "With one, synced every second", JOURNAL)
    print("\n".join(lines))
    if len(kinds) == 2 and not only:
        text = DOCUMENT.read_text()
        before, behind = text.split(BEGIN_MARK)[0], text.split(END_MARK)[1]
        DOCUMENT.write_text("\n".join((before + BEGIN_MARK, "", *lines, "", END_MARK)) + behind)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
