"""Planning against real servers: even parts with exact counts, and what counts as lost."""

import random
from bisect import bisect_right

import pytest
import redis

from spark_source import ids
from spark_source.connecting.connection import Server
from spark_source.reading.offsets import Mark
from spark_source.reading.planner import (
    NativeSplitter,
    PartSizes,
    StreamInfo,
    WalkSplitter,
    added_up_to,
    choose_splitter,
    find_loss,
    share,
    stream_info,
)
from spark_source.settings.options import parse_options

GREATEST = f"{ids.SEQ_MAX}-{ids.SEQ_MAX}"


def server_of(client: redis.Redis) -> Server:
    return Server(parse_options({"port": str(client.connection_pool.connection_kwargs["port"])}).connection)


def fill(client: redis.Redis, count: int, seed: int = 0) -> list[str]:
    """Add entries in bursts of many per millisecond; return their IDs."""
    dice = random.Random(seed)
    ms, seq, made = 1_000, 0, []
    pipe = client.pipeline(transaction=False)
    for n in range(count):
        if dice.random() < 0.02:
            ms, seq = ms + dice.choice([1, 7, 100_000]), 0
        made.append(f"{ms}-{seq}")
        pipe.xadd("s", {"n": n}, id=made[-1])
        seq += 1
    pipe.execute()
    return made


def splitters(client: redis.Redis) -> list:
    server = server_of(client)
    chosen = choose_splitter(server)
    walks = [WalkSplitter(server, scripted=scripted) for scripted in (True, False)]
    return [chosen, *walks] if isinstance(chosen, NativeSplitter) else walks


def held(entries: list[str], start: str, end: str) -> int:
    known = [ids.parse(one) for one in entries]
    return bisect_right(known, ids.parse(end)) - bisect_right(known, ids.parse(start))


@pytest.mark.parametrize("take", [None, 1, 7, 999, 1000, 1001, 2000])
@pytest.mark.parametrize("size", [10, 100, 333, 5000])
def test_parts_are_even_and_counted_exactly(either: redis.Redis, take: int | None, size: int) -> None:
    entries = fill(either, 1000)
    for doomed in entries[500:520]:
        either.xdel("s", doomed)
        entries.remove(doomed)
    begin = entries[9]
    total = min(take or 970, 970)
    for splitter in splitters(either):
        cuts = splitter.cut("s", begin, entries[-1], take, 975, PartSizes(size, 1))
        start = begin
        for last, count in cuts:
            assert count == held(entries, start, last) > 0
            start = last
        assert sum(count for _, count in cuts) == total
        assert len(cuts) == -(-total // size)
        if total == 970:
            assert cuts[-1][0] == entries[-1]
        fair = total / len(cuts)
        assert all(abs(count - fair) <= max(2, fair * 0.1) for _, count in cuts[:-1]), (type(splitter), cuts)


def test_a_small_share_of_a_large_backlog_is_found(either: redis.Redis) -> None:
    entries = fill(either, 3000)
    for splitter in splitters(either):
        cuts = splitter.cut("s", "0-0", entries[-1], 2, 3_000_000, PartSizes(1, 1))
        assert [count for _, count in cuts] == [1, 1]
        assert held(entries, "0-0", cuts[-1][0]) == 2


def test_an_empty_range_has_no_parts(either: redis.Redis) -> None:
    entries = fill(either, 3)
    either.xdel("s", entries[1])
    for splitter in splitters(either):
        assert splitter.cut("s", entries[0], entries[1], None, 1, PartSizes(10, 1)) == ()
        assert splitter.cut("s", entries[2], entries[2], 5, 1, PartSizes(10, 1)) == ()


@pytest.mark.parametrize("size", [1, 4, 10, 5000])
@pytest.mark.parametrize("take", [None, 10, 11])
def test_the_greatest_id_there_is_ends_a_range(either: redis.Redis, size: int, take: int | None) -> None:
    """A topic log that was reconfigured ends with it; no range can start behind it."""
    entries = [*fill(either, 9), GREATEST]
    either.xadd("s", {"end": ""}, id=GREATEST)
    for splitter in splitters(either):
        cuts = splitter.cut("s", "0-0", GREATEST, take, 10, PartSizes(size, 1))
        assert sum(count for _, count in cuts) == 10
        assert cuts[-1][0] == GREATEST
        assert added_up_to(splitter.server, splitter, "s", entries[-2], info_of(either)) == 9
        assert added_up_to(splitter.server, splitter, "s", GREATEST, info_of(either)) == 10


def test_about_how_many_entries_a_range_holds(either: redis.Redis) -> None:
    entries = fill(either, 3000)
    for splitter in splitters(either):
        is_exact = isinstance(splitter, NativeSplitter)
        for begin in (0, 1000, 2990):
            about = splitter.about("s", entries[begin], entries[-1], 3000)
            assert about == 2999 - begin if is_exact else (2999 - begin) / 2 < about < 2 * (2999 - begin)


def info_of(client: redis.Redis) -> StreamInfo:
    found = server_of(client).patiently(lambda session: stream_info(session, "s"))
    assert found is not None
    return found


def test_at_least_min_partitions(either: redis.Redis) -> None:
    entries = fill(either, 100)
    for splitter in splitters(either):
        assert [count for _, count in splitter.cut("s", "0-0", entries[-1], None, 100, PartSizes(50, 4))] == [25] * 4


def test_a_key_of_another_type_is_one_line(either: redis.Redis) -> None:
    either.set("s", "x")

    with pytest.raises(Exception, match="key s holds no stream: give another one in option stream"):
        server_of(either).patiently(lambda session: stream_info(session, "s"))


def loss(client: redis.Redis, mark: Mark) -> str:
    """Return what is lost behind a mark, in short."""
    info = server_of(client).patiently(lambda session: stream_info(session, "s"))
    found = find_loss("s", mark, info)
    return "" if found is None else f"{found.text} [{found.entries}]"


def test_what_is_lost(either: redis.Redis) -> None:
    entries = fill(either, 10)
    mark = Mark(entries[4], 5)
    assert loss(either, mark) == ""

    either.xtrim("s", maxlen=5, approximate=False)
    assert loss(either, mark) == "", "what was read may go"

    either.xtrim("s", maxlen=3, approximate=False)
    assert f"trimmed past offset {entries[4]}: its first entry is now {entries[7]}, up to 2" in loss(either, mark)

    either.delete("s")
    assert loss(either, mark).startswith(f"stream s is gone; it was read up to {entries[4]}")
    assert loss(either, Mark("0-0", 0)) == "", "it never was"

    either.xadd("s", {"f": "v"}, id="1-1")
    assert "stream s was made anew" in loss(either, mark)
    either.xadd("s", {"f": "v"}, id="99999999999-1")
    assert "stream s was made anew" in loss(either, mark), "also when its IDs went on"


def test_single_deletions_before_the_head_are_no_loss(either: redis.Redis) -> None:
    entries = fill(either, 10)
    for one in (entries[2], entries[7]):
        either.xdel("s", one)

    assert loss(either, Mark(entries[1], 2)) == ""


def test_a_deletion_behind_a_trimmed_head_cannot_be_told_from_a_loss(either: redis.Redis) -> None:
    entries = fill(either, 10)
    either.xtrim("s", maxlen=5, approximate=False)
    either.xdel("s", entries[7])

    assert "up to 1 entries are gone [1]" in loss(either, Mark(entries[4], 5))


def test_a_new_stream_that_holds_more_than_was_added_was_made_anew(either: redis.Redis) -> None:
    entries = fill(either, 10)
    either.delete("s")
    for n in range(11):
        either.xadd("s", {"f": "v"}, id=f"{ids.parse(entries[-1])[0] + 1}-{n}")

    assert "holds more entries than were added" in loss(either, Mark(entries[4], 5))


@pytest.mark.parametrize(
    ("limit", "backlogs", "expected"),
    [
        (10, {"a": 3, "b": 4}, {"a": 3, "b": 4}),
        (10, {"a": 30, "b": 10}, {"a": 7, "b": 2}),
        (10, {"a": 10_000, "b": 1}, {"a": 9, "b": 1}),
        (1, {"a": 5, "b": 5}, {"a": 1, "b": 1}),
    ],
)
def test_shares_go_by_backlog_and_nobody_waits_for_ever(limit: int, backlogs: dict, expected: dict) -> None:
    assert share(limit, backlogs) == expected
