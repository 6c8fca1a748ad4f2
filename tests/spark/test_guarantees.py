"""The table of docs/exactly-once.md, cell by cell: each way to fail with each way to know a row."""

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from spark_source.errors import OldCheckpoint, RowsChanged, StreamdError, WindowExpired
from spark_source.naming.identity import BatchName
from spark_source.settings.options import parse_options
from spark_source.writing.sink import Outcome
from spark_source.writing.writer import StreamdStreamWriter
from streamd.testing import EmbeddedServer
from tests.integration.process import ServerProcess
from tests.spark.one_task import COLUMNS, commit_reports, entries, port_of, write
from tests.spark.servers import client as connected

TABLE = Path(__file__).resolve().parent.parent.parent / "docs" / "exactly-once.md"

IDENTITIES: dict[str, dict[str, str]] = {
    "content": {},
    "key": {"idempotencyKey": "n"},
    "position": {"identity": "position"},
    "marker": {"exactlyOnce": "marker"},
    "none": {"exactlyOnce": "none"},
}
ROWS = [{"n": n, "v": f"v{n}"} for n in range(40)]
ONCE, TWICE, LOST, STOPS = "once", "duplicates", "loses and duplicates", "stops"
LEFT_OUT = "leaves out"

# What is promised, or not: the identities in the order above.
PROMISES = {
    "1": (ONCE, ONCE, ONCE, ONCE, ONCE),
    "2": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "2a": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "3": (ONCE, ONCE, STOPS, STOPS, TWICE),
    "3a": (STOPS, ONCE, STOPS, STOPS, TWICE),
    "4": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "5": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "6": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "7": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "8": (ONCE, ONCE, ONCE, ONCE, TWICE),
    "9": (STOPS, ONCE, STOPS, STOPS, TWICE),
    "9a": (STOPS, ONCE, STOPS, STOPS, TWICE),
    "9b": (STOPS, STOPS, STOPS, STOPS, TWICE),
    "9c": (TWICE, TWICE, LOST, STOPS, TWICE),
    "10": (STOPS, STOPS, STOPS, ONCE, TWICE),
    "10a": (TWICE, TWICE, TWICE, ONCE, TWICE),
    "11": (STOPS, ONCE, STOPS, STOPS, TWICE),
    "11a": (STOPS, STOPS, STOPS, STOPS, TWICE),
    "12": (STOPS, STOPS, STOPS, STOPS, TWICE),
    "12a": (STOPS, STOPS, STOPS, STOPS, TWICE),
    "12b": (LEFT_OUT, LEFT_OUT, LEFT_OUT, LEFT_OUT, TWICE),
}


class World:
    """A server, and attempts to write ROWS to it with one identity."""

    def __init__(self, client: redis.Redis, options: dict[str, str], advance: Callable[..., None]) -> None:
        self.client = client
        self.options = options
        self.advance = advance
        self.outcomes: dict[int, Outcome] = {}

    def write(self, rows: list[dict] = ROWS, **more: object) -> None:
        """Write as one attempt; the last one of each partition is what counts."""
        self.outcomes[int(more.get("partition", 0))] = write(self.client, rows, **{**self.options, **more})  # type: ignore[call-overload]

    def fail(self, how: "Callable[[World], None]") -> None:
        """Have something fail; commit what the last attempts have written, as the driver does."""
        how(self)
        commit_reports(self.client, self.outcomes, **self.options)

    def die(self, at: int = 5, rows: list[dict] = ROWS, how: str = "after", **more: object) -> None:
        """Write until the connection breaks for good, before or after the server has the bytes."""
        with pytest.raises((redis.RedisError, StreamdError)):
            self.write(rows, cuts=dict.fromkeys(range(at, 99), how), timeout="1ms", **more)


@contextmanager
def embedded() -> Iterator[tuple[redis.Redis, Callable[..., None]]]:
    with EmbeddedServer() as server, connected(server.port) as client:
        yield client, server.advance


def reordered(rows: list[dict] = ROWS) -> list[dict]:
    return random.Random(7).sample(rows, len(rows))


# --- the ways to fail: each ends with the attempt that Spark takes for a success ------------------------------------


def crash_before_the_batch_is_planned(world: World) -> None:
    world.write(run="r2")


def task_dies_with_rows_written(world: World) -> None:
    world.die()
    world.write(attempt=1)


def connection_cut_and_made_again(world: World) -> None:
    if world.options.get("exactlyOnce") == "none":
        world.die()  # nothing is sent again without a name: the task fails, and Spark tries it again
        world.write(attempt=1)
    else:
        world.write(cuts={2: "after", 4: "after", 6: "before", 8: "after"})


def stage_runs_again_in_another_order(world: World) -> None:
    world.die()
    world.write(reordered(), attempt=1)


def rows_move_between_partitions(world: World) -> None:
    world.write(ROWS[::2], partition=0)
    world.die(rows=ROWS[1::2], partition=1)
    moved = reordered()
    world.write(moved[:20], partition=0, run="r2")
    world.write(moved[20:], partition=1, run="r2")


def two_attempts_at_once(world: World) -> None:
    def copy() -> None:
        write(world.client, ROWS, attempt=1, **world.options)

    world.write(cuts={4: copy})


def driver_dies_before_the_sink_commits(world: World) -> None:
    world.write()
    world.write(run="r2")


def driver_dies_before_spark_notes_the_commit(world: World) -> None:
    world.write()
    commit_reports(world.client, world.outcomes, **world.options)
    world.advance(seconds=90_000)  # however long that lasts
    world.write(reordered(), run="r2")


def job_fails_for_good_and_is_started_again(world: World) -> None:
    world.die()
    given = {"port": port_of(world.client), "stream": "s", **world.options}
    StreamdStreamWriter(parse_options(given), COLUMNS, False).abort([], 3)
    world.write(run="r2")


def filter_changes_before_the_restart(world: World) -> None:
    world.die(rows=[row for row in ROWS if row["n"] % 5])
    world.write(run="r2")


def content_changes_before_the_restart(world: World) -> None:
    world.die(rows=[{**row, "v": "old"} for row in ROWS])
    world.write(run="r2")


def rows_are_left_out_after_the_restart(world: World) -> None:
    world.die(rows=[{"n": n, "v": f"v{n}"} for n in range(100, 140)] + ROWS)
    world.write(run="r2")


def rows_are_left_out_after_the_restart_and_that_is_accepted(world: World) -> None:
    world.die(rows=[{"n": 100, "v": "v100"}, *ROWS])
    world.options = {**world.options, "onRowsChanged": "continue"}
    world.write(run="r2")


def every_attempt_brings_other_values(world: World) -> None:
    world.die(rows=[{**row, "v": f"first {row['n']}"} for row in ROWS])
    world.write(attempt=1)


def every_attempt_brings_other_keys(world: World) -> None:
    world.die(rows=[{**row, "n": row["n"] + 1000} for row in ROWS])
    world.write(attempt=1)


def outage_longer_than_the_window(world: World) -> None:
    world.die()
    world.advance(seconds=86_401)
    world.write(run="r2")


def outage_longer_than_the_window_and_that_is_accepted(world: World) -> None:
    world.die()
    world.advance(seconds=86_401)
    world.write(run="r2", onWindowExpired="continue")


def checkpoint_is_put_back(world: World) -> None:
    world.write()
    commit_reports(world.client, world.outcomes, **world.options)
    world.write(name=BatchName("sink", "2", 2, True), run="r2")


def committed_batch_comes_again_with_other_rows(world: World) -> None:
    world.write(ROWS[:30])
    commit_reports(world.client, world.outcomes, **world.options)
    world.write(run="r2")


def committed_batch_comes_again_with_other_rows_and_that_is_accepted(world: World) -> None:
    world.options = {**world.options, "onRowsChanged": "continue"}
    committed_batch_comes_again_with_other_rows(world)


FAILURES: dict[str, Callable[[World], None]] = {
    "1": crash_before_the_batch_is_planned,
    "2": task_dies_with_rows_written,
    "2a": connection_cut_and_made_again,
    "3": stage_runs_again_in_another_order,
    "3a": rows_move_between_partitions,
    "4": two_attempts_at_once,
    "5": driver_dies_before_the_sink_commits,
    "6": driver_dies_before_spark_notes_the_commit,
    "7": job_fails_for_good_and_is_started_again,
    "9": filter_changes_before_the_restart,
    "9a": content_changes_before_the_restart,
    "9b": rows_are_left_out_after_the_restart,
    "9c": rows_are_left_out_after_the_restart_and_that_is_accepted,
    "10": outage_longer_than_the_window,
    "10a": outage_longer_than_the_window_and_that_is_accepted,
    "11": every_attempt_brings_other_values,
    "11a": every_attempt_brings_other_keys,
    "12": checkpoint_is_put_back,
    "12a": committed_batch_comes_again_with_other_rows,
    "12b": committed_batch_comes_again_with_other_rows_and_that_is_accepted,
}


def outcome(client: redis.Redis) -> str:
    """Return what became of ROWS, each known by its number."""
    found = Counter(number for number, _ in entries(client).elements())
    wanted = Counter(b"%d" % row["n"] for row in ROWS)
    if wanted - found:
        return LOST if found - wanted else LEFT_OUT
    return TWICE if found - wanted else ONCE


def promised(point: str) -> list[tuple[str, str, str]]:
    return [(point, identity, promise) for identity, promise in zip(IDENTITIES, PROMISES[point], strict=True)]


@pytest.mark.parametrize(("point", "identity", "promise"), [cell for point in FAILURES for cell in promised(point)])
def test_each_failure_with_each_identity(point: str, identity: str, promise: str) -> None:
    with embedded() as (client, advance):
        world = World(client, IDENTITIES[identity], advance)
        if promise == STOPS:
            with pytest.raises((RowsChanged, WindowExpired, OldCheckpoint)):
                world.fail(FAILURES[point])
            assert max(Counter(number for number, _ in entries(client).elements()).values()) == 1
        else:
            world.fail(FAILURES[point])
            assert outcome(client) == promise


@pytest.mark.parametrize(("point", "identity", "promise"), promised("8"))
def test_a_killed_server_comes_back_from_its_journal(point: str, identity: str, promise: str, tmp_path: Path) -> None:
    """Point 8: every row that was answered is there, with its name."""
    journal = ("--appendonly", "yes", "--appendfsync", "always")
    first = ServerProcess(tmp_path, *journal)
    with connected(first.port) as client:
        World(client, IDENTITIES[identity], lambda **_: None).die()
    first.process.send_signal(signal.SIGKILL)
    first.process.communicate(timeout=60)
    with ServerProcess(tmp_path, *journal) as second, connected(second.port) as client:
        assert client.xlen("s") > 0
        World(client, IDENTITIES[identity], lambda **_: None).write(attempt=1)
        assert outcome(client) == promise


def test_the_document_promises_what_is_tested() -> None:
    table: dict[str, tuple[str, ...]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("*") for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[0] in PROMISES:
            table[cells[0]] = tuple(cells[2:])

    assert table == PROMISES
