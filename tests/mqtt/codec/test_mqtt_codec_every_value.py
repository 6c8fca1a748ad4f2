"""Every value of each byte of flags, of options and of reason codes, and of each property, from either side.

Each test begins with the statements that it holds the decoder to, `5:` of MQTT 5.0 and `3:` of 3.1.1.
"""

from itertools import product

import pytest

from tests.mqtt.codec.by_hand import (
    METHOD,
    PLACES,
    SENDERS,
    connect,
    field,
    packet,
    properties_of,
    read,
    sized,
    variable,
    with_properties,
)

M, PE = 0x81, 0x82
EITHER = (M, PE)
SIDES = [(4, True), (4, False), (5, True), (5, False)]

_NO_FLAG = dict.fromkeys(range(2, 256), PE)
# Identifier, type, where it may stand, the values that it may not have and the reason code for them.
PROPERTIES = [
    (0x01, "byte", "PUBLISH will", _NO_FLAG),
    (0x02, "four", "PUBLISH will", {}),
    (0x03, "text", "PUBLISH will", {}),
    (0x08, "text", "PUBLISH will", {"+": PE, "a/#": PE, "": PE}),
    (0x09, "binary", "PUBLISH will", {}),
    (0x0B, "variable", "PUBLISH SUBSCRIBE", {0: PE}),
    (0x11, "four", "CONNECT CONNACK DISCONNECT", {}),
    (0x12, "text", "CONNACK", {}),
    (0x13, "two", "CONNACK", {}),
    (0x15, "text", "CONNECT CONNACK AUTH", {}),
    (0x16, "binary", "CONNECT CONNACK AUTH", {}),
    (0x17, "byte", "CONNECT", _NO_FLAG),
    (0x18, "four", "will", {}),
    (0x19, "byte", "CONNECT", _NO_FLAG),
    (0x1A, "text", "CONNACK", {}),
    (0x1C, "text", "CONNACK DISCONNECT", {}),
    (0x1F, "text", "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH", {}),
    (0x21, "two", "CONNECT CONNACK", {0: PE}),
    (0x22, "two", "CONNECT CONNACK", {}),
    (0x23, "two", "PUBLISH", {0: 0x94}),
    (0x24, "byte", "CONNACK", _NO_FLAG),
    (0x25, "byte", "CONNACK", _NO_FLAG),
    (0x26, "pair", " ".join(PLACES), {}),
    (0x27, "four", "CONNECT CONNACK", {0: PE}),
    (0x28, "byte", "CONNACK", _NO_FLAG),
    (0x29, "byte", "CONNACK", _NO_FLAG),
    (0x2A, "byte", "CONNACK", _NO_FLAG),
]
BY_NUMBER = {row[0]: row for row in PROPERTIES}
# Of one side only: (place, identifier, from a client).
WRONG_SIDE = {("PUBLISH", 0x0B, True), ("DISCONNECT", 0x11, False), ("DISCONNECT", 0x1C, True)}
VALUES = {
    "byte": range(256),
    "two": (0, 1, 255, 256, 65_535),
    "four": (0, 1, 65_536, 2**31, 2**32 - 1),
    "variable": (0, 1, 127, 128, 16_384, 268_435_455),
    "text": ("", "ü/ℝ/😀", "x" * 300, "+", "a/#"),
    "binary": (b"", b"\0\xff\xed\xa0\x80", b"x" * 300),
    "pair": (("", ""), ("n", "v"), ("ü", "")),
}
WRITTEN = {
    "byte": lambda value: bytes((value,)),
    "two": lambda value: value.to_bytes(2, "big"),
    "four": lambda value: value.to_bytes(4, "big"),
    "variable": variable,
    "text": lambda value: field(value.encode()),
    "binary": field,
    "pair": lambda value: field(value[0].encode()) + field(value[1].encode()),
}
# One letter or two for each packet, c or s where one side may send it: the columns of the standard's section 2.4.
CODES = {
    0x00: "CA P R SA UA Dc Ds AUs", 0x01: "SA", 0x02: "SA", 0x04: "Dc", 0x10: "Ps", 0x11: "UA", 0x18: "AU", 0x19: "AUc",
    0x80: "CA P SA UA Dc Ds", 0x81: "CA Dc Ds", 0x82: "CA Dc Ds", 0x83: "CA P SA UA Dc Ds", 0x84: "CA", 0x85: "CA",
    0x86: "CA", 0x87: "CA P SA UA Ds", 0x88: "CA", 0x89: "CA Ds", 0x8A: "CA", 0x8B: "Ds", 0x8C: "CA Ds", 0x8D: "Ds",
    0x8E: "Ds", 0x8F: "SA UA Ds", 0x90: "CA P Dc Ds", 0x91: "P SA UA", 0x92: "R", 0x93: "Dc Ds", 0x94: "Dc Ds",
    0x95: "CA Dc Ds", 0x96: "Dc Ds", 0x97: "CA P SA Dc Ds", 0x98: "Dc Ds", 0x99: "CA P Dc Ds", 0x9A: "CA Ds",
    0x9B: "CA Ds", 0x9C: "CA Ds", 0x9D: "CA Ds", 0x9E: "SA Ds", 0x9F: "CA Ds", 0xA0: "Ds", 0xA1: "SA Ds", 0xA2: "SA Ds",
}  # fmt: skip
# What a client may not send, and bridges of mosquitto do: code and first byte.
TAKEN = {(0x10, 0x40)}
# Column, who sends it, the packet with a code in it.
CODED = [
    ("CA", "s", lambda code: packet(0x20, bytes((0, code, 0)))),
    ("P", "cs", lambda code: packet(0x40, bytes((0, 1, code)))),
    ("P", "cs", lambda code: packet(0x50, bytes((0, 1, code, 0)))),
    ("R", "cs", lambda code: packet(0x62, bytes((0, 1, code)))),
    ("R", "cs", lambda code: packet(0x70, bytes((0, 1, code, 0)))),
    ("SA", "s", lambda code: packet(0x90, bytes((0, 1, 0, 0, code)))),
    ("UA", "s", lambda code: packet(0xB0, bytes((0, 1, 0, code, 0)))),
    ("D", "cs", lambda code: packet(0xE0, bytes((code,)))),
    ("D", "cs", lambda code: packet(0xE0, bytes((code, 0)))),
    ("AU", "cs", lambda code: packet(0xF0, bytes((code,)) + sized(METHOD))),
]


@pytest.mark.parametrize(("version", "from_client"), SIDES)
def test_publish_has_every_combination_of_flags_but_those_with_qos_3_or_dup_of_qos_0(version, from_client):
    """5:3.3.1-2 5:3.3.1-4 5:2.2.1-2 3:3.3.1-2 3:3.3.1-4 3:2.3.1-5"""
    for flags in range(16):
        qos = flags >> 1 & 3
        values = b"\0" if version == 5 else b""
        found = read(
            packet(0x30 | flags, field(b"t") + (b"\0\7" if qos else b"") + values + b"\0\0"), version, from_client
        )
        if qos == 3 or (flags & 8 and not qos):
            assert found == M
        else:
            assert found[0] == (b"t", b"\0\0", qos, bool(flags & 1), bool(flags & 8), 7 if qos else 0, {})


@pytest.mark.parametrize("version", [4, 5])
def test_connect_has_the_fields_that_its_flags_say_and_no_byte_more(version):
    """5:3.1.2-3 5:3.1.2-9 5:3.1.2-11 5:3.1.2-12 5:3.1.2-13 5:3.1.2-16 5:3.1.2-17 5:3.1.2-18 5:3.1.2-19 5:3.1.3-1
    3:3.1.2-3 3:3.1.2-9 3:3.1.2-11 3:3.1.2-13 3:3.1.2-14 3:3.1.2-15 3:3.1.2-18 3:3.1.2-19 3:3.1.2-20 3:3.1.2-21
    3:3.1.2-22 3:3.1.3-1"""
    accepted = 0
    for flags in range(256):
        has_user, has_password, has_will = flags & 0x80, flags & 0x40, flags & 4
        rest = field(b"d7")
        if has_will:
            rest += (b"\0" if version == 5 else b"") + field(b"w") + field(b"gone")
        rest += (field(b"ann") if has_user else b"") + (field(b"\xff\0") if has_password else b"")
        found = read(connect(version, flags, rest), version, is_first=True)
        is_wrong = flags & 1 or flags & 0x18 == 0x18 or (not has_will and flags & 0x38)
        if is_wrong or (version == 4 and has_password and not has_user):
            assert found == M, flags
            continue
        accepted += 1
        (one,) = found
        will = (b"w", b"gone", flags >> 3 & 3, bool(flags & 0x20), {}) if has_will else None
        wanted = (bool(flags & 2), "ann" if has_user else None, b"\xff\0" if has_password else None, will)
        assert (one.clean_start, one.username, one.password, one.will) == wanted
        assert read(connect(version, flags, rest + b"\0"), version, is_first=True) == M
        for cut in range(1, len(rest) + 1):
            shorter = read(connect(version, flags, rest[:-cut]), version, is_first=True)
            assert shorter == M, (flags, cut)
    assert accepted == (2 + 2 * 6) * (4 if version == 5 else 3)


@pytest.mark.parametrize("version", [4, 5])
def test_the_options_of_a_subscription_are_all_that_the_standard_has(version):
    """5:3.8.3-3 5:3.8.3-4 5:3.8.3-5 5:§3.8.3.1 3:3.8.3-4"""
    for options, name in product(range(256), (b"a/+", b"$share/g/a")):
        found = read(
            packet(0x82, b"\0\1" + (b"\0" if version == 5 else b"") + field(name) + bytes((options,))), version
        )
        if options & (0xC0 if version == 5 else 0xFC):
            assert found in EITHER if options & 3 == 3 or options >> 4 & 3 == 3 else found == M
        elif options & 3 == 3 or options >> 4 == 3:
            assert found in EITHER
        elif options & 4 and name.startswith(b"$share"):
            assert found == PE
        else:
            wanted = (name.decode(), options & 3, bool(options & 4), bool(options & 8), options >> 4)
            assert found[0].subscriptions == (wanted,)


@pytest.mark.parametrize("version", [4, 5])
def test_connack_has_one_flag_and_only_with_code_0(version):
    """5:3.2.2-1 5:3.2.2-6 3:§3.2.2.1 3:3.2.2-4"""
    for flags, code in product(range(256), (0, 5 if version == 4 else 0x87)):
        found = read(packet(0x20, bytes((flags, code)) + (b"\0" if version == 5 else b"")), version, False)
        assert found == ([(bool(flags), code, {})] if flags == 0 or (flags == 1 and code == 0) else M)


def test_3_1_1_has_six_return_codes_and_four_codes_of_a_suback():
    """3:§3.2.2.3 3:3.9.3-2"""
    for code in range(256):
        found = read(packet(0x20, bytes((0, code))), 4, False)
        assert found == [(False, code, {})] if code < 6 else found in EITHER
        found = read(packet(0x90, bytes((0, 1, 0, code))), 4, False)
        assert found == [(1, (0, code), {})] if code in (0, 1, 2, 0x80) else found in EITHER


@pytest.mark.parametrize("from_client", [True, False])
def test_3_1_1_has_no_reason_codes_in_acknowledgements(from_client):
    """3:2.3.1-6 and the lengths of §3.4 to §3.7 and §3.14"""
    for first in (0x40, 0x50, 0x62, 0x70):
        assert read(packet(first, b"\1\2"), 4, from_client) == [(258, 0, {})]
        for body in (b"", b"\1", b"\1\2\0", b"\1\2\0\0"):
            assert read(packet(first, body), 4, from_client) == M
        assert read(packet(first, b"\0\0"), 4, from_client) in EITHER
    assert read(packet(0xE0, b"\0"), 4, from_client) == (M if from_client else PE)
    assert read(packet(0xB0, b"\0\1"), 4, False) == [(1, (), {})]
    assert read(packet(0xB0, b"\0\1\0"), 4, False) == M


@pytest.mark.parametrize(("number", "sender"), [(n, s) for n, row in enumerate(CODED) for s in row[1]])
def test_each_packet_has_the_reason_codes_of_its_column(number, sender):
    """5:3.2.2-8 5:3.4.2-1 5:3.5.2-1 5:3.6.2-1 5:3.7.2-1 5:3.9.3-2 5:3.11.3-2 5:3.14.2-1 5:3.15.2-1"""
    column, _, written = CODED[number]
    for code in range(256):
        found = read(written(code), 5, sender == "c")
        if {column, column + sender} & set(CODES.get(code, "").split()) or (code, written(code)[0]) in TAKEN:
            assert len(found) == 1, code
        else:
            assert found in EITHER, code


@pytest.mark.parametrize(("place", "sender"), SENDERS)
def test_each_packet_has_the_properties_of_the_table_and_no_others(place, sender):
    """5:§2.2.2.2 5:3.3.4-6 5:3.14.2-2 5:§3.14.2.2.5"""
    base = METHOD if place == "AUTH" else b""
    for number in range(256):
        row = BY_NUMBER.get(number)
        if row is None:
            encoded = variable(number)
            for value in (b"", b"\1", b"\0\1", b"\0\0\0\1", b"\0\1a\0\1b"):
                assert with_properties(place, base + encoded + value, sender) == M, number
            continue
        value = VALUES[row[1]][1]
        written = variable(number) + WRITTEN[row[1]](value)
        before = b"" if number == 0x15 else base or (METHOD if number == 0x16 else b"")
        found = with_properties(place, before + written, sender)
        if place not in row[2].split():
            assert found == M, number
        elif (place, number, sender) in WRONG_SIDE:
            assert found in EITHER, number
        else:
            repeats = number == 0x26 or (place, number) == ("PUBLISH", 0x0B)
            assert properties_of(place, found)[number] == ((value,) if repeats else value)


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: f"{row[0]:#04x}")
def test_a_property_has_the_values_of_its_type_once_and_whole(row):
    """5:§2.2.2.2 5:3.3.2-8 5:3.3.2-14 5:§3.1.2.11.3 5:§3.1.2.11.4 5:§3.1.2.11.6 5:§3.1.2.11.7 5:§3.8.2.1.2"""
    number, kind, places, refused = row
    for place, sender in SENDERS:
        if place not in places.split() or (place, number, sender) in WRONG_SIDE:
            continue
        before = METHOD if number != 0x15 and (number == 0x16 or place == "AUTH") else b""
        for value in VALUES[kind]:
            written = bytes((number,)) + WRITTEN[kind](value)
            found = with_properties(place, before + written, sender)
            if value in refused:
                assert found in {refused[value], M}, value
                continue
            many = number == 0x26 or (place, number) == ("PUBLISH", 0x0B)
            assert properties_of(place, found)[number] == ((value,) if many else value)
            twice = with_properties(place, before + written * 2, sender)
            assert twice == PE if not many else properties_of(place, twice)[number] == (value, value)
            for cut in range(1, min(len(written), 12)):
                assert with_properties(place, before + written[:-cut], sender) == M


@pytest.mark.parametrize(("place", "sender"), SENDERS)
def test_the_length_of_properties_is_exact_and_is_never_left_out_but_in_short_forms(place, sender):
    """5:2.2.2-1 5:§2.2.2.2 5:1.5.5-1"""
    user = b"\x26" + field(b"n") + field(b"v")
    base = METHOD if place == "AUTH" else b""
    whole = PLACES[place][1](base + user)
    assert with_properties(place, base + user, sender) != M
    is_first = place in ("CONNECT", "will")
    at = whole.index(sized(base + user))
    for length in range(128):
        changed = bytearray(whole)
        changed[at] = length
        found = read(bytes(changed), 5, sender, is_first=is_first)
        if length == len(base + user):
            assert len(found) == 1
        elif length == len(base) and place in ("PUBLISH", "SUBACK", "UNSUBACK"):
            pass  # what follows is payload, or codes
        else:
            assert found in EITHER, length
    # The shortest form only: 0x89 0x00 for 9.
    longer = whole[2:at] + bytes((whole[at] | 0x80, 0)) + whole[at + 1 :]
    assert read(packet(whole[0], longer), 5, sender, is_first=is_first) == M


@pytest.mark.parametrize("version", [4, 5])
def test_a_remaining_length_has_four_bytes_at_most(version):
    """5:§2.1.4 5:1.5.5-1 3:§2.2.3"""
    for rest in (b"\xff\xff\xff\xff", b"\x80\x80\x80\x80", b"\xff\xff\xff\x80"):
        assert read(b"\x30" + rest, version) == M
        assert read(b"\x30" + rest[:3], version) == []
    for rest in (b"\x80\0", b"\x80\x80\0", b"\x80\x80\x80\0"):
        assert read(b"\xc0" + rest, version) == (M if version == 5 else [()])
