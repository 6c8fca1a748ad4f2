"""The example of a feed of sensors: each closed window is written once, with the right average."""

import subprocess
import sys

import pytest

from tests.integration.test_examples import EXAMPLES, loaded

pytestmark = pytest.mark.spark


def test_each_closed_window_of_the_sensors_is_there_once_with_its_average(spark, streamd, streamd_port, capsys):
    example = loaded("sensors_to_spark")
    assert example.run(spark, f"redis://127.0.0.1:{streamd_port}", sensors=2, minutes=6) == 0
    assert "windows closed 8, lost 0, twice 0, wrong 0, still open 4\n" in capsys.readouterr().out
    assert streamd.xinfo_stream("sensor-readings")["iids-duplicates"] == 22
    written = [fields for _, fields in streamd.xrange("sensor-averages")]
    windows = [(fields[b"sensor"], int(fields[b"minute"]) % 3600 // 60) for fields in written]
    assert sorted(windows) == [(b"sensor-%d" % sensor, minute) for sensor in range(2) for minute in range(4)]


@pytest.mark.parametrize("how", ["lost", "twice", "wrong"])
def test_the_example_of_sensors_notices_windows_that_are_not_right(how, streamd, streamd_port, monkeypatch, capsys):
    example = loaded("sensors_to_spark")

    def average(spark: object, url: str, checkpoint: str) -> None:
        for sensor in range(2):
            for minute in range(1 if how == "lost" else 0, 4):
                start = int(example.START.timestamp()) + 60 * minute
                fields = {"sensor": f"sensor-{sensor}", "minute": start, "average": 22.75 + sensor, "readings": 12}
                streamd.xadd("sensor-averages", {**fields, "readings": 11} if how == "wrong" else fields)

    monkeypatch.setattr(example, "average", average)
    assert example.run(None, f"redis://127.0.0.1:{streamd_port}", sensors=2, minutes=6) == 1
    counts = {"lost": "lost 2, twice 6", "twice": "lost 0, twice 8", "wrong": "wrong 8"}
    assert counts[how] in capsys.readouterr().out


@pytest.mark.long
def test_the_example_of_sensors_runs_by_itself():
    command = [sys.executable, str(EXAMPLES / "sensors_to_spark.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "windows closed 32, lost 0, twice 0, wrong 0, still open 8\n" in done.stdout
