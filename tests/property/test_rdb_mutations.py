"""Values in RDB form: any value comes back; any bytes are a value or refused, before much memory is taken."""

import tracemalloc
from copy import deepcopy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.rdb.bytes import BadData, Reader, with_footer
from streamd.rdb.payload import payload_of, value_in
from streamd.rdb.values import read_value
from streamd.stream.stream import Stream
from tests.crash.restartable import Restartable
from tests.crash.state_dump import dump
from tests.examples import examples
from tests.property.test_journal_state import histories, play
from tests.session import Session
from tests.unit.rdb.payloads import new_stream, payloads

PAYLOADS = [payload.data[:-10] for payload in payloads()]
# The most that a payload of a few kilobytes may take while it is read.
MEMORY_BYTES_MAX = 4_000_000


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(histories)
def test_every_value_comes_back_after_any_history(history):
    server = Restartable(appendfsync="no")
    play(server, history)
    engine = server.engine
    for db in engine.state.keyspace:
        for value in db.values.values():
            for group in (value.groups or {}).values() if isinstance(value, Stream) else ():
                group.wanted = None  # Redis has no filters
    before = without_times(dump(engine))
    for db in engine.state.keyspace:
        for key in list(db.keys()):
            value = value_in(payload_of(db.values[key]), new_stream)
            db.place(key, value, db.expires_ms.get(key))
    assert without_times(dump(engine)) == before


def without_times(values):
    """Return what was dumped without the times of iids recorded ahead of the clock, which Redis's form does not have:
    the age of such an iid is that of its entry's ID from then on.
    """
    for _, _, value in values.values():
        if isinstance(value, dict) and "iids" in value:
            value["iids"] = [one[:3] for one in value["iids"]]
    return values


def changed(body: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Return the bytes with parts overwritten, inserted, removed or doubled."""
    for kind, place, new in changes:
        at = place % (len(body) + 1)
        if kind == 0:
            body = body[:at] + new + body[at + len(new) :]
        elif kind == 1:
            body = body[:at] + new + body[at:]
        elif kind == 2:
            body = body[:at] + body[at + len(new) :]
        else:
            body = body[:at] + body[max(0, at - 4 * len(new)) :]
    return body


pieces = st.one_of(
    st.binary(min_size=1, max_size=4),
    st.sampled_from([b"\x81" + b"\xff" * 8, b"\x80\xff\xff\xff\xff", b"\xff", b"\0", b"\x7f", b"\xc3\x09\xff"]),
)
changes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000), pieces), min_size=1, max_size=3)


@settings(max_examples=examples(800), suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PAYLOADS), changes)
def test_changed_payloads_are_refused_or_are_values_that_come_back(body, changes):
    body = changed(body, changes)
    tracemalloc.start()
    try:
        reader = Reader(body)
        value = read_value(reader.byte(), reader, new_stream)
    except BadData:
        return
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert taken < MEMORY_BYTES_MAX
    # What is taken is a sound value: commands read it, and it is written and read as the same again.
    session = Session()
    session.execute(["RESTORE", "k", "0", with_footer(body, 10)])
    before = deepcopy(dump(session.engine))  # a look removes fields whose time has passed
    for line in ("DEBUG x", "XLEN k", "XINFO STREAM k FULL", "XTRIM k MAXLEN 1", "ZRANGE k 0 -1", "LPOP k", "SPOP k"):
        session.do(line)
    db = session.state.keyspace[0]
    db.place(b"k", value, None)
    again = value_in(payload_of(value), new_stream, session.engine.clock.now_ms())
    db.place(b"k", again, None)
    assert dump(session.engine) == before
    assert session.state.stats.internal_errors == 0
