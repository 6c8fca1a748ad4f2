"""What deploy/ names is there: metrics of the dashboard and the alerts, options of the image and the units."""

import json
import re
from pathlib import Path

import pytest

from streamd.configuration.layers import PREFIX
from streamd.configuration.server_options import OPTIONS
from tests.session import Session
from tests.unit.engine.test_survey import metrics

DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "streamd.json"
# Words of the query language, and what Prometheus itself knows.
OTHERS = {"up", "redis_up"}


@pytest.fixture(scope="module")
def names() -> set[str]:
    session = Session()
    session.do("XADD s IDMP p i * f v")
    session.do("XGROUP CREATE s g 0")
    session.do("NOCOMMAND")
    session.state.persistence = lambda: {
        "aof_current_size": 1, "aof_base_size": 1, "aof_delayed_fsync": 0, "aof_last_rewrite_time_sec": 1,
    }  # fmt: skip
    return set(metrics(session)) | OTHERS


def named(text: str) -> set[str]:
    return set(re.findall(r"\b(?:redis|streamd)_[a-z_]+", text))


def test_every_metric_of_the_dashboard_is_there(names):
    panels = json.loads(DASHBOARD.read_text())["panels"]
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


@pytest.mark.parametrize("path", ["docker/Dockerfile", "compose.yaml", "systemd/streamd.service"])
def test_every_variable_is_an_option(path):
    found = set(re.findall(r"\b(?<!\$\{)STREAMD_[A-Z_]+(?=[=:] ?\S)", (DEPLOY / path).read_text()))
    options = {PREFIX + name.upper().replace("-", "_") for name in OPTIONS}
    assert found
    assert found - {"STREAMD_PASSWORD"} <= options


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
