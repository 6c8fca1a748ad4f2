"""What is written is as the statements of the standards say, and each statement about bytes has a row of tests."""

import pytest

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import PINGRESP, PublishHead, acknowledge, encode
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.mqtt.codec.reason_codes import PacketType
from tests.mqtt.codec.by_hand import read
from tests.mqtt.codec.statements import ROWS

# Every statement that bytes alone can keep or break. Every row has to keep 5:4.2-1 and 3:7.1.1-1, on packets in pieces.
STATEMENTS = {
    "5": """1.5.4-1 1.5.4-2 1.5.4-3 1.5.5-1 1.5.7-1 2.1.3-1 2.2.1-2 2.2.1-3 2.2.1-5 2.2.1-6 2.2.2-1
        3.1.0-1 3.1.0-2 3.1.2-1 3.1.2-2 3.1.2-3 3.1.2-9 3.1.2-11 3.1.2-12 3.1.2-13 3.1.2-16 3.1.2-17 3.1.2-18 3.1.2-19
        3.1.3-1 3.1.3-3 3.1.3-4 3.1.3-5 3.1.3-6 3.1.3-10 3.1.3-11 3.1.3-12 3.1.4-1
        3.2.2-1 3.2.2-6 3.2.2-8 3.2.2-15 3.2.2-19 3.2.2-20
        3.3.1-1 3.3.1-2 3.3.1-4 3.3.2-1 3.3.2-2 3.3.2-4 3.3.2-8 3.3.2-13 3.3.2-14 3.3.2-15 3.3.2-16 3.3.2-17 3.3.2-18
        3.3.2-19 3.3.2-20 3.3.4-4 3.3.4-6
        3.4.2-1 3.4.2-2 3.4.2-3 3.5.2-1 3.5.2-2 3.5.2-3 3.6.1-1 3.6.2-1 3.6.2-2 3.6.2-3 3.7.2-1 3.7.2-2 3.7.2-3
        3.8.1-1 3.8.3-1 3.8.3-2 3.8.3-4 3.8.3-5 3.9.2-1 3.9.2-2 3.9.3-1 3.9.3-2
        3.10.1-1 3.10.3-1 3.10.3-2 3.11.2-1 3.11.2-2 3.11.3-1 3.11.3-2 3.12.4-1
        3.14.1-1 3.14.2-1 3.14.2-2 3.14.2-3 3.14.2-4 3.15.1-1 3.15.2-1 3.15.2-2 3.15.2-3
        4.3.1-1 4.7.0-1 4.7.1-1 4.7.1-2 4.7.3-1 4.7.3-2 4.7.3-3 4.7.3-4 4.8.2-1 4.8.2-2 4.13.1-1
        §1.2 §1.5.4 §1.5.6 §2.1.2 §2.1.4 §2.2.2.2 §3.1.2.11.3 §3.1.2.11.4 §3.1.2.11.6 §3.1.2.11.7 §3.1.2.11.10
        §3.3.2.1 §3.3.2.3.2 §3.8.2.1.2 §3.8.3.1 §3.14.2.1 §3.14.2.2.5 §3.15.2""",
    "3": """1.5.3-1 1.5.3-2 1.5.3-3 2.2.2-1 2.2.2-2 2.3.1-1 2.3.1-5 2.3.1-6 2.3.1-7
        3.1.0-1 3.1.0-2 3.1.2-1 3.1.2-2 3.1.2-3 3.1.2-9 3.1.2-11 3.1.2-13 3.1.2-14 3.1.2-15 3.1.2-18 3.1.2-19 3.1.2-20
        3.1.2-21 3.1.2-22 3.1.3-1 3.1.3-3 3.1.3-4 3.1.3-5 3.1.3-6 3.1.3-7 3.1.3-8 3.1.3-10 3.1.3-11 3.1.4-1
        3.2.2-4 3.3.1-1 3.3.1-2 3.3.1-4 3.3.2-1 3.3.2-2 3.6.1-1 3.8.1-1 3.8.3-1 3.8.3-3 3.8.3-4 3.9.3-1 3.9.3-2
        3.10.1-1 3.10.3-1 3.10.3-2 3.12.4-1 3.14.1-1 4.7.1-1 4.7.1-2 4.7.1-3 4.7.3-1 4.7.3-2 4.7.3-3 4.7.3-4 4.8.0-1
        4.3.1-1 §2.2.1 §2.2.3 §3.2.2.1 §3.2.2.3 §3.4""",
}
P = Property
_USER = {P.USER_PROPERTY: (("b", "1"), ("a", "2"), ("b", "1"))}
_PEOPLE = {P.REASON_STRING: "why", P.USER_PROPERTY: (("a", "b"),)}
# Statements about Reason String and User Property, and an answer that may have both.
ANSWERS = [
    ("5:3.2.2-19 5:3.2.2-20", packets.Connack(False, 0x87, _PEOPLE)),
    ("5:3.4.2-2 5:3.4.2-3", packets.Puback(9, 0x87, _PEOPLE)),
    ("5:3.5.2-2 5:3.5.2-3", packets.Pubrec(9, 0x87, _PEOPLE)),
    ("5:3.6.2-2 5:3.6.2-3", packets.Pubrel(9, 0x92, _PEOPLE)),
    ("5:3.7.2-2 5:3.7.2-3", packets.Pubcomp(9, 0x92, _PEOPLE)),
    ("5:3.9.2-1 5:3.9.2-2", packets.Suback(9, (0x87,), _PEOPLE)),
    ("5:3.11.2-1 5:3.11.2-2", packets.Unsuback(9, (0x11,), _PEOPLE)),
    ("5:3.14.2-3 5:3.14.2-4", packets.Disconnect(0x8E, _PEOPLE)),
    ("5:3.15.2-2 5:3.15.2-3", packets.Auth(0x18, {P.AUTHENTICATION_METHOD: "m", **_PEOPLE})),
]
_IDENTIFIED = packets.Publish(b"t", b"", properties={P.SUBSCRIPTION_IDENTIFIER: (1, 128, 1)})
# Statement, the bytes as written, the bytes as they have to be.
WRITTEN = [
    ("5:2.2.1-5", acknowledge(PacketType.PUBACK, 258, 5), "40 02 01 02"),
    ("5:2.2.1-5", acknowledge(PacketType.PUBREC, 258, 5, 0x97), "50 03 01 02 97"),
    ("5:2.2.1-5", acknowledge(PacketType.PUBREL, 258, 5), "62 02 01 02"),
    ("5:2.2.1-5", acknowledge(PacketType.PUBCOMP, 258, 5, 0x92), "70 03 01 02 92"),
    ("3:2.3.1-6", acknowledge(PacketType.PUBACK, 1, 4, 0x87), "40 02 00 01"),
    ("3:2.3.1-6", acknowledge(PacketType.PUBREL, 65_535, 4, 0x92), "62 02 ff ff"),
    ("5:2.2.1-6", encode(packets.Suback(258, (1, 0x87)), 5), "90 05 01 02 00 01 87"),
    ("5:2.2.1-6", encode(packets.Unsuback(258, (0, 0x11)), 5), "b0 05 01 02 00 00 11"),
    ("3:2.3.1-7", encode(packets.Suback(258, (1, 0x80)), 4), "90 04 01 02 01 80"),
    ("3:2.3.1-7", encode(packets.Unsuback(258, (0, 0x11)), 4), "b0 02 01 02"),
    ("5:3.9.3-1", encode(packets.Suback(1, (2, 0, 0x8F, 1)), 5), "90 07 00 01 00 02 00 8f 01"),
    ("3:3.9.3-1", encode(packets.Suback(1, (2, 0, 0x80)), 4), "90 05 00 01 02 00 80"),
    ("5:3.11.3-1", encode(packets.Unsuback(1, (0x11, 0)), 5), "b0 05 00 01 00 11 00"),
    ("5:3.12.4-1", PINGRESP, "d0 00"),
    ("3:3.12.4-1", encode(packets.Pingresp(), 4), "d0 00"),
    ("5:2.2.2-1", encode(packets.Publish(b"t", b"x"), 5), "30 05 00 01 74 00 78"),
    ("5:2.2.2-1", encode(packets.Connack(True), 5), "20 03 01 00 00"),
    ("3:§3.2.2.1", encode(packets.Connack(True), 4), "20 02 01 00"),
    ("3:§3.2.2.3", encode(packets.Connack(False, 5), 4), "20 02 00 05"),
    ("5:3.3.1-1", PublishHead(b"t", b"x", 1, False, 5).packet(7, dup=True), "3a 07 00 01 74 00 07 00 78"),
    ("3:3.3.1-1", PublishHead(b"t", b"x", 2, True, 4).packet(7, dup=True), "3d 06 00 01 74 00 07 78"),
    ("5:3.3.4-4", encode(_IDENTIFIED, 5), "30 0b 00 01 74 07 0b 01 0b 80 01 0b 01"),
    ("5:§3.14.2.1", encode(packets.Disconnect(0), 5), "e0 00"),
    ("5:§3.14.2.1", encode(packets.Disconnect(0x8D), 5), "e0 01 8d"),
    ("3:3.14.1-1", encode(packets.Disconnect(), 4), "e0 00"),
]  # fmt: skip
# Statements about properties that a receiver gets as they came.
HANDED_ON = [
    ("5:3.3.2-4", {P.PAYLOAD_FORMAT_INDICATOR: 1}),
    ("5:3.3.2-15", {P.RESPONSE_TOPIC: "answers/ü"}),
    ("5:3.3.2-16", {P.CORRELATION_DATA: b"\xff\0"}),
    ("5:3.3.2-20", {P.CONTENT_TYPE: "text/ü"}),
    ("5:3.3.2-17", _USER),
    ("5:3.3.2-18", _USER),
    ("5:3.1.3-10", _USER),
]


@pytest.mark.parametrize(("statement", "written", "wanted"), WRITTEN)
def test_what_is_written_is_what_a_statement_says(statement, written, wanted):
    assert written == bytes.fromhex(wanted)


@pytest.mark.parametrize(("statements", "answer"), ANSWERS)
def test_an_answer_leaves_out_what_is_for_people_rather_than_be_too_large(statements, answer):
    whole = encode(answer, 5)
    bare = {number: value for number, value in answer.properties.items() if number not in _PEOPLE}
    for size in range(len(whole) + 2):
        written = encode(answer, 5, size)
        (found,) = read(written, 5, False)
        if size >= len(whole):
            assert found == answer
        else:
            assert len(written) <= size or found.properties == bare


@pytest.mark.parametrize(("statement", "values"), HANDED_ON)
def test_properties_of_a_message_and_of_a_will_go_out_as_they_came(statement, values):
    came = encode(packets.Publish(b"t", b"x", 1, False, False, 3, values), 5)
    (message,) = read(came, 5, True)
    head = PublishHead(message.topic, message.payload, 1, False, 5, message.properties)
    assert head.packet(3) == came
    assert read(head.packet(4), 5, False)[0].properties == values
    will = packets.Will(b"w", b"", properties=values)
    (found,) = read(encode(packets.Connect(5, "d", True, will=will), 5), 5, is_first=True)
    assert found.will == will


def test_every_statement_that_bytes_can_keep_or_break_has_a_row():
    known = {f"{version}:{number}" for version, numbers in STATEMENTS.items() for number in numbers.split()}
    answers = [one for row in ANSWERS for one in row[0].split()]
    found = {row[0] for row in (*ROWS, *WRITTEN, *HANDED_ON)} | set(answers)
    assert known - found == set()
