"""`python -m bench.large_streams`: streams that are larger than memory, beside the same in memory and redis-server.

--quick: small streams and few rounds, in some minutes. --only TEXT: the measurements whose name has this text.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from bench.client import ask, drain, request
from bench.cold import KINDS
from bench.large_work import (
    COLD,
    JOURNAL,
    MS,
    NO_REWRITES,
    STREAM,
    Filled,
    alternate,
    forget,
    info,
    ratio,
    rewrite,
    take_lines,
)
from bench.measure import Sample, timed
from bench.progress import said
from bench.servers import COMPILED, Target, redis_binary
from bench.table import Row, ratio_text, single, write

MB: Final = 1_000_000
BLOCK_BYTES: Final = 32 * 1024
# Without `maxmemory` a server refuses writes when twice `stream-memory` waits for the disk, as after a slow moment.
_NO_LIMIT: Final = ("--maxmemory", "4gb")
# Entries whose columns are some 65 MB, with 16 MB of memory for them, and 32 MB for the RESP of those in memory.
_ENTRIES: Final = {"json": 2_000_000, "five": 900_000, "random": 640_000}
# Redis's rate that each kind has to reach in the pure form.
_OF_REDIS: Final = {"json": 0.5, "five": 0.35, "random": 0.5}


@dataclass
class Size:
    """How much is measured. part: of the entries. begun: the entries of the stream that a start finds."""

    part: float
    rounds: int
    begun: int


FULL, QUICK = Size(1.0, 9, 20_000_000), Size(0.5, 3, 1_000_000)


def forms() -> list[str]:
    """Return the forms of streamd that are here."""
    return ["streamd", *(["compiled"] if COMPILED.is_file() else [])]


def row(name: str, wanted: float, ratios: dict[str, float], at_most: bool = False) -> Row:
    """Return a row of a ratio for each form, and print it."""
    found: Row = {"name": name, "wanted_at_most" if at_most else "wanted": wanted, "ratio": ratios.get("streamd")}
    if "compiled" in ratios:
        found["compiled_ratio"] = ratios["compiled"]
    shown = "  ".join(f"{form} {ratio_text(value)}" for form, value in ratios.items())
    print(f"{name:72}{'<=' if at_most else '>='} {wanted:5.2f}  {shown}", flush=True)
    return found


def figure(name: str, value: float, unit: str, form: str = "streamd") -> Row:
    """Return a row of one figure of a form, and print it."""
    print(f"{name:72}{value:10.3f} {unit}  {form}", flush=True)
    return {**single(name, value, unit), "figures": {form: value}}


# Reads in order.


def sequential(size: Size) -> list[Row]:
    """XRANGE COUNT 100 through streams larger than `stream-memory`, whose blocks the system has forgotten."""
    rows: list[Row] = []
    for kind in KINDS:
        filled = Filled(kind, int(_ENTRIES[kind] * size.part))
        with ExitStack() as stack:
            targets: dict[str, Target] = {}
            for form in forms():
                targets[f"{form} cold"] = stack.enter_context(Target(form, (*COLD, *NO_REWRITES)))
                targets[f"{form} in memory"] = stack.enter_context(Target(form, (*JOURNAL, *NO_REWRITES)))
            if redis_binary("redis-server"):
                targets["redis-server"] = stack.enter_context(Target("redis-server"))
            filled.fill([*targets.values()])
            for name, target in targets.items():
                if name.endswith(" cold"):
                    rewrite(target)
            found = alternate(targets, filled.read_all, size.rounds, f"XRANGE of {kind}")
        for what, suffix in (("rate", ""), ("cpu_us", ", CPU")):
            for other, wanted in (("{} in memory", 0.7), ("redis-server", _OF_REDIS[kind])):
                if other == "redis-server" and other not in found:
                    continue
                over = {form: ratio(found, f"{form} cold", other.format(form), what) for form in forms()}
                name = f"large: XRANGE of 100, {kind}, cold over {other.format('').strip()}{suffix}"
                rows.append(row(name, 1 / wanted if suffix else wanted, over, at_most=bool(suffix)))
        for one, samples in found.items():
            each = median([sample.rate for sample in samples]), median([sample.cpu_us for sample in samples])
            print(f"    {one:24}{each[0]:10,.0f} a second{each[1]:10.1f} us of CPU", flush=True)
    return rows


# Writes while blocks move.


def writing(size: Size) -> list[Row]:
    """Pipelined XADD while blocks move, and the syncs of the journal meanwhile."""
    rows: list[Row] = []
    for kind in ("json", "random"):
        count = int(400_000 * size.part)
        words = [words for number, words in zip(range(count), _endless(kind), strict=False)]
        sent = [
            b"".join([request("XADD", STREAM, "*", *one) for one in words[at : at + 500]])
            for at in range(0, count, 500)
        ]

        def write(target: Target, sent: list[bytes] = sent, count: int = count) -> Sample:
            with target.connect() as sock:

                def send() -> None:
                    for one in sent:
                        sock.sendall(one)
                        take_lines(sock, 2 * 500)

                return timed(target, count, send)

        with ExitStack() as stack:
            targets = {}
            for form in forms():
                options = (*JOURNAL, *NO_REWRITES)
                targets[f"{form} moves"] = stack.enter_context(
                    Target(form, (*options, *_NO_LIMIT, "--stream-memory", "32mb"))
                )
                targets[f"{form} without"] = stack.enter_context(Target(form, options))
            found = alternate(targets, write, size.rounds, f"XADD of {kind}")
            moved = int(info(targets["streamd moves"])["cold_bytes"])
        for what in ("rate", "cpu_us"):
            over = {form: ratio(found, f"{form} moves", f"{form} without", what) for form in forms()}
            suffix = "" if what == "rate" else ", CPU"
            rows.append(
                row(f"large: XADD of {kind} while blocks move{suffix}", 0.9 if not suffix else 1.11, over, bool(suffix))
            )
        print(f"    {moved / MB:.0f} MB were moved", flush=True)
    return rows + syncs(size)


def _endless(kind: str) -> "list[list[bytes]]":
    chance = random.Random(3)
    return [KINDS[kind](number, chance) for number in range(400_000)]


def syncs(size: Size) -> list[Row]:
    """The 99th percentile of the journal's syncs while blocks move, over that without."""
    rows = []
    seconds = 60 if size is FULL else 12
    chance = random.Random(4)
    sent = b"".join([request("XADD", STREAM, "*", *KINDS["random"](at, chance)) for at in range(200)])
    for policy in ("always", "everysec"):
        p99 = {}
        for name, memory in (("without", "0"), ("moves", "32mb"), ("without again", "0")):
            with tempfile.NamedTemporaryFile("r") as notes, _environment(BENCH_SYNCS=notes.name):
                options = (
                    "--appendonly",
                    "yes",
                    "--appendfsync",
                    policy,
                    *NO_REWRITES,
                    *_NO_LIMIT,
                    "--stream-memory",
                    memory,
                )
                with said(f"syncs, {policy}, {name}"), Target("streamd", options, module="bench.slow_server") as target:
                    until = time.monotonic() + seconds
                    with target.connect() as sock:
                        while time.monotonic() < until:
                            sock.sendall(sent)
                            take_lines(sock, 400)
                found = sorted(float(line) for line in notes.read().split())
            p99[name] = found[len(found) * 99 // 100]
            shown = f"p50 {found[len(found) // 2] * 1e3:.1f}, p99 {p99[name] * 1e3:.1f} ms"
            print(f"    syncs, {policy}, {name}: {len(found):,}, {shown}", flush=True)
        without = (p99["without"] + p99["without again"]) / 2
        name = f"large: {policy}: p99 of the journal's syncs while blocks move"
        rows.append(row(name, 2, {"streamd": p99["moves"] / without}, at_most=True))
    return rows


class _environment:
    """Variables for processes that are started within."""

    def __init__(self, **variables: str) -> None:
        self.variables = variables

    def __enter__(self) -> None:
        os.environ.update(self.variables)

    def __exit__(self, *_: object) -> None:
        for name in self.variables:
            del os.environ[name]


# Reads here and there.


def here_and_there(size: Size) -> list[Row]:
    """A cold XRANGE of 10, beside an uncached read of as much as a block."""
    ratios = {}
    filled = Filled("random", int(1_000_000 * size.part))
    for form in forms():
        with Target(form, (*COLD, *NO_REWRITES)) as target:
            filled.fill([target])
            rewrite(target)
            chance = random.Random(5)
            times: dict[str, list[float]] = {"asked": [], "read": []}
            paths = sorted(target.directory.rglob("*.seg"), key=lambda path: path.stat().st_size)
            with target.connect() as sock, paths[-1].open("rb", buffering=0) as file:
                blocks = paths[-1].stat().st_size // BLOCK_BYTES
                for _ in range(200 if size is FULL else 100):
                    forget(target)
                    sent = request("XRANGE", STREAM, MS + chance.randrange(filled.entries - 10), "+", "COUNT", 10)
                    began = time.perf_counter()
                    sock.sendall(sent)
                    take_lines(sock, 1 + 10 * (1 + 2 + 1 + 4))
                    times["asked"].append(time.perf_counter() - began)
                    forget(target)
                    at = chance.randrange(blocks) * BLOCK_BYTES
                    began = time.perf_counter()
                    os.pread(file.fileno(), BLOCK_BYTES, at)
                    times["read"].append(time.perf_counter() - began)
        asked, read = median(times["asked"]), median(times["read"])
        print(f"    {form}: XRANGE {asked * 1e6:.0f} us, read of a block {read * 1e6:.0f} us", flush=True)
        ratios[form] = asked / read
    return [row("large: cold XRANGE of 10 over a read of its block, medians", 3, ratios, at_most=True)]


# Others meanwhile.


def pings(size: Size) -> list[Row]:
    """The longest CPU of the server's loop while a PING waits, while a million entries come from a slow disk."""
    entries = int(1_000_000 * size.part)
    filled = Filled("json", entries)
    with (
        _environment(BENCH_READ_MS="10"),
        Target("streamd", (*COLD, *NO_REWRITES), module="bench.slow_server") as target,
    ):
        filled.fill([target])
        rewrite(target)
        longest_ms, waits = 0.0, []
        stat = Path(f"/proc/{target.process.pid}/task/{target.process.pid}/schedstat")
        total = sum(filled.reply_bytes) - 6 * len(filled.reply_bytes) + len(f"*{entries}\r\n")
        with target.connect() as reader, target.connect() as pinger:
            reader.sendall(request("XRANGE", STREAM, "-", "+"))
            thread = threading.Thread(target=drain, args=(reader, total))
            began_s = time.monotonic()
            thread.start()
            with said("PING while entries come from a slow disk"):
                while thread.is_alive():
                    before, sent_s = int(stat.read_text().split()[0]), time.perf_counter()
                    pinger.sendall(b"PING\r\n")
                    pinger.recv(16)
                    waits.append(time.perf_counter() - sent_s)
                    longest_ms = max(longest_ms, (int(stat.read_text().split()[0]) - before) / 1e6)
                    time.sleep(0.002)
            thread.join()
            took_s = time.monotonic() - began_s
        waits.sort()
    shown = f"p50 {waits[len(waits) // 2] * 1e3:.1f}, p99 {waits[len(waits) * 99 // 100] * 1e3:.1f} ms"
    print(f"    {len(waits):,} PINGs in {took_s:.0f} s, {shown}, longest {waits[-1] * 1e3:.1f} ms (wall)", flush=True)
    name = f"large: {entries:,} cold entries, 10 ms more a read: longest CPU while a PING waits"
    return [figure(name, longest_ms, "ms, wanted 20")]


# The start.


def starting(size: Size) -> list[Row]:
    """A start that reads indexes, and memory, rewrite and disk then."""
    entries = size.begun
    wanted_bytes = entries * 130 + 500 * MB
    while entries > 1_000_000 and shutil.disk_usage(tempfile.gettempdir()).free < 1.5 * wanted_bytes:
        entries //= 2
        wanted_bytes = entries * 130 + 500 * MB
    rows: list[Row] = []
    name = f"large: {entries:,} entries of 100 bytes"
    filled = Filled("random", entries)
    form = forms()[-1]
    with Target(form, JOURNAL) as empty:
        empty_bytes = empty.anonymous_bytes()
    with Target(form, (*JOURNAL, "--stream-memory", "1gb" if size is FULL else "64mb")) as target:
        filled.fill([target])

        def note(what: str, value: float, unit: str) -> None:
            rows.append(figure(f"{name}: {what}", value, unit, form))

        note("BGREWRITEAOF", rewrite(target), "s, wanted 1")
        seg_bytes = int(info(target)["cold_bytes"])
        disk_bytes = sum(path.stat().st_size for path in target.directory.rglob("*") if path.is_file())
        columns_bytes = entries * 102
        note("segment files over columns", seg_bytes / columns_bytes, "x, wanted 1.1")
        note("other bytes on the disk", (disk_bytes - seg_bytes) / MB, "MB, wanted 128")
        forget(target)
        target.restart()
        note("start to first PONG", target.start_s, "s")
        began_s = time.monotonic()
        with said("loading"):
            while info(target)["loading"] != "0":
                time.sleep(0.01)
        note("ready", target.start_s + time.monotonic() - began_s, "s, wanted 3")
        begun_bytes = target.anonymous_bytes()
        note("memory then", begun_bytes / MB, "MB")
        each = (begun_bytes - empty_bytes) / MB / (seg_bytes / 1e9)
        note("memory for each GB of entries", each, "MB, wanted 2 (with the tail)")
        total = sum(filled.reply_bytes) - 6 * len(filled.reply_bytes) + len(f"*{entries}\r\n")
        began_s = time.monotonic()
        with said("reading all"), target.connect() as sock:
            sock.sendall(request("XRANGE", STREAM, "-", "+"))
            drain(sock, total)
        took_s = time.monotonic() - began_s
        note("one XRANGE of all", entries / took_s / 1e6, "million entries a second")
        note("memory after it", target.anonymous_bytes() / MB, "MB, wanted 1500")
        with target.connect() as sock:
            ask(sock, "XADD", STREAM, "*", "f", "v")
        note("BGREWRITEAOF after a start", rewrite(target), "s, wanted 1")
    return rows


# Spark.


def spark(size: Size) -> list[Row]:
    """Rows that Spark counts of a cold stream, over one in memory."""
    from bench.spark import session

    filled = Filled("json", int(_ENTRIES["json"] * size.part))
    quiet = session()
    with ExitStack() as stack:
        form = forms()[-1]
        targets = {
            "cold": stack.enter_context(Target(form, (*COLD, *NO_REWRITES))),
            "in memory": stack.enter_context(Target(form, (*JOURNAL, *NO_REWRITES))),
        }
        filled.fill([*targets.values()])
        rewrite(targets["cold"])

        def count(target: Target) -> Sample:
            rows = quiet.read.format("streamd").schema("_id string, m string").option("stream", STREAM)
            rows = rows.option("url", f"redis://127.0.0.1:{target.port}/0")

            def read() -> None:
                from pyspark.sql import functions as f

                found = rows.load().agg(f.count("*"), f.sum(f.length("m"))).collect()[0]
                assert found[0] == filled.entries, found

            return timed(target, filled.entries, read)

        count(targets["cold"])
        found = alternate(targets, count, max(3, size.rounds // 2), "Spark")
    quiet.stop()
    for one, samples in found.items():
        print(f"    {one}: {median([sample.rate for sample in samples]):,.0f} rows a second", flush=True)
    return [row("large: Spark reads a cold stream, over one in memory", 0.9, {form: ratio(found, "cold", "in memory")})]


MEASURES: tuple[Callable[[Size], list[Row]], ...] = (sequential, writing, here_and_there, pings, starting, spark)


def run_large_streams(only: str, size: Size = FULL) -> list[Row]:
    """Run the measurements whose name, `large streams` and their own, has this text."""
    rows: list[Row] = []
    for measure in MEASURES:
        if only.lower() in f"large streams {measure.__name__.replace('_', ' ')}":
            rows += measure(size)
    return rows


def main() -> int:
    """Print the rows; return the exit code: 0 also when a target was missed, which the rows show."""
    parser = argparse.ArgumentParser(prog="python -m bench.large_streams", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small streams, few rounds")
    parser.add_argument("--only", default="", metavar="TEXT", help="the measurements whose name has this text")
    options = parser.parse_args()
    started = time.monotonic()
    rows = run_large_streams(options.only, QUICK if options.quick else FULL)
    write(rows, "large-streams", bool(options.only) or options.quick, started)
    return 0


if __name__ == "__main__":
    sys.exit(main())
