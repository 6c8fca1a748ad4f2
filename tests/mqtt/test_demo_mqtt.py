"""The demo of MQTT, without Spark."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from demo.mqtt_report import Outcome, report

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = {"d00": [1.0, 2.0, 3.0]}


def run_of_demo(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "demo.mqtt", "--no-spark", "--devices", "6", "--readings", "200", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.long
def test_each_reading_and_each_command_arrives_once_though_all_on_their_way_are_killed():
    done = run_of_demo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(kill -9)") == 4 + 2 + 1
    assert done.stdout.count("killed the backend (kill -9): it dies in the middle of a pack") == 2
    assert done.stdout.count(": lost 0, duplicated 0, order kept") == 4
    for number in (
        r"(\d+) connections were cut",
        r"connected (\d+) times to gateway 1",
        r"(\d+) times to gateway 2",
        r"the backend recognised (\d+) readings",
        r"(\d+) of their connections were cut",
    ):
        assert int(re.findall(number, done.stdout)[0]) > 0, number


@pytest.mark.long
def test_a_backend_that_recognises_nothing_makes_the_demo_fail():
    done = run_of_demo("--forgetful")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "readings in the log: lost 0, duplicated 0, order kept" in done.stdout
    assert re.search(r"readings that the backend worked on: lost 0, duplicated [1-9]", done.stdout), done.stdout


def command_of(readings: int, average: float) -> str:
    return json.dumps({"readings": readings, "average": average})


def said_of(capsys: pytest.CaptureFixture[str], **found: object) -> tuple[int, list[str]]:
    """Return the report's code, and what it finds wrong in a run that found something else than it should."""
    right = {"stored": PUBLISHED, "worked": PUBLISHED, "commands": {"d00": [command_of(3, 2.0)]}}
    right["received"] = right["commands"]
    code = report(Console(width=120), Outcome(PUBLISHED, {"d00": 1}, **{**right, **found}))  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    return code, [one for one in lines if one[:1].isalpha() and "lost 0, duplicated 0, order kept" not in one]


def test_the_report_of_a_run_in_which_all_is_right(capsys):
    assert said_of(capsys) == (0, [])
    assert said_of(capsys, commands=None, received={}) == (0, [])


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([1.0, 3.0], "lost 1, duplicated 0, order kept"),
        ([1.0, 2.0, 2.0, 3.0], "lost 0, duplicated 1, order kept"),
        ([2.0, 1.0, 3.0], "lost 0, duplicated 0, order broken 1 times"),
    ],
)
def test_the_report_finds_readings_that_are_lost_duplicated_or_out_of_order(capsys, found, verdict):
    assert said_of(capsys, stored={"d00": found}) == (1, [f"readings in the log: {verdict}"])
    assert said_of(capsys, worked={"d00": found}) == (1, [f"readings that the backend worked on: {verdict}"])


def test_the_report_finds_commands_that_are_lost_duplicated_foreign_or_wrong(capsys):
    right, wrong = command_of(3, 2.0), "the average in the command is wrong for 1 devices"
    twice, foreign = {"d00": [right, right]}, {"d00": [right], "d01": [right]}
    got, logged = "commands that devices got: ", "commands in the log: "
    assert said_of(capsys, received={}) == (1, [got + "lost 1, duplicated 0, order kept"])
    assert said_of(capsys, received=twice) == (1, [got + "lost 0, duplicated 1, order kept"])
    assert said_of(capsys, received=foreign) == (1, [got + "lost 0, duplicated 1, order kept"])
    assert said_of(capsys, commands=twice) == (1, [logged + "lost 0, duplicated 1, order kept"])
    for other in (command_of(4, 2.0), command_of(3, 2.5), "no JSON"):
        assert said_of(capsys, commands={"d00": [other]}, received={"d00": [other]}) == (1, [wrong])
    none = [f"{one}lost 1, duplicated 0, order kept" for one in (logged, got)]
    assert said_of(capsys, commands={}, received={}) == (1, [*none, wrong])


def test_the_report_finds_a_backend_that_was_not_killed(capsys):
    assert said_of(capsys, kills_missing=1) == (1, ["the backend was killed too seldom: 1 kills are missing"])
