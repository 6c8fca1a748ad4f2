"""The checker finds each fault in what a run recorded, and nothing in a run without faults."""

import pytest

from tests.mqtt.chaos.checker import DUPLICATED, FOREIGN, LOG, LOST, REORDERED, check
from tests.mqtt.chaos.records import Delivery, Message, Received, Stored, key_of, payload_of

TOPIC = "chaos/1/d/a"


def message(number, qos=2, is_once=True, sends=1, device="d", topic=TOPIC, is_acknowledged=True):
    return Message(f"{device}/{number}", device, topic, number, qos, is_once, sends, is_acknowledged)


def run(messages, log, *deliveries, qos=2, filter="chaos/#", is_shared=False, has_kills=True):
    """Check: log is a list of numbers, deliveries are tuples (number, link, is_dup) of one subscriber."""
    by_key = {one.key: one for one in messages}
    stored = [Stored(f"d/{number}", by_key[f"d/{number}"].topic, "d", f"g1/0/{at}-0") for at, number in enumerate(log)]
    received = Received("s", filter, qos, is_shared)
    for number, link, is_dup in deliveries:
        key = f"d/{number}"
        received.add("s", Delivery(key, by_key[key].topic, link, min(qos, by_key[key].qos), is_dup))
    found = check(by_key, stored, [received] if deliveries else [], has_kills=has_kills)
    return [(one.kind, one.where, one.key) for one in found]


def test_nothing_is_found_where_nothing_is_wrong():
    messages = [message(1), message(2), message(3, qos=1, is_once=False, sends=2, topic="chaos/1/d/b")]
    deliveries = [(1, 1, False), (2, 1, True), (3, 1, False), (3, 2, True), (3, 2, False)]
    assert run(messages, [1, 2, 3, 3], *deliveries) == []


def test_what_was_not_acknowledged_may_be_missing():
    assert run([message(1, is_acknowledged=False)], []) == []


def test_an_acknowledged_message_that_is_not_stored_is_lost():
    assert run([message(1)], []) == [(LOST, LOG, "d/1")]


def test_a_message_that_is_to_be_stored_once_is_not_stored_twice():
    assert run([message(1, sends=2)], [1, 1]) == [(DUPLICATED, LOG, "d/1")]


@pytest.mark.parametrize(("sends", "found"), [(2, []), (1, [(DUPLICATED, LOG, "d/1")])])
def test_another_is_stored_at_most_as_often_as_it_was_sent(sends, found):
    assert run([message(1, qos=1, is_once=False, sends=sends)], [1, 1]) == found


def test_first_entries_are_in_order_and_later_copies_may_be_anywhere():
    messages = [message(number, qos=1, is_once=False, sends=2) for number in (1, 2, 3)]
    assert run(messages, [1, 2, 1, 2, 3]) == []
    assert run(messages, [1, 3, 2]) == [(REORDERED, LOG, "d/2")]


def test_messages_of_two_topics_have_no_order():
    assert run([message(1), message(2, topic="chaos/1/d/b")], [2, 1]) == []


def test_what_is_stored_and_not_delivered_is_lost_unless_the_filter_does_not_match():
    messages = [message(1), message(2), message(3, topic="chaos/2/d/a")]
    assert run(messages, [1, 2, 3], (1, 1, False), filter="chaos/1/#") == [(LOST, "s", "d/2")]


def test_a_second_copy_that_is_stored_has_to_be_delivered_too():
    messages = [message(1, qos=1, is_once=False, sends=2)]
    assert run(messages, [1, 1], (1, 1, False)) == [(LOST, "s", "d/1")]


def test_qos_2_is_delivered_once_also_on_another_connection():
    assert run([message(1)], [1], (1, 1, False), (1, 2, True)) == [(DUPLICATED, "s", "d/1")]


def test_qos_1_is_delivered_once_on_a_connection():
    assert run([message(1)], [1], (1, 1, False), (1, 1, True), qos=1) == [(DUPLICATED, "s", "d/1")]


@pytest.mark.parametrize(("has_kills", "found"), [(True, []), (False, [(DUPLICATED, "s", "d/1")])])
def test_qos_1_comes_again_with_dup_unless_the_broker_was_killed(has_kills, found):
    assert run([message(1)], [1], (1, 1, False), (1, 2, True), qos=1, has_kills=has_kills) == []
    assert run([message(1)], [1], (1, 1, False), (1, 2, False), qos=1, has_kills=has_kills) == found


def test_first_deliveries_are_in_order_but_not_in_a_shared_group():
    deliveries = [(2, 1, False), (1, 1, False)]
    assert run([message(1), message(2)], [1, 2], *deliveries) == [(REORDERED, "s", "d/1")]
    assert run([message(1), message(2)], [1, 2], *deliveries, filter="$share/g/chaos/#", is_shared=True) == []


def test_what_does_not_match_the_filter_is_foreign():
    assert run([message(1)], [1], (1, 1, False), filter="chaos/2/#") == [(FOREIGN, "s", "d/1")]


def test_what_nobody_published_and_what_is_damaged_is_foreign():
    stored = [Stored("x/1", TOPIC, "x", "g1/0/1-0"), Stored("d/1", "chaos/1/other", "d", "g1/0/2-0")]
    found = check({"d/1": message(1)}, stored, [], has_kills=False)
    assert [(one.kind, one.key) for one in found] == [(FOREIGN, "x/1"), (FOREIGN, "d/1")]


def test_a_payload_says_whose_it_is_and_whether_it_is_whole():
    payload = payload_of("d/1", 40)
    assert key_of(payload) == "d/1"
    assert key_of(payload + b"PUBLISH") != "d/1"
