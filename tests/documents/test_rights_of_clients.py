"""The ACL rules that docs/security.md lists for each client are enough for it, on streamd and on Redis."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from click.testing import CliRunner
from starlette.testclient import TestClient

from streamd.clients.sessions import DeviceStore
from streamd.clients.sessions import Message as SessionMessage
from streamd.clients.terminal.app import terminal
from streamd.clients.topics import Message, TopicLog
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.source import Source
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import needs_redis, running_redis

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
SECTION = TEXT.split("### What streamd's own clients need")[1]
ROWS = {
    name.strip("` "): rules.replace("\\|", "|").split()
    for name, rules in re.findall(r"^\| (.+?) \| .*?`(.+)` \|$", SECTION, re.MULTILINE)
}
ON_STREAMD_ONLY = {"+xfilter"}


def tail(url: str) -> None:
    for words in (["--no-follow", "--group", "billing"], ["--from", "5m", "--count", "1"], ["--count", "1"]):
        result = CliRunner().invoke(terminal, ["tail", "orders", *words, "--url", url])
        assert result.exit_code == 0, result.output
        assert "cents=1" in result.output


def top(url: str) -> None:
    result = CliRunner().invoke(terminal, ["top", "--count", "1", "--interval", "0.1", "--url", url])
    assert result.exit_code == 0, result.output
    assert "orders" in result.output
    assert "streamd-top" in result.output


def page(url: str) -> None:
    source = Source(url, allow_writes=True)
    browser = TestClient(application(source, Rules()), base_url="http://localhost")
    paths = ["/", "/streams?match=orders", "/groups/all", "/idempotence", "/slow-log", "/stream?key=orders&value=1"]
    for path in [*paths, "/groups?key=orders", "/group?key=orders&group=billing", "/tail?key=orders&after=0-1"]:
        reply = browser.get(path)
        assert reply.status_code == 200, (path, reply.text)
    assert "Memory</dt><dd>–" not in browser.get("/").text
    source.close()


def page_with_writes(url: str) -> None:
    source = Source(url, allow_writes=True)
    browser = TestClient(application(source, Rules()), base_url="http://localhost", follow_redirects=False)
    for path, data in (("claim", {"id": "5-1", "for": "bob", "min-idle": "0"}), ("acknowledge", {"id": "5-1"})):
        headers = {"Origin": "http://localhost"}
        reply = browser.post(f"/group/{path}?key=orders&group=billing", data=data, headers=headers)
        assert (reply.status_code, reply.headers["location"][-8:]) == (303, "number=1"), reply.text
    source.close()


def topics(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        log = TopicLog.create(client, "telemetry", shards=2, retention_s=60, filters=["devices/#"])
        log.publish("devices/d7/t", b"21", publisher="d7", iid="1")
        log.publish_many([Message("devices/d8/t", "2", publisher="d8", iid="2")])
        entries, _, _ = log.next(log.iterator("devices/+/t", start="earliest"), 100)
        assert len(entries) == 2
        log.publish_many([Message("devices/d8/t", "3", user_properties=[("n", "1"), ("n", "2")])])
        for ordered in (False, True):
            with log.share(f"members-{ordered}", ordered=ordered) as member:
                assert member.ack(member.next(100).entries) == 3


def sessions(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        store = DeviceStore(client, prefix="mqtt:")
        (packet_id,) = store.add("d", SessionMessage("t", b"p", qos=2))
        assert len(store.get("d")) == 1
        store.mark_pubrel("d", packet_id)
        store.set_last_packet_id("d", 7)
        assert store.session("d") is not None
        store.remove("d", packet_id)
        store.remove_all("d")
        store.close()


CLIENTS: dict[str, Callable[[str], None]] = {
    "streamd tail": tail,
    "streamd top": top,
    "streamd ui": page,
    "streamd ui --allow-writes": page_with_writes,
    "topics": topics,
    "sessions": sessions,
}


@pytest.fixture(params=["streamd", pytest.param("redis", marks=needs_redis)])
def client(request, tmp_path):
    if request.param == "streamd":
        with EmbeddedServer() as server:
            yield server.client()
    else:
        with running_redis(tmp_path) as port, redis.Redis(port=port) as client:
            yield client


@pytest.mark.parametrize("name", CLIENTS)
def test_the_rules_in_the_document_are_enough(client, name):
    rules = ROWS[name] + (ROWS["streamd ui"] if "writes" in name else [])
    if client.execute_command("COMMAND INFO", "XFILTER") in ([None], {}):
        rules = [rule for rule in rules if rule not in ON_STREAMD_ONLY]
    client.xadd("orders", {"cents": 1}, id="5-1")
    client.xgroup_create("orders", "billing", id="0")
    client.xreadgroup("billing", "ann", {"orders": ">"})
    client.xadd("orders", {"cents": 1})
    client.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">p", "resetchannels", *rules)
    CLIENTS[name](f"redis://ann:p@127.0.0.1:{client.connection_pool.connection_kwargs['port']}")


def test_every_client_has_its_rules():
    assert CLIENTS.keys() <= ROWS.keys()
    assert "streamd backup" in ROWS
    assert "(spark-reference.md#" in SECTION
