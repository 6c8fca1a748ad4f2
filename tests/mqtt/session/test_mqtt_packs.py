"""Packs of applications: all short histories against an obvious model, on a clock that is moved."""

from itertools import product

import pytest

from streamd.clients.mqtt.session.outgoing import Answer, Outgoing, State
from streamd.clients.mqtt.session.packs import OPEN_MS, Due, Pack, Policy

WAIT_MS = 3 * OPEN_MS
STEPS = ["send 0", "send 1", "ack first", "ack last", "wait", "wait long", "check", "put off", "resume"]
POLICIES = [Policy(size, WAIT_MS, retries, skips) for size in (1, 2, 3) for retries in (0, 1, 2) for skips in (False,)]
POLICIES.append(Policy(2, WAIT_MS, 1, True))


class Sends:
    """The obvious form of a pack: a list of everything that happened to it."""

    def __init__(self, policy):
        self.policy, self.events = policy, []

    def unacknowledged(self):
        acknowledged = {one for kind, one, _ in self.events if kind == "ack"}
        return [one for kind, one, _ in self.events if kind == "send" and one and one not in acknowledged]

    def sends(self):
        return [at for kind, _, at in self.events if kind == "send"]

    def is_closed(self, now):
        sends = self.sends()
        was_acknowledged = any(kind in ("ack", "resume") for kind, _, _ in self.events)
        return bool(sends) and (len(sends) >= self.policy.size or was_acknowledged or now - sends[0] >= OPEN_MS)

    def settle(self, now):
        """Begin the next pack once everything in a closed one is acknowledged."""
        if self.is_closed(now) and not self.unacknowledged():
            self.events = []

    def room(self, now):
        self.settle(now)
        return 0 if self.is_closed(now) else self.policy.size - len(self.sends())

    def retries(self):
        return sum(kind == "again" for kind, _, _ in self.events)

    def due(self, now):
        if not self.unacknowledged():
            return None
        last = max(
            at for kind, one, at in self.events if (kind == "send" and one) or kind in ("again", "put off", "resume")
        )
        if now - last < self.policy.wait_ms:
            return None
        if self.policy.skips or self.retries() == self.policy.retries != 0:
            return Due.DROP
        return Due.AGAIN


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_all_short_histories_of_a_pack(policy):
    """A3, A4, A5, A6"""
    for steps in product(STEPS, repeat=5):
        run(policy, steps)


def run(policy, steps):
    now, last_id = 5_000, 0
    pack, model = Pack(policy, [], 0, now), Sends(policy)
    for step in steps:
        waiting = model.unacknowledged()
        if step.startswith("send"):
            assert pack.room(now) == model.room(now), steps
            if pack.room(now):
                last_id += 1
                packet_id = last_id if step == "send 1" else 0
                pack.sent(packet_id, now)
                model.events.append(("send", packet_id, now))
        elif step.startswith("ack"):
            packet_id = (waiting or [99])[0 if step == "ack first" else -1]
            pack.finished(packet_id)
            if waiting:
                model.events.append(("ack", packet_id, now))
        elif step.startswith("wait"):
            now += OPEN_MS if step == "wait" else WAIT_MS
        elif step == "check":
            found = pack.due(now)
            assert found == model.due(now), steps
            if found == Due.AGAIN:
                model.events.append(("again", 0, now))
            elif found == Due.DROP:
                assert pack.drop() == waiting, steps
                model.events = []
        elif step == "put off":
            found = [at for at, (kind, _, _) in enumerate(model.events) if kind == "again"]
            if found:
                pack.put_off(now)
                model.events[found[-1]] = ("put off", 0, now)
        else:
            pack = Pack(policy, pack.ids, pack.retries, now)
            if waiting:
                model.events.append(("resume", 0, now))
            else:
                model.events = []
        model.settle(now)
        assert pack.room(now) == model.room(now), steps
        assert pack.ids == model.unacknowledged(), steps
        assert pack.retries == model.retries(), steps
        assert (pack.due_ms is not None) == bool(model.unacknowledged()), steps


@pytest.mark.parametrize(("retries", "sends"), [(3, 4), (1, 2)])
def test_a_pack_is_sent_once_and_again_so_often_then_dropped(retries, sends):
    """A5"""
    pack = Pack(Policy(200, 20_000, retries), [], 0, 0)
    pack.sent(1, 0)
    count = 1
    now = 0
    while True:
        now += 20_000
        assert pack.due(now - 1) is None
        if pack.due(now) == Due.DROP:
            break
        count += 1
    assert count == sends
    assert pack.drop() == [1]
    assert pack.room(now) == 200


def test_without_a_bound_a_pack_is_sent_again_for_ever():
    """A5"""
    pack = Pack(Policy(200, 20_000, 0), [], 0, 0)
    pack.sent(1, 0)
    assert {pack.due(20_000 * number) for number in range(1, 1_000)} == {Due.AGAIN}


def test_a_retry_gives_a_pack_its_whole_time_again():
    """A4"""
    pack = Pack(Policy(200, 20_000, 3), [], 0, 0)
    pack.sent(1, 0)
    pack.sent(2, 900)
    assert pack.due(20_899) is None
    assert pack.due(20_900) == Due.AGAIN
    pack.resent(21_000)
    assert pack.due(40_999) is None
    assert pack.due(41_000) == Due.AGAIN


# What the packs ask of the messages in flight.


class Counted:
    """The obvious form of the quota: what the client has been published in this connection and has not ended."""

    def __init__(self, maximum):
        self.maximum, self.there, self.open, self.again = maximum, {}, set(), []


FLIGHT = ["send", "ack 0", "ack 1", "again", "drop", "resend", "late", "connect"]


@pytest.mark.parametrize("keeps_quota", [False, True])
def test_all_short_histories_of_messages_sent_again_and_dropped(keeps_quota):
    """A3, A5: a receive maximum of 2 is never passed, and packet identifiers never collide."""
    for steps in product(FLIGHT, repeat=5):
        fly(keeps_quota, steps)


def fly(keeps_quota, steps):
    one, model, dropped = Outgoing(2), Counted(2), []
    for step in steps:
        ids = sorted(model.there)
        if step == "send":
            if one.room:
                packet_id = one.send("p", 1)
                assert packet_id not in model.there
                assert packet_id not in model.open, steps
                model.there[packet_id] = State.PUBLISHED_1
                model.open.add(packet_id)
        elif step.startswith("ack"):
            at = int(step[-1])
            if at < len(ids):
                assert one.puback(ids[at]) == "p"
                del model.there[ids[at]]
                model.open.discard(ids[at])
                model.again = [other for other in model.again if other != ids[at]]
        elif step == "again":
            one.again(ids)
            model.again = ids
        elif step == "drop":
            one.abandon(ids, keeps_quota)
            if keeps_quota:
                dropped += [other for other in ids if other in model.open]
            else:
                model.open.clear()
            model.there, model.again = {}, []
        elif step == "resend":
            sent = one.next_resend()
            wanted = model.again[0] if model.again else None
            if wanted is not None and wanted not in model.open and len(model.open) >= model.maximum:
                wanted = None
            assert (sent.packet_id if sent else None) == wanted, steps
            if wanted is not None:
                model.again.pop(0)
                model.open.add(wanted)
        elif step == "late":
            if dropped:
                late = dropped.pop(0)
                assert one.puback(late) is None
                model.open.discard(late)
        else:
            one = Outgoing(2, one.last_packet_id, one.in_flight)
            model.open, model.again, dropped = set(), ids, []
        assert len(model.open) <= model.maximum
        assert one.room == (0 if model.again else model.maximum - len(model.open)), steps
        assert one.has_resends == bool(model.again), steps
        assert [sent.packet_id for sent in one.in_flight] == sorted(model.there), steps


def test_what_has_come_to_its_release_is_only_released_again():
    """A5, A7"""
    one = Outgoing(10)
    for _ in range(3):
        one.send("p", 2)
    assert one.pubrec(2, 0) == Answer.RELEASE
    one.again([1, 2, 3])
    found = [one.next_resend() for _ in range(3)]
    assert [(sent.packet_id, sent.needs_entry) for sent in found] == [(1, True), (2, False), (3, True)]


def test_messages_are_sent_again_in_the_order_of_their_first_sends_also_when_identifiers_begin_again():
    """A5"""
    one = Outgoing(10, last_packet_id=65_533)
    sent = [one.send("p", 1) for _ in range(4)]
    assert sent == [65_534, 65_535, 1, 2]
    one.again([2, 65_535])
    one.again([1, 65_534])
    assert [one.next_resend().packet_id for _ in range(4)] == sent


def test_the_identifier_of_a_dropped_message_is_not_given_again_before_the_client_has_ended_it():
    one = Outgoing(10)
    assert one.send("p", 1) == 1
    one.abandon([1], keeps_quota=True)
    one.last_packet_id = 65_535
    assert one.send("p", 1) == 2
    one.puback(1)
    one.last_packet_id = 65_535
    assert one.send("p", 1) == 1


@pytest.mark.parametrize("late", [(("pubrec", 0x80),), (("pubrec", 0), ("pubcomp", None))])
def test_a_dropped_message_of_qos_2_gives_its_quota_back_when_the_client_ends_it(late):
    one = Outgoing(1)
    packet_id = one.send("p", 2)
    one.abandon([packet_id], keeps_quota=True)
    assert one.room == 0
    for name, reason in late:
        if name == "pubrec":
            assert one.pubrec(packet_id, reason) == Answer.UNKNOWN
        else:
            assert one.pubcomp(packet_id) is None
    assert one.room == 1
