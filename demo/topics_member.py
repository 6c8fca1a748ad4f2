"""A member of the shared replay in the demo of topics."""

import argparse
import sqlite3
import sys
import time
from datetime import UTC, datetime

import redis

from streamd.clients.topics import TopicLog

BATCH = 25
LEASE_MS = 60_000
PATIENCE_S = 30


def main() -> int:
    """Work on messages until none comes for a while; note each result under the name of its message."""
    parser = argparse.ArgumentParser(prog="python -m demo.topics_member")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--filter", required=True)
    parser.add_argument("--start-ms", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--results", required=True)
    options = parser.parse_args()
    start = datetime.fromtimestamp(options.start_ms / 1_000, UTC)
    idle_since: float | None = None
    lost_since: float | None = None
    with sqlite3.connect(options.results, timeout=60, isolation_level=None) as db:
        while idle_since is None or time.monotonic() < idle_since + 2:
            try:
                client = redis.Redis(port=options.port)
                log = TopicLog.open(client, options.log)
                with log.share("averages", options.filter, start, options.name, LEASE_MS, ordered=True) as member:
                    lost_since = None
                    print(f"member, start ignored: {member.start_ignored}", flush=True)
                    while idle_since is None or time.monotonic() < idle_since + 2:
                        entries, state = member.next(BATCH)
                        rows = [
                            (one.place, one.topic.split("/")[1], float(one.payload), options.name) for one in entries
                        ]
                        # What comes again, because the server died with its acknowledgement, is not counted again.
                        db.execute("begin immediate")
                        db.executemany("insert or ignore into result values (?, ?, ?, ?)", rows)
                        db.execute("commit")
                        member.ack(entries)
                        if entries:
                            idle_since = None
                            time.sleep(0.02)  # this is work
                        elif state == "live":
                            idle_since = idle_since or time.monotonic()
                            time.sleep(0.1)
            except redis.RedisError:
                lost_since = lost_since or time.monotonic()
                if time.monotonic() > lost_since + PATIENCE_S:
                    raise
                time.sleep(0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
