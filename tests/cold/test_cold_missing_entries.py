"""Pending entries that were never deleted from the log that they are thought to be in."""

import pytest

from streamd.catalog.applying import APPLIERS, Applying
from tests.cold.cold_world import evict
from tests.cold.test_cold_sequences import Pair

pytestmark = pytest.mark.interpreted(reason="stores and files of the test")


@pytest.fixture
def pair(tmp_path):
    pair = Pair(str(tmp_path))
    pair.do("CONFIG SET stream-node-max-entries 10")
    return pair


def questions(pair):
    """Ask both which pending entries are there."""
    for line in (
        "XCLAIM s g d 0 5-0 15-0 25-0 45-0 JUSTID",
        "XAUTOCLAIM s g e 0 0 COUNT 100 JUSTID",
        "XREADGROUP GROUP g e STREAMS s 0",
        "XINFO STREAM s FULL COUNT 0",
    ):
        evict(pair.store)
        pair.do(line)
    pair.compare()


def make_dangling(pair, key):
    for number in range(1, 51):
        pair.do(f"XADD {key} {number}-0 n {number}")
    pair.do(f"XGROUP CREATE {key} g 0")
    pair.do(f"XREADGROUP GROUP g c COUNT 48 STREAMS {key} >")
    pair.do(f"XDEL {key} 5-0 15-0 16-0 33-0 45-0 47-0")


def test_pending_entries_that_a_payload_lacks_are_not_there(pair):
    make_dangling(pair, "from")
    payload = pair.do("DUMP from").split(b"\r\n", 1)[1][:-2]
    pair.do([b"RESTORE", b"s", b"0", payload])
    for number in range(51, 100):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=2)

    questions(pair)


def test_pending_entries_that_a_rewritten_journal_notes_as_deleted_are_not_there(pair):
    for number in range(1, 51):
        if number not in (5, 15, 16, 33, 45, 47):
            pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XGROUP CREATE s g 0")
    pair.do("XREADGROUP GROUP g c COUNT 42 STREAMS s >")
    for session in (pair.plain, pair.cold):
        applying = Applying(session.state)
        for number in (5, 15, 16, 45):
            words = [b"XGROUPPENDING", b"s", b"g", b"c", b"%d-0" % number, b"1", b"1"]
            APPLIERS[b"XGROUPPENDING"](applying, words)
        words = b"XNACK s g FAIL IDS 2 33-0 47-0 RETRYCOUNT 1 FORCE".split()
        APPLIERS[b"XNACK"](applying, words)
    for number in range(51, 100):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=2)

    questions(pair)


def test_pending_entries_among_whose_ids_new_ones_come_are_not_there(pair):
    for number in range(1, 51):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XGROUP CREATE s g 0")
    pair.do("XREADGROUP GROUP g c STREAMS s >")
    pair.do("XTRIM s MAXLEN = 0")
    pair.do("XSETID s 3-0")
    pair.do("CONFIG SET stream-node-max-entries 5")
    for number in range(4, 100, 2):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=2)

    questions(pair)


@pytest.mark.parametrize("gone", [*range(1, 34)])
@pytest.mark.parametrize("loaded", [13, 30])
def test_a_pending_entry_between_two_nodes_is_not_there(pair, gone, loaded):
    """All entries around it are there, the last ones in the tail, or they come later."""
    pair.do("CONFIG SET stream-node-max-entries 5")
    for number in range(1, loaded + 1):
        if number != gone:
            pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XGROUP CREATE s g 0")
    pair.do("XREADGROUP GROUP g c STREAMS s >")
    for session in (pair.plain, pair.cold):
        words = [b"XGROUPPENDING", b"s", b"g", b"c", b"%d-0" % gone, b"1", b"1"]
        APPLIERS[b"XGROUPPENDING"](Applying(session.state), words)
    for number in range(loaded + 1, 50):
        if number != gone:
            pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=3)

    evict(pair.store)
    pair.do("XAUTOCLAIM s g e 0 0 COUNT 100 JUSTID")
    pair.compare()
