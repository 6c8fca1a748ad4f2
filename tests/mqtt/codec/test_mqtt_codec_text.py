"""Strings, topic names and topic filters: bytes that are text or are not, in every field, and all short names.

Each test begins with the statements that it holds the decoder to, `5:` of MQTT 5.0 and `3:` of 3.1.1.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

from streamd.clients.topics.filters import TopicFilter
from tests.mqtt.codec.by_hand import METHOD, PLACES, SENDERS, connect, field, packet, read

M, PE = 0x81, 0x82
NOT_TEXT = [
    b"\xed\xa0\x80",  # U+D800
    b"\xed\xbf\xbf",  # U+DFFF
    b"\xed\xa0\xbd\xed\xb8\x80",  # a pair of surrogates
    b"\xc0\x80",  # a longer form of U+0000
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",  # U+110000
    b"\xf8\x88\x80\x80\x80",
    b"\xff",
    b"\xfe",
    b"\x80",
    b"a\xbf",
    b"\xc3",  # cut
    b"\xe2\x84",
    b"\xf0\x9f\x98",
    b"\0",
    b"a\0b",
]
TEXT = ["\ufeff", "\ufeffa", "\u007f", "\u0080", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\ufffd", "\U00010000",
        "\U0010ffff", "\ufdd0", "\uffff", "\x01", "\x1f", "x" * 300, " a ", "A", "e\u0301", "\u00e9"]  # fmt: skip


class Field(NamedTuple):
    """A string in a packet: who sends it, the packet with it, and where its text is found then."""

    version: int
    from_client: bool
    written: Callable[[bytes], bytes]
    found: Callable[[Any], str]


def will_of(version, topic):
    return connect(version, 6, field(b"d") + (b"\0" if version == 5 else b"") + field(topic) + field(b""))


def in_property(place, sender, before, behind, found):
    """A string in a property: the bytes before and behind it, and how its text is taken from the properties."""
    method = METHOD if place == "AUTH" else b""
    return Field(
        5,
        sender,
        lambda text: PLACES[place][1](method + before + field(text) + behind),
        lambda one: found((one.will if place == "will" else one).properties),
    )


FIELDS: dict[str, Field] = {}
for _version, _empty in ((5, b"\0"), (4, b"")):  # 5.0 has the length of properties, 0, where 3.1.1 has nothing
    FIELDS |= {
        f"client id {_version}": Field(
            _version, True, lambda text, version=_version: connect(version, 2, field(text)), lambda one: one.client_id
        ),
        f"user name {_version}": Field(
            _version,
            True,
            lambda text, version=_version: connect(version, 0x82, field(b"d") + field(text)),
            lambda one: one.username,
        ),
        f"will topic {_version}": Field(
            _version,
            True,
            lambda text, version=_version: will_of(version, text),
            lambda one: one.will.topic.decode(),
        ),
        f"topic {_version}": Field(
            _version,
            True,
            lambda text, empty=_empty: packet(0x30, field(text) + empty),
            lambda one: one.topic.decode(),
        ),
        f"topic to a client {_version}": Field(
            _version,
            False,
            lambda text, empty=_empty: packet(0x30, field(text) + empty),
            lambda one: one.topic.decode(),
        ),
        f"filter {_version}": Field(
            _version,
            True,
            lambda text, empty=_empty: packet(0x82, b"\0\1" + empty + field(text) + b"\0"),
            lambda one: one.subscriptions[0].filter,
        ),
        f"filter to leave {_version}": Field(
            _version,
            True,
            lambda text, empty=_empty: packet(0xA2, b"\0\1" + empty + field(text)),
            lambda one: one.filters[0],
        ),
    }
for _place, _sender in SENDERS:
    _who = "client" if _sender else "server"
    FIELDS[f"name of a user property of {_place} by a {_who}"] = in_property(
        _place, _sender, b"\x26", field(b"v"), lambda values: values[0x26][0][0]
    )
    FIELDS[f"value of a user property of {_place} by a {_who}"] = in_property(
        _place, _sender, b"\x26" + field(b"n"), b"", lambda values: values[0x26][0][1]
    )
_ACKS = "PUBACK PUBREC PUBREL PUBCOMP"
for _number, _places in {
    0x03: "PUBLISH will",
    0x08: "PUBLISH will",
    0x12: "CONNACK",
    0x15: "CONNECT CONNACK",
    0x1A: "CONNACK",
    0x1C: "CONNACK DISCONNECT",
    0x1F: f"CONNACK {_ACKS} SUBACK UNSUBACK DISCONNECT AUTH",
}.items():
    for _place in _places.split():
        FIELDS[f"property {_number:#04x} of {_place}"] = in_property(
            _place,
            PLACES[_place][0][-1],  # a server, where both may send it
            bytes((_number,)),
            b"",
            lambda values, number=_number: values[number],
        )


def taken(name, text):
    """What a packet with these bytes as one of its strings is taken for."""
    version, from_client, written, _ = FIELDS[name]
    data = written(text)
    return read(data, version, from_client, is_first=data[0] == 0x10)


@pytest.mark.parametrize("name", FIELDS)
def test_bytes_that_are_no_text_are_malformed_in_every_string(name):
    """5:1.5.4-1 5:1.5.4-2 5:1.5.7-1 5:3.1.3-4 5:3.1.3-11 5:3.1.3-12 5:3.3.2-1 5:3.3.2-13 5:3.3.2-19 5:3.8.3-1
    5:3.10.3-1 5:4.7.3-2 3:1.5.3-1 3:1.5.3-2 3:3.1.3-4 3:3.1.3-10 3:3.1.3-11 3:3.3.2-1 3:3.8.3-1 3:3.10.3-1 3:4.7.3-2"""
    for encoded in NOT_TEXT:
        for around in (encoded, b"a/" + encoded, encoded + b"/b"):
            assert taken(name, around) == M, around


@pytest.mark.parametrize("name", FIELDS)
def test_text_comes_out_of_every_string_as_it_went_in(name):
    """5:1.5.4-3 5:§1.5.4 5:4.7.3-3 5:4.7.3-4 5:3.1.3-5 3:1.5.3-3 3:3.1.3-5 3:4.7.3-3 3:4.7.3-4"""
    texts = TEXT if "client id" not in name else [*TEXT, "0123456789abcdefghijklm", "NOPQRSTUVWXYZ"]
    for text in texts:
        (one,) = taken(name, text.encode())
        assert FIELDS[name].found(one) == text
    if name not in ("client id 4", "client id 5"):  # of a first packet little is taken
        return
    (one,) = taken(name, b"x" * 16_000)
    assert len(one.client_id) == 16_000


@pytest.mark.parametrize("version", [4, 5])
def test_a_topic_may_have_65_535_bytes(version):
    """5:4.7.3-3 3:4.7.3-3 5:§1.5.4"""
    for name, text in product((f"topic {version}", f"filter {version}"), ("x" * 65_535, "ü" * 32_767, "/" * 100)):
        (one,) = taken(name, text.encode())
        assert FIELDS[name].found(one) == text
    (one,) = taken(f"topic {version}", b"/" * 65_535)
    assert one.topic == b"/" * 65_535


@pytest.mark.parametrize("name", [name for name in FIELDS if name.split()[0] in ("topic", "filter", "will")])
def test_names_and_filters_are_not_empty(name):
    """5:4.7.3-1 5:§3.3.2.1 3:4.7.3-1"""
    assert taken(name, b"") in (M, PE)


def test_other_strings_may_be_empty():
    """5:§1.5.4 5:1.5.7-1 5:3.1.3-3 5:3.1.3-6 3:3.1.3-3 3:3.1.3-6 3:3.1.3-7 3:3.1.3-8"""
    empty = {name for name in FIELDS if isinstance(taken(name, b""), list)}
    names = {"topic", "filter", "will topic", "property 0x08"}
    assert empty == {name for name in FIELDS if not any(name.startswith(one) for one in names)}
    assert read(connect(5, 0, field(b"")), 5, is_first=True) == [(5, "", False, 10, None, None, None, {})]
    assert read(connect(4, 2, field(b"")), 4, is_first=True) == [(4, "", True, 10, None, None, None, {})]
    assert read(connect(4, 0, field(b"")), 4, is_first=True) == 0x85


def short_texts(letters, length_max):
    return ["".join(one) for length in range(1, length_max + 1) for one in product(letters, repeat=length)]


@pytest.mark.parametrize("version", [4, 5])
def test_a_name_has_no_wildcard_wherever_it_may_stand(version):
    """5:3.3.2-2 5:4.7.0-1 5:3.3.2-14 5:3.1.3-11 3:3.3.2-2 3:4.7.1-1 3:3.1.3-10"""
    kinds = [f"topic {version}", f"will topic {version}", f"topic to a client {version}"]
    kinds += ["property 0x08 of PUBLISH", "property 0x08 of will"] if version == 5 else []
    for name, text in product(kinds, short_texts("a/+#$", 4)):
        found = taken(name, text.encode())
        if "+" in text or "#" in text:
            assert found in (M, PE, 0x90), (name, text)
        else:
            assert FIELDS[name].found(found[0]) == text


def is_filter(text):
    """What the standard's section 4.7.1 says of wildcards."""
    levels = text.split("/")
    for number, level in enumerate(levels):
        if level == "+" or (level == "#" and number == len(levels) - 1):
            continue
        if "+" in level or "#" in level:
            return False
    return True


@pytest.mark.parametrize("name", [name for name in FIELDS if name.startswith("filter")])
def test_a_wildcard_of_a_filter_is_a_whole_level_and_a_hash_the_last(name):
    """5:4.7.1-1 5:4.7.1-2 3:4.7.1-2 3:4.7.1-3"""
    for text in short_texts("a/+#$", 5):
        found = taken(name, text.encode())
        if is_filter(text):
            assert FIELDS[name].found(found[0]) == text
            TopicFilter(text)
        else:
            assert found in (M, PE, 0x8F), text


@pytest.mark.parametrize("name", ["filter 5", "filter to leave 5"])
def test_a_shared_filter_has_a_name_without_wildcards_and_a_filter(name):
    """5:4.8.2-1 5:4.8.2-2"""
    for text in ["", *short_texts("g/+#", 5)]:
        share, slash, inner = text.partition("/")
        found = taken(name, f"$share/{text}".encode())
        if share and slash and inner and "+" not in share and "#" not in share and is_filter(inner):
            assert FIELDS[name].found(found[0]) == f"$share/{text}"
        else:
            assert found in (M, PE, 0x8F), text
    for text in ("$share", "$shares/#", "$Share//a", "a/$share//b"):
        assert isinstance(taken(name, text.encode()), list)
