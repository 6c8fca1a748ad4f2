"""The demo of sessions, in its short form."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from demo import sessions
from demo.sessions import SessionsDemo
from streamd.base.progress import ProgressLine


def test_every_message_arrives_once_and_in_order_though_broker_and_server_are_killed():
    command = [sys.executable, "-m", "demo.sessions", "--devices", "40", "--messages", "12", "--limit", "12"]
    root = Path(__file__).resolve().parents[2]
    # The option wins over the variable, with which messages would be lost.
    environment = {**os.environ, "STREAMD_SESSIONS_LIMIT": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(kill -9)") == 4
    assert "packet IDs began again at 1 on 40 devices" in done.stdout
    assert "lost 0, twice 0, order kept, left behind 0" in done.stdout
    assert re.fullmatch(r"(demo: stored [\d,]+ of 480, delivered [\d,]+\n)*", done.stderr)


def test_a_run_that_takes_long_says_each_second_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    seconds = iter([0.0, 0.4, 1.1, 1.5, 2.2])
    demo = SessionsDemo(tmp_path, Console(), 4, 300)
    demo.progress = ProgressLine("demo", lambda: next(seconds))
    demo.server = demo.broker = SimpleNamespace(check=lambda: None)  # type: ignore[assignment]

    async def pause_often() -> None:
        everything = asyncio.get_running_loop().create_future()
        everything.set_result([])
        for demo.stored in (5, 1_000, 1_100, 1_200):
            await demo.pause(everything)

    asyncio.run(pause_often())
    assert capsys.readouterr().err.splitlines() == [
        "demo: stored 1,000 of 1,200, delivered 0",
        "demo: stored 1,200 of 1,200, delivered 0",
    ]


@pytest.mark.parametrize(
    ("words", "variable", "line"),
    [
        (["--limit", "65536"], None, "--limit 65536: give a number, 1 to 65535"),
        (["--limit", "many"], "500", "--limit many: give a number, 1 to 65535"),
        (["--limit", ""], None, "--limit '': give a number, 1 to 65535"),
        ([], "70000", "STREAMD_SESSIONS_LIMIT=70000: give a number, 1 to 65535"),
        (["--limit", "99"], None, "--limit 99: the demo keeps 100 messages for each device; give no lower limit"),
        ([], "99", "STREAMD_SESSIONS_LIMIT=99: the demo keeps 100 messages for each device; give no lower limit"),
    ],
)
def test_a_limit_that_cannot_be_is_refused_with_a_line_that_names_it(words, variable, line, monkeypatch, capsys):
    monkeypatch.delenv("STREAMD_SESSIONS_LIMIT", raising=False)
    if variable is not None:
        monkeypatch.setenv("STREAMD_SESSIONS_LIMIT", variable)
    monkeypatch.setattr(sys, "argv", ["demo.sessions", *words])
    assert sessions.main() == 2
    assert capsys.readouterr() == ("", f"demo.sessions: {line}\n")


def test_ctrl_c_ends_all_that_was_started_and_a_second_one_does_not_disturb_that(tmp_path: Path):
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "demo.sessions", "--keep"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    demo = subprocess.Popen(command, cwd=root, env=environment, text=True, **pipes)
    try:
        assert demo.stdout is not None
        assert any("devices are offline" in line for line in demo.stdout)
        demo.send_signal(signal.SIGINT)
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=60)[0]
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 130
    assert "everything that was started has ended" in said
    assert "Traceback" not in said
    running = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert [words for words in running if str(tmp_path).encode() in words] == []
