"""What deploy/ names is there: metrics of the dashboard and the alerts, options of the image and the units."""

import argparse
import json
import re
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

from streamd.base.clock import Clock
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.options import add_gateway_options
from streamd.configuration.layers import PREFIX
from streamd.configuration.server_options import OPTIONS
from streamd.testing import EmbeddedServer
from tests.cold.cold_server import ColdSession
from tests.mqtt.seen.running import gateway
from tests.replication.seen_pair import names_of_a_pair
from tests.session import Session
from tests.unit.engine.test_survey import metrics

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").iterdir())
# Words of the query language, what Prometheus itself knows, and what a gateway tells half a minute after its start.
OTHERS = {"up", "redis_up", "streamd_mqtt_applications_away"}


@pytest.fixture(scope="module")
def names() -> set[str]:
    session = Session()
    session.do("XADD s IDMP p i * f v")
    session.do("XGROUP CREATE s g 0")
    session.do("NOCOMMAND")
    session.state.persistence = lambda: {
        "aof_current_size": 1, "aof_base_size": 1, "aof_delayed_fsync": 0, "aof_last_rewrite_time_sec": 1,
    }  # fmt: skip
    return {*metrics(session), *metrics(ColdSession())} | names_of_a_pair() | metrics_of_a_gateway() | OTHERS


def metrics_of_a_gateway() -> set[str]:
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedServer(Clock()))
        one = stack.enter_context(gateway(server.url, "--metrics-port", "0", "--application", "c"))
        lasting = {Property.SESSION_EXPIRY_INTERVAL: 60}
        # So that there are samples of listeners and of applications.
        stack.enter_context(one.client("c", properties=lasting)).subscribe("#")
        reply = stack.enter_context(urlopen(f"http://127.0.0.1:{one.ports['metrics']}/metrics", timeout=60))
        text = reply.read().decode()
    return set(re.findall(r"^(\w+)", text, re.MULTILINE))


def named(text: str) -> set[str]:
    return set(re.findall(r"\b(?:redis|streamd|process)_[a-z_]+", text))


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_metric_of_a_dashboard_is_there(names, path):
    panels = json.loads(path.read_text())["panels"]
    assert len(panels) >= 15
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            wanted = named(target["expr"])
            assert wanted, target
            assert wanted <= names, panel["title"]


def test_every_metric_of_the_alerts_is_there(names):
    text = (DEPLOY / "prometheus" / "streamd.rules.yml").read_text()
    expressions = re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)
    assert len(expressions) == text.count("- alert: ") > 5
    assert named(" ".join(expressions)) <= names


def test_every_alert_says_what_happened_and_what_to_do():
    text = (DEPLOY / "prometheus" / "streamd.rules.yml").read_text()
    for alert in text.split("- alert: ")[1:]:
        assert "summary: " in alert
        assert "description: " in alert
        assert re.search(r"severity: (critical|warning)", alert)


@pytest.mark.parametrize(
    "path", ["docker/Dockerfile", "compose.yaml", "compose.replica.yaml", "systemd/streamd.service"]
)
def test_every_variable_is_an_option(path):
    found = set(re.findall(r"\b(?<!\$\{)STREAMD_[A-Z_]+(?=[=:] ?\S)", (DEPLOY / path).read_text()))
    options = {PREFIX + name.upper().replace("-", "_") for name in OPTIONS}
    assert found
    assert found - {"STREAMD_PASSWORD", "STREAMD_URL"} <= options


def test_both_servers_of_the_replica_file_are_watched_by_the_same_rules():
    watched = (DEPLOY / "prometheus" / "two-servers.yml").read_text()
    alone = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    assert watched.split("global:")[1].replace(', "replica:9121"', "") == alone.split("global:")[1]
    overlay = (DEPLOY / "compose.replica.yaml").read_text()
    assert re.findall(r"^  ([a-z]+):$", overlay, re.MULTILINE) == ["streamd", "replica", "prometheus", "replica"]
    assert "./prometheus/two-servers.yml:/etc/prometheus/prometheus.yml:ro" in overlay


@pytest.mark.parametrize("path", ["docker/Dockerfile", "compose.yaml", "systemd/streamd-mqtt.service"])
def test_every_option_of_the_gateway_is_one(path):
    text = (DEPLOY / path).read_text()
    lines = [line for line in text.splitlines() if "mqtt" in line.lower() or "command:" in line]
    found = set(re.findall(r"--[a-z][a-z-]+", " ".join(lines))) - {"--target", "--now", "--system"}
    parser = argparse.ArgumentParser()
    add_gateway_options(parser)
    known = {word for action in parser._actions for word in action.option_strings}
    assert found
    assert found <= known


def test_dashboards_have_different_names():
    found = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert len({one["uid"] for one in found}) == len({one["title"] for one in found}) == len(found) == 2


def test_the_documents_of_operations_name_every_file():
    text = (DEPLOY.parent / "docs" / "operations.md").read_text()
    files = [path.relative_to(DEPLOY) for path in DEPLOY.rglob("*") if path.is_file()]
    assert [str(path) for path in files if f"deploy/{path}" not in text and f"deploy/{path.parent}" not in text] == []


def test_the_document_says_what_each_event_of_the_log_means():
    text = (DEPLOY.parent / "docs" / "operations.md").read_text()
    source = "".join(path.read_text() for path in (DEPLOY.parent / "streamd").rglob("*.py"))
    events = set(re.findall(r'log\.(?:info|warning|error|exception)\(\s*"([a-z-]+)"', source))
    assert {"bug", "tls-unchanged"} <= events
    assert {event for event in events if f"`{event}`" not in text} == set()
