"""What happens to keys while the journal is rewritten: every operation, at every place of the rewrite."""

import itertools

import pytest

from tests.crash.histories import words
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

BEFORE = [
    "MULTI ; XADD s IDMP p 1 * f v ; XADD s * f v ; XADD s IDMP p 2 * f w ; SET a 1 ; SET b 2 PX 99999 ; EXEC",
    "XADD t IDMP q 1 1700000000000-5 f v",
    "XADD t IDMP q 1 * f v ; XADD t * f w ; XADD t * g x ; XTRIM t MAXLEN 1 ; HSET h f v",
    "XGROUP CREATE s g 0 ; XREADGROUP GROUP g ann COUNT 3 STREAMS s > ; XNACK s g FAIL IDS 1 1700000000007-0",
    "XGROUP CREATE s wanting 0 FILTER FIELD f EQ w ; XREADGROUP GROUP wanting ann STREAMS s >",
    "SELECT 1 ; SET a other ; XADD s IDMP p 1 * in db1 ; SET c 3 ; SELECT 0",
]
MEANWHILE = [
    "SET a new", "SET fresh 1", "DEL a b", "DEL s", "RENAME a b", "RENAME s u", "RENAME t s", "COPY s t REPLACE",
    "COPY a z", "COPY s s DB 1 REPLACE", "MOVE b 1", "MOVE t 1", "SWAPDB 0 1", "FLUSHDB", "FLUSHALL",
    "XADD s IDMP p 3 * f v",
    " ; ".join(["XADD s * f v"] * 4), " ; ".join(f"XADD t IDMP q {n} * f v" for n in range(4, 14)),
    " ; ".join(["XADD new * f v"] * 5),
    # To several streams in one pipeline: a run of several keys; with a trim that ends a unit; with fields of two kinds.
    " ; ".join(f"XADD {key} * f {at}" for at, key in enumerate("stnsztns")),
    " ; ".join(f"XADD {key} IDMP q {at} * f v" for at, key in enumerate("tsnzstnt")),
    " ; ".join(f"XADD {key} MAXLEN = 2 * f {at}" for at, key in enumerate("stntsstn")),
    " ; ".join(f"XADD {key} * f {at}{' g x' * (at % 3 == 2)}" for at, key in enumerate("stnstzt")),
    "XTRIM s MAXLEN 1", "PEXPIRE a 5000", "XREADGROUP GROUP g bob STREAMS s >", "XACK s g 1700000000007-0",
    "MULTI ; RENAME a b ; SET b later ; APPEND a x ; EXEC", "MULTI ; RENAME s u ; XADD u * f v ; RENAME u t ; EXEC",
    "MULTI ; FLUSHDB ; SET a back ; EXEC", "MULTI ; SWAPDB 0 1 ; SET a swapped ; EXEC",
    "MULTI ; RENAME a b ; FLUSHDB ; SET b x ; EXEC",
    "MULTI ; RENAME b a ; SWAPDB 0 1 ; SET a y ; SET b z ; EXEC",
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr("streamd.journal.rewrite._AT_ONCE_ENTRIES_MAX", 1)
    monkeypatch.setattr("streamd.journal.rewrite._LISTED_AT_ONCE", 2)
    monkeypatch.setattr("streamd.journal.base_writer._RUN_BYTES", 50)
    monkeypatch.setattr("streamd.journal.base_writer._JOB_BYTES", 100)


def rewritten_with(*meanwhile: tuple[int, str]) -> int:
    """Rewrite, and do something behind so many operations of it; compare; return how many operations it has."""
    server = Restartable(appendfsync="no")
    for line in BEFORE:
        server.run(*map(words, line.split(" ; ")))
        server.end_turn()
        server.clock.advance(1)
    server.persistence.start_rewrite()
    rewrite = server.persistence.journal.rewrite
    assert rewrite is not None
    steps = 0
    left = list(meanwhile)
    while left or not rewrite.is_complete:
        if left and (left[0][0] <= steps or rewrite.is_complete):
            server.run(*map(words, left.pop(0)[1].split(" ; ")))
            server.end_turn()
        if rewrite.must_wait:
            server.jobs[0].wait()
        elif not rewrite.is_complete:
            rewrite.step(lambda: True)
        steps += 1
    server.cron()
    assert not server.persistence.is_rewriting
    assert server.disk.names.keys() != {}
    assert not any(".1.incr" in path for path in server.disk.names)
    assert dump(server.restart().engine) == dump(server.engine), meanwhile
    return steps


def test_each_operation_at_each_place_of_a_rewrite():
    steps = rewritten_with()
    for line in MEANWHILE:
        for place in range(steps + 1):
            rewritten_with((place, line))


def test_two_operations_at_some_places_of_a_rewrite():
    steps = rewritten_with()
    pairs = itertools.product(MEANWHILE, MEANWHILE)
    for number, (one, two) in enumerate(pairs):
        place = number % steps
        rewritten_with((place, one), (place + number // steps % 3, two))


def test_a_rewrite_ends_though_a_key_that_waits_is_copied_again_and_again():
    server = Restartable(SimulatedDisk())
    for n in range(3_000):
        server.send("XADD", "s", f"{n + 1}-0", "f", "v")
    server.persistence.rewriting.start()
    rewrite = server.persistence.journal.rewrite
    assert rewrite is not None
    for _ in range(300):
        server.send("COPY", "s", "c", "REPLACE")
        rewrite.step(lambda: True)
        if rewrite.keys_done:
            break
    assert rewrite.keys_done == 1
