"""The sink against real servers, without Spark: rows come once whatever is cut, repeated or reordered."""

import random
from collections import Counter
from contextlib import suppress
from itertools import product

import pytest
import redis

from spark_source.connecting.connection import Server
from spark_source.errors import OptionError, RowsChanged, StreamdError, StreamMissing, WindowExpired, WindowTooSmall
from spark_source.naming.identity import BatchName
from spark_source.noting.markers import marker_key, open_field, tagged
from spark_source.noting.window import choose_mode
from spark_source.settings.options import parse_options
from tests.spark.one_task import NAME, ROWS, commit, entries, port_of, wanted, write
from tests.spark.schemas import schema


def test_each_row_is_written_once_by_one_attempt(either: redis.Redis) -> None:
    assert write(either, ROWS).rows == {"s": 20}

    assert entries(either) == wanted()


def test_the_control_without_identity_shows_duplicates(either: redis.Redis) -> None:
    write(either, ROWS, exactlyOnce="none")
    write(either, ROWS, exactlyOnce="none", attempt=1)

    assert entries(either) == wanted(ROWS + ROWS)


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_connection_cut_anywhere_adds_nothing_and_loses_nothing(either: redis.Redis, how: str) -> None:
    for cut in range(10):
        either.flushall()
        write(either, ROWS, {cut: how})
        assert entries(either) == wanted(), cut


@pytest.mark.parametrize("how", ["before", "after"])
def test_an_attempt_that_dies_anywhere_is_completed_by_the_next(either: redis.Redis, how: str) -> None:
    for cut in range(7):
        either.flushall()
        with pytest.raises((redis.RedisError, StreamdError)):
            write(either, ROWS, dict.fromkeys(range(cut, 99), how), timeout="1ms")
        outcome = write(either, ROWS, attempt=1)
        assert entries(either) == wanted(), cut
        assert outcome.rows == {"s": 20}
    assert outcome.duplicates > 0


def test_a_task_that_runs_twice_at_the_same_time_writes_once(either: redis.Redis) -> None:
    """Two attempts in turns, and entries of others between theirs: each continues what the other, given up, began."""
    for first, second in product(range(2, 7), range(5)):
        either.flushall()
        die(either, first)
        either.xadd("s", {"n": "other", "v": "other"})
        write_over(either, second)
        write(either, ROWS, run="r2")
        assert entries(either) == wanted() + Counter([(b"other", b"other")])


def die(client: redis.Redis, at: int, rows: list[dict] = ROWS, **given) -> None:
    """Write until the connection breaks for good, after the server has the bytes of its last exchange."""
    with pytest.raises((redis.RedisError, StreamdError)):
        write(client, rows, dict.fromkeys(range(at, 99), "after"), timeout="1ms", **given)


def test_rows_that_were_sent_twice_are_counted(either: redis.Redis) -> None:
    """Chunks hold 4, 3, 4, 3, 4, 2 rows; before them the window is set and notes are made, or notes alone."""
    cuts = (4, 6) if choose_kind(either) == "idmp" else (2, 3)  # what marker has noted it does not send again
    outcome = write(either, ROWS, dict.fromkeys(cuts, "after"))

    assert (outcome.duplicates, outcome.retries) == (3 + 4, 2)


def test_another_attempt_that_writes_in_between_is_noticed(either: redis.Redis) -> None:
    """Before each exchange of the one attempt, the other writes all of its rows, or some and dies."""
    for moment in range(9):
        for cut in (99, 4, 5):
            either.flushall()
            outcome = write(either, ROWS, {moment: lambda cut=cut: write_over(either, cut)})
            assert entries(either) == wanted(), (moment, cut)
            assert outcome.rows == {"s": 20}


def write_over(client: redis.Redis, cut: int) -> None:
    """Write as another attempt, which dies at an exchange unless that is beyond its last."""
    with suppress(redis.RedisError, StreamdError):
        write(client, ROWS, dict.fromkeys(range(cut, 99), "after"), timeout="1ms", attempt=1)


def test_without_identity_nothing_is_sent_again(either: redis.Redis) -> None:
    """The task fails: Spark then decides, and shows in its log, that rows are written twice."""
    with pytest.raises(StreamdError, match=r"the connection to 127.0.0.1:.* broke"):
        write(either, ROWS, {1: "after"}, exactlyOnce="none")

    assert max(entries(either).values()) <= 2


def test_a_committed_batch_is_not_written_again(either: redis.Redis) -> None:
    write(either, ROWS)
    commit(either)
    either.delete("s")

    outcome = write(either, ROWS, run="r2")

    assert not either.exists("s") or either.xlen("s") == 0
    assert outcome.rows == {"s": 0}


def test_an_earlier_batch_does_not_stand_for_a_later_one(either: redis.Redis) -> None:
    write(either, ROWS)
    commit(either)
    write(either, ROWS, name=BatchName("sink", "4", 4, True))

    assert entries(either) == wanted(ROWS + ROWS)


def test_what_is_counted_is_added_up_once_per_batch(either: redis.Redis) -> None:
    for number in (3, 3, 4):
        commit(either, BatchName("sink", str(number), number, True))

    assert either.hgetall("{s}:spark:stats") == {b"sink:rows": b"40"}
    assert either.hgetall("{s}:spark") == {b"sink": b"4"}


def test_each_row_goes_to_the_stream_it_names(either: redis.Redis) -> None:
    columns = schema("n int, v string, _stream string")
    rows = [{**row, "_stream": ["a", "b", None][i % 3]} for i, row in enumerate(ROWS)]
    for attempt in (0, 1):
        ordered = rows if attempt == 0 or choose_kind(either) == "marker" else rows[::-1]
        write(either, ordered, columns=columns, attempt=attempt, streamColumn="_stream")

    for stream, third in (("a", 0), ("b", 1), ("s", 2)):
        assert entries(either, stream) == wanted(ROWS[third::3])


def test_the_option_wins_over_a_column_of_the_name_that_reading_gives(either: redis.Redis) -> None:
    """Rows that were read with their `_stream` and are passed on do not go back to where they came from."""
    columns = schema("n int, v string, _stream string")
    write(either, [{**row, "_stream": "in"} for row in ROWS], columns=columns)

    assert not either.exists("in")
    assert entries(either) == wanted()
    assert {tuple(fields) for _, fields in either.xrange("s")} == {(b"n", b"v")}, "nor is it a field"


def choose_kind(client: redis.Redis) -> str:
    options = parse_options({"port": port_of(client)})
    return choose_mode(Server(options.connection), options.write)


def test_max_len_trims(either: redis.Redis) -> None:
    either.config_set("stream-node-max-entries", "10")
    try:
        write(either, [{"n": n, "v": "x"} for n in range(100)], maxLen="20")
    finally:
        either.config_set("stream-node-max-entries", "100")

    assert 20 <= either.xlen("s") < 40


# --- content, key and position ---------------------------------------------------------------------------------------


def shuffled(rows: list[dict], seed: int) -> list[dict]:
    return random.Random(seed).sample(rows, len(rows))


def test_content_does_not_mind_the_order(streamd: redis.Redis) -> None:
    for attempt in range(3):
        die(streamd, 3 + attempt, shuffled(ROWS, attempt), attempt=attempt)
    write(streamd, shuffled(ROWS, 3), attempt=3)

    assert entries(streamd) == wanted()


def test_key_does_not_mind_where_a_row_comes_from(streamd: redis.Redis) -> None:
    rows = ROWS[::2]
    write(streamd, rows, idempotencyKey="n")
    for partition in (0, 1):
        write(streamd, shuffled(rows, 1)[partition::2], idempotencyKey="n", partition=partition, run="r2")

    assert entries(streamd) == wanted(rows)


def test_position_loses_and_duplicates_when_another_order_is_accepted_and_only_rows_show_it(
    streamd: redis.Redis,
) -> None:
    rows = [{"n": n, "v": "x"} for n in range(40)]
    die(streamd, 8, rows, identity="position")
    assert streamd.xlen("s") == 21
    write(streamd, rows[::-1], identity="position", attempt=1, onRowsChanged="continue")

    found = entries(streamd)
    assert sum(found.values()) == 40, "by its length nobody would know"
    assert len(wanted(rows) - found) == 19
    assert sum((found - wanted(rows)).values()) == 19


def test_marker_fails_loudly_when_the_order_changes(either: redis.Redis) -> None:
    write(either, ROWS[:8], exactlyOnce="marker")

    with pytest.raises(RowsChanged, match="come in another order; exactlyOnce=marker needs the same rows"):
        write(either, ROWS[::-1], exactlyOnce="marker", attempt=1)
    with pytest.raises(RowsChanged, match="8 rows were written, now there are only 4"):
        write(either, ROWS[:4], exactlyOnce="marker", attempt=2)
    assert entries(either) == wanted(ROWS[:8])


# --- what is made sure of before the first write ---------------------------------------------------------------------


def test_idmp_on_a_server_without_it_is_an_error_and_auto_takes_marker(plain_redis: redis.Redis) -> None:
    with pytest.raises(OptionError, match=r"exactlyOnce=idmp needs XADD with IDMP .* set exactlyOnce=marker"):
        write(plain_redis, ROWS, exactlyOnce="idmp")
    with pytest.raises(OptionError, match="identity=key needs XADD with IDMP"):
        write(plain_redis, ROWS, idempotencyKey="n")
    assert choose_kind(plain_redis) == "marker"


def test_auto_takes_idmp_where_the_server_has_it(streamd: redis.Redis) -> None:
    assert choose_kind(streamd) == "idmp"


def window(client: redis.Redis) -> tuple[int, int]:
    info = client.execute_command("XINFO", "STREAM", "s")
    info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2], strict=True))
    info = {name.decode() if isinstance(name, bytes) else name: value for name, value in info.items()}
    return info["idmp-duration"], info["idmp-maxsize"]


def test_a_missing_stream_is_made_with_its_window(streamd: redis.Redis) -> None:
    write(streamd, ROWS[:1], windowSeconds="500", windowMaxSize="600")

    assert window(streamd) == (500, 600)
    assert streamd.xinfo_stream("s")["groups"] == 0


def test_a_window_grows_only_while_it_remembers_nothing(streamd: redis.Redis) -> None:
    streamd.xadd("s", {"f": "v"})
    write(streamd, [], windowSeconds="500", windowMaxSize="600")
    assert window(streamd) == (500, 600)

    streamd.execute_command("XADD", "s", "IDMP", "somebody", "1", "*", "f", "v")
    write(streamd, ROWS[:1], windowSeconds="400", windowMaxSize="50")
    assert window(streamd) == (500, 600), "it is large enough"
    with pytest.raises(WindowTooSmall, match=r"500 s and 600 iids, .* XCFGSET s IDMP-DURATION 501 IDMP-MAXSIZE 600 "):
        write(streamd, ROWS[:1], windowSeconds="501", windowMaxSize="50")
    assert window(streamd) == (500, 600)

    write(streamd, ROWS[:1], windowSeconds="501", windowMaxSize="50", windowSetup="force")
    assert window(streamd) == (501, 600)


def test_window_setup_check_changes_nothing(streamd: redis.Redis) -> None:
    with pytest.raises(StreamMissing, match="stream s does not exist and windowSetup=check"):
        write(streamd, ROWS, windowSetup="check")
    streamd.xadd("s", {"f": "v"})
    with pytest.raises(WindowTooSmall, match="the window of stream s is 100 s and 100 iids"):
        write(streamd, ROWS, windowSetup="check")


def test_a_batch_that_was_half_written_before_the_window_began_is_an_error(streamd: redis.Redis) -> None:
    die(streamd, 3, windowSeconds="100")
    streamd.hset("{s}:spark", open_field(NAME), "1000000000000|r0|idmp")  # years ago

    with pytest.raises(WindowExpired, match=r"batch 3 of sink sink was half written to s .*onWindowExpired=continue"):
        write(streamd, ROWS, windowSeconds="100")
    write(streamd, ROWS, windowSeconds="100", onWindowExpired="continue")
    assert entries(streamd) == wanted()


def test_a_task_with_more_rows_than_the_window_holds_is_an_error(streamd: redis.Redis) -> None:
    for options in ({}, {"idempotencyKey": "n,v"}):
        with pytest.raises(WindowTooSmall, match=r"a partition has more than 10 rows .*windowMaxSize=10\)"):
            write(streamd, ROWS, windowMaxSize="10", **options)
    streamd.flushall()
    write(streamd, ROWS[:10], windowMaxSize="10")
    write(streamd, ROWS[:10], windowMaxSize="10", attempt=1)
    assert entries(streamd) == wanted(ROWS[:10])
    write(streamd, ROWS, windowMaxSize="10", name=BatchName("sink", "4", 4, True), onWindowExpired="continue")
    write(streamd, ROWS, windowMaxSize="10", partition=1, identity="position")


def test_a_batch_that_was_half_written_in_another_mode_is_an_error(streamd: redis.Redis) -> None:
    write(streamd, ROWS[:3], exactlyOnce="marker")

    with pytest.raises(StreamdError, match="half written to s with exactlyOnce=marker: set exactlyOnce=marker until"):
        write(streamd, ROWS, run="r2")


@pytest.mark.parametrize(
    ("stream", "key"),
    [
        ("s", "{s}:spark"),
        ("{u}:s", "{u}:s:spark"),
        ("a{b", "{a{b}:spark"),
        ("{}{x}", None),
        ("a}b", None),
        ("{}", None),
    ],
)
def test_markers_stand_in_the_slot_of_their_stream(stream: str, key: str | None) -> None:
    if key is None:
        with pytest.raises(OptionError, match="use no braces in its name"):
            tagged(stream)
        return
    from redis.crc import key_slot

    assert marker_key(stream) == key
    assert key_slot(key.encode()) == key_slot(stream.encode())
