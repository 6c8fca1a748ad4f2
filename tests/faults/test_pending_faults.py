"""A long list of pending entries goes at once for those who ask, and is freed a little at a time."""

import pytest

from streamd.stream.groups.pending import CHUNK_ENTRIES_MAX, Consumer, PendingEntries
from tests.session import Session

MANY = 20 * CHUNK_ENTRIES_MAX


def pending_of(*shares: tuple[bytes, int]) -> tuple[PendingEntries, dict[bytes, Consumer]]:
    """Return pending entries that were delivered to consumers in turn, so many at a time, and the consumers."""
    entries, consumers, at = PendingEntries(), {name: Consumer(name, 0) for name, _ in shares}, 1
    while at <= MANY:
        for name, count in shares:
            entries.deliver(list(range(at, min(at + count, MANY + 1))), consumers[name], at, 1)
            at += count
    return entries, consumers


def filled(engine: Session, *consumers: str, count: int = MANY) -> None:
    engine.send(*(["XADD", "s", f"{number}-1", "f", "v"] for number in range(1, MANY + 1)))
    engine.received()
    engine.do("XGROUP CREATE s g 0")
    for at in range(0, MANY, count):
        engine.do(f"XREADGROUP GROUP g {consumers[at // count % len(consumers)]} COUNT {count} STREAMS s >")
    engine.received()


def test_faults2_3_7_the_chunks_of_one_consumer_go_whole():
    entries, consumers = pending_of((b"ann", CHUNK_ENTRIES_MAX), (b"bob", CHUNK_ENTRIES_MAX))
    dropped: list[object] = []

    assert entries.remove_owner(consumers[b"ann"], dropped) == MANY // 2

    assert len(dropped) == MANY // 2 // CHUNK_ENTRIES_MAX
    assert {row[1] for row in entries.iterate()} == {consumers[b"bob"]}
    assert (len(entries), consumers[b"bob"].pending) == (MANY // 2, MANY // 2)


@pytest.mark.parametrize("count", [1, 3, 100])
def test_faults2_3_7_a_chunk_of_several_consumers_is_gone_through_once(count):
    entries, consumers = pending_of((b"ann", count), (b"bob", count), (b"cid", 1))
    ann, bob, cid = consumers.values()
    kept = [row for row in entries.iterate() if row[1] is not ann]
    before, dropped = entries.snapshot(), []
    rows, chunks = list(before.iterate()), len(entries._chunks)

    assert entries.remove_owner(ann, dropped) == MANY - len(kept)

    assert len(dropped) == chunks
    assert list(entries.iterate()) == kept
    assert list(before.iterate()) == rows
    assert bob.pending == sum(row[1] is bob for row in kept)
    assert list(entries.iterate(owner=cid)) == [row for row in kept if row[1] is cid]
    assert (
        entries.remove_many([row[0] for row in kept if row[1] is bob][:50])
        == [row[0] for row in kept if row[1] is bob][:50]
    )
    assert entries.remove_owner(bob, []) + entries.remove_owner(cid, []) == len(kept) - 50
    assert (len(entries), list(entries.iterate()), entries.oldest_ms()) == (0, [], None)


@pytest.mark.parametrize(("consumers", "count"), [(["ann"], MANY), (["ann", "bob"], 500), (["ann", "bob"], 7)])
def test_faults2_3_7_delconsumer_answers_at_once_and_its_pending_entries_are_freed_later(engine, consumers, count):
    filled(engine, *consumers, count=count)
    held = int(dict(engine.do("XPENDING s g")[3])[b"ann"])
    others = MANY - held
    records = engine.record()

    assert engine.do("XGROUP DELCONSUMER s g ann") == held

    assert engine.state.keyspace.trash
    assert records == [(0, [b"XGROUP", b"DELCONSUMER", b"s", b"g", b"ann"])]
    assert engine.do("XPENDING s g")[0] == others
    assert engine.do("XINFO GROUPS s")[0][3] == len(consumers) - 1
    engine.sweep()
    assert not engine.state.keyspace.trash
    assert engine.do("XPENDING s g")[0] == others


def test_faults2_3_7_a_group_that_is_destroyed_is_freed_later(engine):
    filled(engine, "ann", "bob", count=300)

    assert engine.do("XGROUP DESTROY s g") == 1

    assert engine.state.keyspace.trash
    assert engine.do("XINFO GROUPS s") == []
    engine.sweep()
    assert not engine.state.keyspace.trash


def test_faults2_3_7_a_new_consumer_of_the_same_name_has_nothing_pending(engine):
    filled(engine, "ann", "bob", count=5)
    engine.do("XGROUP DELCONSUMER s g ann")

    assert engine.do("XREADGROUP GROUP g ann COUNT 10 STREAMS s 0") == [[b"s", []]]
    engine.do("XAUTOCLAIM s g ann 0 0 COUNT 10 JUSTID")

    assert engine.do("XPENDING s g") == [
        MANY // 2, b"6-1", b"%d-1" % MANY, [[b"ann", b"10"], [b"bob", b"%d" % (MANY // 2 - 10)]],
    ]  # fmt: skip
