"""The long form of the tests of topics: `python -m tests.topics`, or `make topics-long`."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from demo.proxy import CuttingProxy
from streamd.clients.topics import Message, TopicLog
from tests.differential.redis_process import running_redis
from tests.integration.process import ServerProcess
from tests.topics.kills import run_kills
from tests.topics.replays import by_pair
from tests.topics.storms import check_pairs, client_at, publish_all, run_threads

PUBLISHERS, TOPICS, COUNT = 20, 10, 1_000
OLD, RATE, LIVE_S = 100_000, 5_000, 6
BATCH = 250


def main() -> int:
    """Run everything, each part on a server of its own; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.topics", description="the long form of the tests of topics")
    parser.add_argument("--kills", type=int, default=20, help="of each kind of server (default: 20)")
    parser.add_argument("--histories", type=int, default=400, help="random ones, against the model (default: 400)")
    arguments = parser.parse_args()
    good = True
    for name, part in (("storm", storm), ("replay to live", replay_to_live), ("members", members)):
        good &= timed(name, lambda part=part: with_server(part))
    for kind in ("streamd", "redis"):
        if kind == "redis" and shutil.which("redis-server") is None:
            print("kills of redis-server: skipped, it is not installed")
            continue
        good &= timed(f"kills of {kind}", lambda kind=kind: kills(kind, arguments.kills))
        good &= timed(f"killed reader of {kind}", lambda kind=kind: killed_reader(kind))
    good &= timed("random histories", lambda: histories(arguments.histories))
    return 0 if good else 1


def timed(name: str, part: Callable[[], str]) -> bool:
    """Run a part and print what it says; say whether it went well."""
    began = time.monotonic()
    try:
        said, good = part(), True
    except AssertionError as error:
        said, good = f"FAILED: {str(error)[:2_000]}", False
    print(f"{name}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
    return good


def with_server(part: Callable[[int], str]) -> str:
    """Run a part on a streamd process in a directory of its own."""
    directory = Path(tempfile.mkdtemp(prefix="streamd-topics-"))
    try:
        with ServerProcess(directory) as server:
            return part(server.port)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def storm(port: int) -> str:
    """20 publishers, 10 topics, 1,000 messages of each pair, over connections that are cut."""
    log = TopicLog.create(client_at(port), "log")
    proxy = CuttingProxy(port, (20, 60))
    proxy.start()
    try:
        cuts = run_threads(
            [
                lambda one=one: publish_all(proxy.port, "log", f"p{one}", TOPICS, COUNT, batch=100)
                for one in range(PUBLISHERS)
            ]
        )
    finally:
        proxy.stop()
    check_pairs(log, PUBLISHERS, TOPICS, COUNT)
    return f"{PUBLISHERS * TOPICS * COUNT:,} messages, {sum(cuts)} connections cut, each pair in order, once"


def replay_to_live(port: int) -> str:
    """100,000 old messages are replayed while 5,000 come each second."""
    total = OLD + RATE * LIVE_S
    TopicLog.create(client_at(port), "log")
    started = threading.Event()

    def publish(first: int, last: int, rate: int | None) -> None:
        log, began = TopicLog.open(client_at(port), "log"), time.monotonic()
        for at in range(first, last, BATCH):
            numbers = range(at, at + BATCH)
            log.publish_many(Message(f"t{one % 50}", str(one), f"p{one % 20}", str(one)) for one in numbers)
            if rate:
                started.set()
                threading.Event().wait(max(0.0, began + (at + BATCH - first) / rate - time.monotonic()))

    def read() -> tuple[list[int], float]:
        started.wait()
        log, found, live_at = TopicLog.open(client_at(port), "log"), [], 0.0
        began, iterator = time.monotonic(), log.iterator()
        while len(found) < total:
            entries, iterator, state = log.next(iterator, 1_000, block_ms=5_000)
            assert entries, "nothing came for five seconds"
            found += entries
            if state == "live" and not live_at:
                live_at = time.monotonic() - began
        for pair, passed in by_pair(found).items():
            assert passed == sorted(passed), pair
        return [int(entry.payload) for entry in found], live_at

    publish(0, OLD, None)
    (numbers, live_at), _ = run_threads([read, lambda: publish(OLD, total, RATE)])
    assert sorted(numbers) == list(range(total)), "not each message once"
    return f"{total:,} messages, each once; live after {live_at:.1f} s while {RATE:,} came each second"


def members(port: int) -> str:
    """A shared replay by one member, then by four in processes of their own."""
    log = TopicLog.create(client_at(port), "log")
    count = 100_000
    for at in range(0, count, BATCH):
        log.publish_many(Message(f"t{one % 50}", str(one), f"p{one % 200}") for one in range(at, at + BATCH))
    rates = {}
    for crowd in (1, 4):
        script = (
            "import sys, time, redis; from streamd.clients.topics import TopicLog\n"
            f"member = TopicLog.open(redis.Redis(port={port}), 'log').share('group-{crowd}')\n"
            "print('ready', flush=True); sys.stdin.readline(); done = 0\n"
            "while True:\n"
            "    entries, state = member.next(500)\n"
            "    if state == 'live': break\n"
            "    done += member.ack(entries)\n"
            "print(done)"
        )
        pipe = subprocess.PIPE
        workers = [
            subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True) for _ in range(crowd)
        ]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        began = time.monotonic()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        done = [int(worker.communicate(timeout=300)[0]) for worker in workers]
        rates[crowd] = count / (time.monotonic() - began)
        assert sum(done) == count, done
    return f"one member {rates[1]:,.0f}/s, four {rates[4]:,.0f}/s, {rates[4] / rates[1]:.2f} times as quick"


def kills(kind: str, count: int) -> str:
    """Kill a server so many times."""
    directory = Path(tempfile.mkdtemp(prefix="streamd-topics-")) / "data"
    result = run_kills(kind, directory, count, publishers=8, topics=5, count=40 * count, batch=25)
    assert result.faults == 0, str(result)
    return str(result)


def killed_reader(kind: str) -> str:
    """Run the example whose reader is killed again and again, on a kind of server."""
    directory = Path(tempfile.mkdtemp(prefix="streamd-topics-"))
    with ExitStack() as stack:
        if kind == "redis":
            port = stack.enter_context(running_redis(directory))
        else:
            port = stack.enter_context(ServerProcess(directory)).port
        url = f"redis://127.0.0.1:{port}"
        command = [sys.executable, "examples/exactly_once_reader.py", "--url", url, "--kills", "5"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    shutil.rmtree(directory, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def histories(count: int) -> str:
    """Run the state machine for longer."""
    import pytest

    os.environ["TOPICS_EXAMPLES"] = str(count)
    assert pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).parent / "test_topics_machine.py")]) == 0
    return f"{count} histories are those of the model"


if __name__ == "__main__":
    sys.exit(main())
