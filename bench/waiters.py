"""Workloads of many waiting readers: for one stream as a group, or each for a stream of its own."""

import resource
import select
import socket
import time

from bench.client import ask, request
from bench.measure import Sample, Work
from bench.servers import Target
from bench.workloads import VALUE, Workload


def _receive(socks: list[socket.socket], replies: int) -> list[socket.socket]:
    """Return the connections that got a reply, when there are so many of them; a reply is in one piece."""
    poll = select.epoll()
    by_fd = {sock.fileno(): sock for sock in socks}
    for descriptor in by_fd:
        poll.register(descriptor, select.EPOLLIN)
    served: list[socket.socket] = []
    while len(served) < replies:
        for descriptor, _ in poll.poll(30):
            by_fd[descriptor].recv(4096)
            poll.unregister(descriptor)
            served.append(by_fd[descriptor])
    poll.close()
    return served


def _wait_until_blocked(sock: socket.socket, clients: int) -> None:
    while f"blocked_clients:{clients}\r".encode() not in bytes(ask(sock, "INFO", "clients")):  # type: ignore[arg-type]
        time.sleep(0.005)


def _connect(target: Target, readers: int) -> list[socket.socket]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * readers:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 3 * readers), hard))
    return [target.connect() for _ in range(readers)]


def of_a_group(readers: int, wakes: int, rounds: int) -> Work:
    """Return XADDs, one after the other, each of which serves one of this many waiting consumers of one group."""

    def work(target: Target) -> Sample:
        socks = _connect(target, readers)
        elapsed = cpu = 0.0
        with target.connect() as writer:
            ask(writer, "DEL", "fan")
            ask(writer, "XGROUP", "CREATE", "fan", "g", "$", "MKSTREAM")
            reads = {
                sock: request("XREADGROUP", "GROUP", "g", f"c{n}", "BLOCK", 0, "STREAMS", "fan", ">")
                for n, sock in enumerate(socks)
            }
            waiting = socks
            for _ in range(rounds):
                for sock in waiting:
                    sock.sendall(reads[sock])
                _wait_until_blocked(writer, readers)
                cpu_before, start = target.cpu_s(), time.perf_counter()
                for _ in range(wakes):
                    ask(writer, "XADD", "fan", "*", "f", VALUE)
                waiting = _receive(socks, wakes)
                elapsed += time.perf_counter() - start
                cpu += target.cpu_s() - cpu_before
        for sock in socks:
            sock.close()
        return Sample(wakes * rounds / elapsed, cpu / (wakes * rounds) * 1e6)

    return work


def of_own_streams(readers: int, rounds: int) -> Work:
    """Return XADDs, one after the other, to this many streams, each with one waiting reader."""
    return on_each_stream(readers, 1, rounds)


def on_each_stream(streams: int, readers: int, rounds: int) -> Work:
    """Return XADDs, one after the other, to this many streams, each of which wakes this many readers."""

    def work(target: Target) -> Sample:
        socks = _connect(target, streams * readers)
        elapsed = cpu = 0.0
        with target.connect() as writer:
            for _ in range(rounds):
                for number, sock in enumerate(socks):
                    sock.sendall(request("XREAD", "BLOCK", 0, "STREAMS", f"each{number % streams}", "$"))
                _wait_until_blocked(writer, len(socks))
                cpu_before, start = target.cpu_s(), time.perf_counter()
                for number in range(streams):
                    ask(writer, "XADD", f"each{number}", "*", "f", VALUE)
                _receive(socks, len(socks))
                elapsed += time.perf_counter() - start
                cpu += target.cpu_s() - cpu_before
        for sock in socks:
            sock.close()
        return Sample(streams * rounds / elapsed, cpu / (streams * rounds) * 1e6)

    return work


MANY_CLIENTS = ("--maxclients", "12000")
# Wanted is at most so many times redis-server's time: 1.5 of a group; 1.1, pure 1.5, of streams; and 0.4 ms for an XADD
# where redis-server took 0.18.
WAITER_WORKLOADS: tuple[Workload, ...] = (
    Workload("500 readers of a group wait, an XADD for each", of_a_group(500, 500, 4), 0.67, rounds=3, short=True),
    Workload("4,000 readers of a group wait, 200 XADDs", of_a_group(4_000, 200, 2), 0.45, rounds=3),
    Workload(
        "500 readers wait for 500 streams, an XADD to each", of_own_streams(500, 4), 0.91, rounds=5, least_pure=0.67
    ),
    Workload(
        "100 readers wait for each of 100 streams, an XADD to each",
        on_each_stream(100, 100, 1),
        0.91,
        MANY_CLIENTS,
        least_pure=0.67,
    ),
)
