"""Full copies, on the primary and on the replica, during which another client's PING is measured."""

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.client import ask, load, request
from bench.journal_shapes import Shape
from bench.servers import Target

_LOAD = ("XADD", "load", "MAXLEN", "~", "100000", "*", "f", "v" * 64)
_LINK_S_MAX = 120.0


def copy_to_replica(target: Target, options: tuple[str, ...]) -> str:
    """Start a replica, which takes a copy while another client writes; return a remark."""
    with writing(target):
        started = time.monotonic()
        with Target(target.kind, (*options, "--replicaof", "127.0.0.1", str(target.port))) as replica:
            _wait_for_link(replica)
            return f"the replica had its copy {time.monotonic() - started:.1f} s after its start"


def copy_from_primary(target: Target, options: tuple[str, ...], size: int) -> str:
    """Make the server a replica of one with so many entries, and wait until it has them; return a remark."""
    with Target(target.kind, options) as primary:
        with primary.connect() as sock:
            load(sock, [request("XADD", "s", f"{number}-1", "f", "v" * 20) for number in range(1, size + 1)])
        return _take_copy(target, primary)


def copy_of_shape(target: Target, options: tuple[str, ...], shape: Shape, count: int) -> str:
    """The same with a primary whose journal has that shape, of so many requests."""
    with Target(target.kind, options) as primary:
        shape.write(primary, count)
        return _take_copy(target, primary)


def _take_copy(target: Target, primary: Target) -> str:
    with target.connect() as sock:
        started = time.monotonic()
        ask(sock, "REPLICAOF", "127.0.0.1", primary.port)
    _wait_for_link(target)
    took_s = time.monotonic() - started
    with target.connect() as sock:
        ask(sock, "REPLICAOF", "NO", "ONE")
    return f"it had the copy after {took_s:.1f} s"


def _wait_for_link(replica: Target) -> None:
    until = time.monotonic() + _LINK_S_MAX
    while time.monotonic() < until:
        with replica.connect() as sock:
            if b"master_link_status:up" in bytes(ask(sock, "INFO", "replication")):  # type: ignore[call-overload]
                return
        time.sleep(0.05)
    raise SystemExit(f"bench: the replica of {replica.kind} is not linked after {_LINK_S_MAX:.0f} s")


@contextmanager
def writing(target: Target) -> Iterator[None]:
    """Have a process write 2,000 entries a second meanwhile."""
    writer = multiprocessing.get_context("fork").Process(target=_write, args=(target,), daemon=True)
    writer.start()
    try:
        yield
    finally:
        writer.terminate()
        writer.join()


def _write(target: Target) -> None:
    batch = [request(*_LOAD)] * 20
    with target.connect() as sock:
        while True:
            load(sock, batch)
            time.sleep(0.01)
