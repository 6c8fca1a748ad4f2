"""Loads on a real mosquitto: nothing is lost, and all figures are there."""

import shutil
import subprocess
import sys

import pytest

from tests.mqtt.access.judge import mosquitto, needs_mosquitto, password_program
from tests.mqtt.bench.running_bench import SHORT, bench, figures

pytestmark = [needs_mosquitto, pytest.mark.long]
FEW = ("--clients", "20", *SHORT)
ALL = ("allow_anonymous true", "max_queued_messages 0")


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    "words", ["p2p", "p2p --rate 400 --persistent", "p2p --under-way 7", "in --rate 400", "out --rate 60"]
)
def test_a_mosquitto_keeps_its_promises(tmp_path, capsys, words, qos, version):
    with mosquitto(tmp_path, {}, *ALL) as broker:
        words = (*words.split(), "--port", str(broker.port), "--qos", str(qos), "--version", str(version))
        code, found = figures(capsys, *words, *FEW)
    assert code == 0
    assert (found["lost"], found["duplicated"], found["misordered"], found["foreign"]) == (0, 0, 0, 0)
    assert found["delivered"] >= found["sent"] > 5


@pytest.mark.parametrize("version", [4, 5])
def test_sessions_that_lasted_are_gone(tmp_path, capsys, version):
    with mosquitto(tmp_path, {}, *ALL, "persistence true", f"persistence_location {tmp_path}/") as broker:
        words = ("p2p", "--port", str(broker.port), "--persistent", "--version", str(version))
        assert bench(*words, *FEW) == 0
        before = len(broker.lines)
        # A session by the name of one of the first run would still be there.
        name = next(line.split(" as ")[1].split()[0] for line in broker.lines if " as bench-" in line)
        assert shutil.which("mosquitto_pub") is not None
        publish = ["mosquitto_pub", "-p", str(broker.port), "-c", "-i", name, "-t", "t", "-m", "x", "-d"]
        assert subprocess.run(publish, capture_output=True, timeout=60, check=False).returncode == 0
        assert broker.wait_for(f"Sending CONNACK to {name} (0, 0)", after=before)
    assert "lost 0" in capsys.readouterr().out


def test_a_unix_socket_and_a_process(tmp_path, capsys):
    path = tmp_path / "mqtt.sock"
    with mosquitto(tmp_path, {}, *ALL, f"listener 0 {path}") as broker:
        code, found = figures(capsys, "p2p", "--unix", str(path), "--process", str(broker._process.pid), *FEW)
    assert code == 0
    assert found["cpu_us"] > 1
    assert found["per_core_s"] == pytest.approx(2e6 / found["cpu_us"], rel=0.2)


def test_idle_clients_and_their_memory(tmp_path, capsys):
    with mosquitto(tmp_path, {}, *ALL) as broker:
        words = ("idle", "--port", str(broker.port), "--process", str(broker._process.pid), "--clients", "200")
        code, found = figures(capsys, *words, "--seconds", "0.3", "--connect-rate", "2000")
        assert bench(*words, "--seconds", "0.1", "--connect-rate", "2000") == 0
    assert code == 0
    assert 100 < found["memory_client_bytes"] < 100_000
    assert found["connect_cpu_us"] > 1
    text = capsys.readouterr().out
    assert "bytes a client" in text
    assert "% of a core" in text


@pytest.mark.parametrize(("password", "wanted"), [("right", 0), ("wrong", 3)])
def test_a_password(tmp_path, capsys, password, wanted):
    passwords = tmp_path / "passwords"
    subprocess.run([password_program(), "-c", "-b", str(passwords), "ann", "right"], check=True, timeout=60)
    with mosquitto(tmp_path, {"password_file": passwords.read_text()}) as broker:
        words = ("p2p", "--port", str(broker.port), "--username", "ann", "--password", password)
        assert bench(*words, *FEW) == wanted
    assert wanted == 0 or "not authorized" in capsys.readouterr().err


def test_a_mosquitto_that_drops_what_it_has_no_room_for_is_found_out(tmp_path, capsys):
    options = ("allow_anonymous true", "max_queued_messages 1", "max_inflight_messages 1")
    with mosquitto(tmp_path, {}, *options) as broker:
        words = ("in", "--port", str(broker.port), "--under-way", "20")
        code, found = figures(capsys, *words, *FEW)
    assert code == 1
    assert found["lost"] > 0


def test_it_runs_as_a_module(tmp_path):
    with mosquitto(tmp_path, {}, *ALL) as broker:
        command = [sys.executable, "-m", "streamd.clients.mqtt.bench", "p2p", "--port", str(broker.port), *FEW]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"p2p on 127.0.0.1:{broker.port}, MQTT 3.1.1: 20 pairs, QoS 1, 62 bytes, closed loop")
