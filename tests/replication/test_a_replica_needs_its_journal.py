"""A server without a journal is no replica, and a replica does not end its journal."""

import pytest
import redis

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer


def test_a_server_without_a_journal_does_not_become_a_replica():
    with EmbeddedServer(Clock()) as server:
        with pytest.raises(redis.ResponseError, match="a replica needs a journal"):
            server.client().replicaof("127.0.0.1", 1)
        assert server.client().role()[0] == b"master"


def test_a_server_without_a_journal_does_not_wait_for_replicas():
    with EmbeddedServer(Clock()) as server:
        with pytest.raises(redis.ResponseError, match="min-replicas-to-write needs a journal"):
            server.client().config_set("min-replicas-to-write", 1)
        assert server.client().set("k", "v")


def test_a_replica_keeps_its_journal_until_it_is_a_primary(tmp_path):
    with EmbeddedServer(Clock(), appendonly=True, dir=str(tmp_path)) as server:
        client = server.client()
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(redis.ResponseError, match="a replica, and a primary with replicas, need"):
            client.config_set("appendonly", "no")
        assert client.role()[0] == b"slave"
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        client.replicaof("NO", "ONE")
        assert client.config_set("appendonly", "no")
        assert client.set("k", "v")
