"""/metrics of a gateway: what is in it, how it is asked for, and what is said where it cannot be."""

import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bench.ports import free_port
from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.mqtt.seen.running import TIMEOUT_S, Gateway

ROOT = Path(__file__).resolve().parents[3]


def ask(running: Gateway, path: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.ports['metrics']}{path}", timeout=TIMEOUT_S) as reply:
            return reply.status, reply.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def samples(running: Gateway) -> dict[str, float]:
    """Return each sample by its name with labels."""
    status, text = ask(running, "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in one.labels.items())
            found[f"{one.name}{{{labels}}}" if labels else one.name] = one.value
    return {name.removeprefix("streamd_mqtt_"): value for name, value in found.items()}


def settled(running: Gateway) -> dict[str, float]:
    """Return the samples when all connections of earlier tests are closed on the gateway's side, too."""
    while (found := samples(running))["connections"]:
        pass
    return found


def test_what_clients_do_is_counted(running: Gateway):
    before = settled(running)
    with running.client("a") as one, running.client("b", 4) as other:
        assert other.subscribe("seen/#", 1) == (1,)
        assert one.publish("seen/x", b"12345") == 0
        (message,) = other.messages(1)
        assert message.payload == b"12345"
        after = samples(running)
        grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
        assert grown["clients{version=5}"] == grown["clients{version=3.1.1}"] == 1
        assert grown["connections"] == grown["listener_connections{listener=mqtt}"] == 2
        assert grown["publishes_received_total"] == grown["publishes_sent_total"] == grown["stored_total"] == 1
        assert grown["publish_bytes_received_total"] == grown["publish_bytes_sent_total"] == 5
        assert grown["in_flight"] == 1  # there was no PUBACK
        assert grown["acknowledge_seconds_count"] == grown["deliver_seconds_count"] == 1
        assert 0 < grown["acknowledge_seconds_sum"] < TIMEOUT_S
        assert after["store_up"] == 1
        assert after["tail_lag"] == after["publish_backlog"] == 0
        assert after["sessions_behind{log=mqtt}"] == after["sessions_behind{log=plant}"] == 0


def test_a_client_that_takes_no_more_is_behind(running: Gateway):
    settled(running)
    with running.client("full") as slow, running.client("source") as source:
        # Of so many messages without a PUBACK none fits beside them.
        slow.subscribe("seen/slow", 1)
        most = 1_000
        for number in range(most + 5):
            assert source.publish("seen/slow", b"%d" % number) == 0
        while (found := samples(running))["sessions_lag_messages_max{log=mqtt}"] < 5:
            pass  # the tail reads what was acknowledged a moment ago
        assert found["in_flight"] >= most
        assert found["sessions_behind{log=mqtt}"] == 1
        assert found["sessions_replaying{log=mqtt}"] == 0
        assert found["sessions_lag_messages_max{log=mqtt}"] == 5
        assert 0 <= found["sessions_lag_seconds_max{log=mqtt}"] < TIMEOUT_S
    assert settled(running)["sessions_behind{log=mqtt}"] == 0


def test_no_label_is_that_of_a_client(running: Gateway):
    with running.client("with-a-name-of-its-own") as client:
        client.subscribe("with/a/topic/of/its/own")
        _, text = ask(running, "/metrics")
        assert "its" not in re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
        names = set(re.findall(r'(\w+)="', text))
        assert names == {"version", "le", "log", "listener", "of"}


def test_every_metric_is_in_the_document(running: Gateway):
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    told = set(
        re.findall(r"`(?:streamd_mqtt)?_([a-z_]+)(?:{[a-z,]+})?`", text.split("### Metrics of the MQTT gateway")[1])
    )
    names = {re.sub(r"(_seconds)_(?:bucket|count|sum)$", r"\1", one.partition("{")[0]) for one in samples(running)}
    assert {name for name in names if not name.startswith("process_")} - told == set()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/healthz", 200, "ok\n"),
        ("/readyz", 200, "ok\n"),
        ("/", 404, "there are /metrics, /healthz and /readyz\n"),
    ],
)
def test_other_paths(running: Gateway, path: str, status: int, text: str):
    assert ask(running, path) == (status, text)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"\x10\x0c\x00\x04MQTT\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nA: " + b"x" * 20_000, b"400"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_requests_that_are_none_get_an_answer(running: Gateway, sent: bytes, status: bytes):
    with socket.create_connection(("127.0.0.1", running.ports["metrics"]), TIMEOUT_S) as client:
        client.sendall(sent)
        found = b""
        while data := client.recv(65_536):
            found += data
    head, _, body = found.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == status
    assert (body == b"") == sent.startswith(b"HEAD")


def test_idle_connections_keep_nobody_out(running: Gateway):
    idle = [socket.create_connection(("127.0.0.1", running.ports["metrics"]), TIMEOUT_S) for _ in range(70)]
    assert ask(running, "/healthz") == (200, "ok\n")
    for one in idle:
        one.close()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--metrics-port {taken}", 3, "in use by another process; choose another with --metrics-port"),
        ("--metrics-port 70000", 2, "--metrics-port 70000: give one from 0 to 65535"),
        ("--sys-interval -1", 2, "--sys-interval -1: give seconds up to 1000000000, or 0 for no topics below $SYS"),
    ],
)
def test_an_option_that_does_not_fit_ends_the_start_with_one_line(words: str, code: int, said: str):
    with EmbeddedServer(Clock()) as server, socket.create_server(("127.0.0.1", 0)) as taken:
        given = words.format(taken=taken.getsockname()[1]).split()
        command = [sys.executable, "-m", "streamd", "mqtt", "--url", server.url, "--port", str(free_port()), *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_library_one_line_says_what_to_install():
    without = "import sys; sys.modules['prometheus_client'] = None; from streamd.cli import main; sys.exit(main())"
    with EmbeddedServer(Clock()) as server:
        words = ["mqtt", "--url", server.url, "--port", "0", "--metrics-port", "0"]
        done = subprocess.run(
            [sys.executable, "-c", without, *words], capture_output=True, text=True, timeout=TIMEOUT_S
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("streamd: --metrics-port needs prometheus-client: pip install 'streamd-server[metrics]'\n")
