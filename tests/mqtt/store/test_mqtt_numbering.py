"""The numbers of retained messages: one request for all of a turn, and what waits for the reply."""

import random
from types import SimpleNamespace

import hiredis
import pytest

from streamd.clients.mqtt.store.numbering import Numbering
from streamd.clients.mqtt.store.publishing import Publication
from streamd.clients.mqtt.store.read_order import in_order
from streamd.clients.mqtt.store.stored import Stored

pytestmark = pytest.mark.interpreted(reason="the link is a test's own")
LOG = SimpleNamespace(name="log", handle=SimpleNamespace(meta=SimpleNamespace(current=SimpleNamespace(number=1))))


class StubLink:
    """A link whose requests are answered when a test says so: each with the next ID."""

    def __init__(self):
        self.sent, self.seq = [], 0

    def send(self, packed, count, done):
        self.sent.append((packed, count, done))

    def send_now(self):
        pass

    def answer(self, reply=None):
        packed, count, done = self.sent.pop(0)
        if reply is None and count == 2:  # it is raised first
            self.seq = max(self.seq, int(packed.split(b"\r\n")[10].split(b"-")[1]))
        self.seq += 1
        done([None] * (count - 1) + [reply or b"5-%d" % self.seq])


def publication(publisher, is_retained, number=0):
    fields = (2, b"%d" % number)
    return Publication(LOG, publisher, fields, b"own", b"%d" % number, None, lambda *words: None, is_retained)


def new():
    link, ready = StubLink(), []
    return link, Numbering(link, "log", lambda group, error: ready.append((group.messages, error))), ready


def test_all_retained_messages_of_a_turn_get_their_numbers_by_one_request():
    link, numbering, ready = new()
    for number in range(3):
        numbering.add(publication(b"p%d" % (number % 2), True, number))
    numbering.draw()
    numbering.draw()
    ((packed, count, _),) = link.sent
    assert (count, packed.count(b"XADD"), b"{log}:numbers" in packed) == (1, 1, True)
    link.answer()
    (((*found,), error),) = ready
    assert error is None
    assert [one.fields for one in found] == [b"%d$1\r\nn\r\n$5\r\n5-1-%d\r\n" % (n, n) for n in range(3)]
    assert {one.words for one in found} == {4}
    assert numbering.highest == (5, 1, 2)
    assert not any(numbering.holds(one) for one in (b"p0", b"p1"))


def test_a_message_waits_only_behind_a_retained_one_of_its_publisher():
    link, numbering, ready = new()
    numbering.add(publication(b"p", True, 1))
    numbering.draw()
    assert (numbering.holds(b"p"), numbering.holds(b"q")) == (True, False)
    numbering.add(publication(b"p", False, 2))
    numbering.add(publication(b"p", True, 3))
    numbering.add(publication(b"p", False, 4))
    numbering.draw()
    link.answer()
    assert numbering.holds(b"p")
    link.answer()
    assert [[one.iid for one in found] for found, _ in ready] == [[b"1", b"2"], [b"3", b"4"]]
    assert [one.words for found, _ in ready for one in found] == [4, 2, 4, 2]


def test_messages_whose_numbers_the_store_refuses_are_told_why():
    link, numbering, ready = new()
    numbering.add(publication(b"p", True))
    numbering.draw()
    link.answer(hiredis.ReplyError("OOM no room"))
    assert [error for _, error in ready] == ["OOM no room"]
    assert not numbering.holds(b"p")


def test_numbers_are_above_the_highest_that_is_known_and_groups_keep_their_order():
    link, numbering, ready = new()
    for number in range(3):
        numbering.add(publication(b"p", True, number))
        numbering.draw()
    numbering.highest = (5, 2, 7)
    while link.sent:
        link.answer()
    assert [found[0].iid for found, _ in ready] == [b"0", b"1", b"2"]
    drawn = [tuple(map(int, found[0].fields.split(b"\r\n")[-2].split(b"-"))) for found, _ in ready]
    assert drawn == sorted(drawn)
    assert drawn[0] > (5, 2, 7)


def test_the_messages_of_a_client_that_has_gone_elsewhere_are_dropped_wherever_they_wait():
    link, numbering, ready = new()
    for number in range(4):
        numbering.add(publication(b"p", number % 2 == 0, number))
        numbering.add(publication(b"q", True, number))
        if number == 1:
            numbering.draw()
    assert [one.iid for one in numbering.drop(b"p")] == [b"0", b"1", b"2", b"3"]
    assert numbering.drop(b"p") == []
    numbering.draw()
    while link.sent:
        link.answer()
    assert [one.publisher for found, _ in ready for one in found] == [b"q"] * 4
    assert not numbering.holds(b"q")


def histories(seed):
    """Return entries as one read finds them, and pairs of which the second was drawn when the first was stored."""
    chance = random.Random(seed)
    shards, topics = chance.randint(2, 3), chance.randint(1, 3)
    drawing, stored, entries, pairs = [], [], [[] for _ in range(shards)], []
    for number in range(chance.randint(2, 9)):
        for one in [one for one in drawing if chance.random() < 0.5]:
            drawing.remove(one)
            mine = entries[one.shard]
            one.entry_id = (1, len(mine) + 1)
            mine.append(one)
            stored.append(one)
        entry = Stored("log", 1, chance.randrange(shards), (1, 0), b"t%d" % chance.randrange(topics), b"x", [])
        entry.is_retained = chance.random() < 0.8
        if entry.is_retained:
            entry.number = (1, number, 0)
        pairs += [(one, entry) for one in stored if one.topic == entry.topic and one.is_retained and entry.is_retained]
        drawing.append(entry)
    for one in drawing:
        one.entry_id = (1, len(entries[one.shard]) + 1)
        entries[one.shard].append(one)
    return [one for shard in entries for one in shard], pairs


def test_within_a_read_messages_of_a_topic_go_out_in_their_order_and_those_of_a_shard_in_theirs():
    in_topic_order = 0
    for seed in range(3_000):
        entries, pairs = histories(seed)
        found = in_order(list(entries))
        assert sorted(map(id, found)) == sorted(map(id, entries))
        places = {one: number for number, one in enumerate(found)}
        for shard in range(3):
            ids = [one.entry_id for one in found if one.shard == shard]
            assert ids == sorted(ids), seed
        for first, then in pairs:
            assert places[first] < places[then], seed
        ranks = {one.topic: [] for one in found}
        for one in found:
            if one.is_retained:
                ranks[one.topic].append(one.rank)
        in_topic_order += all(each == sorted(each) for each in ranks.values())
    assert in_topic_order > 2_000


def test_a_read_without_retained_messages_of_a_topic_in_two_shards_stays_as_it_is():
    entries = [Stored("log", 1, shard, (1, 1), b"t%d" % shard, b"x", []) for shard in range(3)]
    for one in entries:
        one.is_retained = True
    assert in_order(entries) is entries
