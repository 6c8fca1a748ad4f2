"""Ways to a server: users, TLS, a cluster, a server that comes back; tried on Debian's redis-server."""

import pickle
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from spark_source.connection import Server
from spark_source.encode import RowEncoder
from spark_source.errors import OptionError, StreamdError, Unreachable
from spark_source.identity import BatchName
from spark_source.markers import commit_batch
from spark_source.options import parse_options
from spark_source.schema import raw_schema
from spark_source.sink import Task, TaskWriter
from spark_source.stream_reader import StreamdStreamReader
from spark_source.window import check_durability, choose_mode
from tests.spark.schemas import schema
from tests.spark.servers import free_port, redis_server

pytestmark = pytest.mark.redis

ROWS = [{"n": str(n)} for n in range(50)]


def round_trip(stream: str = "s", **given: object) -> list[str]:
    """Write rows with markers as two tasks, one of them twice, commit, and read them again."""
    options = parse_options({"stream": stream, "startingOffsets": "earliest", **{k: str(v) for k, v in given.items()}})
    server = pickle.loads(pickle.dumps(Server(options.connection)))
    name = BatchName("sink", "0", 0, True)
    batch = pa.RecordBatch.from_pylist(ROWS)
    for partition, rows, attempt in ((0, batch.slice(0, 30), 0), (1, batch.slice(30), 0), (1, batch.slice(30), 1)):
        task = Task(name, partition, attempt, "run", choose_mode(server, options.write), "", frozenset())
        encoder = RowEncoder(schema("n string"), (), stream)
        TaskWriter(server, options.write, encoder, task).write(iter([rows]))
    server.patiently(lambda session: commit_batch(session, stream, name, {"rows": 50}), stream)
    reader = StreamdStreamReader(options, raw_schema(True, "map"))
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    parts = reader.partitions(reader.initialOffset(), end)
    return sorted(
        (dict(row["fields"])["n"] for part in parts for page in reader.read(part) for row in page.to_pylist()), key=int
    )


EXPECTED = [row["n"] for row in ROWS]


def test_a_user_with_few_rights_and_a_password_from_a_file(tmp_path: Path) -> None:
    rights = "+@stream +@hash +@string +@transaction +@connection +time +del -info -command"
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
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    made, key = place / "made.pem", place / "key.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", str(key), "-out", str(made)]
    subprocess.run([*words, *names], check=True, capture_output=True)
    return made, key


def test_tls(certificate: tuple[Path, Path]) -> None:
    made, key = certificate
    port = free_port()
    files = ["--tls-cert-file", str(made), "--tls-key-file", str(key), "--tls-ca-cert-file", str(made)]
    with redis_server(*files, "--tls-port", str(port), "--tls-auth-clients", "no"):
        assert round_trip(url=f"rediss://127.0.0.1:{port}", sslCa=made) == EXPECTED
        with pytest.raises((StreamdError, redis.RedisError), match=r"(?i)certificate"):
            round_trip(url=f"rediss://127.0.0.1:{port}", timeout="1s")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Three nodes of a cluster; gives the port of one."""
    ports = [free_port() for _ in range(3)]
    with ExitStack() as stack:
        for port in ports:
            place = tmp_path_factory.mktemp(f"node-{port}")
            options = ["--cluster-enabled", "yes", "--dir", str(place), "--cluster-port", str(free_port())]
            stack.enter_context(redis_server(*options, port=port))
        nodes = [f"127.0.0.1:{port}" for port in ports]
        words = ["redis-cli", "--cluster", "create", *nodes, "--cluster-yes"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        yield ports[0]


@pytest.mark.parametrize("stream", ["orders", "{user}:a", "{user}:b", "clicks"])
def test_a_cluster_is_found_by_itself_and_all_keys_of_a_stream_share_a_slot(cluster: int, stream: str) -> None:
    assert round_trip(stream, port=cluster) == EXPECTED
    assert round_trip(stream, port=cluster) == EXPECTED, "the batch is committed"


def test_a_pattern_finds_the_streams_of_all_nodes(cluster: int) -> None:
    with redis.RedisCluster(host="127.0.0.1", port=cluster) as client:
        for n in range(12):
            client.xadd(f"found-{n}", {"n": n})
    options = parse_options({"port": str(cluster), "streamPattern": "found-*", "startingOffsets": "earliest"})
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

    with pytest.raises(Unreachable, match=r"127.0.0.1:1 did not answer for 0 s \(.*refused.*\): start the server"):
        server.patiently(lambda session: session.call("PING"))


def test_durability_is_promised_only_where_the_server_keeps_it(tmp_path: Path) -> None:
    with redis_server("--dir", str(tmp_path)) as port:
        options = parse_options({"port": str(port), "stream": "s", "durability": "fsync"})
        server = Server(options.connection)
        with pytest.raises(OptionError, match="durability=fsync needs appendonly yes and appendfsync always"):
            check_durability(server, options.write)
        with redis.Redis(port=port) as client:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "always")
        assert check_durability(server, options.write) == ""

        waits = parse_options({"port": str(port), "stream": "s", "durability": "replicas:1", "timeout": "1s"})
        wait_for = check_durability(server, waits.write)
        task = Task(BatchName("k", "0", 0, True), 0, 0, "r", "marker", wait_for, frozenset())
        writer = TaskWriter(Server(waits.connection), waits.write, RowEncoder(schema("n string"), (), "s"), task)
        with pytest.raises(StreamdError, match="durability=replicas:1 was not reached for stream s"):
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


@pytest.mark.parametrize("kind", ["streamd", "redis"])
def test_tls_to_a_port_without_it_is_said_at_once(request: pytest.FixtureRequest, kind: str) -> None:
    port = request.getfixturevalue(f"{kind}_port")
    given = {"url": f"rediss://127.0.0.1:{port}", "timeout": "2s"}
    said = rf"^there is no TLS at 127.0.0.1:{port}: it answers without, so give redis:// or ssl=false, or the port"
    with pytest.raises(StreamdError, match=said):
        Server(parse_options(given).connection).patiently(lambda session: session.call("PING"))


def test_a_server_that_is_away_is_not_said_to_be_without_tls() -> None:
    given = {"url": f"rediss://127.0.0.1:{free_port()}", "timeout": "100ms"}
    with pytest.raises(Unreachable, match="did not answer"):
        Server(parse_options(given).connection).patiently(lambda session: session.call("PING"))
