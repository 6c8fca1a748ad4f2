"""A payload of DUMP or FUNCTION DUMP is refused before it takes much memory, or holds what is dumped as the same again.

Input: the payload without its footer; that of functions begins with the byte 0xF5.
"""

import tracemalloc
from copy import deepcopy

from streamd.rdb.bytes import BadData, Reader, with_footer
from streamd.rdb.functions import LIBRARY, dump_libraries, read_libraries
from streamd.rdb.payload import payload_of, value_in
from streamd.rdb.values import read_value
from streamd.stream.stream import Stream
from tests.crash.state_dump import dump
from tests.session import Session

WORDS = [b"\x81" + b"\xff" * 8, b"\x80\xff\xff\xff\xff", b"\xc3\x09\xff", b"\xff", b"\xc0\x01", b"\xc1\x00\x01",
         b"\xc2\x00\x00\x00\x01", b"\x00\x00\x01\x00\x02\xff", b"\xf5", b"\x7f"]  # fmt: skip
# What a payload of a few kilobytes may take while it is read.
MEMORY_BYTES_MAX = 4_000_000
_VERSION = 13


def check(data: bytes) -> None:
    """Raise AssertionError, or what the codec must not raise, unless the promise holds."""
    if not data or len(data) > 8192:
        return
    if data[0] == LIBRARY:
        _check_libraries(with_footer(data, _VERSION))
    else:
        _check_value(data)


def _check_libraries(payload: bytes) -> None:
    try:
        codes = read_libraries(payload, 100_000)
    except BadData:
        return
    assert sum(map(len, codes)) <= 100_000 + len(payload)
    assert read_libraries(dump_libraries(codes), 0) == codes


def _check_value(body: bytes) -> None:
    tracemalloc.start()
    try:
        reader = Reader(body)
        read_value(reader.byte(), reader, _new_stream)
    except BadData:
        return
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert taken < MEMORY_BYTES_MAX
    session = Session()
    if session.execute(["RESTORE", "k", "0", with_footer(body, _VERSION)]) != "OK":
        return  # there are bytes behind the value
    before = deepcopy(dump(session.engine))  # a look removes fields whose time has passed
    db = session.state.keyspace[0]
    db.place(b"k", value_in(payload_of(db.values[b"k"]), _new_stream, session.engine.clock.now_ms()), None)
    assert dump(session.engine) == before
    for line in ("XINFO STREAM k FULL", "XTRIM k MAXLEN 1", "ZRANGE k 0 -1", "LPOP k", "SPOP k", "HGETALL k"):
        session.do(line)
    assert session.state.stats.internal_errors == 0


def _new_stream() -> Stream:
    return Stream(100, 100, 100)
