"""Ways to a server: users, a cluster, a server that comes back; tried on Debian's redis-server."""

import pickle
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession

from bench.ports import free_port
from spark_source.connecting.connection import Server, Session
from spark_source.errors import NotDurable, OptionError, StreamdError, Unreachable
from spark_source.naming.identity import BatchName
from spark_source.noting.batches import commit_batch
from spark_source.noting.finished import Whole
from spark_source.noting.window import choose_mode
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.encode import RowEncoder
from spark_source.values.schema import raw_schema
from spark_source.writing.durable import Durability, choose_durability
from spark_source.writing.sink import Task, TaskWriter
from tests.spark.deployments import move_slot_of, redis_cluster
from tests.spark.schemas import schema
from tests.spark.servers import old_redis_server, redis_server, streamd_server

pytestmark = pytest.mark.redis

ROWS = [{"n": str(n)} for n in range(50)]


def round_trip(stream: str = "s", **given: object) -> list[str]:
    """Write rows with markers as two tasks, one of them twice, commit, and read them again."""
    options = parse_options({"stream": stream, "startingOffsets": "earliest", **{k: str(v) for k, v in given.items()}})
    server = pickle.loads(pickle.dumps(Server(options.connection)))
    name = BatchName("sink", "0", 0, True)
    batch = pa.RecordBatch.from_pylist(ROWS)
    for partition, rows, attempt in ((0, batch.slice(0, 30), 0), (1, batch.slice(30), 0), (1, batch.slice(30), 1)):
        task = Task(name, partition, attempt, "run", choose_mode(server, options.write), Durability(), frozenset())
        encoder = RowEncoder(schema("n string"), (), stream)
        TaskWriter(server, options.write, encoder, task).write(iter([rows]))
    whole = Whole("marker", 50, "")
    server.patiently(lambda session: commit_batch(session, stream, name, {"rows": 50}, whole, options.write), stream)
    reader = StreamdStreamReader(options, raw_schema(True, "map"))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    parts = reader.partitions(reader.initialOffset(), end)
    return sorted(
        (dict(row["fields"])["n"] for part in parts for page in reader.read(part) for row in page.to_pylist()), key=int
    )


EXPECTED = [row["n"] for row in ROWS]


def test_the_rights_that_the_document_lists_are_enough_on_streamd(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark-reference.md").read_text()
    rights = text.partition("needs\n\n```text\n")[2].partition("```")[0].split()
    assert "~orders" in rights
    more = re.findall(
        r"`(\+[a-z]+)`", text.partition("needs\n\n```text\n")[2].partition("\n\n")[2].partition("\n##")[0]
    )
    assert {"+xcfgset", "+xsplit"} <= {*more}
    rules = f"on >hunter2 {' '.join([*rights, *more])}"
    with streamd_server(tmp_path, "--user", f"spark {rules}", "--user", "default off") as port:
        who = {"port": port, "username": "spark", "password": "hunter2"}
        assert round_trip("orders", **who) == EXPECTED

        with pytest.raises(StreamdError, match="extend the user's rights"):
            round_trip("others", **who)


def test_a_user_with_few_rights_and_a_password_from_a_file(tmp_path: Path) -> None:
    rights = "+@stream +@hash +@string +@transaction +@connection +time +del +expire -info -command"
    (tmp_path / "secret").write_text("hunter2\n")
    users = ["--user", "default", "off", "--user", "spark", "on", ">hunter2", "~*", *rights.split()]
    with redis_server(*users) as port:
        who = {"port": port, "username": "spark"}
        assert round_trip(**who, passwordFile=tmp_path / "secret") == EXPECTED

        with pytest.raises(StreamdError, match="does not let in user spark") as caught:
            round_trip(**who, password="hunter3")
        assert "hunter" not in str(caught.value)
        with pytest.raises(StreamdError, match="does not let in the default user"):
            round_trip(port=port)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    """The ports of a cluster of three."""
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as ports:
        yield ports


@pytest.mark.parametrize("stream", ["orders", "{user}:a", "{user}:b", "clicks"])
def test_a_cluster_is_found_by_itself_and_all_keys_of_a_stream_share_a_slot(cluster: list[int], stream: str) -> None:
    assert round_trip(stream, port=cluster[0]) == EXPECTED
    assert round_trip(stream, port=cluster[0]) == EXPECTED, "the batch is committed"


def test_any_node_of_a_list_that_answers_leads_to_the_cluster(cluster: list[int]) -> None:
    assert round_trip("listed", url=f"redis://127.0.0.1:{free_port()},127.0.0.1:{cluster[1]}") == EXPECTED


@pytest.mark.parametrize("mode", ["none", "marker"])
def test_a_slot_that_moves_is_followed(cluster: list[int], mode: str) -> None:
    """The connections of before are kept, and each XADD that met MOVED is sent again, no other."""
    options = parse_options({"port": str(cluster[0]), "stream": f"moving-{mode}", "exactlyOnce": mode})
    server = Server(options.connection)

    def write(number: int) -> None:
        task = Task(BatchName("sink", str(number), number, True), 0, 0, "run", mode, Durability(), frozenset())
        encoder = RowEncoder(schema("n string"), (), options.write.stream)
        TaskWriter(server, options.write, encoder, task).write(iter([pa.RecordBatch.from_pylist(ROWS)]))

    write(0)
    source, target = move_slot_of(f"moving-{mode}", cluster)
    write(1)
    with redis.Redis(port=target) as client:
        assert client.xlen(f"moving-{mode}") == 100
    assert source != target


@pytest.mark.spark
def test_a_query_over_all_nodes_goes_on_when_a_slot_moves(
    spark: SparkSession, cluster: list[int], tmp_path: Path
) -> None:
    names = [f"part-{n}" for n in range(4)]
    with redis.RedisCluster(host="127.0.0.1", port=cluster[0], protocol=2) as client:
        assert len({client.get_node_from_key(name).port for name in names}) == 3, "on all nodes"

        def add(first: int) -> None:
            for n in range(first, first + 50):
                client.xadd(names[n % 4], {"n": n})

        reader = spark.readStream.format("streamd").options(port=cluster[2], streamPattern="part-?")
        rows = reader.option("startingOffsets", "earliest").option("patternInterval", 0).schema("n int, _stream string")
        rows = rows.load().selectExpr("n", "concat('copied-', _stream) AS copy")
        query = rows.writeStream.format("streamd").options(port=cluster[0], exactlyOnce="none", streamColumn="copy")
        add(0)
        query = query.option("checkpointLocation", str(tmp_path)).start()
        try:
            query.processAllAvailable()
            move_slot_of("part-1", cluster)
            move_slot_of("copied-part-2", cluster)
            add(50)
            query.processAllAvailable()
            found = [int(entry[b"n"]) for name in names for _, entry in client.xrange(f"copied-{name}")]
        finally:
            query.stop()
    assert sorted(found) == list(range(100))


def test_of_commands_without_names_only_the_refused_are_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server() as port, redis.Redis(port=port) as client:
        options = parse_options({"port": str(port), "stream": "s", "exactlyOnce": "none"})
        exchange, refused = Session.exchange, []

        def refusing(session: Session, packed: list[bytes], count: int) -> list:
            """The slot leaves in the midst of a pipeline: what came too late is answered by MOVED."""
            if refused:
                return exchange(session, packed, count)
            refused.append(count - 20)
            commands = b"".join(packed).split(b"*5\r\n")[1:]
            replies = exchange(session, [b"*5\r\n" + b"*5\r\n".join(commands[:20])], 20)
            return [*replies, *[redis.exceptions.MovedError(f"1 127.0.0.1:{port}")] * (count - 20)]

        monkeypatch.setattr(Session, "exchange", refusing)
        task = Task(BatchName("sink", "0", 0, True), 0, 0, "run", "none", Durability(), frozenset())
        writer = TaskWriter(Server(options.connection), options.write, RowEncoder(schema("n string"), (), "s"), task)
        writer.write(iter([pa.RecordBatch.from_pylist(ROWS)]))

        assert refused == [30]
        assert [entry[b"n"].decode() for _, entry in client.xrange("s")] == EXPECTED


def test_a_pattern_finds_the_streams_of_all_nodes(cluster: list[int]) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=cluster[0]) as client:
        for n in range(12):
            client.xadd(f"found-{n}", {"n": n})
    options = parse_options({"port": str(cluster[0]), "streamPattern": "found-*", "startingOffsets": "earliest"})
    reader = StreamdStreamReader(options, raw_schema(True, "map"))
    assert sorted(reader.initialOffset()) == sorted(f"found-{n}" for n in range(12))


def test_a_server_that_is_away_for_a_while_is_waited_for() -> None:
    port = free_port()
    server = Server(parse_options({"port": str(port), "timeout": "30s"}).connection)
    refused = threading.Event()
    pause = server.pause

    def pausing(pause_s: float) -> float:
        refused.set()
        return pause(pause_s)

    object.__setattr__(server, "pause", pausing)
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(server.patiently(lambda session: session.call("PING"))))
    waiting.start()
    assert refused.wait(10)
    with redis_server(port=port):
        waiting.join(20)
    assert answers == [b"PONG"]
    assert server.patience.retries >= 1


def test_a_server_that_does_not_come_is_given_up() -> None:
    server = Server(parse_options({"port": "1", "timeout": "300ms"}).connection)

    with pytest.raises(Unreachable, match=r"127.0.0.1:1 did not answer for \d+ s \(.*refused.*\): start the server"):
        server.patiently(lambda session: session.call("PING"))


def test_durability_is_promised_only_where_the_server_keeps_it(tmp_path: Path) -> None:
    with old_redis_server("--dir", str(tmp_path)) as port:
        options = parse_options({"port": str(port), "stream": "s", "durability": "fsync"})
        server = Server(options.connection)
        with pytest.raises(OptionError, match="durability=fsync needs appendonly yes and appendfsync always"):
            choose_durability(server, options.write)
        with redis.Redis(port=port) as client:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "always")
        assert choose_durability(server, options.write).command == ""

        waits = parse_options({"port": str(port), "stream": "s", "durability": "replicas:1", "timeout": "1s"})
        task = Task(BatchName("k", "0", 0, True), 0, 0, "r", "marker", Durability("replicas:1", "WAIT", 1), frozenset())
        writer = TaskWriter(Server(waits.connection), waits.write, RowEncoder(schema("n string"), (), "s"), task)
        with pytest.raises(NotDurable, match="durability=replicas:1 was not reached for stream s"):
            writer.write(iter([pa.RecordBatch.from_pylist(ROWS)]))


@pytest.mark.parametrize("parser", ["hiredis", "another"])
def test_each_reply_stands_in_its_place_errors_too(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies that are here already are taken from the parser of redis-py, if it is the one that is expected."""
    with redis_server() as port, Server(parse_options({"port": str(port)}).connection).session() as session:
        if parser == "another":
            monkeypatch.setattr(type(session), "_take_received", lambda *given: None)
        commands = [("SET", "k", n) if n % 3 else ("NO-SUCH-COMMAND", n) for n in range(1000)]
        replies = session.pipeline(commands)

        assert len(replies) == 1000
        for n, reply in enumerate(replies):
            assert reply == b"OK" if n % 3 else isinstance(reply, redis.ResponseError), n
        assert session.call("GET", "k") == b"998"


def test_a_server_that_is_away_is_not_said_to_be_without_tls() -> None:
    given = {"url": f"rediss://127.0.0.1:{free_port()}", "timeout": "100ms"}
    with pytest.raises(Unreachable, match="did not answer"):
        Server(parse_options(given).connection).patiently(lambda session: session.call("PING"))
