"""A url names one node of a cluster, which dies: each process of a query goes on by the nodes that were learned."""

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_source.connecting import connection
from spark_source.connecting.connection import Server
from spark_source.connecting.learned import keep_nodes, kept_nodes, nodes_of
from spark_source.errors import Unreachable
from spark_source.settings.connection_options import ConnectionOptions
from spark_source.settings.options import parse_options
from tests.spark.failing_over import Cluster, Node, cluster_of

pytestmark = pytest.mark.redis

SEVERAL = "did not answer for .*; if it is a node of a cluster, name several nodes in url"


@pytest.fixture(scope="module")
def cluster(newest_redis: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_of(newest_redis, tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary directory of a machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    start_process()


def start_process() -> None:
    """Forget what this process knows, as a new one."""
    connection._pools.clear()


def options_of(node: Node, timeout: str = "10s") -> ConnectionOptions:
    return parse_options({"url": f"redis://127.0.0.1:{node.port}", "timeout": timeout}).connection


def calls(server: Server) -> None:
    """Reach every node that holds keys."""
    for n in range(20):
        server.patiently(lambda session, n=n: session.call("SET", f"k{n}", 1), f"k{n}")
    assert server.on_every_node(lambda session: session.call("PING")) == [b"PONG"] * 3


@pytest.fixture(scope="module")
def last(cluster: Cluster) -> Node:
    """A replica, without which the cluster is whole; the last test of it ends it."""
    return cluster.nodes[-1]


def test_a_process_that_starts_goes_on_when_the_named_node_is_gone(
    cluster: Cluster, last: Node, temporary: Path
) -> None:
    options = options_of(last)
    calls(Server(options))
    here = pickle.dumps(Server(options))
    last.kill()

    start_process()
    calls(Server(options))
    start_process()
    calls(pickle.loads(here))


def test_a_task_on_another_machine_learns_the_nodes_from_the_driver(
    last: Node, cluster: Cluster, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_nodes(options_of(last), nodes_of(cluster.nodes[0].client, "127.0.0.1"))
    start_process()
    planned = pickle.dumps(Server(options_of(last)))

    (temporary / "executor").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "executor"))
    start_process()
    calls(pickle.loads(planned))


def test_without_any_other_node_the_error_says_to_name_several(last: Node, temporary: Path) -> None:
    start_process()
    with pytest.raises(Unreachable, match=SEVERAL):
        Server(options_of(last, "300ms")).patiently(lambda session: session.call("PING"))


def test_a_node_of_another_cluster_at_the_same_address_is_not_used(
    cluster: Cluster, last: Node, temporary: Path
) -> None:
    options = options_of(last, "300ms")
    keep_nodes(options, tuple((host, port, "0" * 40) for host, port, _ in nodes_of(cluster.nodes[0].client, "")))
    start_process()
    with pytest.raises(Unreachable, match=SEVERAL):
        Server(options).patiently(lambda session: session.call("PING"))


def test_nodes_are_kept_only_where_nobody_else_can_write(last: Node, temporary: Path) -> None:
    options, nodes = options_of(last), (("10.0.0.1", 6379, "a" * 40),)
    keep_nodes(options, nodes)
    (place,) = temporary.iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert kept_nodes(options) == nodes

    place.chmod(0o777)
    assert kept_nodes(options) == ()
    keep_nodes(options, (("10.0.0.2", 6379, "b" * 40),))
    place.chmod(0o700)
    assert kept_nodes(options) == nodes


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[["h", 1]]', '[["h", "x", "y"]]', "\x00", "[" * 100_000])
def test_a_damaged_file_of_nodes_is_none(last: Node, temporary: Path, text: str) -> None:
    keep_nodes(options_of(last), (("10.0.0.1", 6379, "a" * 40),))
    (place,) = temporary.rglob("*.nodes")
    place.write_text(text)

    assert kept_nodes(options_of(last)) == ()
