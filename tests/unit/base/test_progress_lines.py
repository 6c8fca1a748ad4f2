"""What takes long says how far it has come: in one line on a terminal, in a line a second in a log."""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import redis
from rich.console import Console

from bench import long
from bench import progress as bench_progress
from bench.measure import Sample, alternate
from bench.small_memory import Measure
from demo.show import Display
from streamd import cli, serving
from streamd.backup import cli as backup_cli
from streamd.base.filesystem import FileSystem
from streamd.base.progress import ProgressLine
from streamd.checking import data_directory
from streamd.durability import check
from tests.crash.restartable import DIRECTORY, Restartable
from tests.integration.process import ServerProcess


class Errors(io.StringIO):
    """The standard error stream, of a terminal or of a file."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Seconds:
    """A clock for a line."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def errors_of(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> Errors:
    """Put a terminal, or a file, in the place of the standard error stream."""
    errors = Errors(is_terminal)
    monkeypatch.setattr(sys, "stderr", errors)
    return errors


WHERE = pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "log"])


@WHERE
def test_a_terminal_has_one_line_and_a_log_one_a_second(monkeypatch, is_terminal):
    errors = errors_of(monkeypatch, is_terminal)
    seconds = Seconds()
    line = ProgressLine("check", seconds)
    for quarter in range(13):
        seconds.now_s = 100 + quarter / 4
        line.show(quarter, 100)
    line.end()
    said = errors.getvalue()
    if errors.isatty():
        assert said.count("\r\033[K") == 13
        assert said.endswith("check: 12 % of 100 bytes\r\033[K")
        assert "\n" not in said
    else:
        assert said == "check: 4 % of 100 bytes\ncheck: 8 % of 100 bytes\ncheck: 12 % of 100 bytes\n"


@WHERE
def test_of_what_is_done_soon_nothing_is_said(monkeypatch, is_terminal):
    errors = errors_of(monkeypatch, is_terminal)
    line = ProgressLine("check", Seconds())
    for done in range(100):
        line.show(done, 100)
    line.end()
    assert errors.getvalue() == ""


def test_a_line_that_nobody_can_read_stops_no_work(monkeypatch):
    class Closed(Errors):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Closed(False))
    seconds = Seconds()
    line = ProgressLine("backup", seconds)
    seconds.now_s += 5
    line.show(1, 2)
    line.end()


def test_a_check_says_how_much_of_the_whole_journal_it_has_read():
    server = Restartable()
    for number in range(300):
        server.send("SET", f"k{number}", "v" * 1_000)
    server.rewrite()
    server.send("SET", "k", "v")
    server.cron()
    seen: list[tuple[int, int]] = []
    report = check.examine(
        server.disk, f"{DIRECTORY}/appendonlydir", progress=lambda done, total: seen.append((done, total))
    )
    total = sum(file.size for file in report.files)
    assert len(report.files) == 2
    assert seen == sorted(seen)
    assert {one[1] for one in seen} == {total}
    assert seen[-1][0] == total


@WHERE
def test_streamd_check_and_restore_say_so(tmp_path, monkeypatch, is_terminal):
    errors = errors_of(monkeypatch, is_terminal)
    with ServerProcess(tmp_path / "data") as server:
        redis.Redis(port=server.port).set("k", "v")
    seconds = iter(range(0, 10_000, 7))
    monkeypatch.setattr(data_directory, "ProgressLine", lambda what: ProgressLine(what, lambda: next(seconds)))
    monkeypatch.setattr(backup_cli, "ProgressLine", data_directory.ProgressLine)
    assert cli.main(["check", str(tmp_path / "data")]) == 0
    assert "check: 100 % of " in errors.getvalue()
    assert cli.main(["check", str(tmp_path / "data"), "--export", str(tmp_path / "out")]) == 0
    assert "check: export: 100 % of " in errors.getvalue()
    assert cli.main(["restore", str(tmp_path / "data"), str(tmp_path / "copy")]) == 0
    assert "restore: examining the journal, 100 %" in errors.getvalue()
    assert "restore: 100 % of " in errors.getvalue()
    assert check.examine(FileSystem(), str(tmp_path / "copy" / "appendonlydir")).is_whole


def test_a_rewrite_that_takes_long_says_so_once_a_second(caplog):
    caplog.set_level(logging.INFO, "streamd")
    server = Restartable(auto_aof_rewrite_percentage=0)
    for number in range(200):
        server.send("SET", f"k{number}", "v")
    caplog.clear()
    server.persistence.start_rewrite()
    rewrite = server.persistence.journal.rewrite
    step = rewrite.step

    def slow_step(is_over):
        server.clock.advance(300)
        step(iter([False, False, True] * 1_000).__next__)

    rewrite.step = slow_step
    while server.persistence.is_rewriting:
        server.cron()
    said = [record.getMessage() for record in caplog.records if record.event == "journal-rewriting"]
    took_s = server.persistence.rewriting.last_took_s
    assert 2 <= took_s - 1 <= len(said) <= took_s
    assert said[0].endswith("of 200 keys, 0 MB")
    assert len(set(said)) == len(said)


def test_loading_that_takes_long_says_so_once_a_second(caplog, monkeypatch):
    errors_of(monkeypatch, is_terminal=True)
    caplog.set_level(logging.INFO, "streamd")
    server = Restartable()
    for number in range(5):
        server.send("SET", f"k{number}", "v")
    persistence = server.restart().persistence
    line = serving._LoadingLine(log_is_shown=False)
    persistence._load_began_ms = server.clock.monotonic_ms()
    for _ in range(25):
        line.show(persistence)
        persistence._state.clock.advance(100)
    line.end()
    said = [record.getMessage() for record in caplog.records if record.event == "journal-loading"]
    assert len(said) == 2
    assert said[0].startswith("loading the journal: 100 % of ")


def test_an_export_says_how_much_of_the_whole_journal_it_has_read():
    server = Restartable()
    for number in range(300):
        server.send("SET", f"k{number}", "v" * 1_000)
    server.rewrite()
    server.send("SET", "k", "v")
    server.cron()
    journal = f"{DIRECTORY}/appendonlydir"
    total = sum(file.size for file in check.examine(server.disk, journal).files)
    seen: list[tuple[int, int]] = []
    check.export(server.disk, journal, "out", progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert {one[1] for one in seen} == {total}
    assert seen[-1][0] == total


def test_a_rewrite_of_one_large_stream_says_how_much_is_written(caplog):
    caplog.set_level(logging.INFO, "streamd")
    server = Restartable(auto_aof_rewrite_percentage=0)
    for number in range(3_000):
        server.send("XADD", "s", "*", "f", f"{number:01000}")
    caplog.clear()
    server.persistence.start_rewrite()
    rewrite = server.persistence.journal.rewrite
    step = rewrite.step

    def slow_step(is_over):
        server.clock.advance(1_000)
        step(lambda: True)

    rewrite.step = slow_step
    while server.persistence.is_rewriting:
        server.cron()
    said = [record.getMessage() for record in caplog.records if record.event == "journal-rewriting"]
    assert said[0] == "rewriting the journal: 0 of 1 keys, 0 MB"
    assert "rewriting the journal: 0 of 1 keys, 1 MB" in said
    assert len(set(said)) > 2


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "log"])
def test_the_demo_shows_a_bar_on_a_terminal_and_says_a_line_a_second_in_a_log(monkeypatch, is_terminal):
    seconds = Seconds()
    monkeypatch.setattr("demo.show.time.monotonic", seconds)
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=120)
    with Display(console, 1_000) as display:
        for quarter in range(13):
            seconds.now_s = 100 + quarter / 4
            display.update(quarter * 10, quarter, 2, 1)
    said = [line for line in out.getvalue().splitlines() if line.endswith("cut connections 2")]
    assert said == ([] if is_terminal else [f"  {n}.0 s  orders {40 * n} of 1,000, enriched {4 * n}, cut connections 2"
                                            for n in (1, 2, 3)])  # fmt: skip
    assert ("120/1000" in out.getvalue()) == is_terminal


def test_in_a_file_a_line_that_has_not_changed_is_not_repeated(monkeypatch):
    errors, seconds, out = errors_of(monkeypatch, False), Seconds(), io.StringIO()
    line = ProgressLine("demo", seconds)
    monkeypatch.setattr("demo.show.time.monotonic", seconds)
    with Display(Console(file=out, width=120), 1_000) as display:
        for text in ("1 of 2", "1 of 2", "2 of 2", "2 of 2", "1 of 2"):
            seconds.now_s += 2
            line.say(text)
            display.update(int(text[0]), 0, 0, 0)
    assert errors.getvalue().splitlines() == ["demo: 1 of 2", "demo: 2 of 2", "demo: 1 of 2"]
    assert out.getvalue().count("orders ") == 3


@WHERE
def test_a_benchmark_says_what_it_does_for_how_long_while_it_does_it(monkeypatch, is_terminal):
    errors = errors_of(monkeypatch, is_terminal)
    seconds = Seconds()

    def work(target: object) -> Sample:
        before = len(errors.getvalue())
        for _ in range(3):
            seconds.now_s += 1.25
            while len(errors.getvalue()) == before:  # it is said by another thread
                pass
            before = len(errors.getvalue())
        return Sample(1.0, 1.0)

    monkeypatch.setattr(bench_progress, "TICK_S", 0.001)
    monkeypatch.setattr(bench_progress, "ProgressLine", lambda what: ProgressLine(what, seconds))
    monkeypatch.setattr(bench_progress, "monotonic", seconds)
    target = SimpleNamespace(kind="streamd")
    result = alternate("XADD, 1 client", [target], work, 2)
    assert len(result.samples["streamd"]) == 2
    said = errors.getvalue()
    assert "bench: XADD, 1 client, round 1 of 2 on streamd, 1 s" in said
    assert "bench: XADD, 1 client, round 2 of 2 on streamd, 4 s" in said
    assert said.endswith("\r\033[K" if is_terminal else "\n")


def test_each_kind_of_benchmark_says_what_it_does(monkeypatch):
    said: list[str] = []

    @contextmanager
    def noted(what: str) -> Iterator[None]:
        said.append(what)
        yield

    monkeypatch.setattr(long, "said", noted)
    monkeypatch.setattr(long, "Target", lambda *words: nullcontext(None))
    monkeypatch.setattr(long, "MEMORY", [("entries", lambda target: 1.0, 1.0)])
    monkeypatch.setattr(long, "SESSION_MEMORY", [])
    monkeypatch.setattr(long, "SMALL", [Measure("producer", lambda target: 1.0, "1 B")])

    def deletion(target: object) -> list[tuple[str, float]]:
        return [("DEL of the stream", 1.0)]

    def idle(*words: object) -> list[tuple[str, float, str]]:
        return [("idle CPU", 1.0, "%")]

    monkeypatch.setattr(long, "LARGE", [deletion])
    monkeypatch.setattr(long, "SPECIAL", [idle])
    monkeypatch.setattr(long, "TOPICS", [idle])
    kinds = ["streamd", "redis-server"]
    for run in (long.run_memory, long.run_small_memory, long.run_large):
        assert len(run(kinds, "")) == 1
    assert len(long.run_special("") + long.run_topics("", 1)) == 2
    assert said == [
        *("memory: entries on streamd", "memory: entries on redis-server"),
        *("memory: producer on streamd", "memory: producer on redis-server"),
        *("deletion on streamd", "deletion on redis-server", "idle", "topics: idle"),
    ]
