"""What one unit did comes back from the journal in the order in which it was done."""

import pytest

from tests.crash.histories import words
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump


def after_a_restart(*turns: str) -> tuple[Restartable, Restartable]:
    """Run turns, requests separated by `;`; return the server, and one that was started on its journal."""
    server = Restartable()
    for line in turns:
        server.run(*map(words, line.split(" ; ")))
        server.end_turn()
        server.clock.advance(1)
    assert server.engine.state.stats.internal_errors == 0
    return server, server.restart()


@pytest.mark.parametrize(
    ("option", "settings"),
    [("stream-idmp-maxsize 5", (100, 5)), ("stream-idmp-duration 7", (7, 100)),
     ("stream-idmp-maxsize 5 stream-idmp-duration 7", (7, 5))],
)  # fmt: skip
@pytest.mark.parametrize("turn", [
    "MULTI ; XADD old IDMP p 1 * f v ; CONFIG SET {} ; XADD young IDMP p 1 * f v ; EXEC",
    "XADD old IDMP p 1 * f v ; CONFIG SET {} ; XADD young IDMP p 1 * f v",
    "MULTI ; XGROUP CREATE old g $ MKSTREAM ; CONFIG SET {} ; EXEC ; XGROUP CREATE young g $ MKSTREAM",
    "MULTI ; CONFIG SET {} ; EXEC ; XADD young * f v ; CONFIG SET stream-idmp-maxsize 9 ; XADD other * f v",
])  # fmt: skip
def test_settings_hold_for_the_streams_that_are_created_behind_them(option, settings, turn):
    server, again = after_a_restart(turn.format(option))
    for one in server, again:
        values = one.engine.state.keyspace[0].values
        found = {key: (stream.idmp.duration_s, stream.idmp.maxsize) for key, stream in values.items()}
        assert found.get(b"old", (100, 100)) == (100, 100)
        assert found[b"young"] == settings
    assert dump(again.engine) == dump(server.engine)


GROUP = [
    "XADD s 1-1 f v ; XADD s 2-1 f v ; XADD s 3-1 f v ; XADD s 4-1 f v ; XGROUP CREATE s g 0",
    "XREADGROUP GROUP g a STREAMS s >",
    "XCLAIM s g a 0 2-1",
]


@pytest.mark.parametrize(
    "line",
    [
        "XNACK s g FAIL IDS 3 1-1 2-1 3-1",
        "XNACK s g FAIL IDS 4 4-1 2-1 1-1 3-1",
        "XNACK s g SILENT IDS 4 2-1 1-1 2-1 3-1",
        "XNACK s g FAIL IDS 3 3-1 2-1 3-1",
        "XNACK s g FAIL IDS 2 2-1 1-1 ; XNACK s g FATAL IDS 1 4-1 ; XNACK s g FAIL IDS 1 2-1",
    ],
)
def test_released_entries_keep_their_order_whatever_their_delivery_counts_are(line):
    server, again = after_a_restart(*GROUP, line)
    released = dump(server.engine)[(0, b"s")][2]["released"][b"g"]
    assert len(released) >= 2
    assert dump(again.engine) == dump(server.engine)


# -- DEBUG RELOAD, DEBUG LOADAOF --------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["RELOAD", "LOADAOF"])
def test_nothing_is_unsaved_after_a_reload(what):
    server, _ = after_a_restart("SET a 1 ; SET b 2 ; XADD s * f v")
    before = server.engine.state.dirty
    assert server.persistence.fields()["rdb_changes_since_last_save"] == 3
    assert server.send("DEBUG", what) == b"+OK\r\n"
    assert server.persistence.fields()["rdb_changes_since_last_save"] == 0
    assert server.engine.state.dirty >= before
    server.send("SET", "c", "3")
    assert server.persistence.fields()["rdb_changes_since_last_save"] == 1


@pytest.mark.parametrize("what", ["RELOAD", "LOADAOF"])
@pytest.mark.parametrize("beginning", ["MULTI", "MULTI ; CONFIG SET stream-idmp-maxsize 7"])
def test_a_reload_within_a_transaction_keeps_what_that_did_before(what, beginning):
    lines = "SET a 1", f"{beginning} ; SET a 2 ; XADD s * f v ; DEBUG {what} ; SET b 3 ; XADD t * f v ; EXEC"
    server, again = after_a_restart(*lines)
    assert server.dead is None
    assert server.send("GET", "a") == again.send("GET", "a") == b"$1\r\n2\r\n"
    assert server.send("XLEN", "s") == again.send("XLEN", "s") == b":1\r\n"
    assert server.send("GET", "b") == again.send("GET", "b") == b"$1\r\n3\r\n"
    assert dump(again.engine) == dump(server.engine)


def test_a_journal_that_is_turned_off_within_a_transaction_has_what_that_did_before():
    server = Restartable()
    server.engine.state.config.on_change("appendonly", lambda: server.turn_off())
    server.run(*map(words, ["MULTI", "SET a 1", "CONFIG SET appendonly no", "SET b 2", "EXEC"]))
    server.end_turn()
    again = server.restart()
    assert again.send("GET", "a") == b"$1\r\n1\r\n"
    assert again.send("GET", "b") == b"$-1\r\n"


@pytest.mark.parametrize(
    "line",
    [
        "MULTI ; SWAPDB 0 1 ; BGREWRITEAOF ; EXEC",
        "MULTI ; SET a 2 ; SWAPDB 0 1 ; BGREWRITEAOF ; SET a 3 ; EXEC",
        "MULTI ; FLUSHALL ; SET c 1 ; BGREWRITEAOF ; EXEC",
        "MULTI ; FLUSHDB ; SET a 9 ; BGSAVE ; FLUSHDB ; SET c 1 ; EXEC",
        "MULTI ; RENAME a c ; BGREWRITEAOF ; EXEC",
    ],
)
def test_a_rewrite_that_begins_within_a_transaction_loses_nothing(line):
    server, _ = after_a_restart("SET a 1 ; XADD s IDMP p 1 * f v ; SELECT 1 ; SET b 2 ; SELECT 0", line)
    server.cron()
    assert not server.persistence.is_rewriting
    assert any(".base." in path for path in server.disk.names)
    assert dump(server.restart().engine) == dump(server.engine)


def test_a_released_entry_that_was_deleted_is_still_there_after_a_rewrite():
    server, again = after_a_restart(*GROUP, "XNACK s g FAIL IDS 2 2-1 1-1", "XDEL s 1-1 2-1")
    assert dump(again.engine) == dump(server.engine)
    server.rewrite()
    assert dump(server.restart().engine) == dump(server.engine)


@pytest.mark.parametrize("filtered", ["", " FILTER FIELD f EQ v"])
@pytest.mark.parametrize("entries_read", ["", " ENTRIESREAD 9223372036854775807"])
@pytest.mark.parametrize("append", ["XADD s 6-1 f v", "EVAL return{redis.call('XADD',KEYS[1],'6-1','f','v')} 1 s"])
def test_counters_that_cannot_grow_leave_a_journal_that_loads(filtered, entries_read, append):
    server, again = after_a_restart(
        "XADD s 1-1 f v",
        "XSETID s 5-1 ENTRIESADDED 9223372036854775807 MAXDELETEDID 0-0",
        "XGROUP CREATE s g 1-1" + entries_read + filtered,
        append,
        "XREADGROUP GROUP g c STREAMS s >",
        "XADD s 7-1 f v",
        "XREADGROUP GROUP g c STREAMS s >",
    )
    assert dump(again.engine) == dump(server.engine)
    server.rewrite()
    assert dump(server.restart().engine) == dump(server.engine)
    assert b"\r\n$13\r\nentries-added\r\n:9223372036854775807\r\n" in server.send(*words("XINFO STREAM s"))
