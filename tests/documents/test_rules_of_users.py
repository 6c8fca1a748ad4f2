"""The users of docs/security.md are taken from a file, and may do what the text says of them."""

import hashlib
import re

import pytest
import redis

from streamd.testing import EmbeddedServer
from tests.documents.blocks import blocks_for


@pytest.fixture
def server(tmp_path):
    (block,) = blocks_for(__file__)
    password = hashlib.sha256(b"secret").hexdigest()
    file = tmp_path / "users.acl"
    file.write_text(re.sub(r"#<[^>]*>", f"#{password}", block.text))
    with EmbeddedServer(aclfile=str(file)) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "request_", "is_allowed"),
    [
        ("admin", "CONFIG GET maxmemory", True),
        ("orders", "XADD orders:1 * f v", True),
        ("orders", "XADD invoices * f v", False),
        ("orders", "XRANGE orders:1 - +", False),
        ("billing", "XREADGROUP GROUP g ann STREAMS orders:1 >", True),
        ("billing", "XACK orders:1 g 1-1", True),
        ("billing", "XADD orders:1 * f v", False),
        ("report", "XRANGE orders:1 - +", True),
        ("report", "DEL orders:1", False),
    ],
)
def test_a_user_may_do_what_its_rules_say(server: EmbeddedServer, name: str, request_: str, is_allowed: bool):
    server.client(username="admin", password="secret").xgroup_create("orders:1", "g", id="0", mkstream=True)
    client = server.client(username=name, password="secret")
    if is_allowed:
        client.execute_command(*request_.split())
    else:
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*request_.split())


def test_the_default_user_is_off(server: EmbeddedServer):
    with pytest.raises(redis.exceptions.AuthenticationError):
        server.client().ping()
