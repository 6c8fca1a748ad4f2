"""The demo of MQTT, without Spark."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from demo.mqtt import MqttDemo, report

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_no_reading_is_lost_or_stored_twice_though_connections_are_cut_and_gateway_and_server_killed():
    command = [sys.executable, "-m", "demo.mqtt", "--no-spark", "--devices", "6", "--readings", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("(kill -9)") == 4
    assert int(re.findall(r"(\d+) connections were cut", done.stdout)[0]) > 0
    assert "lost 0, duplicated 0, order kept" in done.stdout


@pytest.mark.parametrize(
    ("stored", "spark", "verdict"),
    [
        ([1.0, 2.0, 3.0], [3, 2.0], "lost 0, duplicated 0, order kept"),
        ([1.0, 3.0], [3, 2.0], "lost 1, duplicated 0, order kept"),
        ([1.0, 2.0, 2.0, 3.0], [3, 2.0], "lost 0, duplicated 1, order kept"),
        ([2.0, 1.0, 3.0], [3, 2.0], "lost 0, duplicated 0, order broken 1 times"),
        ([1.0, 2.0, 3.0], [4, 2.0], "Spark's average differs for 1 devices"),
        ([1.0, 2.0, 3.0], [3, 2.5], "Spark's average differs for 1 devices"),
    ],
)
def test_the_checker_finds_what_it_is_there_to_find(tmp_path, capsys, stored, spark, verdict):
    demo = MqttDemo(tmp_path, Console(), devices=1, readings=3)
    demo.readings = {"d00": [1.0, 2.0, 3.0]}
    demo.backend = SimpleNamespace(readings=demo.readings)  # type: ignore[assignment]

    code = report(Console(), demo, {"d00": stored}, {"d00": spark})

    assert verdict in capsys.readouterr().out
    assert (code == 0) == ("order kept" in verdict and "lost 0, duplicated 0" in verdict)


def test_a_reading_that_the_backend_lacks_counts_too(tmp_path, capsys):
    demo = MqttDemo(tmp_path, Console(), devices=1, readings=3)
    demo.backend = SimpleNamespace(readings={"d00": demo.readings["d00"][1:]})  # type: ignore[assignment]

    assert report(Console(), demo, demo.readings, None) == 1
    assert "lost 1, duplicated 0" in capsys.readouterr().out
