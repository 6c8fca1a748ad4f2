"""Servers of Redis 8.10.2 that take over from one another: a master with replicas, a cluster of such."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from bench.ports import free_port
from tests.spark.deployments import wait_until


class Node:
    """One process. `port` stays its own over ends and starts."""

    def __init__(self, program: Path, place: Path, *options: str, port: int = 0) -> None:
        self.port = port or free_port()
        self.place = place / str(self.port)
        self.place.mkdir(parents=True, exist_ok=True)
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self.place]
        self.command += ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", *options]
        self.client = redis.Redis(port=self.port, socket_timeout=60)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        wait_until(self.answers)

    def answers(self) -> bool:
        assert self.process.poll() is None, "redis-server ended"
        try:
            return bool(self.client.ping())
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False

    def stall(self) -> None:
        """Have the process stand still, with its connections open."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def leave_master(self) -> None:
        """Have a replica get no more of what its master writes, not even what is on the way."""
        self.client.replicaof("127.0.0.1", 1)

    def drop_replicas(self) -> None:
        """Have a master send its replicas nothing more, while it goes on answering everybody else."""
        self.client.execute_command("ACL SETUSER default -psync -sync")
        self.client.execute_command("CLIENT KILL TYPE replica")

    def kill(self) -> None:
        """End the process as a power cut would."""
        self.process.kill()
        self.process.wait()

    def replication(self) -> dict:
        return self.client.info("replication")

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()


@contextmanager
def master_with_replicas(program: Path, place: Path, replicas: int, *options: str) -> Iterator[list[Node]]:
    """Run a master and its replicas, connected; gives the master first."""
    nodes = [Node(program, place, *options)]
    try:
        master = nodes[0]
        for _ in range(replicas):
            nodes.append(Node(program, place, "--replicaof", "127.0.0.1", str(master.port), *options))
        for node in nodes[1:]:
            wait_until(lambda node=node: node.replication().get("master_link_status") == "up")
        wait_until(lambda: master.replication()["connected_slaves"] == replicas)
        yield nodes
    finally:
        for node in nodes:
            node.close()


def promote(chosen: Node, *others: Node) -> None:
    """Make one the master, and the others its replicas."""
    chosen.client.replicaof("NO", "ONE")
    for other in others:
        other.client.replicaof("127.0.0.1", chosen.port)
    for other in others:
        wait_until(lambda other=other: other.replication().get("master_link_status") == "up")
    wait_until(lambda: chosen.replication()["connected_slaves"] == len(others))


class Cluster:
    """Masters, each with a replica."""

    def __init__(self, nodes: list[Node], masters: int) -> None:
        self.nodes = nodes
        self.first = masters

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes if node.process.poll() is None]

    def master_of(self, key: str) -> Node:
        """Return the node that serves a key now."""
        for node in self.running:
            role = node.client.execute_command("ROLE")[0]
            slots = node.client.execute_command("CLUSTER SLOTS") if role == b"master" else []
            slot = node.client.execute_command("CLUSTER KEYSLOT", key) if slots else 0
            for start, end, (_, port, *_), *_ in slots:
                if start <= slot <= end and port == node.port:
                    return node
        raise AssertionError(f"nobody serves {key}")

    def replicas_of(self, master: Node) -> list[Node]:
        return [node for node in self.running if node.replication().get("master_port") == master.port]

    def is_whole(self) -> bool:
        """Whether every node that runs takes the cluster for whole, and the replicas follow."""
        for node in self.running:
            info = node.client.cluster("INFO")
            if info["cluster_state"] != "ok":
                return False
            found = node.replication()
            if found["role"] == "slave" and found["master_link_status"] != "up":
                return False
        return True

    def wait_until_whole(self, timeout_s: float = 60.0) -> None:
        wait_until(self.is_whole, timeout_s)


@contextmanager
def cluster_of(program: Path, place: Path, masters: int = 3, node_timeout_ms: int = 1000) -> Iterator[Cluster]:
    """Run a cluster of masters, each with one replica; it is there after two seconds."""
    options = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout"]
    options += [str(node_timeout_ms), "--cluster-replica-validity-factor", "0"]
    nodes: list[Node] = []
    try:
        for _ in range(2 * masters):
            nodes.append(Node(program, place, *options))
        for number, node in enumerate(nodes):
            node.client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        bounds = [16_384 * number // masters for number in range(masters + 1)]
        for number, node in enumerate(nodes[:masters]):
            node.client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        for node in nodes[1:]:
            nodes[0].client.execute_command("CLUSTER MEET", "127.0.0.1", node.port)
        for node in nodes:
            wait_until(lambda node=node: int(node.client.cluster("INFO")["cluster_known_nodes"]) == len(nodes))
        for number, node in enumerate(nodes[masters:]):
            name = nodes[number].client.execute_command("CLUSTER MYID")
            wait_until(lambda node=node, name=name: _replicates(node, name))
        made = Cluster(nodes, masters)
        made.wait_until_whole()
        for master in nodes[:masters]:
            wait_until(lambda master=master: master.replication()["connected_slaves"] == 1)
        yield made
    finally:
        for node in nodes:
            node.close()


def _replicates(node: Node, master: bytes) -> bool:
    try:
        return bool(node.client.execute_command("CLUSTER REPLICATE", master))
    except redis.ResponseError:
        return False  # it has not heard of the master yet


def wait_s(seconds: float) -> None:
    """Let time pass that only passes outside of this process: a server's own time-outs."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= until, seconds + 5)
