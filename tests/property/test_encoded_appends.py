"""What a batch of XADDs writes to the journal is what its requests would write one by one."""

import importlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamd.journal import record
from streamd.journal.record import encode_columns, encode_command
from streamd.stream.entry_id import format_id
from tests.crash.restartable import INCREMENT, Restartable

try:
    # What the compiled form writes with; here it is interpreted.
    native = importlib.import_module("streamd.journal.native_units")
except ImportError:
    native = None

TEXTS = st.binary(max_size=5) | st.sampled_from([b"%d", b"100%", b"\r\n", b"x" * 70, b"x" * 1_000])
ALIKE = st.sampled_from([b"f", b"g", b"%b", b"long"])


@given(st.lists(TEXTS | st.sampled_from([b"x" * 4_096, b"x" * 4_097]), max_size=20))
def test_a_command_is_encoded_as_the_protocol_says(words: list[bytes]):
    expected = b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])
    assert encode_command(words) == expected
    if native is not None:
        is_short = all(len(word) <= 4_096 for word in words)
        assert native.encode_words(words) == native.encode_words(tuple(words)) == (expected if is_short else None)


@given(
    st.integers(1, 20).flatmap(
        lambda count: st.lists(
            ALIKE
            | st.lists(TEXTS | ALIKE, min_size=count, max_size=count)
            | st.builds(
                lambda ms, seq: range(ms << 64 | seq, (ms << 64 | seq) + count),
                st.integers(0, 2**64 - 1),
                st.integers(0, 1_005) | st.integers(99_990, 100_000) | st.integers(2**64 - 40, 2**64 - 31),
            ),
            max_size=5,
        ).map(lambda columns: [*columns, [b"f"] * count])
    )
)
@example([b"k%", [b"f"] * 5])
@example([range(7 << 64 | 8, 7 << 64 | 13), [b"f"] * 5])
@settings(deadline=None)
def test_columns_are_encoded_as_single_commands_are(columns: list[bytes | list[bytes] | range]):
    count = len(columns[-1])
    places = [
        [column] * count
        if isinstance(column, bytes)
        else [format_id(entry_id) for entry_id in column]
        if isinstance(column, range)
        else column
        for column in columns
    ]
    expected = [encode_command(words) for words in zip(*places, strict=True)]
    assert encode_columns(columns) == expected
    if native is not None:
        units = native.encode_units(columns)
        if units is None:
            ranges = [column for column in columns if isinstance(column, range)]
            assert len(ranges) > 1 or ranges[0].start % 2**64 > 10**17
        else:
            assert units == expected


def journal_of(together: bool, requests: list[list[bytes]]) -> tuple[bytes, bytes]:
    server = Restartable(appendfsync="no")
    server.run([b"XADD", b"s", b"*", b"f", b"v"], [b"XADD", b"t", b"*", b"f", b"v"])
    for part in [requests] if together else [[request] for request in requests]:
        server.run(*part)
    server.end_turn()
    read = server.disk.open(INCREMENT)
    written = read.read_at(0, read.size())
    again = server.restart()
    shown = []
    for one in server, again:
        one.run([b"SELECT", b"0"], [b"XRANGE", b"s", b"-", b"+"])
        one.end_turn()
        shown.append(one.replies[one.client][-1])
    assert shown[0] == shown[1]
    return written, b"".join(server.replies[server.client])


@pytest.mark.parametrize("way", ["by templates", "byte by byte"])
def test_a_batch_and_its_requests_write_the_same_bytes(way, monkeypatch):
    if way == "byte by byte":
        if native is None:
            pytest.skip("librt is not installed")
        monkeypatch.setattr(record, "encode_units", native.encode_units, raising=False)
        monkeypatch.setattr(record, "encode_words", native.encode_words, raising=False)
        monkeypatch.setattr(record, "WRITES_UNITS", True)
    add = [b"XADD", b"s", b"*", b"f", b"v"]
    other = [b"SELECT", b"3"]
    for requests in (
        [add] * 5,
        [add] * 250,
        [add] * 30 + [[b"SET", b"k", b"v"]] + [add] * 90,
        [other] + [add] * 12,
        [add] * 4 + [other] + [add] * 4 + [[b"XADD", b"s", b"IDMP", b"p", b"i", b"*", b"f", b"v"]] * 2,
        [[b"XADD", b"st"[n % 2 : n % 2 + 1], b"*", b"f", b"v%d" % n] for n in range(40)],
        [[b"XADD", b"st"[n % 2 : n % 2 + 1], b"IDMP", b"p", b"%d" % n, b"*", b"f", b"v%d" % n] for n in range(40)],
        [[b"XADD", b"s", b"IDMP", b"p", b"%d" % n, b"*", b"f", b"v%d" % n] for n in range(40)],
        [[b"XADD", b"s", b"IDMP", b"p%d" % (n % 3), b"%d" % n, b"*", b"f", b"v"] for n in range(40)],
        [[b"XADD", b"s", b"IDMPAUTO", b"p", b"*", b"f", b"v%d" % n, b"g", b"w"] for n in range(40)],
    ):
        assert journal_of(True, requests) == journal_of(False, requests)
