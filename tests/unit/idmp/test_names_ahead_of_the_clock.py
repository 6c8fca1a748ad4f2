"""Names in a stream whose last ID is ahead of the clock expire by the time at which they were recorded."""

import pytest

from streamd.durability.moving import commands_for_redis
from tests.crash.histories import words
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.state_dump import dump

NOW_MS = 1_700_000_000_000
AHEAD = f"{NOW_MS + 3_600_000}"
MARK = b"note XIDMPDUPLICATE 0 s 0 "


@pytest.fixture
def server():
    server = Restartable()
    server.send(*words(f"XADD s {AHEAD}-0 f v"))
    return server


def do(server: Restartable, *lines: str) -> list[bytes]:
    """Execute requests in one turn, and return their replies."""
    replies = server.replies[server.client]
    before = len(replies)
    server.run(*map(words, lines))
    server.end_turn()
    assert server.engine.state.stats.internal_errors == 0
    return replies[before:]


def info(server: Restartable, key: bytes = b"s", db: int = 0) -> tuple[int, ...]:
    idmp = server.engine.state.keyspace[db].values[key].idmp
    return idmp.pids_tracked, idmp.iids_tracked, idmp.iids_added, idmp.iids_duplicates


def sweep(server: Restartable) -> None:
    while server.engine.state.sweeper.run(server.clock.now_ms(), lambda: False):
        pass


ONE = ["XADD s IDMP p i * f v"]
MANY = [f"XADD s IDMP p{number % 2} i{number} * f v" for number in range(12)]
ROWS = [f"XADD {key} IDMP p i * f v" for key in ("t", "s", "t", "s")]


@pytest.mark.parametrize("lines", [
    ONE, ["XADD s IDMPAUTO p * f v"], ["XADD s IDMP p i MAXLEN 1 * f v"], MANY, ROWS, ["MULTI", *ONE, "EXEC"],
    ["MULTI", "XADD s IDMP p i * f v", "XADD s IDMP p j * f v", "XADD s IDMP p i * f v", "EXEC"],
    [f"XIDMPRECORD s p i {AHEAD}-0"],
], ids=["one", "auto", "trimming", "many", "rows", "transaction", "two in a transaction", "record"])  # fmt: skip
@pytest.mark.parametrize("between", ["nothing", "restart", "rewrite", "rewrite and restart"])
def test_a_name_is_known_for_its_duration_from_its_recording_on(server, lines, between):
    server.send("XADD", "t", "*", "f", "v")
    do(server, *lines)
    server.clock.advance(50_000)
    if "rewrite" in between:
        server.rewrite()
    if "restart" in between:
        before = dump(server.engine)
        server = server.restart()
        assert dump(server.engine) == before
    added = info(server)[2]
    server.clock.advance(49_999)
    do(server, *(ONE if "RECORD" in lines[0] else lines))
    assert info(server)[2] == added
    server.clock.advance(1)
    do(server, *(ONE if "RECORD" in lines[0] else lines))
    assert info(server)[2] > added
    assert dump(server.restart().engine) == dump(server.engine)


def test_the_name_of_a_removed_entry_keeps_its_time_behind_a_rewrite(server):
    do(server, *ONE, "XTRIM s MAXLEN 0")
    server.clock.advance(99_999)
    server.rewrite()
    again = server.restart()
    assert len(do(again, *ONE, "XLEN s")) == 2
    assert info(again)[2:] == (1, 1)
    again.clock.advance(1)
    do(again, *ONE)
    assert info(again)[2:] == (2, 1)


def test_a_script_says_the_time_of_its_names(server):
    call = b"return redis.call('XADD', 's', 'IDMP', 'p', ARGV[1], '*', 'f', 'v')"
    server.send(b"EVAL", call, b"0", b"i")
    server.clock.advance(60_000)
    again = server.restart()
    assert dump(again.engine) == dump(server.engine)
    again.clock.advance(40_000)
    again.send(b"EVAL", call, b"0", b"i")
    assert info(again)[2:] == (2, 0)


@pytest.mark.parametrize(("move", "key", "db"), [
    ("COPY s t", b"t", 0), ("RENAME s t", b"t", 0), ("MOVE s 1", b"s", 1), ("COPY s t DB 1", b"t", 1),
    ("SWAPDB 0 1", b"s", 1),
])  # fmt: skip
def test_the_times_go_where_the_stream_goes(server, move, key, db):
    do(server, *ONE)
    server.clock.advance(50_000)
    do(server, move)
    for one in (server, server.restart()):
        assert info(one, key, db) == (1, 1, 1, 0)
        one.clock.leap(NOW_MS + 100_000 - one.clock.now_ms())
        do(one, f"SELECT {db}", f"XADD {key.decode()} IDMP p i * f v")
        assert info(one, key, db)[2:] == (2, 0)


@pytest.mark.parametrize("forget", ["XCFGSET s IDMP-MAXSIZE 7", "XIDMP CFGSET s DURATION 100"])
def test_new_settings_forget_names_and_times(server, forget):
    do(server, *ONE, forget)
    assert info(server) == (0, 0, 1, 0)
    do(server, *ONE)
    assert info(server) == (1, 1, 2, 0)
    assert dump(server.restart().engine) == dump(server.engine)


def test_the_sweeper_frees_such_names_though_the_ids_are_ahead(server):
    do(server, *MANY)
    assert info(server)[:2] == (2, 12)
    for one in (server, server.restart()):
        one.clock.leap(NOW_MS + 101_000 - one.clock.now_ms())
        sweep(one)
        assert info(one)[:2] == (0, 0)


def test_a_window_is_an_ordinary_one_again_behind_the_last_such_name():
    server = Restartable()
    do(server, f"XADD s {NOW_MS + 5}-0 f v", *ONE)
    server.clock.advance(50_000)
    do(server, "XADD s IDMP p later * f v")
    window = server.engine.state.keyspace[0].values[b"s"].idmp
    assert window.recorded_ms(b"p") == {b"i": NOW_MS}
    server.clock.advance(51_000)
    sweep(server)
    assert (list(window._timed), list(window._few), info(server)[:2]) == ([], [b"p"], (1, 1))


def test_the_oldest_names_are_pushed_out_with_their_times(server):
    do(server, "XCFGSET s IDMP-MAXSIZE 3", *(f"XADD s IDMP p i{number} * f v" for number in range(10)))
    window = server.engine.state.keyspace[0].values[b"s"].idmp
    assert [iid for iid, _ in window.iids(b"p")] == [b"i7", b"i8", b"i9"] == list(window.recorded_ms(b"p"))


def test_the_journal_has_the_time_where_an_id_is_ahead_and_nowhere_else():
    server = Restartable()
    do(server, *MANY, "XADD t IDMP p i * f v")
    server.clock.advance(-1)
    do(server, "XADD s IDMP p back * f v")
    server.clock.advance(1)
    do(server, "XADD s IDMP p again * f v")
    assert server.disk.names[INCREMENT].data.count(MARK) == 1
    assert MARK + b"%d-12 %d\n" % (NOW_MS, NOW_MS - 1) in server.disk.names[INCREMENT].data
    assert dump(server.restart().engine) == dump(server.engine)


def test_a_clock_that_jumps_back_starts_the_time_of_new_names_there(server):
    server = Restartable()
    do(server, *ONE)
    server.clock.leap(-86_400_000)
    do(server, "XADD s IDMP p back * f v")
    server.clock.advance(99_999)
    do(server, "XADD s IDMP p back * f v")
    assert info(server)[2:] == (2, 1)
    server.clock.advance(1)
    do(server, "XADD s IDMP p back * f v", *ONE)
    assert info(server)[2:] == (3, 2)


def test_the_export_for_redis_leaves_out_names_that_have_expired(server):
    do(server, *ONE)
    for waited_ms, names in ((99_999, 1), (100_000, 0)):
        pieces = commands_for_redis(server.engine.state.keyspace, NOW_MS + waited_ms)
        assert b"".join(data for data, _ in pieces).count(b"XIDMPRECORD") == names


def test_names_of_an_exhausted_stream_are_looked_up_and_none_is_recorded():
    server = Restartable()
    do(server, "XADD s 18446744073709551615-18446744073709551614 f v", *ONE)
    assert do(server, *ONE) == [b"$41\r\n18446744073709551615-18446744073709551615\r\n"]
    (refused,) = do(server, "XADD s IDMP p other * f v")
    assert refused.startswith(b"-ERR The stream has exhausted the last possible ID")
    assert info(server) == (1, 1, 1, 1)
    assert dump(server.restart().engine) == dump(server.engine)
