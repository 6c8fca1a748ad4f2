"""Messages in flight, in both directions: all short histories against an obvious model."""

from collections import Counter
from itertools import product

import pytest

from streamd.clients.mqtt.codec.faults import Fault
from streamd.clients.mqtt.codec.packets import Publish
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.session.incoming import Aliases, Arrival, Incoming
from streamd.clients.mqtt.session.outgoing import PACKET_IDS, Answer, Outgoing, Sent, State


class Messages:
    """The obvious form of what is in flight: a list, of which each connection knows what it has published."""

    def __init__(self, maximum):
        self.maximum, self.last, self.there, self.published, self.again = maximum, 0, [], set(), []

    def connect(self, maximum):
        self.maximum, self.published = maximum, set()
        self.again = [packet_id for packet_id, _, _ in self.there]

    def room(self):
        open_now = [one for one in self.there if one[0] in self.published]
        return 0 if self.again else self.maximum - len(open_now)

    def state(self, packet_id):
        return next((state for known, _, state in self.there if known == packet_id), None)

    def replace(self, packet_id, state):
        self.there = [(one, place, state if one == packet_id else old) for one, place, old in self.there]

    def remove(self, packet_id):
        (place,) = [place for one, place, _ in self.there if one == packet_id]
        self.there = [one for one in self.there if one[0] != packet_id]
        self.published.discard(packet_id)
        self.forget(packet_id)
        return place

    def forget(self, packet_id):
        self.again = [one for one in self.again if one != packet_id]


STEPS = ["send 1", "send 2", "puback", "pubrec", "pubrec 135", "pubcomp", "resend", "connect 1", "connect 2"]


@pytest.mark.parametrize("begin", ["connect 1", "connect 2"])
def test_all_short_histories_of_sent_messages(begin):
    for steps in product(STEPS, repeat=5):
        run(begin, steps)


def run(begin, steps):
    maximum = int(begin[-1])
    one, model = Outgoing(maximum), Messages(maximum)
    for number, step in enumerate(steps):
        word, _, rest = step.partition(" ")
        ids = [1, 2, 3]
        if word == "send":
            if one.room:
                packet_id = one.send(f"p{number}", int(rest))
                model.last = packet_id
                assert model.state(packet_id) is None
                model.there.append((packet_id, f"p{number}", State(int(rest))))
                model.published.add(packet_id)
        elif word == "connect":
            one = Outgoing(int(rest), one.last_packet_id, one.in_flight)
            model.connect(int(rest))
        elif word == "resend":
            wanted = model.again[0] if model.again else None
            blocked = wanted is not None and model.state(wanted) != State.RELEASED
            if blocked and len(model.published) >= model.maximum:
                wanted = None
            sent = one.next_resend()
            assert (sent.packet_id if sent else None) == wanted, steps
            if sent is not None:
                model.again.pop(0)
                if sent.state != State.RELEASED:
                    model.published.add(wanted)
        else:
            packet_id = ids[number % 2] if model.state(ids[number % 2]) else 3
            acknowledge(one, model, word, packet_id, int(rest or 0), steps)
        assert one.in_flight == [Sent(*sent) for sent in model.there], steps
        assert one.room == model.room(), steps
        assert len(one) == len(model.there)


def acknowledge(one, model, word, packet_id, reason, steps):
    state = model.state(packet_id)
    wrong = {"puback": (2, 3), "pubrec": (1,), "pubcomp": (1, 2)}[word]
    if state in wrong:
        with pytest.raises(Fault) as refused:
            one.pubrec(packet_id, reason) if word == "pubrec" else getattr(one, word)(packet_id)
        assert refused.value.reason == 0x82
    elif word != "pubrec":
        place = getattr(one, word)(packet_id)
        assert place == (None if state is None else model.remove(packet_id)), steps
    else:
        answer = one.pubrec(packet_id, reason)
        if state is None:
            assert answer == Answer.UNKNOWN
        elif state == State.PUBLISHED_2 and reason >= 0x80:
            assert answer == Answer.DONE
            model.remove(packet_id)
        else:
            assert answer == Answer.RELEASE
            model.replace(packet_id, State.RELEASED)
            model.forget(packet_id)


def test_identifiers_begin_again_and_pass_over_those_in_flight():
    """5:2.2.1-4 3:2.3.1-4"""
    one = Outgoing(PACKET_IDS)
    assert one.send("kept", 1) == 1
    for number in range(2, PACKET_IDS + 1):
        assert one.send(number, 1) == number
        one.puback(number)
    assert one.send("again", 2) == 2
    assert [sent.packet_id for sent in one.in_flight] == [1, 2]


def test_with_all_identifiers_in_flight_there_is_no_room():
    one = Outgoing(70_000)
    for number in range(PACKET_IDS):
        one.send(number, 1)
    assert one.room == 0
    one.puback(7)
    assert one.send("next", 1) == 7


def test_all_short_histories_of_received_messages():
    kinds = [("publish", qos, packet_id) for qos in (1, 2) for packet_id in (1, 2)]
    kinds += [("stored", 0, 0), ("refused", 0, 0), ("pubrel", 0, 1), ("pubrel", 0, 2), ("connect", 0, 0)]
    for maximum in (1, 2):
        for steps in product(kinds, repeat=5):
            receive(maximum, steps)
        for steps in product(kinds, repeat=4):  # of a session that is resumed
            receive(maximum, (("publish", 2, 1), ("stored", 0, 0), ("connect", 0, 0), *steps))


def receive(maximum, steps):
    one = Incoming(maximum)
    storing, waiting, counted, sent = [], set(), set(), Counter()
    for kind, qos, packet_id in steps:
        if kind == "publish":
            arrival = None
            if (2, packet_id) in storing and qos == 2:
                arrival = Arrival.BEING_STORED
            elif qos == 2 and packet_id in waiting:
                arrival = Arrival.REPEATED
                counted.add(packet_id)
            open_now = len(storing) + len(counted) + (arrival is None)
            if open_now > maximum:
                with pytest.raises(Fault) as refused:
                    one.publish(qos, packet_id)
                assert refused.value.reason == 0x93, steps
                return
            assert one.publish(qos, packet_id) == (arrival or Arrival.STORE), steps
            if arrival is None:
                storing.append((qos, packet_id))
            if arrival in (None, Arrival.BEING_STORED):
                sent[qos, packet_id] += 1
        elif kind in ("stored", "refused") and storing:
            done = storing.pop(0)
            answers = sent[done] if done[0] == 2 else 1
            assert getattr(one, kind)(*done) == answers, steps  # one for each PUBLISH
            sent[done] = 0
            if kind == "stored" and done[0] == 2:
                waiting.add(done[1])
                counted.add(done[1])
        elif kind == "pubrel":
            assert one.pubrel(packet_id) == (packet_id in waiting), steps
            waiting.discard(packet_id)
            counted.discard(packet_id)
        elif kind == "connect":
            one = Incoming(maximum, one.awaiting_release)
            storing, counted, sent = [], set(), Counter()
        assert one.awaiting_release == waiting, steps


def publish(topic, alias=None):
    return Publish(topic, b"", properties={} if alias is None else {Property.TOPIC_ALIAS: alias})


def test_an_alias_stands_for_the_topic_that_it_was_last_given_with():
    """5:§3.3.4"""
    aliases = Aliases(2)
    assert aliases.topic_of(publish(b"a")) == b"a"
    assert aliases.topic_of(publish(b"a", 2)) == b"a"
    assert aliases.topic_of(publish(b"", 2)) == b"a"
    assert aliases.topic_of(publish(b"b", 2)) == b"b"
    assert aliases.topic_of(publish(b"", 2)) == b"b"


@pytest.mark.parametrize(
    ("statement", "maximum", "topic", "alias", "reason"),
    [("5:3.3.2-9", 2, b"a", 3, 0x94), ("5:3.2.2-18", 0, b"a", 1, 0x94), ("5:3.3.2-7", 2, b"", 1, 0x82)],
)
def test_an_alias_that_cannot_be_is_refused(statement, maximum, topic, alias, reason):
    with pytest.raises(Fault) as refused:
        Aliases(maximum).topic_of(publish(topic, alias))
    assert refused.value.reason == reason
