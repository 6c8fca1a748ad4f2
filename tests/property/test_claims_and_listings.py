"""XAUTOCLAIM and XPENDING, which judge and list many entries at once, answer what going entry by entry would."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.stream.entry_id import ID_MAX, format_id, make_id
from streamd.stream.groups import pending
from streamd.stream.wire.entry_encoder import encode_rows
from tests.examples import examples
from tests.session import Session

START_MS = 1_000_000_000_000
PLACES = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(["ann", "bob"]), st.integers(1, 9)),
    st.tuples(st.just("claim"), st.sampled_from(["ann", "bob", "cid"]), PLACES),
    st.tuples(st.just("claim again"), st.just("ann"), PLACES),
    st.tuples(st.just("ack"), st.just(""), PLACES),
    st.tuples(st.just("nack"), st.just(""), PLACES),
    st.tuples(st.just("delete"), st.just(""), PLACES),
    st.tuples(st.just("wait"), st.just(""), st.integers(1, 9)),
    st.tuples(st.just("add"), st.just(""), st.integers(1, 9)),
)
RESTORES = st.tuples(st.just("restore"), PLACES, st.integers(1, 12), st.sampled_from([1, 1, 1, 2, -1]))
CLAIMS = st.tuples(
    st.just("autoclaim"), st.integers(0, 12), PLACES, st.integers(1, 12), st.booleans(), st.sampled_from([1, 2, 10])
)
LISTINGS = st.tuples(
    st.just("list"), PLACES, PLACES, st.integers(0, 20), st.sampled_from(["", "ann", "nobody"]), st.integers(0, 9)
)
HISTORIES = st.lists(st.one_of(STEPS, STEPS, CLAIMS, RESTORES, LISTINGS), max_size=40)


def entry(place: int) -> str:
    return f"5-{place}"


def rows(session: Session) -> list[tuple[int, bytes, int, int]]:
    group = session.state.keyspace[0].stream(b"s").groups[b"g"]
    return [
        (entry_id, b"" if owner is None else owner.name, time_ms, count)
        for entry_id, owner, time_ms, count in group.pending.iterate()
    ]


def expected_claim(session, idle_ms, start, count, attempts):
    """Go through the pending entries one by one, as Redis does."""
    log = session.state.keyspace[0].stream(b"s").log
    now_ms = session.clock.now_ms()
    left, claimed, gone = count * attempts, [], []
    for entry_id, owner, time_ms, _ in rows(session):
        if entry_id < start:
            continue
        if not left or len(claimed) + len(gone) == count:
            return entry_id, claimed, gone
        left -= 1
        if not any(True for _ in log.iterate(entry_id, entry_id)):
            gone.append(entry_id)
        elif not owner or not idle_ms or now_ms - time_ms >= idle_ms:
            claimed.append(entry_id)
    return 0, claimed, gone


def run(session: Session, step: tuple, monkeypatch) -> None:
    kind = step[0]
    if kind == "autoclaim":
        _, idle_ms, place, count, just_id, attempts = step
        monkeypatch.setattr("streamd.commands.stream.xautoclaim.ATTEMPTS_FACTOR", attempts)
        next_id, claimed, gone = expected_claim(session, idle_ms, make_id(5, place), count, attempts)
        before = {row[0]: row for row in rows(session)}
        words = ["XAUTOCLAIM", "s", "g", "cid", str(idle_ms), entry(place), "COUNT", str(count)]
        reply = session.execute([*words, "JUSTID"] if just_id else words)
        found = reply[1] if just_id else [one[0] for one in reply[1]]
        assert [reply[0], found, reply[2]] == [format_id(next_id), [*map(format_id, claimed)], [*map(format_id, gone)]]
        assert just_id or all(one[1] == [b"f", one[0]] for one in reply[1])
        for entry_id in claimed:
            before[entry_id] = (entry_id, b"cid", session.clock.now_ms(), before[entry_id][3] + (not just_id))
        assert rows(session) == [row for entry_id, row in before.items() if entry_id not in gone]
    elif kind == "restore":  # as a journal says it
        _, place, count, step_by = step
        ids = [make_id(5, max(1, place + number * step_by)) for number in range(count)]
        log = session.state.keyspace[0].stream(b"s").log
        there = {entry_id for entry_id, _ in log.iterate()}
        since = session.clock.now_ms() - 3
        expected = {row[0]: row for row in rows(session) if row[0] not in ids or row[0] in there}
        expected |= {entry_id: (entry_id, b"cid", since, 4) for entry_id in ids if entry_id in there}
        words = ["XCLAIM", "s", "g", "cid", "0", *map(format_id, ids), "TIME", str(since), "RETRYCOUNT", "4"]
        reply = session.execute([*words, "FORCE", "JUSTID"])
        assert reply == [format_id(entry_id) for entry_id in ids if entry_id in there]
        assert rows(session) == [row for _, row in sorted(expected.items())]
        nacked = session.state.keyspace[0].stream(b"s").groups[b"g"].pending.nacked
        assert sorted(nacked) == [entry_id for entry_id, name, _, _ in rows(session) if not name]
    elif kind == "list":
        _, low, high, count, consumer, idle_ms = step
        now_ms = session.clock.now_ms()
        expected = [
            [format_id(entry_id), name, now_ms - time_ms if name else -1, times]
            for entry_id, name, time_ms, times in rows(session)
            if make_id(5, low) <= entry_id <= make_id(5, high)
            and name == (consumer.encode() or name)
            and (not idle_ms or not name or now_ms - time_ms >= idle_ms)
        ]
        words = [
            "XPENDING",
            "s",
            "g",
            *(["IDLE", str(idle_ms)] if idle_ms else []),
            entry(low),
            entry(high),
            str(count),
        ]
        assert session.execute([*words, consumer] if consumer else words) == expected[:count]
    elif kind == "read":
        session.execute(["XREADGROUP", "GROUP", "g", step[1], "COUNT", str(step[2]), "STREAMS", "s", ">"])
    elif kind == "claim":
        session.execute(["XCLAIM", "s", "g", step[1], "0", entry(step[2])])
    elif kind == "claim again":  # as it is, but for the count
        was = [row for row in rows(session) if row[0] == make_id(5, step[2])]
        owner, since = (was[0][1], was[0][2]) if was else (b"ann", 7)
        words = ["XCLAIM", "s", "g", owner or b"ann", "0", entry(step[2]), "TIME", str(since), "RETRYCOUNT", "9"]
        session.execute(words)
    elif kind == "nack":
        session.execute(["XNACK", "s", "g", "FAIL", "IDS", "1", entry(step[2])])
    elif kind == "wait":
        session.clock.advance(step[2])
    elif kind == "add":
        last = len(session.execute(["XRANGE", "s", "-", "+"]))
        for place in range(50 + last, 50 + last + step[2]):
            session.execute(["XADD", "s", f"5-{place * 10}", "f", f"5-{place * 10}"])
    else:
        session.execute(["XACK", "s", "g", entry(step[2])] if kind == "ack" else ["XDEL", "s", entry(step[2])])


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_a_history_is_as_entry_by_entry(monkeypatch, history):
    monkeypatch.setattr(pending, "CHUNK_ENTRIES_MAX", 7)
    session = Session()
    session.execute(["CONFIG", "SET", "stream-node-max-entries", "6"])
    for place in range(1, 36):
        session.execute(["XADD", "s", entry(place), "f", entry(place)])
    session.execute(["XGROUP", "CREATE", "s", "g", "0"])
    for reader, count in (("ann", 9), ("bob", 5), ("ann", 4)):
        session.execute(["XREADGROUP", "GROUP", "g", reader, "COUNT", str(count), "STREAMS", "s", ">"])
        session.clock.advance(4)
    for step in history:
        run(session, step, monkeypatch)
    for count in range(len(rows(session)) + 2):
        run(session, ("list", 0, 10_000, count, "", 0), monkeypatch)
    assert session.state.stats.internal_errors == 0


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=40, unique=True),
    st.sampled_from([1, 7, 1 << 64, (1 << 64) + 1, 400 << 64]),
    st.booleans(),
)
def test_rows_begin_with_their_ids(numbers, step, is_one):
    ids = [min(make_id(1_795_246_993_860, 3) + number * step, ID_MAX) for number in sorted(numbers)]
    rests = [b"\r\n:%d" % (0 if is_one else number) for number in range(len(ids))]
    assert encode_rows(ids, b"\r\n*2", rests[0] if is_one else rests) == b"".join(
        b"*2\r\n$%d\r\n%b%b\r\n" % (len(format_id(entry_id)), format_id(entry_id), rest)
        for entry_id, rest in zip(ids, rests, strict=True)
    )
    assert encode_rows(ids, b"", b"") == b"".join(
        b"$%d\r\n%b\r\n" % (len(format_id(entry_id)), format_id(entry_id)) for entry_id in ids
    )
