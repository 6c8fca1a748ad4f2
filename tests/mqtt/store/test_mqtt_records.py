"""Sessions and messages as they are stored: what is written is what is read."""

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.clients.mqtt.codec.packets import Will
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.session.outgoing import Sent, State
from streamd.clients.mqtt.store.positions import Place, Position
from streamd.clients.mqtt.store.records import (
    Found,
    NewerRecord,
    Pointer,
    Record,
    Shared,
    Subscribed,
    creation,
    flying_text,
    parse_record,
    will_from_text,
    will_to_text,
)
from streamd.clients.mqtt.store.stored import packed_fields, parse_stored, version_of

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4).map(tuple)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        Property.PAYLOAD_FORMAT_INDICATOR: st.integers(0, 1),
        Property.CONTENT_TYPE: TEXT,
        Property.RESPONSE_TOPIC: TEXT.filter(bool),
        Property.CORRELATION_DATA: st.binary(max_size=20),
        Property.USER_PROPERTY: PAIRS,
    },
)
TOPICS = TEXT.filter(bool).map(str.encode)


def unpacked(fields):
    """Return the words of packed fields, as a server reads them."""
    reader = hiredis.Reader()
    reader.feed(b"*%d\r\n%b" % fields)
    return reader.gets()


@given(TOPICS, st.binary(max_size=20), TEXT.map(str.encode), st.integers(0, 2), st.booleans(), PROPERTIES)
def test_a_message_is_read_as_it_was_stored(topic, payload, publisher, qos, retain, properties):
    words = unpacked(packed_fields(topic, payload, publisher, qos, retain, properties))
    found = parse_stored("log", 1, 0, (1_000, 0), words)
    assert (found.topic, found.payload, found.publisher) == (topic, payload, publisher)
    assert (found.qos, found.is_retained, found.expires_ms) == (qos, retain, None)
    assert dict(found.properties) == {int(number): value for number, value in properties.items()}
    needs_2 = set(properties) - {Property.USER_PROPERTY}
    pairs = properties.get(Property.USER_PROPERTY, ())
    needed = 3 if retain else 2 if needs_2 or len(dict(pairs)) < len(pairs) else 1
    assert version_of(properties, retain) == needed


@given(st.integers(0, 2**32 - 1), st.integers(0, 10_000_000))
def test_the_rest_of_an_expiry_is_rounded_up(expiry_s, waited_ms):
    words = unpacked(packed_fields(b"t", b"p", b"c", 1, False, {Property.MESSAGE_EXPIRY_INTERVAL: expiry_s}))
    found = parse_stored("log", 1, 0, (1_000, 0), words)
    now_ms = 1_000 + waited_ms
    assert found.expires_ms == 1_000 + max(1, expiry_s * 1_000)
    if not found.is_expired(now_ms):
        left = found.values(now_ms)[Property.MESSAGE_EXPIRY_INTERVAL]
        assert left >= 1
        assert expiry_s - waited_ms / 1_000 <= left <= max(1, expiry_s)


def test_of_an_expiry_that_another_program_wrote_no_more_seconds_are_left_than_mqtt_can_say():
    found = parse_stored("log", 1, 0, (1_000, 0), [b"t", b"t", b"p", b"p", b"e", b"9" * 18])
    assert found.values(1_000)[Property.MESSAGE_EXPIRY_INTERVAL] == 2**32 - 1
    assert found.head(5, 0, False, 1_000).packet()


@given(TOPICS, st.binary(max_size=20), st.integers(0, 2), st.booleans(), PROPERTIES)
def test_a_will_is_read_as_it_was_stored(topic, payload, qos, retain, properties):
    values = {int(number): value for number, value in properties.items()} | {int(Property.WILL_DELAY_INTERVAL): 5}
    will = Will(topic, payload, qos, retain, values)
    assert will_from_text(will_to_text(will).encode()) == will


def test_a_session_is_read_as_it_was_stored():
    since = {"log": Position(1, ((5, 0),))}
    will = Will(b"w", b"\xff", 1, True)
    pointer = Pointer(7, "run.1")
    record = Record("cl ient", user="ann", expiry_s=60, pointer=pointer, will=will, will_name="n")
    record.positions = {"log": Position(2, ((1, 2), (3, 4)))}
    one = Subscribed("a b/+", 2, True, True, 7, since, True)
    commands = creation(record)
    fields = [word if isinstance(word, bytes) else str(word).encode() for word in commands[-3]][2:]
    place = Place("log", 2, 1, (9, 9))
    sent = Sent(3, Shared(place, "g"), State.PUBLISHED_2)
    fields += [b"s a b/+", one.to_text().encode(), b"i 3", flying_text(8, sent).encode()]
    fields += [b"i 2", flying_text(9, Sent(2, place, State.RELEASED)).encode(), b"last", b"3"]
    found = parse_record("cl ient", Found(pointer, fields))
    record.subscriptions = {"a b/+": one}
    record.in_flight = [sent, Sent(2, place, State.RELEASED)]
    record.numbers = {3: 8, 2: 9}
    record.last_packet_id = 3
    assert found == record
    assert parse_record("x", Found(None, [])) is None
    with pytest.raises(NewerRecord, match="upgrade streamd"):
        parse_record("x", Found(pointer, [b"version", b"3"]))
