"""No bytes of a peer cost the decoder more time or memory than their number allows."""

import gc
import sys
import time
import weakref

import pytest

from streamd.clients.mqtt.codec import names, packets
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.names import check_filter
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.topics import filters


def seconds_of(data):
    """Return the processor's time for one packet from a server, the least of five."""
    found = []
    for _ in range(5):
        decoder = Decoder(from_client=False, version=5)
        begun = time.process_time()
        assert len(decoder.feed(data)) == 1
        found.append(time.process_time() - begun)
    return min(found)


@pytest.mark.parametrize(
    ("number", "value"), [(Property.USER_PROPERTY, ("", "")), (Property.SUBSCRIPTION_IDENTIFIER, 1)]
)
def test_repeated_properties_cost_as_much_as_they_are_many(number, value):
    few, many = (
        encode(packets.Publish(b"t", b"", properties={number: (value,) * count}), 5) for count in (4_000, 32_000)
    )
    assert seconds_of(many) < 24 * seconds_of(few)  # eight times as many; where each is copied again, sixty


def test_a_filter_is_checked_without_an_expression_being_compiled(monkeypatch):
    monkeypatch.setattr(filters, "re", None)
    assert not check_filter("/".join("+" * 30_000))
    assert check_filter("$share/group/never/seen/before/+/#")


def test_long_topics_are_not_remembered():
    before = len(names.known_topics)
    for number in range(50):
        names.checked_topic(b"%d/" % number + b"x" * names.KNOWN_BYTES_MAX)
    assert len(names.known_topics) == before


@pytest.mark.interpreted(reason="a constant is replaced")
def test_the_topics_remembered_are_bounded_in_number(monkeypatch):
    monkeypatch.setattr(names, "KNOWN_MAX", 3)
    monkeypatch.setattr(names, "known_topics", {})
    for number in range(10):
        names.checked_topic(b"%d" % number)
        assert 0 < len(names.known_topics) <= 3


def test_a_packet_that_comes_in_small_pieces_is_held_once():
    decoder = Decoder(from_client=False, version=4)
    data = encode(packets.Publish(b"t", b"x" * 1_000_000), 4)
    for at in range(0, len(data) - 2, 2):
        decoder.feed(data[at : at + 2])
    assert sys.getsizeof(decoder._held) < 1_300_000
    assert decoder.feed(data[-2:]) == [packets.Publish(b"t", b"x" * 1_000_000)]
    assert len(decoder._held) == 0


@pytest.mark.interpreted(reason="a compiled decoder has no weak references")
@pytest.mark.parametrize("data", [b"\xff\0", b"\x30\x05\x00\x02\xc0\x80\0"], ids=["type", "text"])
def test_a_decoder_with_a_fault_goes_with_its_connection(data):
    decoder = Decoder(from_client=False, version=5)
    assert decoder.feed(data) == []
    assert decoder.fault is not None
    assert decoder.fault.__traceback__ is decoder.fault.__context__ is None
    seen = weakref.ref(decoder)
    gc.disable()
    try:
        del decoder
        assert seen() is None
    finally:
        gc.enable()
