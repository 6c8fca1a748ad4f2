"""Many publishers at once, over connections that are cut on purpose, and readers meanwhile."""

import threading
from collections.abc import Callable
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from streamd.clients.topics import Message, TopicLog
from tests.topics.replays import by_pair, replay


def client_at(port: int) -> redis.Redis:
    """Return a client that does not try again by itself."""
    return redis.Redis(port=port, retry=Retry(NoBackoff(), 0), socket_timeout=60)


def publish_all(port: int, log_name: str, publisher: str, topics: int, count: int, batch: int = 25) -> int:
    """Publish 0, 1, 2 ... under each topic, again after each lost connection; return how many were lost."""
    cuts = 0
    messages = [
        Message(f"load/t{topic}", str(number), publisher, f"{topic}/{number}")
        for number in range(count)
        for topic in range(topics)
    ]
    while True:
        try:
            log = TopicLog.open(client_at(port), log_name)
            break
        except redis.ConnectionError:
            cuts += 1
    at = 0
    while at < len(messages):
        try:
            log.publish_many(messages[at : at + batch])
        except redis.RedisError:
            cuts += 1
            continue
        at += batch
    return cuts


def run_threads(jobs: list[Callable[[], Any]]) -> list[Any]:
    """Return what jobs return that run at the same time; the first exception of one is raised."""
    results: list[Any] = [None] * len(jobs)
    errors: list[BaseException] = []

    def work(number: int, job: Callable[[], Any]) -> None:
        try:
            results[number] = job()
        except BaseException as error:
            errors.append(error)
            ended.set()

    ended = threading.Event()
    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not ended.is_set():
            thread.join(1)
    if errors:
        raise errors[0]
    return results


def check_pairs(log: TopicLog, publishers: int, topics: int, count: int) -> None:
    """Check that replays of several filters have each pair once and in order."""
    wanted = list(range(count))
    everything = by_pair(replay(log, "#", n=1_000))
    assert everything == {(f"p{one}", f"load/t{topic}"): wanted for one in range(publishers) for topic in range(topics)}
    assert by_pair(replay(log, "load/+", n=77)) == everything
    one_topic = by_pair(replay(log, "+/t0", n=1_000))
    assert one_topic == {(f"p{one}", "load/t0"): wanted for one in range(publishers)}
