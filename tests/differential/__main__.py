"""Compares streamd with Redis 8.10.2 over random histories: `make differential ARGS="--steps 100000 --seed 1"`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from scripts.newest_redis import NoRedis, newest_redis
from tests.differential.histories import HISTORY_STEPS, as_text, replay, shorten, write_and_run
from tests.differential.redis_process import running_redis
from tests.differential.two_servers import Difference, Step, TwoServers

# Rules that two of the three clients have in every third history, one after the other. (`?*`, not `*`: the empty key is
# listed as a difference.)
USERS = [
    b"+@all %R~?* %W~s* ~a* ~l* ~h*",
    b"-@all +@stream +@connection +@transaction +@read ~s ~t %R~?*",
    b"+@all -@blocking +xread -xadd ~[a-s]*",
    b"-@all +@fast +@connection (+@all ~s*) (+@write %W~?*) (+@read %R~[a-m]*)",
]


def rules_of(seed: int) -> bytes:
    """Return the rules of the user that clients are in the history of a seed; none for most."""
    return USERS[seed // 3 % len(USERS)] if seed % 3 == 2 else b""


def fresh_servers(port: int, seed: int) -> TwoServers:
    """Return both servers for the history of a seed: every fourth one has its events compared, too, and every third one
    has clients with rules.
    """
    return TwoServers(port, events=seed % 4 == 0, rules=rules_of(seed))


def compare(port: int, seeds: Iterable[int], steps: int) -> tuple[int, int, list[Step], Difference | None]:
    """Run histories of up to HISTORY_STEPS requests until `steps` were sent or a difference was found.

    Return how many requests were sent, the seed that came last, and its shortened history with the difference.
    """
    sent = seed = 0
    for seed in seeds:
        servers = fresh_servers(port, seed)
        history, more, difference = write_and_run(servers, seed, min(HISTORY_STEPS, steps - sent))
        servers.close()
        sent += more
        if difference is not None:
            history = shorten(history, lambda tried, seed=seed: _shows(port, seed, tried))  # type: ignore[misc]
            servers = fresh_servers(port, seed)
            difference = replay(servers, history) or difference
            servers.close()
            return sent, seed, history, difference
        if sent >= steps:
            break
    return sent, seed, [], None


def _shows(port: int, seed: int, history: list[Step]) -> bool:
    servers = fresh_servers(port, seed)
    try:
        return replay(servers, history) is not None
    finally:
        servers.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="how many requests are sent to each server")
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1_000_000_000, help="the first history")
    parser.add_argument("--differences", type=int, default=10, help="stop when so many were found")
    options = parser.parse_args()
    try:
        newest_redis()
    except NoRedis as error:
        print(f"differential: there is no Redis 8.10.2 to compare with: {error}", file=sys.stderr)
        return 2
    started = time.monotonic()
    sent, seed, found = 0, options.seed - 1, 0
    with tempfile.TemporaryDirectory() as directory, running_redis(Path(directory)) as port:
        while sent < options.steps and found < options.differences:
            more, seed, history, difference = compare(port, range(seed + 1, sys.maxsize), options.steps - sent)
            sent += more
            if difference is not None:
                found += 1
                print(f"-- seed {seed}\n{as_text(history)}\n{difference}\n", flush=True)
    print(
        f"{sent} requests, histories {options.seed} to {seed}, unexplained {found}, {time.monotonic() - started:.0f} s"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
