"""More than one Redis 8.10.2: a cluster, Sentinels, TLS; on free ports of 127.0.0.1, skipped where there is none."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.differential.redis_process import judge
from tests.spark.servers import redis_server


@contextmanager
def redis_cluster(place: Path, nodes: int = 3) -> Iterator[list[int]]:
    """Run the nodes of a cluster; gives their ports."""
    ports = [free_port() for _ in range(nodes)]
    with ExitStack() as stack:
        for port in ports:
            directory = place / str(port)
            directory.mkdir()
            options = ["--cluster-enabled", "yes", "--dir", str(directory), "--cluster-port", str(free_port())]
            stack.enter_context(redis_server(*options, port=port))
        words = ["redis-cli", "--cluster", "create", *(f"127.0.0.1:{port}" for port in ports), "--cluster-yes"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        yield ports


def move_slot_of(key: str, ports: list[int]) -> tuple[int, int]:
    """Move the slot of a key with all that it holds to another node; return the ports it was and is at."""
    clients = {port: redis.Redis(port=port) for port in ports}
    names = {port: client.execute_command("CLUSTER MYID") for port, client in clients.items()}
    slot = clients[ports[0]].cluster("KEYSLOT", key)
    cluster = redis.RedisCluster(host="127.0.0.1", port=ports[0])
    source = cluster.get_node_from_key(key).port
    cluster.close()
    target = next(port for port in ports if port != source)
    clients[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", names[source])
    clients[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", names[target])
    while keys := clients[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
        clients[source].execute_command("MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS", *keys)
    for port in (target, source, *(port for port in ports if port not in (source, target))):
        clients[port].execute_command("CLUSTER SETSLOT", slot, "NODE", names[target])
    for client in clients.values():
        client.close()
    return source, target


@dataclass
class Watched:
    """A master, its replica, and the Sentinel that watches them."""

    sentinel: int
    master: int
    replica: int

    def master_now(self) -> int:
        with redis.Redis(port=self.sentinel) as client:
            return int(client.sentinel_get_master_addr_by_name("mymaster")[1])

    def fail_over(self) -> None:
        """Have the replica made the master; returns when it is, and the old one knows: until then that one takes rows,
        which are lost, as Redis has it."""
        before = self.master_now()
        with redis.Redis(port=self.sentinel) as client:
            wait_until(lambda: client.sentinel_master("mymaster")["num-slaves"] == 1)
            wait_until(lambda: client.sentinel_slaves("mymaster")[0]["master-link-status"] == "ok")
            client.execute_command("SENTINEL FAILOVER", "mymaster")
        wait_until(lambda: self.master_now() != before)
        with redis.Redis(port=before) as old:
            wait_until(lambda: old.execute_command("ROLE")[0] == b"slave", 60)


@contextmanager
def watched_redis(place: Path, *options: str) -> Iterator[Watched]:
    """Run a master named mymaster, a replica and a Sentinel."""
    with ExitStack() as stack:
        for name in ("master", "replica"):
            (place / name).mkdir()
        here = ["--repl-diskless-sync-delay", "0", *options, "--dir"]
        master = stack.enter_context(redis_server(*here, str(place / "master")))
        behind = ["--replicaof", "127.0.0.1", str(master)]
        replica = stack.enter_context(redis_server(*behind, *here, str(place / "replica")))
        port = free_port()
        configuration = place / "sentinel.conf"
        configuration.write_text(
            f"port {port}\nbind 127.0.0.1\ndir {place}\nsentinel monitor mymaster 127.0.0.1 {master} 1\n"
            "sentinel down-after-milliseconds mymaster 2000\nsentinel failover-timeout mymaster 10000\n"
        )
        process = subprocess.Popen([judge(), str(configuration), "--sentinel"], stdout=subprocess.DEVNULL)
        try:
            wait_until(lambda: _answers(port))
            yield Watched(port, master, replica)
        finally:
            process.terminate()
            process.wait(20)


def _answers(port: int) -> bool:
    try:
        with redis.Redis(port=port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


def wait_until(holds, timeout_s: float = 30.0) -> None:
    """Wait until a condition holds. Raises: AssertionError."""
    until = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.05)


@dataclass
class Certificates:
    """Files in PEM form: who vouches, a server's pair for the name localhost, a client's pair whose key is locked."""

    ca: Path
    cert: Path
    key: Path
    client_cert: Path
    client_key: Path
    client_key_password: str = "open sesame"

    def options(self, port: int, client_certificates: str = "yes") -> list[str]:
        """Return the options of a redis-server that speaks TLS at a port."""
        files = ["--tls-cert-file", self.cert, "--tls-key-file", self.key, "--tls-ca-cert-file", self.ca]
        return [*map(str, files), "--tls-port", str(port), "--tls-auth-clients", client_certificates]


def make_certificates(place: Path) -> Certificates:
    """Make certificates for two days. Skips the test where openssl is not installed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")

    def openssl(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=place)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", "/CN=us", "-keyout", "ca.key",
            "-addext", "keyUsage=keyCertSign,cRLSign", "-out", "ca.pem")  # fmt: skip
    for name, more in (("server", ["-nodes"]), ("client", ["-passout", f"pass:{Certificates.client_key_password}"])):
        openssl(
            "req", "-newkey", "rsa:2048", *more, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", "request"
        )
        (place / "names").write_text("subjectAltName=DNS:localhost\n")
        openssl("x509", "-req", "-in", "request", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", 2,
                "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip
    return Certificates(*(place / name for name in ("ca.pem", "server.pem", "server.key", "client.pem", "client.key")))
