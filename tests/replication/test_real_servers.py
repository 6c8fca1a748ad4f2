"""Replication over real sockets, between real processes, and with strangers at the other end."""

import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial

import pytest
import redis

from streamd.replication.copy_lines import make_line
from streamd.testing import Clock, EmbeddedServer
from tests.integration.process import ServerProcess

DEADLINE_S = 60


def until(holds):
    """Return once `holds()` is true."""
    ends_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < ends_s, "it does not come true"
        time.sleep(0.005)


def is_up(client):
    return client.info("replication")["master_link_status"] == "up"


@pytest.fixture
def start(tmp_path):
    """A function that starts a server with a journal in this process, by name."""
    with ExitStack() as stack:
        servers = []

        def begin(name, **options):
            options = {"appendonly": True, "dir": str(tmp_path / name), **options}
            server = stack.enter_context(EmbeddedServer(Clock(), **options))
            servers.append(server)
            return server

        yield begin
        assert [server.internal_errors for server in servers] == [0] * len(servers)


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_a_replica_follows_over_tcp(start, policy):
    primary, replica = start("a", appendfsync=policy), start("b", appendfsync=policy)
    there, here = primary.client(), replica.client()
    for number in range(500):
        there.xadd("s", {"n": number, "text": "x" * 1_000})
    here.execute_command("REPLICAOF", "127.0.0.1", primary.port)
    until(lambda: is_up(here))
    for _ in range(20):
        pipe = there.pipeline(transaction=False)
        for number in range(50):
            pipe.xadd("s", {"n": number})
        pipe.execute_command("WAIT", 1, 5_000)
        assert pipe.execute()[-1] == 1
    assert here.xinfo_stream("s")["entries-added"] == 1_500
    assert here.xrange("s") == there.xrange("s")

    assert there.execute_command("CLIENT", "KILL", "TYPE", "replica") == 1
    there.set("k", "v")
    until(lambda: here.get("k") == b"v")
    assert there.info("replication")["connected_slaves"] == 1


def test_a_replica_named_by_the_configuration_and_a_wrong_password(start):
    primary = start("a", requirepass="right")
    there = primary.client(password="right")
    there.set("k", "v")
    replica = start("b", replicaof=f"127.0.0.1 {primary.port}", masterauth="wrong")
    here = replica.client()
    until(lambda: here.info("replication")["master_current_sync_attempts"] >= 2)
    assert here.info("replication")["master_link_status"] == "down"
    here.config_set("masterauth", "right")
    until(lambda: is_up(here) and here.get("k") == b"v")


class Stranger:
    """Something that is no streamd: answers requests with its words, and notes how often it was called.

    words: each is sent after one request more; where it has five lines, after five.
    """

    def __init__(self, *words):
        self.words = words
        self.calls = self.ends = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.calls += 1
            with sock:
                sock.settimeout(DEADLINE_S)
                try:
                    for word in self.words:
                        asked, wanted = 0, 5 if word.count(b"\r\n") == 5 else 1
                        while asked < wanted and (data := sock.recv(10_000)):
                            asked += data.count(b"*")
                        sock.sendall(word)
                    while sock.recv(10_000):
                        pass
                except OSError:
                    pass
            self.ends += 1

    def close(self):
        self._listener.close()


REPLID = b"0123456789" * 4
BODY = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nw\r\n"
line = partial(make_line, REPLID.decode(), 0)
FILES = b"+FULLRESYNC " + REPLID + b" 0 streamd\r\n" + line(b"files", 1, 1, b"0" * 16, REPLID)
HELLO = (b"+PONG\r\n", b"+OK\r\n" * 6)


@pytest.mark.parametrize(
    "words",
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",),
        (b"\x20\x02\x00\x00" * 400,),
        (b"-ERR unknown command 'PING'\r\n",),
        (b"-LOADING Redis is loading the dataset in memory\r\n",),
        (b"+PONG\r\n", b"-ERR unknown command 'REPLCONF'\r\n" * 6, b"-ERR unknown command 'PSYNC'\r\n"),
        (*HELLO, b"+FULLRESYNC " + REPLID + b" 0\r\n$5\r\nREDIS"),
        (*HELLO, b"+CONTINUE\r\n"),
        (*HELLO, b"+FULLRESYNC " + REPLID + b" ten streamd\r\n"),
        (*HELLO, b"+FULLRESYNC " + REPLID + b" 0 streamd\r\n" + line(b"files", 9999, 1, b"0" * 16, REPLID)),
        (*HELLO, FILES + line(b"whole", b"0" * 16)),
        (*HELLO, FILES + line(b"file", -5)),
        (*HELLO, FILES + line(b"file", 29) + BODY + line(b"whole", b"0" * 16)),
        (*HELLO, FILES + line(b"file", 0) * 2),
        (*HELLO, FILES + line(b"file", 10).replace(b"10", b"90")),
        (*HELLO, b"+FULLRESYNC " + b"Z" * 40 + b" 0 streamd\r\n"),
    ],
)  # fmt: skip
def test_a_stranger_changes_nothing(start, words):
    replica = start("b")
    here = replica.client()
    here.set("k", "v")
    stranger = Stranger(*words)
    here.execute_command("REPLICAOF", "127.0.0.1", stranger.port)
    until(lambda: stranger.ends >= 1)
    assert here.get("k") == b"v"
    assert here.info("replication")["master_link_status"] == "down"
    assert here.execute_command("ROLE")[3] in (b"connect", b"connecting")
    here.execute_command("REPLICAOF", "NO", "ONE")
    here.set("k", "w")
    stranger.close()


def test_a_journal_is_not_ended_under_a_replica(start):
    here = start("b").client()
    here.execute_command("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(redis.ResponseError, match="a replica, and a primary with replicas, need their journal"):
        here.config_set("appendonly", "no")
    here.execute_command("REPLICAOF", "NO", "ONE")
    here.config_set("appendonly", "no")
    here.set("k", "v")


def test_stopped_and_killed_processes(tmp_path):
    with ServerProcess(tmp_path / "a", "--appendonly", "yes") as one:
        two = ServerProcess(tmp_path / "b", "--appendonly", "yes")
        try:
            there, here = redis.Redis(port=one.port), redis.Redis(port=two.port)
            here.execute_command("REPLICAOF", "127.0.0.1", one.port)
            until(lambda: is_up(here))
            there.execute_command("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
            os.kill(two.process.pid, signal.SIGSTOP)
            again = redis.Redis(port=one.port).pipeline(transaction=False)
            again.execute_command("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
            again.execute_command("WAIT", 1, 100)
            assert again.execute()[-1] == 0
            os.kill(two.process.pid, signal.SIGCONT)
            assert redis.Redis(port=one.port).execute_command("WAIT", 1, 0) == 1
            until(lambda: here.xlen("s") == 1)

            two.process.kill()
            two.process.wait()
            there.set("k", "v")
            two = ServerProcess(tmp_path / "b", "--appendonly", "yes")
            here = redis.Redis(port=two.port)
            until(lambda: is_up(here) and here.get("k") == b"v")
        finally:
            two.process.kill()
            two.process.communicate()
