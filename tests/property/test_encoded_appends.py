"""What a batch of XADDs writes to the journal is what its requests would write one by one."""

from unittest.mock import PropertyMock, patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamd.journal.record import encode_appends, encode_command
from streamd.persistence import Persistence
from streamd.stream.entry_id import format_id
from tests.crash.restartable import INCREMENT, Restartable

TEXTS = st.binary(max_size=5) | st.sampled_from([b"%d", b"100%", b"\r\n", b"x" * 70])


@given(
    TEXTS,
    st.integers(0, 2**64 - 1),
    st.integers(0, 1_005) | st.integers(2**64 - 40, 2**64 - 31),
    st.integers(1, 3).flatmap(
        lambda pairs: st.lists(st.lists(TEXTS, min_size=2 * pairs, max_size=2 * pairs), min_size=1, max_size=30)
    ),
)
@example(b"k%", 7, 8, [[b"f", b"v"]] * 5)
@settings(deadline=None)
def test_appends_are_encoded_as_single_commands_are(key: bytes, ms: int, seq: int, entries: list[list[bytes]]):
    expected = [
        encode_command([b"XADD", key, format_id(ms << 64 | seq + at), *texts]) for at, texts in enumerate(entries)
    ]
    texts = [text for entry in entries for text in entry]
    assert encode_appends(key, ms, seq, len(entries[0]), texts) == expected


def journal_of(together: bool, requests: list[list[bytes]]) -> tuple[bytes, list[bytes]]:
    server = Restartable(appendfsync="no")
    with patch.object(Persistence, "takes_encoded", PropertyMock(return_value=together)):
        server.run([b"XADD", b"s", b"*", b"f", b"v"], [b"XADD", b"t", b"*", b"f", b"v"])
        server.run(*requests)
        server.end_turn()
    read = server.disk.open(INCREMENT)
    written = read.read_at(0, read.size())
    server.run([b"SELECT", b"0"], [b"XRANGE", b"s", b"-", b"+"])
    server.end_turn()
    again = server.restart()
    again.run([b"XRANGE", b"s", b"-", b"+"])
    again.end_turn()
    assert again.replies[again.client][-1] == server.replies[server.client][-1]
    return written, server.replies[server.client]


def test_a_batch_and_its_requests_write_the_same_bytes():
    add = [b"XADD", b"s", b"*", b"f", b"v"]
    other = [b"SELECT", b"3"]
    for requests in (
        [add] * 5,
        [add] * 250,
        [add] * 30 + [[b"SET", b"k", b"v"]] + [add] * 90,
        [other] + [add] * 12,
        [add] * 4 + [other] + [add] * 4 + [[b"XADD", b"s", b"IDMP", b"p", b"i", b"*", b"f", b"v"]] * 4,
    ):
        assert journal_of(True, requests) == journal_of(False, requests)
