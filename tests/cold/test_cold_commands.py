"""Every stream command on a stream whose entries are in segment files replies and changes what it does in memory."""

import pytest

from streamd.cold.cold_list import ColdList
from streamd.stream.log.absent import Absent
from tests.cold.cold_twins import LAST_MS, Twins, call, evict, state_of

READING = """
XLEN s
XRANGE s - +
XRANGE s - + COUNT 3
XRANGE s 155 355
XRANGE s (160-0 (350-0 COUNT 7
XRANGE s 160-0 160-0
XRANGE s 330-0 350-0
XRANGE s 0 5
XRANGE s 590 +
XREVRANGE s + -
XREVRANGE s + - COUNT 4
XREVRANGE s 400 150 COUNT 9
XREVRANGE s 120 - COUNT 2
XREAD STREAMS s 0
XREAD COUNT 4 STREAMS s 170-0
XREAD COUNT 2 STREAMS s other 300 0
XREAD COUNT 3 MAXCOUNT 4 STREAMS s other 300 0
XREAD MAXSIZE 300 STREAMS s other 200 0
XREAD STREAMS s +
XREAD STREAMS s $
XREAD BLOCK 0 STREAMS s 300
XREAD BLOCK 0 STREAMS s $
XSPLIT s - + 7
XSPLIT s 155 455 4
XSPLIT s 300 + 100
XPENDING s g
XPENDING s g - + 100
XPENDING s g IDLE 100 150 + 5 bob
XINFO STREAM s
XINFO STREAM s FULL
XINFO STREAM s FULL COUNT 0
XINFO STREAM s FULL COUNT 30
XINFO GROUPS s
XINFO CONSUMERS s g
XFILTER s - + COUNT 3 FIELD room EQ b
XFILTER s - + COUNT 300 FIELD room EQ b
XFILTER s 170 450 COUNT 2 FIELD room GLOB [ab]
XFILTER s - + COUNT 10 FIELD room MQTT #
XFILTER s - + COUNT 10 FIELD more EQ x
XFILTER s - + COUNT 10 FIELD nothing EQ x
XFILTER s 0 480 COUNT 1 FIELD room EQ nowhere
XIDMP CFGGET s
XIDMP STATS s
DUMP s
OBJECT ENCODING s
TYPE s
EXISTS s
"""

WRITING = """
XADD s * n 1 room a
XADD s 5-0 n 1
XADD s MAXLEN 30 * n 1
XADD s MAXLEN 7 * n 1
XADD s MAXLEN = 0 * n 1
XADD s MAXLEN ~ 21 * n 1
XADD s MAXLEN ~ 21 LIMIT 9 * n 1
XADD s MINID 333 * n 1
XADD s MINID 300-0 * n 1
XADD s MINID ~ 333 * n 1
XADD s DELREF MAXLEN 30 * n 1
XADD s ACKED MAXLEN 10 * n 1
XADD s ACKED MINID 555 * n 1
XADD s DELREF MINID 355 * n 1
XADD s IDMP p i1 * n 9
XADD s IDMPAUTO q MAXLEN 20 * n 9
XDEL s 170-0
XDEL s 170-0 175-0 180-0 330-0 999-0 60-0
XDEL s 590-0 600-0 170-0
XDEL s 175-0
XDELEX s IDS 3 170-0 175-0 290-0
XDELEX s DELREF IDS 4 170-0 180-0 150-0 60-0
XDELEX s ACKED IDS 4 170-0 230-0 240-0 500-0
XACKDEL s g IDS 3 180-0 150-0 230-0
XACKDEL s g DELREF IDS 3 190-0 210-0 500-0
XACKDEL s g ACKED IDS 3 200-0 280-0 230-0
XTRIM s MAXLEN 30
XTRIM s MAXLEN = 35
XTRIM s MAXLEN 3
XTRIM s MAXLEN 0
XTRIM s MAXLEN 100
XTRIM s MAXLEN ~ 20
XTRIM s MAXLEN ~ 20 LIMIT 11
XTRIM s MAXLEN ~ 20 LIMIT 0
XTRIM s MINID 300-0
XTRIM s MINID 305
XTRIM s MINID 345
XTRIM s MINID ~ 345
XTRIM s MINID ~ 345 LIMIT 7
XTRIM s MINID 599
XTRIM s MINID 9999
XTRIM s MAXLEN 30 DELREF
XTRIM s MAXLEN 30 ACKED
XTRIM s MAXLEN ~ 0 LIMIT 12 ACKED
XTRIM s MINID 345 DELREF
XTRIM s MINID 345 ACKED
XTRIM s MINID ~ 345 LIMIT 9 DELREF
XREADGROUP GROUP g alice COUNT 5 STREAMS s >
XREADGROUP GROUP g newcomer COUNT 5 STREAMS s >
XREADGROUP GROUP g newcomer STREAMS s >
XREADGROUP GROUP g newcomer COUNT 2 NOACK STREAMS s >
XREADGROUP GROUP g alice COUNT 3 STREAMS s 0
XREADGROUP GROUP g alice STREAMS s 0
XREADGROUP GROUP g bob STREAMS s 170
XREADGROUP GROUP g newcomer STREAMS s 0
XREADGROUP GROUP g bob MAXSIZE 200 STREAMS s 0
XREADGROUP GROUP g bob MAXSIZE 200 STREAMS s >
XREADGROUP GROUP g newcomer COUNT 3 STREAMS s other > >
XREADGROUP GROUP g newcomer COUNT 3 STREAMS other s > >
XREADGROUP GROUP g newcomer COUNT 3 MAXCOUNT 4 STREAMS s other > >
XREADGROUP GROUP g newcomer COUNT 3 STREAMS s s > >
XREADGROUP GROUP g bob COUNT 3 STREAMS s s > 0
XREADGROUP GROUP g bob COUNT 4 CLAIM 100 STREAMS s >
XREADGROUP GROUP g newcomer CLAIM 0 STREAMS s >
XREADGROUP GROUP g newcomer CLAIM 100 MAXSIZE 250 STREAMS s >
XREADGROUP GROUP g newcomer CLAIM 100 COUNT 5 STREAMS s other > >
XREADGROUP GROUP read newcomer BLOCK 0 STREAMS s >
XREADGROUP GROUP g newcomer BLOCK 10 STREAMS s >
XREADGROUP GROUP picky dave COUNT 3 STREAMS s >
XREADGROUP GROUP picky dave STREAMS s >
XREADGROUP GROUP picky dave COUNT 2 MAXSIZE 100 STREAMS s >
XREADGROUP GROUP picky dave COUNT 2 CLAIM 0 STREAMS s >
XREADGROUP GROUP picky carol STREAMS s 0
XREADGROUP GROUP nobody dave STREAMS s >
XCLAIM s g newcomer 0 170-0
XCLAIM s g newcomer 0 170-0 150-0 60-0 200-0 185-0 500-0
XCLAIM s g newcomer 0 170-0 150-0 60-0 200-0 500-0 JUSTID
XCLAIM s g newcomer 0 170-0 185-0 500-0 420-0 330-0 FORCE
XCLAIM s g newcomer 0 170-0 185-0 500-0 420-0 330-0 FORCE JUSTID
XCLAIM s g newcomer 0 420-0 420-0 FORCE
XCLAIM s g newcomer 99999999 170-0 200-0
XCLAIM s g newcomer 3000 170-0 180-0 190-0 RETRYCOUNT 7 LASTID 470-0
XCLAIM s g newcomer 0 185-0 LASTID 480-0
XAUTOCLAIM s g newcomer 0 0
XAUTOCLAIM s g newcomer 0 0 JUSTID
XAUTOCLAIM s g newcomer 0 155 COUNT 4
XAUTOCLAIM s g newcomer 3000 0 COUNT 12
XAUTOCLAIM s g newcomer 99999999 0
XNACK s g SILENT IDS 3 170-0 170-0 185-0
XNACK s g FAIL IDS 4 170-0 500-0 185-0 330-0 FORCE
XNACK s g FATAL IDS 2 420-0 420-0 FORCE
XACK s g 170-0 180-0 500-0
XGROUP CREATE s h 300
XGROUP CREATE s h $
XGROUP CREATE s h 0 ENTRIESREAD 5
XGROUP SETID s g 450
XGROUP SETID s g $ ENTRIESREAD 7
XGROUP SETID s g 0
XGROUP CREATECONSUMER s g newcomer
XGROUP DELCONSUMER s g bob
XGROUP DESTROY s g
XSETID s 2000000000000-0
XSETID s 5-0
XSETID s 2000000000000-0 ENTRIESADDED 3
XCFGSET s IDMP-DURATION 7
XIDMP CFGSET s MAXSIZE 7
XIDMPRECORD s p i2 170-0
XIDMPRECORD s p i2 175-0
XIDMPRECORD s p i2 330-0
COPY s t
RENAME s t
RENAME other s
MOVE s 1
DEL s
UNLINK s
EXPIRE s 100
PERSIST s
"""

ALL = [line for line in (READING + WRITING).splitlines() if line]
# These leave their key with other commands than XINFO and XRANGE: what they have made is looked at by all of these.
AFTERWARDS = ["XINFO STREAM s FULL COUNT 0", "XINFO GROUPS s", "XRANGE s - +", "XPENDING s g - + 1000", "XLEN s"]


@pytest.mark.interpreted(reason="stores and files of the test")
@pytest.mark.parametrize("line", ALL)
def test_a_command_on_cold_entries_replies_and_changes_what_it_does_in_memory(tmp_path, line):
    twins = Twins(str(tmp_path))

    expected, reply = twins.both(line)

    assert reply == expected
    plain, cold = twins.states()
    assert cold == plain
    for question in AFTERWARDS:
        evict(twins.store)
        expected, reply = twins.both(question)
        assert (question, reply) == (question, expected)


@pytest.mark.interpreted(reason="stores and files of the test")
@pytest.mark.parametrize("line", ALL)
def test_a_command_that_needs_a_block_at_any_access_has_changed_nothing(tmp_path, line):
    twins = Twins(str(tmp_path))
    expected = call(twins.plain, line)
    before = state_of(twins.cold)

    for accesses in range(1_000):
        twins.store.left = accesses
        try:
            reply = call(twins.cold, line)
        except Absent:
            assert state_of(twins.cold) == before, f"access number {accesses}"
        else:
            break
        finally:
            twins.store.left = None

    assert reply == expected
    plain, cold = twins.states()
    assert cold == plain


NEEDS_NO_BLOCK = """
XLEN s
XACK s g 170-0
XPENDING s g
XPENDING s g - + 100
XGROUP CREATE s h 300
XGROUP SETID s g 450
XGROUP DELCONSUMER s g bob
XCFGSET s IDMP-DURATION 7
XREAD STREAMS s $
XADD s * n 1
XADD s IDMP p i1 * n 9
XADD s MAXLEN 42 * n 1
COPY s t
RENAME s t
DEL s
"""


@pytest.mark.interpreted(reason="stores and files of the test")
@pytest.mark.parametrize("line", [line for line in NEEDS_NO_BLOCK.splitlines() if line])
def test_a_command_that_asks_for_no_entry_reads_no_block(tmp_path, line):
    twins = Twins(str(tmp_path))
    asked = twins.store.asked

    assert call(twins.cold, line) == call(twins.plain, line)

    assert twins.store.asked == asked


@pytest.mark.interpreted(reason="stores and files of the test")
def test_the_streams_of_these_tests_are_mostly_cold(tmp_path):
    twins = Twins(str(tmp_path))
    log = twins.cold.state.keyspace[0].values[b"s"].log
    sealed = log.sealed

    assert isinstance(sealed, ColdList)
    assert sealed.rows.live > len(log) * 0.7
    assert sealed.rows.skipped
    assert sealed.rows.end < LAST_MS << 64
    assert any(stretch.gone for stretch in sealed.rows.stretches)
