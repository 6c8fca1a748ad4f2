"""Payloads that are no value, though their checksum is right: all are refused, and nothing is stored."""

import struct

import pytest

from streamd.rdb.bytes import BadData, with_footer
from streamd.rdb.packs import integer_element, listpack_of, string_element
from streamd.rdb.payload import value_in
from tests.session import Error
from tests.unit.rdb.payloads import new_stream, payloads, read, string, ziplist_of

NAN = struct.pack("<d", float("nan"))
NODE_KEY = b"\x10" + (5 << 64 | 1).to_bytes(16, "big")


def node(*parts: bytes | int) -> bytes:
    packed = listpack_of([integer_element(part) if isinstance(part, int) else string_element(part) for part in parts])
    return NODE_KEY + string(packed)


ENTRY = (2, 0, 0, b"v", 4)
NODE = node(1, 0, 1, b"f", 0, *ENTRY)
# length, last ID, first ID, greatest deleted ID, entries ever added
COUNTERS = b"\x01\x05\x01\x05\x01\x00\x00\x01"
PEL_ENTRY = (5 << 64 | 1).to_bytes(16, "big") + bytes(8) + b"\x01"
GROUP = b"\x01g\x05\x01\x01"
CONSUMER = b"\x01c" + bytes(16)
OWNED = b"\x01" + PEL_ENTRY[:16]
WINDOW = b"\x40\x64\x40\x64"
COUNTED, TIMED, WINDOWED, RELEASING = (
    bytes((kind,)) + b"\x01" + NODE + COUNTERS + end for kind, end in ((19, b""), (21, b""), (26, b"\x00"), (27, b""))
)

LIES = {
    "an unknown type": b"\x63\x00",
    "a type of modules": b"\x07\x00",
    "nothing": b"",
    "an empty list": b"\x01\x00",
    "an empty set": b"\x02\x00",
    "an empty hash": b"\x04\x00",
    "an empty sorted set": b"\x05\x00",
    "a list that ends too early": b"\x01\x02\x01a",
    "a number of elements beyond the bytes": b"\x01\x81" + b"\xff" * 8,
    "a member twice": b"\x02\x02\x01a\x01a",
    "a field twice": b"\x04\x02\x01a\x01b\x01a\x01c",
    "a member of a sorted set twice": b"\x05\x02\x01a" + bytes(8) + b"\x01a" + bytes(8),
    "a score that is no number": b"\x05\x01\x01a" + NAN,
    "a score as text that is no number": b"\x03\x01\x01a\x021x",
    "a score as nan": b"\x03\x01\x01a\xfd",
    "a score in a listpack that is no number": b"\x11" + string(listpack_of([string_element(b"a")] * 2)),
    "a member without a score": b"\x11" + string(listpack_of([string_element(b"a")])),
    "a field without a value": b"\x10" + string(listpack_of([string_element(b"a")])),
    "a field twice in a listpack": b"\x10" + string(listpack_of([string_element(b"a")] * 4)),
    "a member twice in a listpack": b"\x14" + string(listpack_of([string_element(b"a")] * 2)),
    "an empty listpack": b"\x14" + string(listpack_of([])),
    "an intset out of order": b"\x0b" + string(struct.pack("<II2h", 2, 2, 2, 1)),
    "an intset with a member twice": b"\x0b" + string(struct.pack("<II2h", 2, 2, 1, 1)),
    "an intset with another size": b"\x0b" + string(struct.pack("<II2h", 2, 3, 1, 2)),
    "an intset of threes": b"\x0b" + string(struct.pack("<II", 3, 1) + b"abc"),
    "an empty intset": b"\x0b" + string(struct.pack("<II", 2, 0)),
    "an intset without header": b"\x0b\x02ab",
    "a node of a list of no known form": b"\x12\x01\x03\x01a",
    "a list of empty nodes": b"\x12\x01\x02" + string(listpack_of([])),
    "a time of a field beyond all": b"\x18" + b"\xff" * 7 + b"\x7f" + b"\x01\x01\x01a\x01b",
    "a time of a field below 0": b"\x18" + b"\xff" * 8 + b"\x01\x01\x01a\x01b",
    "a time of a field as text": b"\x19" + bytes(8) + string(listpack_of([string_element(b"a")] * 3)),
    "a field without a time": b"\x19" + bytes(8) + string(listpack_of([string_element(b"a")] * 2)),
    "a ziplist that ends elsewhere": b"\x0a" + string(ziplist_of([b"a"])[:4] + bytes(4) + ziplist_of([b"a"])[8:]),
    "a ziplist with a wrong size": b"\x0a" + string(ziplist_of([b"a", b"b"]).replace(b"\x03\x01b", b"\x04\x01b")),
    "a ziplist element of no known form": b"\x0a" + string(ziplist_of([b"a"]).replace(b"\x00\x01a", b"\x00\xffa")),
    "a stream with fewer entries": b"\x13\x01" + NODE + b"\x02" + COUNTERS[1:] + b"\x00",
    "a last ID before an entry": b"\x13\x01" + NODE + b"\x01\x05\x00" + COUNTERS[3:] + b"\x00",
    "a deleted ID behind the last": b"\x13\x01" + NODE + COUNTERS[:5] + b"\x06\x00\x01\x00",
    "fewer entries added than there are": b"\x13\x01" + NODE + COUNTERS[:7] + b"\x00\x00",
    "a counter beyond 63 bits": b"\x13\x01" + NODE + COUNTERS[:7] + b"\x81" + b"\xff" * 8 + b"\x00",
    "a key of a node that is no ID": b"\x13\x01\x01a" + NODE[17:] + COUNTERS + b"\x00",
    "a node twice": b"\x13\x02" + NODE + NODE + b"\x02" + COUNTERS[1:7] + b"\x02\x00",
    "an entry before the one before": b"\x13\x01" + node(2, 0, 1, b"f", 0, *ENTRY, 2, 0, -1, b"v", 4)
    + b"\x02\x05\x01\x05\x01\x00\x00\x02\x00",
    "an entry twice": b"\x13\x01" + node(2, 0, 1, b"f", 0, *ENTRY, *ENTRY) + b"\x02\x05\x01\x05\x01\x00\x00\x02\x00",
    "an entry 0-0": b"\x13\x01" + node(1, 0, 1, b"f", 0, 2, -5, -1, b"v", 4) + COUNTERS + b"\x00",
    "a node with fewer entries": b"\x13\x01" + node(2, 0, 1, b"f", 0, *ENTRY) + COUNTERS + b"\x00",
    "a node with fewer deleted entries": b"\x13\x01" + node(1, 1, 1, b"f", 0, *ENTRY) + COUNTERS + b"\x00",
    "a node without fields": b"\x13\x01" + node(1, 0, 0, 0, 0, 0, 0, 0, 3) + COUNTERS + b"\x00",
    "a node with fields below 0": b"\x13\x01" + node(1, 0, -1, 0, *ENTRY) + COUNTERS + b"\x00",
    "a node with too many fields": b"\x13\x01" + node(1, 0, 1000, b"f", 0, *ENTRY) + COUNTERS + b"\x00",
    "a node whose fields have no end": b"\x13\x01" + node(1, 0, 1, b"f", 1, *ENTRY) + COUNTERS + b"\x00",
    "a node that ends in an entry": b"\x13\x01" + node(1, 0, 1, b"f", 0, 2, 0) + COUNTERS + b"\x00",
    "an empty node": b"\x13\x01" + node() + COUNTERS + b"\x00",
    "an entry with other flags": b"\x13\x01" + node(1, 0, 1, b"f", 0, 4, 0, 0, b"v", 4) + COUNTERS + b"\x00",
    "an entry with another size": b"\x13\x01" + node(1, 0, 1, b"f", 0, 2, 0, 0, b"v", 5) + COUNTERS + b"\x00",
    "an entry with no field of its own": b"\x13\x01" + node(1, 0, 1, b"f", 0, 0, 0, 0, 0, 4) + COUNTERS + b"\x00",
    "an entry with fields below 0": b"\x13\x01" + node(1, 0, 1, b"f", 0, 0, 0, 0, -1, 2) + COUNTERS + b"\x00",
    "text where an ID should be": b"\x13\x01" + node(1, 0, 1, b"f", 0, 2, b"x", 0, b"v", 4) + COUNTERS + b"\x00",
    "two groups of one name": COUNTED + b"\x02" + (GROUP + b"\x00\x00") * 2,
    "a pending entry without consumer": COUNTED + b"\x01" + GROUP + b"\x01" + PEL_ENTRY + b"\x00",
    "a pending entry twice": TIMED + b"\x01" + GROUP + b"\x02" + PEL_ENTRY * 2
    + b"\x01" + CONSUMER + OWNED,
    "a consumer with an entry that is not pending": TIMED + b"\x01" + GROUP + b"\x00\x01"
    + CONSUMER + OWNED,
    "two consumers with one entry": TIMED + b"\x01" + GROUP + b"\x01" + PEL_ENTRY + b"\x02"
    + CONSUMER + OWNED + b"\x01d" + CONSUMER[2:] + OWNED,
    "two consumers of one name": TIMED + b"\x01" + GROUP + b"\x00\x02" + (CONSUMER + b"\x00") * 2,
    "a released entry with a consumer": RELEASING + b"\x01" + GROUP + b"\x01" + PEL_ENTRY + b"\x01"
    + CONSUMER + OWNED + OWNED + WINDOW + bytes(3),
    "a released entry that is not pending": RELEASING + b"\x01" + GROUP + b"\x00\x00" + OWNED
    + WINDOW + bytes(3),
    "a released entry twice": RELEASING + b"\x01" + GROUP + b"\x01" + PEL_ENTRY + b"\x00\x02"
    + OWNED[1:] * 2 + WINDOW + bytes(3),
    "entries read beyond 63 bits": COUNTED + b"\x01" + GROUP[:-1] + b"\x81\x80" + bytes(7) + bytes(2),
    "a delivery count beyond 63 bits": TIMED + b"\x01" + GROUP + b"\x01" + PEL_ENTRY[:-1]
    + b"\x81\x80" + bytes(7) + b"\x01" + CONSUMER + OWNED,
    "a duration of 0": WINDOWED + b"\x00\x40\x64" + bytes(3),
    "a duration beyond a day": WINDOWED + b"\x80\x00\x01\x51\x81\x40\x64" + bytes(3),
    "a size of 0": WINDOWED + b"\x40\x64\x00" + bytes(3),
    "a producer twice": WINDOWED + WINDOW + b"\x02" + b"\x01p\x01\x01i\x05\x01" * 2 + bytes(2),
    "a producer without a name": WINDOWED + WINDOW + b"\x01\x00\x01\x01i\x05\x01" + bytes(2),
    "an iid twice": WINDOWED + WINDOW + b"\x01\x01p\x02" + b"\x01i\x05\x01" * 2 + bytes(2),
    "an empty iid": WINDOWED + WINDOW + b"\x01\x01p\x01" + b"\x00\x05\x01" + bytes(2),
}  # fmt: skip


def test_the_parts_of_the_lies_make_a_value():
    whole = b"\x01" + GROUP + b"\x01" + PEL_ENTRY + b"\x01" + CONSUMER + OWNED
    stream = read(RELEASING + whole + b"\x00" + WINDOW + b"\x01\x01p\x01\x01i\x05\x01" + bytes(2))

    assert (len(stream), len(stream.groups[b"g"].pending), stream.idmp.iids_tracked) == (1, 1, 1)


@pytest.mark.parametrize("lie", LIES)
def test_a_payload_that_is_no_value_is_refused_and_nothing_is_stored(engine, lie):
    engine.do("SET k before")

    reply = engine.execute(["RESTORE", "k", "0", with_footer(LIES[lie], 10), "REPLACE"])

    assert reply == Error("ERR Bad data format")
    assert engine.do("GET k") == b"before"
    assert engine.do("DBSIZE") == 1


@pytest.mark.parametrize("payload", list(payloads()), ids=lambda payload: payload.name)
def test_a_value_that_is_cut_anywhere_is_refused(payload):
    body = payload.data[:-10]
    for cut in range(0, len(body), 1 + len(body) // 300):
        with pytest.raises(BadData):
            value_in(with_footer(body[:cut], 10), new_stream)
