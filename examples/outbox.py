"""An outbox: an order and its event are committed together in SQLite, a relay brings each event to a stream once.

    python examples/outbox.py [--url redis://127.0.0.1:6379] [--orders 60] [--without-idmp]

A service that writes to its database and then to a stream may die in between. So it writes the event into a table of
the same database, `outbox`, in the transaction of the order. A relay reads that table in order, sends each row with
XADD IDMP under the row's number, and then deletes it. Service and relay are killed (signal 9) at each moment at which
that could do harm, and started again: every order that was committed has one entry, in the order of the commits, and
what was not committed has none. `--without-idmp` shows what the same relay does with a plain XADD.

It works alike with PostgreSQL; but there rows may be committed in another order than that of their numbers, and entries
are then in neither. One relay at a time keeps the order; of several, each entry is single, too.

Ends with exit code 0 if each order has exactly one entry, else 1. Without --url it starts a server of its own.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import redis

STREAM, PRODUCER, BATCH = "order-events", "outbox", 10
# A row is sent again only while it is in the table: at most a batch is uncertain, for as long as the relay is down.
WINDOW = ("IDMP-DURATION", 86_400, "IDMP-MAXSIZE", 1_000)
TABLES = """
create table if not exists orders (number integer primary key, cents integer not null);
create table if not exists outbox (id integer primary key autoincrement, fields text not null);
"""

SERVICE_DIES = ("the order is written, not the event", "order and event are written, not committed")
RELAY_DIES = (
    "rows are read, nothing is sent",
    "half of the batch is sent",
    "the batch is sent, nothing is deleted",
    "the rows are deleted, not committed",
)


class Doom:
    """Kills this process when it comes to a place, or never."""

    def __init__(self, place: str | None) -> None:
        self._place = place

    def at(self, place: str) -> None:
        """Be here."""
        if place == self._place:
            os.kill(os.getpid(), signal.SIGKILL)


def open_database(path: str) -> sqlite3.Connection:
    """Return a connection on which transactions begin where the code says so."""
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    database.executescript(TABLES)
    return database


def serve(path: str, numbers: range, dies_at: str | None = None) -> None:
    """Take orders; be killed in the last of them."""
    with closing(open_database(path)) as database:
        for number in numbers:
            doom = Doom(dies_at if number == numbers[-1] else None)
            database.execute("begin immediate")
            database.execute("insert into orders values (?, ?)", (number, 100 + number))
            doom.at(SERVICE_DIES[0])
            event = json.dumps({"order": f"order-{number}", "cents": 100 + number})
            database.execute("insert into outbox (fields) values (?)", (event,))
            doom.at(SERVICE_DIES[1])
            database.execute("commit")


def relay(path: str, url: str, has_idmp: bool, dies_at: str | None = None) -> None:
    """Bring what is in the outbox to the stream, until it is empty."""
    doom = Doom(dies_at)
    client = redis.Redis.from_url(url)
    with closing(open_database(path)) as database:
        while rows := database.execute("select id, fields from outbox order by id limit ?", (BATCH,)).fetchall():
            doom.at(RELAY_DIES[0])
            for place, (row, fields) in enumerate(rows):
                if place == len(rows) // 2:
                    doom.at(RELAY_DIES[1])
                # The row's number is never given twice (autoincrement): it names the entry, whoever sends it again.
                client.xadd(STREAM, json.loads(fields), idmp=(PRODUCER, str(row)) if has_idmp else None)
            doom.at(RELAY_DIES[2])
            database.execute("begin immediate")
            database.executemany("delete from outbox where id = ?", [(row,) for row, _ in rows])
            doom.at(RELAY_DIES[3])
            database.execute("commit")


def relay_process(path: str, url: str, has_idmp: bool, dies_at: str) -> None:
    """Be the process of a relay, and end with one line if the server cannot be reached."""
    try:
        relay(path, url, has_idmp, dies_at)
    except redis.RedisError as error:
        sys.exit(f"outbox: {url}: {error}")


def in_a_process(work: object, *arguments: object) -> bool:
    """Run a function in a process; return whether it was killed."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)  # type: ignore[arg-type]
    process.start()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        sys.exit(2)  # it has said why
    return process.exitcode == -signal.SIGKILL


def run(url: str, orders: int, has_idmp: bool) -> int:
    """Kill service and relay at each place in turn, and compare; return the exit code."""
    client = redis.Redis.from_url(url, decode_responses=True)
    client.delete(STREAM)
    client.xgroup_create(STREAM, "mails", id="0", mkstream=True)
    if has_idmp:
        client.execute_command("XCFGSET", STREAM, *WINDOW)
    killed = 0
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "shop.sqlite")
        each = orders // 6
        for life, place in enumerate((*SERVICE_DIES, *RELAY_DIES)):
            first = life * each
            numbers = range(first, orders if life == 5 else first + each)
            if place in SERVICE_DIES:
                killed += in_a_process(serve, path, numbers, place)
                serve(path, numbers[-1:])  # the service starts again, and the customer orders again
                relay(path, url, has_idmp)
            else:
                serve(path, numbers)
                killed += in_a_process(relay_process, path, url, has_idmp, place)
                relay(path, url, has_idmp)  # the relay starts again
            print(f"killed when {place}: now {client.xlen(STREAM)} entries of {numbers[-1] + 1} orders")
        with closing(open_database(path)) as database:
            rows = database.execute("select number from orders order by number")
            committed = [f"order-{number}" for (number,) in rows]
            left = database.execute("select count(*) from outbox").fetchone()[0]
    found = [fields["order"] for _, fields in client.xrange(STREAM)]
    lost, twice = len(set(committed) - set(found)), len(found) - len(set(found))
    in_order = list(Counter(found)) == committed
    known = client.xinfo_stream(STREAM).get("iids-duplicates", 0)
    print(f"orders {len(committed)}, entries {len(found)}, killed {killed} times, duplicates suppressed {known}")
    print(f"left in the outbox {left}, lost {lost}, twice {twice}, {'in order' if in_order else 'OUT OF ORDER'}")
    return 0 if found == committed and left == 0 and killed == 6 else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="an outbox in SQLite, and a relay that may be killed anywhere")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--orders", type=int, default=60, help="at least 12")
    parser.add_argument("--without-idmp", action="store_true", help="send with a plain XADD, and see entries twice")
    arguments = parser.parse_args()
    if arguments.orders < 12:
        parser.error("--orders is at least 12: two for each place at which something is killed")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.orders, not arguments.without_idmp)
        except redis.RedisError as error:
            needs = "; this needs streamd, or Redis from 8.6 on" if isinstance(error, redis.ResponseError) else ""
            print(f"outbox: {url}: {error}{needs}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
