"""Of the duplicates that a stream answers in one turn the journal keeps one note, which says how many there were."""

import pytest

from tests.crash.histories import words
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.state_dump import dump


def written_in_one_turn(server: Restartable, *lines: str) -> bytes:
    """Execute requests in one turn, each line by a client of its own; return what the journal got."""
    increment = server.disk.names[INCREMENT]  # (a rewrite has another one)
    before = len(increment.data)
    for line in lines:
        server.run(*map(words, line.split(" ; ")), client=server.connect())
    server.end_turn()
    assert server.engine.state.stats.internal_errors == 0
    return bytes(increment.data[before:])


def duplicates(server: Restartable, key: bytes) -> int:
    return server.engine.state.keyspace[0].values[key].idmp.iids_duplicates


def storm(key: str, iids: int = 4) -> str:
    return " ; ".join(f"XADD {key} IDMP p {n} * f v" for n in range(iids))


@pytest.fixture
def server():
    server = Restartable()
    for key in "s", "t":
        written_in_one_turn(server, storm(key, 20))
    return server


def test_a_retry_storm_of_many_clients_leaves_one_note_for_each_stream(server):
    data = written_in_one_turn(server, *[storm(key, 20) for key in "ststst"])
    assert data.count(b"XIDMPDUPLICATE") == 2
    assert len(data) < 200
    again = server.restart()
    assert (duplicates(again, b"s"), duplicates(again, b"t")) == (60, 60)


def test_new_entries_reads_and_acknowledgements_between_do_not_add_notes(server):
    written_in_one_turn(server, "XGROUP CREATE s g 0")
    lines = []
    for n in range(6):
        lines += [storm("s"), f"XADD s IDMP p new{n} * f v ; XADD s MAXLEN 9 * f v", "XACK s g 1-1",
                  "XREADGROUP GROUP g c COUNT 2 STREAMS s >", "XADD other * f v"]  # fmt: skip
    data = written_in_one_turn(server, *lines)
    assert data.count(b"XIDMPDUPLICATE") == 1
    again = server.restart()
    assert duplicates(again, b"s") == 24
    assert dump(again.engine) == dump(server.engine)


def test_duplicates_of_one_transaction_are_one_note_within_it(server):
    data = written_in_one_turn(server, f"MULTI ; {storm('s')} ; XADD s * f v ; {storm('s')} ; EXEC")
    assert data.count(b"XIDMPDUPLICATE") == 1
    assert duplicates(server.restart(), b"s") == 8


@pytest.mark.parametrize("between", [
    "RENAME s moved", "DEL s", "COPY s twin", "MOVE s 3", "SWAPDB 0 3", "FLUSHALL", "PEXPIRE s 5", "RENAME t s",
    "MULTI ; DEL s ; XADD s IDMP p 1 * f v ; XADD s IDMP p 1 * f v ; EXEC", "XCFGSET s IDMP-MAXSIZE 50",
    "MULTI ; XADD s IDMP p 1 * f v ; RENAME s moved ; EXEC", "MULTI ; SET k v ; XADD s IDMP p 1 * f v ; EXEC",
    "MULTI ; XADD s IDMP p 1 * f v ; DEL s ; XADD s IDMP p 1 * f v ; XADD s IDMP p 1 * f v ; EXEC",
])  # fmt: skip
def test_what_moves_a_stream_or_removes_it_finds_what_was_counted_before(server, between):
    written_in_one_turn(server, storm("s"), storm("t"), between, storm("s"), storm("t"))
    assert dump(server.restart().engine) == dump(server.engine)


def test_a_journal_that_was_killed_between_two_turns_has_what_was_answered(server):
    written_in_one_turn(server, storm("s"))
    server.run(*map(words, storm("s").split(" ; ")))  # nobody has got these replies
    again = Restartable(server.disk.kill(), server.clock)
    assert duplicates(again, b"s") == 4


def test_duplicates_that_come_while_the_journal_is_rewritten_are_counted(server):
    server.send("BGREWRITEAOF")
    written_in_one_turn(server, storm("s"), storm("s"))
    server.cron()
    server.run(*map(words, storm("s").split(" ; ")))
    server.end_turn()
    assert duplicates(server.restart(), b"s") == 12
