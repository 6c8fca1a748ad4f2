"""A backlog on Redis, which no command counts: estimated batches hold every entry once, and losses are told by IDs."""

import json
import logging

import pytest
import redis

from spark_source.errors import DataLoss
from spark_source.reading import entry_pages
from spark_source.reading.batch_reader import StreamdReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from tests.spark.one_task import port_of
from tests.spark.sessions import fill
from tests.spark.test_lost_tail import add
from tests.spark.test_stream_reader import batches, flat, numbers, reader, rows, step, through_json

LIMIT = 2_000
COUNT = 9_000

pytestmark = pytest.mark.redis


def queue(client: redis.Redis, **options: object):
    return reader(client, maxEntriesPerTrigger=LIMIT, entriesPerPartition=500, **options)


@pytest.fixture
def backlog(other_redis: redis.Redis) -> redis.Redis:
    add(other_redis, range(COUNT))
    return other_redis


def walked(client: redis.Redis) -> int:
    return sum(row["calls"] for name, row in client.info("commandstats").items() if "eval" in name)


def test_a_backlog_is_read_in_estimated_batches_every_entry_once(backlog: redis.Redis) -> None:
    backlog.config_resetstat()
    end, read, sizes, ends = through_json(queue(backlog).initialOffset()), [], [], []
    while True:
        begin = end
        end, found = step(queue(backlog), begin)  # a driver that is started again before each batch
        if end == begin:
            break
        read += found
        sizes.append(len(found))
        ends.append(end["in"])
    assert read == numbers(COUNT)
    assert all(LIMIT / 2 < size < 2 * LIMIT for size in sizes[:-1]), sizes
    assert all(mark["about"] == "total" for mark in ends[:-1])
    assert all(mark["behind"] == [f"{1000 + sum(sizes[: at + 1])}-0", COUNT] for at, mark in enumerate(ends[:-1]))
    assert ends[-1]["n"] == COUNT
    assert "behind" not in ends[-1]
    assert walked(backlog) == 0


@pytest.mark.parametrize("n", [0, LIMIT, COUNT - 1, COUNT])
def test_an_estimate_that_is_far_off_makes_no_batch_of_another_size(backlog: redis.Redis, n: int) -> None:
    end, found = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    end["in"]["n"] = n
    after, more = step(queue(backlog), end)
    assert LIMIT / 2 < len(more) < 2 * LIMIT
    assert found + more == numbers(len(found) + len(more))
    assert after["in"]["behind"][1] == COUNT


def test_streams_share_an_estimated_batch(backlog: redis.Redis) -> None:
    fill(backlog, 5_000, "other", first=50_000)
    found = batches(queue(backlog, stream="in,other"), 40)
    assert sorted(flat(found), key=int) == numbers(COUNT) + numbers(50_000, 55_000)
    assert all(len(batch) < 2 * LIMIT for batch in found)


def test_available_now_ends_where_the_backlog_ended_at_its_start(backlog: redis.Redis) -> None:
    source = queue(backlog)
    source.prepareForTriggerAvailableNow()
    add(backlog, range(COUNT, 3 * COUNT))
    backlog.config_resetstat()
    found = batches(source)
    assert flat(found) == numbers(COUNT)
    assert all(LIMIT / 2 < len(batch) < 2 * LIMIT for batch in found[:-1])
    assert walked(backlog) == 0


def test_a_batch_whose_parts_are_made_late_is_estimated_too(backlog: redis.Redis) -> None:
    """Before Spark 4.2 nobody says where the first batch starts."""
    source = queue(backlog)
    start = through_json(source.initialOffset())
    backlog.config_resetstat()
    assert rows(source, start, through_json(source.latestOffset())) == numbers(COUNT)
    assert walked(backlog) == 0


def test_a_batch_read_is_cut_without_a_walk(backlog: redis.Redis) -> None:
    backlog.xdel("in", "1500-0", "9000-0")
    backlog.config_resetstat()
    given = {"port": port_of(backlog), "stream": "in", "entriesPerPartition": "1000", "text": "true"}
    source = StreamdReader(parse_options(given), raw_schema(True, "map"))
    parts = source.partitions()
    assert [n for part in parts for n in read(source, part)] == [n for n in numbers(COUNT) if n not in ("500", "8000")]
    assert len(parts) == 9
    assert walked(backlog) == 0


def test_a_batch_that_ends_with_the_stream_is_counted_without_a_walk(backlog: redis.Redis) -> None:
    source = reader(backlog)
    end = through_json(source.latestOffset(source.initialOffset(), source.getDefaultReadLimit()))
    assert (end["in"]["n"], end["in"]["cuts"], "about" in end["in"]) == (COUNT, [["9999-0", COUNT]], False)
    add(backlog, range(COUNT, COUNT + 3_000))
    backlog.config_resetstat()
    parted = reader(backlog, entriesPerPartition=1000)
    after, found = step(parted, end)
    assert found == numbers(COUNT, COUNT + 3_000)
    assert after["in"]["about"] == "parts"
    assert sum(count for _, count in after["in"]["cuts"]) == 3_000
    assert len(after["in"]["cuts"]) == 3
    assert walked(backlog) == 0


def test_single_deletions_in_a_backlog_are_no_loss(backlog: redis.Redis) -> None:
    end, read = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    unread = end["in"]["behind"][0]
    backlog.xdel("in", unread, end["in"]["id"], "5000-0", "9999-0")
    while True:
        begin = end
        end, found = step(queue(backlog), begin)
        if end == begin:
            break
        read += found
    gone = {str(int(one.split("-")[0]) - 1000) for one in (unread, "5000-0", "9999-0")}
    assert read == [n for n in numbers(COUNT) if n not in gone]


@pytest.mark.parametrize("behind", [0, 1, 700])
def test_a_head_that_is_trimmed_past_what_was_read_is_a_loss(
    backlog: redis.Redis, caplog: pytest.LogCaptureFixture, behind: int
) -> None:
    """Up to what was read it is none."""
    end, found = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    ms = int(end["in"]["behind"][0].split("-")[0])
    backlog.xtrim("in", minid=f"{ms + behind}-0", approximate=False)
    if behind:
        with pytest.raises(DataLoss, match=rf"was trimmed past offset {ms - 1}-0: .* {ms + behind}-0, about \d+ "):
            step(queue(backlog), end)
    with caplog.at_level(logging.WARNING):
        source = queue(backlog, failOnDataLoss="false")
        while True:
            begin = end
            end, more = step(source, begin)
            if end == begin:
                break
            found += more
    assert found == numbers(ms - 1000) + numbers(ms - 1000 + behind, COUNT)
    assert len([text for text in caplog.messages if "trimmed" in text]) == (behind > 0), "once"


@pytest.mark.parametrize("new", [0, 3, COUNT])
@pytest.mark.parametrize("unread", [COUNT - LIMIT - 500, 0])
def test_a_lost_tail_that_nobody_had_read_is_no_loss(backlog: redis.Redis, unread: int, new: int) -> None:
    end, found = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    kept = len(found) + unread
    backlog.delete("in")
    add(backlog, range(kept))
    add(backlog, range(50_000, 50_000 + new))
    while True:
        begin = end
        end, more = step(queue(backlog), begin)
        if end == begin:
            break
        found += more
    assert found == numbers(kept) + numbers(50_000, 50_000 + new)


@pytest.mark.parametrize("clock", ["behind", "ahead"])
@pytest.mark.parametrize("new", [0, 3, 50])
def test_a_lost_tail_that_reaches_what_was_read_is_loud(backlog: redis.Redis, clock: str, new: int) -> None:
    """Nobody has counted what was read, so nobody can say what of the new entries was."""
    end, found = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    kept = len(found) - 5
    backlog.delete("in")
    add(backlog, range(kept))
    for seq in range(new):
        backlog.xadd("in", {"n": 1}, id=f"{1000 + kept if clock == 'behind' else 99_999}-{seq + 1}")
    for failing in ("true", "false"):
        with pytest.raises(DataLoss, match=r"lost its newest .* nobody can say which were read"):
            step(queue(backlog, failOnDataLoss=failing), end)


def test_a_stream_that_was_made_anew_is_told(backlog: redis.Redis) -> None:
    end, _ = step(queue(backlog), through_json(queue(backlog).initialOffset()))
    backlog.delete("in")
    add(backlog, range(50_000, 50_003))
    with pytest.raises(DataLoss, match="was made anew"):
        step(queue(backlog), end)
    assert step(queue(backlog, failOnDataLoss="false"), end)[1] == numbers(50_000, 50_003)


@pytest.mark.parametrize("trimmed", ["before", "while it is read", "behind what was read"])
def test_a_part_whose_head_is_trimmed_is_loud(
    backlog: redis.Redis, trimmed: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = queue(backlog)
    start = through_json(source.initialOffset())
    end = through_json(source.latestOffset(start, source.getDefaultReadLimit()))
    middle = int(end["in"]["cuts"][0][0].split("-")[0])
    done = trimming = False
    ask = entry_pages._ask

    def asking(session, part, position, size, head) -> None:
        nonlocal done
        if trimming and not done and position == "1007-0":
            done = True
            backlog.xtrim("in", minid="1007-0" if trimmed == "behind what was read" else "1200-0", approximate=False)
        ask(session, part, position, size, head)

    monkeypatch.setattr(entry_pages, "_ask", asking)
    if trimmed == "before":
        backlog.xtrim("in", minid="1200-0", approximate=False)
    trimming = True
    part = source.partitions(start, end)[0]
    if trimmed == "behind what was read":
        assert read(source, part) == numbers(middle - 1000 + 1)
        return
    with pytest.raises(DataLoss, match="its first entry is now 1200-0: keep more of the stream"):
        read(source, part)
    done = False
    assert read(queue(backlog, failOnDataLoss="false"), part)[-1] == str(middle - 1000)


def read(source, part) -> list[str]:
    return [dict(row["fields"])["n"] for batch in source.read(part) for row in batch.to_pylist()]


def test_checkpoints_without_estimates_are_read(backlog: redis.Redis) -> None:
    end = {"in": {"id": "2999-0", "n": 2000, "from": "0-0", "cuts": [["1999-0", 1000], ["2999-0", 1000]]}}
    assert rows(queue(backlog), {"in": {"id": "0-0", "n": 0}}, end) == numbers(2000)
    backlog.xtrim("in", minid="4000-0", approximate=False)
    with pytest.raises(DataLoss, match="up to 1000 entries are gone"):
        step(queue(backlog), json.loads(json.dumps(end)))
