"""`streamd top` and `streamd ui` show a server's role: the lag of its replicas, or the state of its link."""

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from streamd.clients.server_role import Role, role_of
from streamd.clients.terminal.app import terminal
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.source import Source
from tests.replication.clusters import Node, nodes, wait_until

FOLLOWER = "ip=10.0.0.6,port=6380,state=online,offset={},lag={}"
REPLICA = {"role": "slave", "master_host": "10.0.0.5", "master_port": "6379"}


@pytest.mark.parametrize(
    ("info", "role"),
    [
        ({}, None),
        ({"role": "master", "connected_slaves": "0", "master_repl_offset": "7"}, None),
        (
            {"connected_slaves": "1", "slave0": FOLLOWER.format(900, 1), "master_repl_offset": "12300"},
            Role("primary of 1 replica: 10.0.0.6:6380 is 11,400 bytes behind, heard 1 s ago", True),
        ),
        (
            {"connected_slaves": "2", "slave0": FOLLOWER.format(5, 0), "slave1": "ip=b,port=1,state=send_bulk"}
            | {"master_repl_offset": "5"},
            Role("primary of 2 replicas: 10.0.0.6:6380 is 0 bytes behind, heard 0 s ago; b:1 takes all data", False),
        ),
        (
            {"connected_slaves": "7", "master_repl_offset": "5"}
            | {f"slave{number}": f"ip=r,port={number},state=online,offset=5,lag=0" for number in range(7)},
            Role(
                "primary of 7 replicas: "
                + "; ".join(f"r:{number} is 0 bytes behind, heard 0 s ago" for number in range(5))
                + "; 2 more",
                True,
            ),
        ),
        (
            REPLICA
            | {
                "master_link_status": "up",
                "master_link_up_since_seconds": "7300",
                "master_last_io_seconds_ago": "3",
            },
            Role("replica of 10.0.0.5:6379: link up for 2 h, heard 3 s ago", True),
        ),
        (
            REPLICA | {"master_link_status": "up", "master_last_io_seconds_ago": "61"},
            Role("replica of 10.0.0.5:6379: link up, heard 1 min ago", True),
        ),
        (
            REPLICA | {"master_link_status": "down", "master_link_down_since_seconds": "90000"},
            Role("replica of 10.0.0.5:6379: link down for 1 d", False),
        ),
        (
            REPLICA | {"master_link_status": "down", "master_sync_in_progress": "1"},
            Role("replica of 10.0.0.5:6379: takes all data", False),
        ),
    ],
)
def test_a_role_in_words(info: dict[str, str], role: Role | None):
    assert role_of(info) == role


def top(node: Node) -> str:
    words = ["top", "--count", "1", "--interval", "0.1", "--url", f"redis://127.0.0.1:{node.port}"]
    result = CliRunner().invoke(terminal, words)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()[2]


def page(node: Node) -> str:
    source = Source(f"redis://127.0.0.1:{node.port}")
    text = TestClient(application(source, Rules()), base_url="http://localhost").get("/").text
    source.close()
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_both_servers_of_a_pair_are_shown(tmp_path: Path):
    with nodes(tmp_path, 1) as (primary, replica):
        primary.client.set("k", "v")
        of_primary = rf"primary of 1 replica: 127\.0\.0\.1:{replica.port} is \d+ bytes behind, heard \d s ago"
        of_replica = rf"replica of 127\.0\.0\.1:{primary.port}: link up for \d s, heard \d s ago"
        for show in (top, page):
            assert re.search(of_primary, show(primary))
            assert re.search(of_replica, show(replica))
        primary.kill()
        wait_until(lambda: not replica.is_linked(), "the link is down")
        for show in (top, page):
            assert f"replica of 127.0.0.1:{primary.port}: link down for" in show(replica)
