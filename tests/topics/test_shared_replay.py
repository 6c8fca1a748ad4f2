"""Shared replay: leases, members that come, go and die, order where it is asked for."""

import pytest

from streamd.base.clock import ManualClock
from streamd.clients.topics import Message, TopicLog, leasing
from streamd.clients.topics.drivers import run
from streamd.testing import EmbeddedServer
from tests.topics.replays import Paused, by_pair, payloads, put, replay, work_off

LEASE_MS = 5_000


@pytest.fixture
def log(server):
    return TopicLog.create(server.client(), "log")


def fill(log, first=0, count=50, publishers=8):
    log.publish_many(
        Message("t", str(number), f"p{publisher}")
        for number in range(first, first + count)
        for publisher in range(publishers)
    )


def share(log, name, ordered=False):
    return log.share("group", member=name, lease_ms=LEASE_MS, ordered=ordered)


def test_what_a_dead_member_had_is_worked_on_by_others_after_its_lease(server, log):
    fill(log)
    dead, other = share(log, "dead"), share(log, "other")
    lost = dead.next(30).entries
    done = work_off([other])
    assert len(done) == 400 - len(lost)
    server.advance(milliseconds=LEASE_MS - 1)
    assert work_off([other]) == []
    server.advance(milliseconds=LEASE_MS // 10)  # so often it looks
    again = work_off([other])
    assert sorted(entry.place for entry in again) == sorted(entry.place for entry in lost)
    server.advance(seconds=60)
    assert work_off([other, share(log, "third")]) == []


def test_a_member_that_renews_keeps_what_it_works_on(server, log):
    fill(log, count=2)
    slow, other = share(log, "slow"), share(log, "other")
    kept = slow.next(100).entries
    for _ in range(3):
        server.advance(milliseconds=LEASE_MS - 1)
        slow.renew()
        assert other.next(100) == ([], "live")
    assert slow.ack(kept) == 16
    server.advance(milliseconds=2 * LEASE_MS)
    assert work_off([other]) == []


@pytest.mark.parametrize("ordered", [False, True])
def test_a_member_that_leaves_hands_its_work_to_others_at_once(log, ordered):
    fill(log)
    other = share(log, "other", ordered)
    with share(log, "leaver", ordered) as leaver:
        kept = leaver.next(20).entries
        leaver.ack(kept[:5])
    found = work_off([other])
    assert sorted(entry.place for entry in [*kept[:5], *found]) == sorted(entry.place for entry in replay(log))
    assert {one["name"] for key in ("0", "3") for one in log._client.xinfo_consumers(f"{{log/{key}}}:g1", "group")}


def test_members_leave_no_trace_if_they_have_nothing(log):
    for _ in range(5):
        with log.share("group", lease_ms=LEASE_MS) as member:
            member.next(1)
    assert log._client.xinfo_consumers("{log/0}:g1", "group") == []


@pytest.mark.parametrize("ordered", [False, True])
def test_messages_that_do_not_match_are_never_pending(log, ordered):
    fill(log)
    log.publish_many([Message("other/x", b"1", "p1"), Message("other/y", b"2", "p1", expiry_s=60)])
    member = log.share("few", "other/+", ordered=ordered)
    assert sorted(payloads(work_off([member]))) == ["1", "2"]
    assert [log._client.xpending(f"{{log/{shard}}}:g1", "few")["pending"] for shard in range(4)] == [0, 0, 0, 0]


def test_an_ordered_replay_keeps_order_while_members_come_go_and_die(server, log):
    """Members keep dying in the middle of their work; order is that of the first time each message is worked on."""
    fill(log, count=60)
    members = [share(log, f"m{number}", ordered=True) for number in range(3)]
    done = []
    for round_number in range(60):
        for place, member in enumerate(list(members)):
            entries, _ = member.next(7)
            if round_number % 9 == 5 and place == 1:
                members[place] = share(log, f"n{round_number}", ordered=True)  # it died with these in its hands
                continue
            done += entries
            member.ack(entries)
        if round_number % 4 == 0:
            server.advance(milliseconds=LEASE_MS // 2)
        if round_number == 20:
            log.reconfigure(shards=3)
            fill(log, first=60, count=20)
        if round_number == 30:
            members.append(share(log, "late", ordered=True))
    server.advance(milliseconds=LEASE_MS)
    done += work_off(members[:2])
    for _ in range(3):
        server.advance(milliseconds=LEASE_MS)
        done += work_off(members)
    assert by_pair(done) == {(f"p{one}", "t"): list(range(80)) for one in range(8)}


def test_a_member_of_an_ordered_replay_that_lost_its_lease_reads_nothing_more(server, log):
    fill(log)
    slow = share(log, "slow", ordered=True)
    had = slow.next(8).entries
    server.advance(milliseconds=LEASE_MS)
    quick = share(log, "quick", ordered=True)
    again = quick.next(400).entries
    assert {entry.place for entry in had} <= {entry.place for entry in again}, "it begins with what is pending"
    # The slow one is there again, and gets its part of the shards when the other has none of their work in hand.
    assert slow.next(8).entries == []
    quick.ack(again)
    rest = work_off([slow, quick])
    assert by_pair([*again, *rest]) == {(f"p{one}", "t"): list(range(50)) for one in range(8)}


def test_shards_are_dealt_out_evenly_and_again_when_a_member_comes(log):
    members = [share(log, f"m{number}", ordered=True) for number in range(4)]
    for count in (1, 2, 3, 4):
        for _ in range(3):
            for member in members[:count]:
                member.next(1)
        held = sorted(len(member._member.holdings) for member in members[:count])
        assert held == sorted([4 // count + (number < 4 % count) for number in range(count)])


def test_a_restarted_member_of_an_ordered_replay_gets_what_it_had_not_acknowledged(log):
    fill(log, count=3)
    had = share(log, "same", ordered=True).next(100).entries
    assert len(had) == 24
    again = share(log, "same", ordered=True).next(100).entries
    assert [entry.place for entry in again] == [entry.place for entry in had]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_shared_replay_goes_through_generations_and_waits_at_none(log, ordered):
    members = [share(log, f"m{number}", ordered) for number in range(3)]
    done = []
    for number, shards in enumerate((1, 6, 2)):
        fill(log, first=10 * number, count=10)
        done += work_off(members)
        log.reconfigure(shards=shards)
    fill(log, first=30, count=10)
    done += work_off(members)
    assert {pair: sorted(numbers) for pair, numbers in by_pair(done).items()} == {
        (f"p{one}", "t"): list(range(40)) for one in range(8)
    }
    if ordered:
        assert all(numbers == sorted(numbers) for numbers in by_pair(done).values())


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("way", ["unread", "pending", "generation"])
def test_a_shared_replay_is_told_once_of_what_went_before_it_was_done(server, log, way, ordered):
    fill(log, count=2)
    members = [share(log, f"m{number}", ordered) for number in range(2)]
    if way != "unread":
        members[0].next(100)
    if way == "generation":
        log.reconfigure(shards=2)
        log.drop(1)
    else:
        server.advance(seconds=86_401)
        log.retain()
    log.publish("t", b"99", publisher="p0")
    states = [member.next(10).state for member in (*members, *members)]
    assert states.count("gap") == 1
    server.advance(milliseconds=LEASE_MS)
    found = work_off(members)
    assert "99" in [*payloads(found)] or "more" in states


def test_a_shared_replay_that_was_done_with_what_goes_is_told_nothing(server, log):
    fill(log, count=2)
    member = share(log, "m")
    work_off([member])
    server.advance(seconds=86_401)
    assert log.retain() == 16
    assert member.next(10) == ([], "live")


@pytest.mark.parametrize("ordered", [False, True])
def test_a_shared_replay_begins_at_the_time_that_its_first_member_says(client, ordered):
    from datetime import UTC, datetime

    log = TopicLog.create(client, "log", shards=2, retention_s=10**8)
    now_ms = log._handle.now_ms
    for seconds in (30, 20, 10):
        for publisher in ("a", "b", "c"):
            put(client, log, now_ms - seconds * 1_000, "t", str(seconds), publisher)
    start = datetime.fromtimestamp((now_ms - 20_000) / 1_000, UTC)
    member = log.share("group", start=start, ordered=ordered)
    assert sorted(payloads(work_off([member]))) == ["10"] * 3 + ["20"] * 3
    late = log.share("late", start="latest", ordered=ordered)
    log.publish("t", b"new")
    assert payloads(work_off([late])) == ["new"]


def test_a_dropped_shared_replay_ends_for_its_members_and_can_be_begun_anew(log):
    fill(log, count=1)
    member = share(log, "m")
    work_off([member])
    log.drop_share("group")
    assert member.next() == ([], "end")
    anew = share(log, "m")
    assert not anew.start_ignored
    assert len(work_off([anew])) == 8


@pytest.mark.parametrize("ordered", [False, True])
def test_a_member_that_waits_is_woken_by_what_comes(client, ordered):
    from tests.topics.storms import client_at, run_threads

    log = TopicLog.create(client, "log")
    port = client.connection_pool.connection_kwargs["port"]
    member = TopicLog.open(client_at(port), "log").share("group", ordered=ordered)
    assert member.next(10, block_ms=20) == ([], "live")
    got, _ = run_threads([lambda: member.next(10, block_ms=5_000), lambda: log.publish("t", b"1")])
    assert payloads(got.entries) == ["1"]


def test_leases_hold_by_the_servers_clock_wherever_it_steps():
    with EmbeddedServer(ManualClock(10**12)) as server:
        log = TopicLog.create(server.client(), "log")
        fill(log, count=2)
        one, two = (share(log, name) for name in ("one", "two"))
        one.next(100)
        server.advance(seconds=-3_600)
        assert two.next(100) == ([], "live")
        server.advance(seconds=3_600, milliseconds=LEASE_MS)
        assert len(work_off([two])) == 16


@pytest.mark.parametrize("before", range(7))
def test_a_member_that_is_paused_for_longer_than_its_lease_reads_nothing_that_another_one_read(server, log, before):
    fill(log)
    slow, quick = share(log, "slow", ordered=True), share(log, "quick", ordered=True)
    first = slow.next(8).entries
    slow.ack(first)
    taken = []

    def meanwhile():
        server.advance(milliseconds=LEASE_MS)
        while entries := quick.next(10).entries:
            taken.extend(entries)
            quick.ack(entries)

    paused = Paused(leasing.member_next(slow._member, 8, 0), before, meanwhile)
    entries = run(log._client, paused.run()).entries
    if paused.was_paused:
        assert not {entry.place for entry in entries} & {entry.place for entry in taken}
    slow.ack(entries)
    work = [*first, *entries, *taken] if not paused.was_paused or before >= 4 else [*first, *taken, *entries]
    assert by_pair([*work, *work_off([quick, slow])]) == {(f"p{one}", "t"): list(range(50)) for one in range(8)}


def test_an_ordered_replay_begins_a_generation_when_all_of_the_one_before_is_acknowledged(log):
    fill(log, count=1)
    members = [share(log, name, ordered=True) for name in ("one", "two")]
    for member in members:
        member.next(1)  # so that they know of each other
    kept = [[*member.next(100).entries] for member in members]
    log.reconfigure(shards=2)
    fill(log, first=1, count=1)
    held = [entry for member in members for entry in member.next(100).entries]
    assert [entry for entry in held if entry.payload == b"1"] == []
    for member in members:
        for place, ids in list(member._member.unacknowledged.items()):
            log._client.xack(member._member.key(place), "group", *ids)
            ids.clear()
    assert len(kept) == 2
    assert set(payloads(work_off(members))) == {"1"}
