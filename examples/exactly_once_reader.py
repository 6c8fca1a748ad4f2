"""A reader that counts each message exactly once: it keeps its place in the log together with its results.

    python examples/exactly_once_reader.py [--url redis://127.0.0.1:6379] [--messages 5000] [--kills 5]

Devices publish temperatures to a topic log. A reader keeps, per device, count and sum in an SQLite database, and in
the same transaction the iterator that follows what it counted. It is killed in the middle of its work, again and again:
what it had not committed it reads again, what it had committed it does not. Half of the messages come after the first
kill.

Ends with exit code 0 if each device's count and sum are what was published, else 1. Without --url it starts a server of
its own.
"""

import argparse
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import redis

from streamd.clients.topics import Iterator, Message, NotStored, TopicLog

LOG, FILTER, DEVICES, BATCH = "example-readings", "devices/+/temperature", 7, 50


def reader(url: str, database: str, dies_after: int | None) -> None:
    """Be the process of a reader, and end with one line if the server cannot be reached."""
    try:
        read(url, database, dies_after)
    except redis.RedisError as error:
        sys.exit(f"exactly_once_reader: {url}: {error}")


def read(url: str, database: str, dies_after: int | None) -> None:
    """Count the entries in the stream; with `dies_after`, be killed in that batch, before its commit."""
    log = TopicLog.open(redis.Redis.from_url(url), LOG)
    with sqlite3.connect(database, isolation_level=None) as db:
        db.execute("create table if not exists place (iterator blob)")
        db.execute("create table if not exists device (name text primary key, readings int, total real)")
        kept = db.execute("select iterator from place").fetchone()
        iterator = Iterator.from_bytes(kept[0]) if kept else log.iterator(FILTER, "earliest")
        batches = 0
        while True:
            entries, iterator, state = log.next(iterator, BATCH)
            db.execute("begin")
            for entry in entries:
                row = (entry.topic.split("/")[1], float(entry.payload))
                db.execute(
                    "insert into device values (?, 1, ?2) on conflict (name) do update set"
                    " readings = readings + 1, total = total + ?2",
                    row,
                )
            db.execute("delete from place")
            db.execute("insert into place values (?)", (bytes(iterator),))
            batches += 1
            if batches == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)  # the results are written, the transaction is open
            db.execute("commit")
            if state == "live":
                return


def publish(log: TopicLog, numbers: range) -> None:
    """Publish readings, and others that the reader is not to see; some of them twice, as after a lost reply."""
    for again in (1, 10):
        log.publish_many(
            Message(f"devices/d{one % DEVICES}/{kind}", str(one), f"d{one % DEVICES}", f"{kind}-{one}")
            for one in numbers[::again]
            for kind in ("temperature", "humidity")
        )


def run(url: str, messages: int, kills: int) -> int:
    """Publish, read under kills, and compare; return the exit code."""
    client = redis.Redis.from_url(url)
    if LOG in TopicLog.names(client):
        TopicLog.open(client, LOG).drop()
    log = TopicLog.create(client, LOG, filters=["devices/#"])
    publish(log, range(messages // 2))
    with tempfile.TemporaryDirectory() as directory:
        database = str(Path(directory) / "readings.sqlite")
        context = multiprocessing.get_context("spawn")
        killed = 0
        for life in range(kills + 1):
            dies_after = life + 2 if life < kills else None
            process = context.Process(target=reader, args=(url, database, dies_after))
            process.start()
            process.join()
            killed += process.exitcode == -signal.SIGKILL
            if process.exitcode not in (0, -signal.SIGKILL):
                return 2  # it has said why
            if life == 0:
                publish(log, range(messages // 2, messages))
        with sqlite3.connect(database) as db:
            found = {name: (readings, total) for name, readings, total in db.execute("select * from device")}
    wanted = {
        f"d{device}": (len(range(device, messages, DEVICES)), float(sum(range(device, messages, DEVICES))))
        for device in range(DEVICES)
    }
    for name, (readings, total) in sorted(found.items()):
        print(f"  {name}: {readings} readings, average {total / readings:.1f}")
    good = found == wanted
    print(f"messages {messages}, reader killed {killed} times, {'each counted once' if good else f'WRONG: {wanted}'}")
    return 0 if good and killed == kills else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a reader that counts each message exactly once though it is killed")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=5)
    arguments = parser.parse_args()
    at_least = 2 * BATCH * (arguments.kills * (arguments.kills + 1) // 2 + 2)
    if arguments.kills < 0 or arguments.messages < at_least:
        parser.error(f"--messages is at least {at_least} for so many kills: each reader lives a batch longer")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.base.clock import Clock
            from streamd.testing import EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.messages, arguments.kills)
        except (redis.RedisError, NotStored) as error:
            print(f"exactly_once_reader: {url}: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
