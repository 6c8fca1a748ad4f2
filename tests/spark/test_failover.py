"""Failovers of the real Redis: what was reported as written is there, once, and what was lost is said."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from spark_source.connecting.connection import Server
from spark_source.errors import NotDurable, OptionError, StreamdError, WindowExpired
from spark_source.naming.identity import BatchName
from spark_source.settings.options import parse_options
from spark_source.writing.durable import Durability, choose_durability
from spark_source.writing.sink import Outcome
from spark_source.writing.writer import StreamdStreamWriter, TaskReport
from tests.spark.deployments import wait_until
from tests.spark.failing_over import Cluster, Node, cluster_of, master_with_replicas, promote, wait_s
from tests.spark.failovers.run import Run
from tests.spark.one_task import COLUMNS, NAME, commit, entries, port_of, wanted, write

# Servers that are killed and take over: a minute in all, which `make spark-long` has.
pytestmark = pytest.mark.long
MANY = [{"n": n, "v": f"v{n}"} for n in range(30_000)]


@pytest.fixture
def three(newest_redis: Path, tmp_path: Path) -> Iterator[list[Node]]:
    with master_with_replicas(newest_redis, tmp_path, 2) as nodes:
        yield nodes


@pytest.fixture
def cluster(newest_redis: Path, tmp_path: Path) -> Iterator[Cluster]:
    with cluster_of(newest_redis, tmp_path) as cluster:
        yield cluster


USER = ("spark", "on", ">hunter2")


def rights_of_the_document() -> tuple[list[str], list[str]]:
    """Return what docs/spark-reference.md says that a user needs, and what on a cluster besides."""
    text = (Path(__file__).parents[2] / "docs" / "spark-reference.md").read_text().partition("### ACL")[2]
    single = text.partition("```text\n")[2].partition("```")[0].split()
    cluster = text.partition("On a cluster add")[2].split("`")[1].split()
    return [*single, "+xcfgset"], cluster


def url_of(node: Node) -> str:
    return f"redis://spark:hunter2@127.0.0.1:{node.port}"


class Writing:
    """A task that writes in a thread of its own."""

    def __init__(self, client: redis.Redis, rows: list[dict], **options: str) -> None:
        self.outcome: Outcome | None = None
        self.error: Exception | None = None

        def run() -> None:
            try:
                self.outcome = write(client, rows, pipeline="100", **options)
            except Exception as error:
                self.error = error

        self.thread = threading.Thread(target=run)
        self.thread.start()

    def end(self) -> Outcome:
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.outcome is not None
        return self.outcome


@pytest.mark.parametrize("mode", ["idmp", "marker"])
def test_a_stalled_replica_loses_nothing(three: list[Node], mode: str) -> None:
    """The master answers writes that no replica has, and is killed: they are sent again to the one that takes over."""
    master, chosen, other = three
    places = f"redis://127.0.0.1:{master.port},127.0.0.1:{chosen.port}"
    options = {"durability": "replicas:1", "durabilityRows": "1000", "timeout": "30s", "exactlyOnce": mode}
    writing = Writing(master.client, MANY, url=places, **options)
    wait_until(lambda: master.client.xlen("s") >= 1000)
    chosen.leave_master()
    other.leave_master()
    wait_until(lambda: any(one["cmd"] == "wait" for one in master.client.client_list()))
    master.kill()
    promote(chosen, other)

    assert writing.end().rows == {"s": len(MANY)}

    assert entries(chosen.client) == wanted(MANY)


@pytest.mark.parametrize(("replicas", "lost"), [(1, True), (2, False)])
def test_the_replica_that_is_behind_takes_over(three: list[Node], replicas: int, lost: bool) -> None:
    """Sentinel may elect it: as many replicas have to be waited for as may be elected."""
    master, chosen, other = three
    places = f"redis://127.0.0.1:{master.port},127.0.0.1:{chosen.port}"
    options = {"durability": f"replicas:{replicas}", "durabilityRows": "1000", "timeout": "30s"}
    writing = Writing(master.client, MANY, url=places, **options)
    wait_until(lambda: master.client.xlen("s") >= 1000)
    chosen.leave_master()
    if lost:
        writing.end()
    else:
        wait_until(lambda: any(one["cmd"] == "wait" for one in master.client.client_list()))
    master.kill()
    promote(chosen, other)
    if not lost:
        third = Node(three[0].command[0], chosen.place, "--replicaof", "127.0.0.1", str(chosen.port))
        try:
            assert writing.end().rows == {"s": len(MANY)}
        finally:
            third.close()

    assert (entries(chosen.client) != wanted(MANY)) == lost
    assert not entries(chosen.client) - wanted(MANY)


def test_fewer_replicas_than_asked_for_are_refused_at_the_start(three: list[Node]) -> None:
    master, *_ = three
    with pytest.raises(NotDurable, match=r"durability=replicas:3 needs 3 connected replicas, .* has 2: connect"):
        write(master.client, MANY[:1], durability="replicas:3", timeout="300ms")
    assert master.client.xlen("s") == 0


def test_a_server_that_never_had_a_replica_is_refused_at_once(newest_redis: Path, tmp_path: Path) -> None:
    says = r"durability=replicas:1 needs 1 connected replicas, .* has 0: connect"
    with master_with_replicas(newest_redis, tmp_path, 0) as (alone,):
        wait_s(1.1)  # behind a start replicas may still come
        with pytest.raises(OptionError, match=says):
            write(alone.client, MANY[:1], durability="replicas:1", timeout="900ms")


@pytest.mark.parametrize("mode", ["idmp", "marker", "none"])
def test_a_server_without_a_journal_is_refused_before_the_first_row(three: list[Node], mode: str) -> None:
    master, *_ = three
    with pytest.raises(OptionError, match=r"durability=fsync needs a journal, and .* has none: set appendonly yes"):
        write(master.client, MANY[:1], durability="fsync", exactlyOnce=mode)
    assert master.client.xlen("s") == 0

    master.client.config_set("appendonly", "yes")
    assert write(master.client, MANY[:1], durability="fsync", exactlyOnce=mode).rows == {"s": 1}


@pytest.mark.parametrize(("durability", "settings"), [("replicas:1", {}), ("fsync", {"appendonly": "yes"})])
def test_the_rights_that_the_document_lists_are_enough_to_wait_for_durability(
    three: list[Node], durability: str, settings: dict[str, str]
) -> None:
    master, *_ = three
    for name, value in settings.items():
        master.client.config_set(name, value)
    master.client.execute_command("ACL", "SETUSER", *USER, *rights_of_the_document()[0])
    outcome = write(master.client, MANY[:100], url=url_of(master), stream="orders", durability=durability)
    assert outcome.rows == {"orders": 100}


def test_the_rights_that_the_document_lists_are_enough_on_a_cluster(cluster: Cluster) -> None:
    """Without those for a cluster, the one that is missing is named, and nobody waits for a time-out."""
    single, more = rights_of_the_document()
    node = cluster.master_of("orders")

    def give(*rights: str) -> None:
        for one in cluster.nodes:
            one.client.execute_command("ACL", "SETUSER", *USER, *rights)

    give(*single)
    options = {"url": url_of(node), "stream": "orders", "durability": "replicas:1"}
    for missing in more:
        with pytest.raises(StreamdError, match=rf"extend the user's rights by ACL SETUSER USER {re.escape(missing)}$"):
            write(node.client, MANY[:100], **options)
        give(missing)
    assert write(node.client, MANY[:100], **options).rows == {"orders": 100}


def test_a_server_that_is_no_cluster_is_said_to_be_none(three: list[Node]) -> None:
    master, *_ = three
    with pytest.raises(StreamdError, match="is no cluster: leave out cluster=true"):
        write(master.client, MANY[:1], cluster="true")


def test_without_names_a_replica_that_is_gone_fails_the_task(three: list[Node]) -> None:
    master, *replicas = three
    options = {"durability": "replicas:2", "durabilityRows": "1000", "timeout": "20s", "exactlyOnce": "none"}
    writing = Writing(master.client, MANY, **options)
    wait_until(lambda: master.client.xlen("s") >= 1000)
    for replica in replicas:
        replica.leave_master()
    with pytest.raises(NotDurable, match="durability=replicas:2 was not reached for stream s"):
        writing.end()
    assert max(entries(master.client).values()) == 1


def test_what_another_connection_wrote_is_waited_for_too(three: list[Node]) -> None:
    """A name that is known, a batch that is committed: to be told so is not enough while no replica has it."""
    master, *replicas = three
    server = Server(parse_options({"port": port_of(master.client), "timeout": "1s"}).connection)
    durability = Durability("replicas:1", "WAIT", 1)
    for replica in replicas:
        replica.stall()
    write(master.client, MANY[:100])
    with server.session("s") as session, pytest.raises(NotDurable):
        durability.wait(session, "s", server.options)
    for replica in replicas:
        replica.go_on()
    with server.session("s") as session:
        durability.wait(session, "s", server.options)


@pytest.mark.parametrize("known", [False, True])
def test_a_marker_that_was_not_replicated_does_not_count(three: list[Node], known: bool) -> None:
    """A batch is committed when a replica has its mark: a task that finds it earlier waits, too."""
    master, chosen, other = three
    options = {"durability": "replicas:1", "timeout": "1s"}
    outcome = write(master.client, MANY[:100], **options)
    here = {"port": port_of(master.client), "stream": "s", **options}
    writer = StreamdStreamWriter(parse_options(here), COLUMNS, False)
    for replica in (chosen, other):
        replica.leave_master()
    report = TaskReport(NAME, 0, outcome.rows, outcome.shorts)
    if known:
        commit(master.client)
    with pytest.raises(NotDurable, match="durability=replicas:1 was not reached"):
        writer.commit([report], 3)
    promote(chosen, other)
    chosen.client.close()
    there = {"port": port_of(chosen.client), "stream": "s", **options, "timeout": "10s"}
    assert chosen.client.hget("{s}:spark", "sink") is None, "the mark went with the old master"
    StreamdStreamWriter(parse_options(there), COLUMNS, False).commit([report], 3)
    assert chosen.client.hget("{s}:spark", "sink") == b"3"


def test_the_first_node_is_gone(cluster: Cluster) -> None:
    """Only one node is named, and it dies: the cluster has named the others."""
    first = cluster.nodes[0]
    server = Server(parse_options({"url": f"redis://127.0.0.1:{first.port}", "timeout": "20s"}).connection)
    keys = [f"k{n}" for n in range(20)]
    for key in keys:
        server.patiently(lambda session, key=key: session.call("SET", key, 1), key)
    first.kill()

    for key in keys:
        assert server.patiently(lambda session, key=key: session.call("INCR", key), key) in (1, 2)
    assert server.on_every_node(lambda session: session.call("PING")) == [b"PONG"] * 3


@pytest.mark.long
def test_default_time_outs_survive_a_failover_of_a_cluster_with_its_default_node_time_out(
    newest_redis: Path, tmp_path: Path
) -> None:
    """A new master is there after 17 seconds; whoever wrote to the old one goes on."""
    with cluster_of(newest_redis, tmp_path, node_timeout_ms=15_000) as cluster:
        master = cluster.master_of("s")
        (replica,) = cluster.replicas_of(master)
        write(master.client, MANY[:10])
        wait_until(lambda: replica.replication()["slave_repl_offset"] == master.replication()["master_repl_offset"])
        master.stall()
        writing = Writing(master.client, MANY[:200], name=BatchName("sink", "4", 4, True))
        wait_until(lambda: replica.client.execute_command("ROLE")[0] == b"master", 60)
        master.kill()

        assert writing.end().rows == {"s": 200}
        assert entries(replica.client) == wanted(MANY[:10] + MANY[:200])


@pytest.mark.spark
@pytest.mark.long
def test_masters_that_are_killed_under_a_query_lose_and_double_nothing(
    spark: SparkSession, newest_redis: Path, tmp_path: Path
) -> None:
    story: list[str] = []
    with cluster_of(newest_redis, tmp_path) as cluster:
        result = Run(spark, cluster, tmp_path, story.append, 1, "replicas:1").run(4)

    assert (result.lost, result.duplicated) == (0, 0), story
    assert result.exact, story


@pytest.mark.parametrize("state", ["between", "moved"])
def test_a_slot_stays_between_two_nodes_for_a_while(cluster: Cluster, state: str) -> None:
    """ASK and TRYAGAIN are answers of a cluster that moves a slot: the task waits until it is done."""
    source = cluster.master_of("s")
    target = next(node for node in cluster.nodes[:3] if node is not source)
    slot = source.client.execute_command("CLUSTER KEYSLOT", "s")
    write(source.client, MANY[:10])
    names = {node: node.client.execute_command("CLUSTER MYID").decode() for node in (source, target)}
    target.client.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
    source.client.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
    moving = ["s", "{s}:spark"] if state == "moved" else ["{s}:spark"]
    source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *moving)
    writing = Writing(source.client, MANY[:200], timeout="30s", name=BatchName("sink", "4", 4, True))
    wait_s(2)
    keys = source.client.execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
    if keys:
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
    for node in (target, source, *cluster.nodes[:3]):
        node.client.execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])

    assert writing.end().rows == {"s": 200}
    assert entries(target.client) == wanted(MANY[:10] + MANY[:200])


def test_a_slot_is_migrated_by_cluster_migration(cluster: Cluster) -> None:
    source = cluster.master_of("s")
    target = next(node for node in cluster.nodes[:3] if node is not source)
    slot = source.client.execute_command("CLUSTER KEYSLOT", "s")
    writing = Writing(source.client, MANY, timeout="30s")
    wait_until(lambda: source.client.exists("s") and source.client.xlen("s") >= 1000)
    target.client.execute_command("CLUSTER MIGRATION", "IMPORT", slot, slot)
    wait_until(lambda: cluster.master_of("s") is target)

    assert writing.end().rows == {"s": len(MANY)}
    assert entries(target.client) == wanted(MANY)


def test_a_killed_master_of_a_cluster_loses_nothing(cluster: Cluster) -> None:
    """Rows were answered that its replica lacks: they are sent again to the replica when that is the master."""
    master = cluster.master_of("s")
    writing = Writing(master.client, MANY, durability="replicas:1", durabilityRows="1000", timeout="30s")
    wait_until(lambda: master.client.exists("s") and master.client.xlen("s") >= 3000)
    (replica,) = cluster.replicas_of(master)
    replica.stall()
    wait_until(lambda: any(one["cmd"] == "wait" for one in master.client.client_list()))
    master.kill()
    replica.go_on()
    wait_until(lambda: replica.client.execute_command("ROLE")[0] == b"master")
    master.start()  # as a replica of the new one: without one nothing is as durable as asked for

    assert writing.end().rows == {"s": len(MANY)}
    assert entries(replica.client) == wanted(MANY)


def test_a_master_that_became_a_replica_is_not_asked_for_its_replicas(cluster: Cluster) -> None:
    """The map of the cluster is from before the failover, and every node of it answers."""
    options = parse_options({"port": port_of(cluster.nodes[0].client), "durability": "replicas:1", "timeout": "10s"})
    server = Server(options.connection)
    assert choose_durability(server, options.write).command == "WAIT"
    master = cluster.nodes[0]
    (replica,) = cluster.replicas_of(master)
    master.kill()
    wait_until(lambda: replica.client.execute_command("ROLE")[0] == b"master")
    master.start()
    wait_until(lambda: replica.replication()["connected_slaves"] == 1)

    assert choose_durability(server, options.write).command == "WAIT"


def test_a_batch_that_is_older_than_its_window_stops_before_a_replica_could_decide_otherwise(three: list[Node]) -> None:
    """In the last second of a name's duration Redis's replica may decide otherwise than its master did: a name is used
    for one row of one batch only, and a batch that outlived its window is not written at all.
    """
    master, *_ = three
    window = {"windowSeconds": "1", "windowSetup": "force"}
    with pytest.raises(NotDurable):
        write(master.client, MANY[:100], durability="replicas:2", timeout="900ms", **window, **_stalling(three))
    for replica in three[1:]:
        replica.go_on()
    wait_s(1.2)

    with pytest.raises(WindowExpired, match="duplicates are possible"):
        write(master.client, MANY[:100], attempt=1, **window)
    assert parse_options({}).write.window_s == 86_400, "a batch that lasts a day is none"
    assert max(entries(master.client).values()) == 1


def _stalling(nodes: list[Node]) -> dict:
    """Have the replicas stand still once rows are on their way."""

    def stall() -> None:
        for replica in nodes[1:]:
            replica.stall()

    return {"cuts": {6: stall}}
