"""The streaming reader against real servers, called as Spark calls it, without Spark."""

import json
import logging
import pickle

import pytest
import redis
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from spark_source.errors import DataLoss, OptionError, StreamMissing
from spark_source.reading import stream_reader
from spark_source.reading.stream_reader import StreamdStreamReader
from spark_source.settings.options import parse_options
from spark_source.values.schema import raw_schema
from tests.spark.sessions import fill


def reader(client: redis.Redis, **options: object) -> StreamdStreamReader:
    port = client.connection_pool.connection_kwargs["port"]
    given = {"port": port, "stream": "in", "startingOffsets": "earliest", **options}
    parsed = parse_options({name: str(value) for name, value in given.items() if value is not None})
    return StreamdStreamReader(parsed, raw_schema(True, "map"))


def through_json(offset: dict) -> dict:
    return json.loads(json.dumps(offset))


def batches(source: StreamdStreamReader, most: int = 20) -> list[list[str]]:
    """Run micro-batches until nothing is new; return the n of each one's entries. Checks that planning is pure."""
    start, found = through_json(source.initialOffset()), []
    for _ in range(most):
        end = through_json(source.latestOffset(start, source.getDefaultReadLimit()))
        if end == start:
            return found
        found.append(rows(source, start, end))
        start = end
    return found


def rows(source: StreamdStreamReader, start: dict, end: dict) -> list[str]:
    parts = source.partitions(start, end)
    again = source.partitions(start, end)
    assert [part.value for part in parts] == [part.value for part in again]
    worker = pickle.loads(pickle.dumps(source))
    return [dict(row["fields"])["n"] for part in parts for batch in worker.read(part) for row in batch.to_pylist()]


def flat(found: list[list[str]]) -> list[str]:
    return [n for batch in found for n in batch]


def numbers(*bounds: int) -> list[str]:
    return [str(n) for n in range(*bounds)]


def test_batches_follow_each_other_without_gap_or_overlap(either: redis.Redis) -> None:
    fill(either, 1000, "in")
    found = batches(reader(either, maxEntriesPerTrigger=300, entriesPerPartition=70))

    assert [len(batch) for batch in found] == [300, 300, 300, 100]
    assert flat(found) == numbers(1000)


def test_nothing_new_is_the_same_offset(either: redis.Redis) -> None:
    fill(either, 10, "in")
    source = reader(either)
    end = source.latestOffset(source.initialOffset(), ReadMaxRows(100))

    assert source.latestOffset(end, ReadMaxRows(100)) is end


def test_latest_starts_behind_what_is_there_and_stays_there(either: redis.Redis) -> None:
    fill(either, 10, "in")
    source = reader(either, startingOffsets=None)
    first = source.initialOffset()
    fill(either, 5, "in", first=10)

    assert source.initialOffset() == first
    assert batches(source) == [numbers(10, 15)]


def test_the_first_batch_is_the_same_when_its_start_is_asked_for_again(either: redis.Redis) -> None:
    """After a restart Spark asks for the start of an unfinished first batch anew: `latest` is further by then."""
    fill(either, 10, "in")
    source = reader(either, startingOffsets="latest")
    start = source.initialOffset()
    fill(either, 5, "in", first=10)
    end = through_json(source.latestOffset(start, ReadAllAvailable()))

    restarted = reader(either, startingOffsets="latest")
    assert rows(restarted, through_json(restarted.initialOffset()), end) == numbers(10, 15)


def test_available_now_ends_where_the_stream_was_at_its_start(either: redis.Redis) -> None:
    fill(either, 100, "in")
    source = reader(either, maxEntriesPerTrigger=60)
    source.prepareForTriggerAvailableNow()
    fill(either, 100, "in", first=100)

    assert flat(batches(source)) == numbers(100)


def test_streams_share_a_batch_by_what_waits_in_them(either: redis.Redis) -> None:
    fill(either, 300, "in")
    fill(either, 100, "other", first=1000)
    found = batches(reader(either, stream="in,other", maxEntriesPerTrigger=40))

    assert [sum(int(n) >= 1000 for n in batch) for batch in found[:9]] == [10] * 9
    assert sorted(flat(found), key=int) == numbers(300) + numbers(1000, 1100)


def test_a_small_backlog_waits_for_more(either: redis.Redis) -> None:
    fill(either, 9, "in")
    source = reader(either, minEntriesPerTrigger=10)
    assert batches(source) == []
    fill(either, 1, "in", first=9)
    assert batches(source) == [numbers(10)]

    assert batches(reader(either, minEntriesPerTrigger=11, maxTriggerDelay="0s")) == [numbers(10)], "but not for ever"


def test_a_batch_is_limited_by_bytes(either: redis.Redis) -> None:
    for n in range(20):
        either.xadd("in", {"n": n, "v": "x" * 1000})

    assert [len(batch) for batch in batches(reader(either, maxBytesPerTrigger="5k"))] == [5, 5, 5, 5]


@pytest.mark.parametrize(("entries", "sizes"), [(3, [3, 3, 3, 1]), (7, [5, 5])])
def test_the_smaller_one_of_two_limits_counts(either: redis.Redis, entries: int, sizes: list[int]) -> None:
    for n in range(10):
        either.xadd("in", {"n": n, "v": "x" * 1000})

    found = batches(reader(either, maxBytesPerTrigger="5k", maxEntriesPerTrigger=entries))
    assert [len(batch) for batch in found] == sizes


def test_each_stream_may_start_at_a_time_of_its_own(either: redis.Redis) -> None:
    for stream, numbers_ in (("in", range(5)), ("other", range(5, 10)), ("third", range(10, 12))):
        for n in numbers_:
            either.xadd(stream, {"n": n}, id=f"{1_700_000_000_000 + n}-1")
    since = json.dumps({"in": 1_700_000_000_003, "other": "2023-11-14T22:13:20.009Z"})
    found = batches(reader(either, stream="in,other,third", startingOffsets=None, startingTimestamp=since))

    assert sorted(flat(found), key=int) == ["3", "4", "9"], "of the third what comes, as startingOffsets would have it"
    with pytest.raises(OptionError, match="startingTimestamp names stream other, which is not read"):
        reader(either, startingOffsets=None, startingTimestamp=since).initialOffset()


def test_streams_are_found_by_a_regular_expression_that_holds_for_the_whole_name(either: redis.Redis) -> None:
    for stream in ("orders-1", "orders-22", "orders-x", "my-orders-1"):
        fill(either, 3, stream)
    given = {"stream": None, "streamRegex": r"orders-\d+", "patternInterval": 0}
    source = reader(either, **given)

    assert sorted(source.initialOffset()) == ["orders-1", "orders-22"]
    fill(either, 3, "orders-333")
    assert "orders-333" in source.latestOffset(source.initialOffset(), ReadAllAvailable())


def test_a_missing_stream_is_empty_with_one_warning(either: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    source = reader(either)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert batches(source) == []
    assert [record.message for record in caplog.records] == ["stream in does not exist yet: waiting for it"]

    fill(either, 3, "in")
    assert batches(source) == [numbers(3)]


def test_what_is_read_is_trimmed_with_trim_on_commit(either: redis.Redis) -> None:
    fill(either, 250, "in")
    source = reader(either, trimOnCommit="true", maxEntriesPerTrigger=200)
    end = source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())
    source.commit(through_json(end))
    source.commit(through_json(end))

    assert either.xlen("in") == 50
    assert rows(source, end, through_json(source.latestOffset(end, ReadAllAvailable()))) == numbers(200, 250)


def test_a_stream_made_anew_is_read_from_its_start_when_loss_is_allowed(either: redis.Redis) -> None:
    fill(either, 10, "in")
    source = reader(either, failOnDataLoss="false")
    start = through_json(source.latestOffset(source.initialOffset(), ReadAllAvailable()))
    either.delete("in")
    for n in range(100, 104):  # later ones: with IDs of the same millisecond it would be a stream that lost its newest
        either.xadd("in", {"n": n}, id=f"{9_000_000_000_000 + n}-0")

    end = through_json(source.latestOffset(start, ReadAllAvailable()))
    assert rows(source, start, end) == numbers(100, 104)
    assert through_json(source.latestOffset(end, ReadAllAvailable())) == end
    with pytest.raises(DataLoss, match="stream in was made anew"):
        reader(either).latestOffset(start, ReadAllAvailable())


def test_trimmed_entries_are_counted_in_the_offset_when_loss_is_allowed(either: redis.Redis) -> None:
    fill(either, 10, "in")
    source = reader(either, failOnDataLoss="false")
    start = through_json(source.latestOffset(source.initialOffset(), ReadMaxRows(4)))
    either.xtrim("in", maxlen=3, approximate=False)

    end = through_json(source.latestOffset(start, ReadAllAvailable()))
    assert end["in"]["lost"] == 3
    assert rows(source, start, end) == numbers(7, 10)

    capped = through_json(source.latestOffset(start, ReadMaxRows(1)))
    either.xtrim("in", maxlen=2, approximate=False)
    after = through_json(source.latestOffset(capped, ReadMaxRows(1)))
    assert (capped["in"]["lost"], after["in"].get("lost")) == (3, None), "once"


def test_what_was_trimmed_before_the_query_began_is_no_loss(either: redis.Redis) -> None:
    fill(either, 10, "in")
    either.xtrim("in", maxlen=6, approximate=False)
    source = reader(either, maxEntriesPerTrigger=4)

    assert batches(source) == [numbers(4, 8), numbers(8, 10)]


def test_a_range_that_came_back_short_is_judged(either: redis.Redis) -> None:
    fill(either, 10, "in")
    names = [name.decode() for name, _ in either.xrange("in")]
    source = reader(either)
    start = source.initialOffset()
    middle = through_json(source.latestOffset(start, ReadMaxRows(4)))
    end = through_json(source.latestOffset(middle, ReadAllAvailable()))

    either.xdel("in", names[6])
    assert rows(source, middle, end) == ["4", "5", "7", "8", "9"], "a single deletion is somebody's wish"
    either.xtrim("in", maxlen=2, approximate=False)
    with pytest.raises(DataLoss, match=r"4 of 6 entries are gone, its first entry is now .*: keep more of the stream"):
        rows(source, middle, end)
    assert rows(reader(either, failOnDataLoss="false"), middle, end) == ["8", "9"]


@pytest.mark.parametrize("how", ["id", "timestamp", "trimmed before", "deleted in between"])
def test_what_is_trimmed_before_a_query_from_the_middle_caught_up_is_a_loss(either: redis.Redis, how: str) -> None:
    pipe = either.pipeline(transaction=False)
    for n in range(600):
        pipe.xadd("in", {"n": n, "v": "x"}, id=f"{1000 + n}-1")
    pipe.execute()
    if how == "trimmed before":
        either.xtrim("in", minid="1020-1", approximate=False)
    if how == "deleted in between":
        either.xdel("in", "1050-1", "1300-1")
    given = {"startingOffsets": '{"in": "1100-1"}', "maxEntriesPerTrigger": 50}
    if how == "timestamp":
        given = {"startingOffsets": None, "startingTimestamp": 1101, "maxEntriesPerTrigger": 50}
    source = reader(either, **given)
    start = through_json(source.initialOffset())
    end = through_json(source.latestOffset(start, source.getDefaultReadLimit()))
    assert rows(source, start, end) == numbers(101, 151)
    assert (start["in"]["n"], end["in"]["n"]) == ((102, 152) if how == "deleted in between" else (101, 151))

    either.xtrim("in", minid="1400-1", approximate=False)
    restarted = reader(either, **given)
    lost = 248 if how == "deleted in between" else 249
    with pytest.raises(DataLoss, match=rf"was trimmed past offset 115\S+: .* 1400-1, up to {lost} entries are gone"):
        restarted.latestOffset(end, restarted.getDefaultReadLimit())


def test_where_the_count_at_the_start_cannot_be_known_that_is_said(
    either: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    fill(either, 10, "in")
    with caplog.at_level(logging.WARNING):
        source = reader(either, startingOffsets='{"in": "99999999999999-0"}')
        source.initialOffset()
        assert source.latestOffset(source.initialOffset(), ReadAllAvailable()) == source.initialOffset()
    assert [record.message for record in caplog.records] == [
        "stream in is read from 99999999999999-0 on, and nobody knows how many entries were added before (no entry has "
        "reached it yet): should some be trimmed before they are read, that cannot be noticed until all are read once"
    ]


def test_a_checkpoint_without_a_count_gets_one(either: redis.Redis) -> None:
    fill(either, 10, "in")
    names = [name.decode() for name, _ in either.xrange("in")]
    source = reader(either)
    end = source.latestOffset({"in": {"id": names[3], "n": None}}, ReadMaxRows(2))

    assert (end["in"]["id"], end["in"]["n"]) == (names[5], 6)


def step(source: StreamdStreamReader, start: dict) -> tuple[dict, list[str]]:
    """Run one micro-batch; return its end, as the checkpoint has it, and the n of its entries."""
    end = through_json(source.latestOffset(start, source.getDefaultReadLimit()))
    return end, rows(source, start, end) if end != start else []


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    "options", [{"stream": None, "streamPattern": "in*", "patternInterval": "0s"}, {"stream": "in1,in2"}]
)
def test_a_stream_that_is_deleted_when_it_was_read_whole_is_no_loss(
    either: redis.Redis, caplog: pytest.LogCaptureFixture, restarts: bool, options: dict
) -> None:
    fill(either, 10, "in1")
    fill(either, 10, "in2", first=100)
    source = reader(either, **options)
    end, found = step(source, through_json(source.initialOffset()))
    assert len(found) == 20

    either.delete("in1")
    if restarts:
        source = reader(either, **options)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert step(source, end) == (end, [])
    assert [text for text in caplog.messages if "is gone" in text] == [
        "stream in1 is gone; all of it had been read when it was last there"
    ]
    fill(either, 5, "in2", first=110)
    end, found = step(source, end)
    assert found == numbers(110, 115)

    if restarts:
        source = reader(either, **options)
    fill(either, 3, "in1", first=200)
    end, found = step(source, end)
    assert found == numbers(200, 203), "a new stream of that name is read from its start"
    assert step(source, end) == (end, [])


@pytest.mark.parametrize(
    "options", [{"stream": None, "streamPattern": "in*", "patternInterval": "0s"}, {"stream": "in1,in2"}]
)
@pytest.mark.parametrize("lacks", [False, True])
def test_a_checkpoint_on_a_server_without_its_streams_ends_the_query(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, options: dict, lacks: bool
) -> None:
    """Also with Spark before 4.2, which tells where the query stands only when the batch is planned."""
    fill(either, 10, "in1")
    fill(either, 10, "in2", first=100)
    source = reader(either, **options)
    start = through_json(source.initialOffset())
    end, _ = step(source, start)
    either.delete("in1", "in2")
    either.xadd("another", {"n": 1})
    if lacks:
        monkeypatch.setattr(stream_reader, "ReadLimit", None)

    def go_on(**more: object) -> list[str]:
        again = reader(either, **options, **more)
        if lacks:
            return rows(again, end, through_json(again.latestOffset()))
        return step(again, end)[1]

    with pytest.raises(StreamMissing, match=r"stream in1 from 0-0 to .*: 10 of 10 entries are gone"):
        rows(reader(either, **options), start, end)  # a batch that had begun
    with pytest.raises(DataLoss, match=r"^streams in1, in2 of this query's checkpoint are not on 127.0.0.1:\d+/0, nor"):
        go_on()
    assert go_on(failOnDataLoss=False) == []


def test_a_query_that_has_read_nothing_waits_for_its_stream_on_any_server(either: redis.Redis) -> None:
    source = reader(either)
    start = through_json(source.initialOffset())
    assert step(reader(either), start) == (start, [])


@pytest.mark.parametrize("moment", ["it is behind", "more was seen"])
def test_a_stream_that_is_deleted_before_it_was_read_whole_is_a_loss(either: redis.Redis, moment: str) -> None:
    fill(either, 10, "in")
    source = reader(either)
    start = through_json(source.initialOffset())
    end = through_json(source.latestOffset(start, ReadMaxRows(4 if moment == "it is behind" else 10)))
    if moment == "more was seen":
        fill(either, 5, "in")
        source.prepareForTriggerAvailableNow()

    either.delete("in")
    with pytest.raises(DataLoss, match="stream in is gone; it was read up to"):
        source.latestOffset(end, ReadAllAvailable())


@pytest.mark.parametrize("lacks", [False, True])
def test_a_stream_that_is_left_out_for_a_while_goes_on_where_it_was(
    either: redis.Redis, monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    """Also on Spark before 4.2, from the second batch on."""
    if lacks:
        monkeypatch.setattr(stream_reader, "ReadLimit", None)
    fill(either, 10, "a")
    fill(either, 10, "b", first=100)
    both = reader(either, stream="a,b")
    end, found = step(both, through_json(both.initialOffset()))
    assert len(found) == 20

    one = reader(either, stream="a")
    for first in (10, 12):
        fill(either, 2, "a", first=first)
        following = through_json(one.latestOffset() if lacks else one.latestOffset(end, ReadAllAvailable()))
        assert rows(one, end, following) == numbers(first, first + 2)
        end = following
    fill(either, 5, "b", first=110)
    end, found = step(reader(either, stream="a,b"), end)
    assert found == numbers(110, 115)


def test_spark_before_4_2_hands_over_no_start(either: redis.Redis) -> None:
    """A restarted query learns where it is only when it is asked for partitions; ranges are cut then."""
    fill(either, 100, "in")
    checkpoint = through_json(reader(either).latestOffset(reader(either).initialOffset(), ReadMaxRows(30)))

    restarted = reader(either, entriesPerPartition=20)
    end = through_json(restarted.latestOffset())
    assert rows(restarted, checkpoint, end) == numbers(30, 100)
    assert len(restarted.partitions(checkpoint, end)) == 4
    assert rows(restarted, end, through_json(restarted.latestOffset())) == []
    fill(either, 5, "in", first=100)
    assert rows(restarted, end, through_json(restarted.latestOffset())) == numbers(100, 105)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"maxEntriesPerTrigger": 30}, [100, 30, 30, 30, 10]),
        ({"maxBytesPerTrigger": 300}, [100, 30, 30, 30, 10]),  # an entry holds 10 bytes
    ],
)
def test_spark_before_4_2_leaves_limits_to_the_reader_which_keeps_them_from_the_second_batch_on(
    streamd: redis.Redis, monkeypatch: pytest.MonkeyPatch, options: dict, sizes: list[int]
) -> None:
    monkeypatch.setattr(stream_reader, "ReadLimit", None)

    def add(*bounds: int) -> None:
        pipe = streamd.pipeline(transaction=False)
        for n in range(*bounds):
            pipe.xadd("in", {"n": n, "v": "value"})
        pipe.execute()

    add(100, 200)
    source = reader(streamd, **options)
    start, found = through_json(source.initialOffset()), []
    while (end := through_json(source.latestOffset())) != start:
        found.append(rows(source, start, end))
        start = end
        if len(found) == 1:
            add(200, 300)

    assert flat(found) == numbers(100, 300)
    assert [len(batch) for batch in found] == sizes


@pytest.mark.parametrize("options", [{}, {"maxEntriesPerTrigger": 30}, {"maxBytesPerTrigger": 300}])
def test_spark_before_4_2_gets_all_that_waits_in_the_first_batch_after_a_start_or_it_is_said(
    streamd: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, options: dict
) -> None:
    """Trigger.AvailableNow has one batch there; a restarted query is told first where it stands, as an empty range."""
    monkeypatch.setattr(stream_reader, "ReadLimit", None)
    monkeypatch.setattr(stream_reader, "DEFAULT_MAX_ENTRIES", 50)
    fill(streamd, 10, "in")
    end = through_json(reader(streamd).latestOffset())

    fill(streamd, 100, "in", first=10)
    restarted = reader(streamd, **options)
    assert restarted.partitions(end, end) == []
    last, found = end, []
    for _ in range(2):
        start, last = last, through_json(restarted.latestOffset())
        found.append(rows(restarted, start, last))
        fill(streamd, 100, "in", first=110 + 100 * (len(found) - 1))
    said = [text for text in caplog.messages if "Trigger.AvailableNow" in text]
    if not options:
        assert (len(found[0]), len(found[1]), said) == (100, 50, [])
    else:
        assert len(found[0]) < 100
        assert [text.partition(":")[0] for text in said] == [
            f"this batch takes {len(found[0])} of about 100 entries that wait"
        ]


def test_spark_before_4_2_runs_an_unfinished_batch_again_and_limits_the_next(
    streamd: redis.Redis, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stream_reader, "ReadLimit", None)
    fill(streamd, 100, "in")
    before = reader(streamd)
    start, end = through_json(before.initialOffset()), through_json(before.latestOffset())
    fill(streamd, 100, "in", first=100)

    restarted = reader(streamd, maxEntriesPerTrigger=70)
    assert rows(restarted, start, end) == numbers(100)
    assert [text[:45] for text in caplog.messages] == ["a batch that had begun is run again as it was"]
    assert rows(restarted, end, through_json(restarted.latestOffset())) == numbers(100, 170)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads"),
        ({"endingTimestamp": "5"}, "endingTimestamp is for batch reads"),
        ({"stream": None}, "stream is missing: name what to read, or give streamPattern, streamRegex or log"),
    ],
)
def test_options_that_a_streaming_query_cannot_have(streamd: redis.Redis, options: dict, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        reader(streamd, **options)


def test_offsets_of_a_stream_that_is_not_read_are_an_error(streamd: redis.Redis) -> None:
    with pytest.raises(OptionError, match="startingOffsets names stream other, which is not read"):
        reader(streamd, startingOffsets='{"other": "1-0"}').initialOffset()
