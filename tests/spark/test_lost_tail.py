"""A stream that lost its newest entries: what was read is not read twice, what is new is read, and it is said."""

import logging
from pathlib import Path

import pytest
import redis

from spark_source.errors import DataLoss
from tests.spark.failing_over import master_with_replicas, promote
from tests.spark.test_stream_reader import numbers, reader, rows, step, through_json


def add(client: redis.Redis, numbers: range, ms: int = 1000) -> None:
    """Add entries with IDs of one a millisecond from `ms` on."""
    pipe = client.pipeline(transaction=False)
    for n in numbers:
        pipe.xadd("in", {"n": n, "v": "x"}, id=f"{ms + n}-0")
    pipe.execute()


def lose(client: redis.Redis, left: int) -> None:
    """Leave the stream as a replica has it that is behind: the entries before `left`, and their count."""
    client.delete("in")
    add(client, range(left))


@pytest.fixture(params=["the same", "restarted"])
def again(request: pytest.FixtureRequest):
    """Return what reads on: the reader that read before, or one of a driver that was started again."""
    return lambda source, client, **options: source if request.param == "the same" else reader(client, **options)


def test_a_lost_tail_is_said(either: redis.Redis, again) -> None:
    add(either, range(20))
    source = reader(either)
    end, _ = step(source, through_json(source.initialOffset()))
    lose(either, 17)

    with pytest.raises(DataLoss, match=r"lost its newest entries, .* 1019-0, 3 or more .* is now 1016-0: restore"):
        step(again(source, either), end)


@pytest.mark.parametrize("clock", ["behind", "ahead"])
def test_a_lost_tail_goes_on_behind_the_last_id_that_is_left(
    either: redis.Redis, again, caplog: pytest.LogCaptureFixture, clock: str
) -> None:
    """New entries may get IDs that were given before, where the clock of the new master is behind."""
    options = {"failOnDataLoss": "false"}
    add(either, range(20))
    source = reader(either, **options)
    end, _ = step(source, through_json(source.initialOffset()))
    lose(either, 15)
    source = again(source, either, **options)
    with caplog.at_level(logging.WARNING):
        end, found = step(source, end)
        assert found == []
        assert end["in"]["id"] == "1014-0"
        source = again(source, either, **options)
        add(either, range(100, 103), ms=915 if clock == "behind" else 5000)
        end, found = step(source, end)
        assert found == numbers(100, 103)
        source = again(source, either, **options)
        assert step(source, end) == (end, [])
        add(either, range(200, 202), ms=6000)
        assert step(source, end)[1] == numbers(200, 202)
    assert len([text for text in caplog.messages if "lost" in text]) == 1


@pytest.mark.parametrize("new", [3, 5, 9])
def test_a_tail_that_others_took_the_place_of_is_not_read_again(either: redis.Redis, again, new: int) -> None:
    """The new master has entries of its own before the query looks: fewer than were lost, as many, or more."""
    options = {"failOnDataLoss": "false", "maxEntriesPerTrigger": "4"}
    add(either, range(20))
    source = reader(either, **options)
    end = through_json(source.initialOffset())
    for _ in range(5):
        end, _ = step(source, end)
    lose(either, 15)
    add(either, range(100, 100 + new), ms=5000)

    read: list[str] = []
    for _ in range(5):
        source = again(source, either, **options)
        end, found = step(source, end)
        read += found
    assert read == numbers(100, 100 + new)


def test_entries_that_nobody_read_among_those_that_were_read_stop_the_query(either: redis.Redis) -> None:
    options = {"failOnDataLoss": "false"}
    add(either, range(20))
    source = reader(either, **options)
    end, _ = step(source, through_json(source.initialOffset()))
    either.delete("in")
    add(either, range(10))
    for seq in range(1, 9):
        either.xadd("in", {"n": 300 + seq, "v": "x"}, id=f"1009-{seq}")
    with pytest.raises(DataLoss, match="lost its newest entries"):
        step(reader(either), end)

    for seq in range(9, 30):
        either.xadd("in", {"n": 300 + seq, "v": "x"}, id=f"1009-{seq}")
    for failing in ("true", "false"):
        with pytest.raises(DataLoss, match="nobody can say which were read, so take a new checkpoint"):
            step(reader(either, failOnDataLoss=failing), end)


@pytest.mark.parametrize("left", [0, 1, 15])
def test_a_planned_range_whose_end_is_gone_is_loud(either: redis.Redis, left: int) -> None:
    add(either, range(20))
    source = reader(either)
    start = through_json(source.initialOffset())
    end = through_json(source.latestOffset(start))
    if left:
        lose(either, left)
    else:
        either.delete("in")

    with pytest.raises(Exception, match="20 entries are gone"):
        rows(source, start, end)
    assert rows(reader(either, failOnDataLoss="false"), start, end) == numbers(left)


def test_a_planned_range_whose_end_was_given_to_others_is_loud(either: redis.Redis) -> None:
    """As many entries as planned, and yet not those."""
    add(either, range(20))
    source = reader(either)
    start = through_json(source.initialOffset())
    end = through_json(source.latestOffset(start))
    lose(either, 15)
    for seq in range(5):
        either.xadd("in", {"n": 300, "v": "x"}, id=f"1014-{seq + 1}")

    with pytest.raises(DataLoss, match="its newest ones: its last entry ID is now 1014-5"):
        rows(source, start, end)


def test_a_failover_to_a_replica_that_is_behind(newest_redis: Path, tmp_path: Path) -> None:
    with master_with_replicas(newest_redis, tmp_path, 1) as (master, replica):
        place = {"port": None, "url": f"redis://127.0.0.1:{master.port},127.0.0.1:{replica.port}"}
        options = {**place, "failOnDataLoss": "false"}
        add(master.client, range(100))
        master.client.wait(1, 10_000)
        replica.leave_master()
        add(master.client, range(100, 140))
        source = reader(master.client, **options)
        end, found = step(source, through_json(source.initialOffset()))
        assert found == numbers(140)
        master.kill()
        promote(replica)
        with pytest.raises(DataLoss, match="lost its newest entries"):
            step(reader(master.client, **place), end)

        end, found = step(source, end)
        assert found == []
        replica.client.xadd("in", {"n": 500, "v": "x"})
        end, found = step(source, end)
        assert found == ["500"]
        assert step(source, end) == (end, [])
