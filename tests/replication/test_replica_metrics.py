"""What /metrics and INFO say of each replica, and that no replica makes them unreadable or long."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamd.net.exposition import REPLICAS_MAX
from tests.replication.cluster import Node
from tests.replication.seen_pair import linked_pair, metrics_of, pass_ms

HOSTS = [b"", b"10.0.0.6", b"b.example.org", b"::1", b"fe80::1%eth0"]
NO_HOSTS = [b"a\r\nrole:slave", b"a,state=online", b"a b", b"\xff", b"a\x00", b"h" * 256]


def series(node: Node) -> dict[tuple[str, ...], float]:
    """Return what /metrics say of replicas, by name, address, port and state; two alike are no valid text."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(metrics_of(node.engine)):
        for sample in family.samples:
            if sample.name.startswith("redis_connected_slave_"):
                at = (sample.name, *(sample.labels[name] for name in ("slave_ip", "slave_port", "slave_state")))
                assert at not in found
                found[at] = sample.value
    return found


def join(primary: Node, port: int) -> None:
    """Have a client follow as a replica that shows itself with a port."""
    history = primary.replication.standing.history
    primary.begin(
        f"REPLCONF listening-port {port} ip-address 10.0.0.6 capa streamd;PSYNC {history.replid} {history.offset + 1}"
    )
    primary.world.settle()


def test_the_offset_and_the_silence_of_a_replica_are_shown():
    world, primary, replica = linked_pair()
    primary.ask("SET k v")
    world.link_up(replica, primary)
    pass_ms(world, 2_000)
    at = ("127.0.0.1", "2", "online")
    shown = series(primary)
    assert shown.pop(("redis_connected_slave_lag_seconds", *at)) <= 1
    assert shown == {("redis_connected_slave_offset_bytes", *at): primary.offset}
    acknowledged = primary.offset
    replica.is_stopped = True
    primary.ask("SET k w")
    pass_ms(world, 5_000)
    shown = series(primary)
    assert shown[("redis_connected_slave_offset_bytes", *at)] == acknowledged < primary.offset
    assert 4 <= shown[("redis_connected_slave_lag_seconds", *at)] <= 6


def test_replicas_with_one_address_are_one_and_many_are_bounded():
    _, primary, _ = linked_pair()
    for port in [7, 7, *range(1_000, 1_000 + REPLICAS_MAX)]:
        join(primary, port)
    shown = series(primary)
    assert ("redis_connected_slave_lag_seconds", "10.0.0.6", "7", "online") in shown
    assert REPLICAS_MAX < len(shown) <= 2 * REPLICAS_MAX
    assert int(primary.fields()["connected_slaves"]) == REPLICAS_MAX + 3


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_is_taken(host):
    _, primary, _ = linked_pair()
    client = primary.connect()
    primary.run([b"REPLCONF", b"ip-address", host], client=client)
    primary.world.settle()
    assert b"".join(primary.replies[client]) == b"+OK\r\n"


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_would_break_a_line_is_no_host(host):
    _, primary, replica = linked_pair()
    for node, request in ((primary, [b"REPLCONF", b"ip-address", host]), (replica, [b"REPLICAOF", host, b"1"])):
        client = node.connect()
        node.run(request, client=client)
        node.world.settle()
        assert b"".join(node.replies[client]).startswith(b"-ERR")
    assert replica.replication.standing.primary == ("127.0.0.1", 1)
