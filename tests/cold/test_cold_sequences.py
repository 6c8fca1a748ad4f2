"""Histories that go wrong where entries in segment files are thought to be like those in memory."""

from typing import Any

import pytest

from streamd.cold.files import SegmentFile
from tests.cold.cold_twins import Store, Twins, call, cool, state_of
from tests.cold.cold_world import evict
from tests.session import Session

pytestmark = pytest.mark.interpreted(reason="stores and files of the test")


class Pair(Twins):
    """Two empty servers; the histories of the test go to both."""

    def __init__(self, directory: str, limit_bytes: int = 1 << 24) -> None:
        self.store = Store(directory, limit_bytes)
        self.plain, self.cold = Session(), Session()
        self.cold.state.cold = self.store
        for session in (self.plain, self.cold):
            session.state.records = []

    def do(self, line: str | list[bytes]) -> bytes:
        """Return the reply of both to a request."""
        expected, reply = self.both(line)
        assert reply == expected, line
        return reply

    def cool(self, nodes: int = 1_000_000, per_block: int = 1) -> None:
        """Move the oldest nodes of the stream of one server into a segment file, out of memory."""
        cool(self.cold, self.store, nodes=nodes, per_block=per_block)
        evict(self.store)

    def compare(self) -> None:
        """Compare all that there is, and what commands say of it."""
        plain, cold = self.states()
        assert cold == plain
        for line in ("XINFO STREAM s FULL COUNT 0", "XRANGE s - +", "XREVRANGE s + -"):
            self.do(line)

    @property
    def rows(self) -> Any:
        """The rows of the stream."""
        return self.cold.state.keyspace[0].values[b"s"].log.sealed.rows


@pytest.fixture
def pair(tmp_path):
    return Pair(str(tmp_path))


def test_the_last_node_takes_entries_again_though_it_is_cold(pair):
    for number in range(1, 251):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool()
    assert pair.rows.live == 100  # the last sealed node stays in memory
    for number in range(201, 251):
        pair.do(f"XDEL s {number}-0")
    for number in range(101, 191):
        pair.do(f"XDEL s {number}-0")
    pair.do("CONFIG SET stream-node-max-entries 1000")
    pair.cool()
    pair.compare()

    pair.do("XADD s 300-0 n 300")

    pair.compare()
    pair.cool()
    pair.do("XADD s 301-0 n 301")
    pair.compare()


def test_the_last_node_takes_entries_again_when_all_nodes_are_cold(pair):
    for number in range(1, 301):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XADD s 301-0 n 301")
    pair.cool()
    for number in [*range(201, 302), *range(101, 191)]:
        pair.do(f"XDEL s {number}-0")
    pair.do("CONFIG SET stream-node-max-entries 1000")

    pair.do("XADD s 400-0 n 400")

    pair.compare()


def test_trimming_to_a_length_reads_one_block_for_each_that_goes_at_most(pair):
    pair.do("CONFIG SET stream-node-max-entries 50")
    for number in range(1, 1_001):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=5)
    reads: list[int] = []
    read = pair.store.read

    def counted(file: SegmentFile, row: int) -> bytes:
        reads.append(row)
        return read(file, row)

    pair.store.read = counted  # type: ignore[method-assign]

    for number in range(1_001, 1_601):
        assert call(pair.cold, f"XADD s MAXLEN 1000 {number}-0 n 1") == call(
            pair.plain, f"XADD s MAXLEN 1000 {number}-0 n 1"
        )

    assert len(reads) <= 3  # 600 entries are less than three blocks
    pair.compare()


@pytest.mark.parametrize("limit", [0, 1, 49, 50, 51, 99, 150, 199, 1_000])
@pytest.mark.parametrize("words", ["MAXLEN ~ 120", "MAXLEN ~ 0", "MINID ~ 260", "MINID ~ 251", "MINID ~ 250"])
def test_an_approximate_trim_counts_the_nodes_and_deleted_entries_that_it_counts_in_memory(pair, words, limit):
    pair.do("CONFIG SET stream-node-max-entries 50")
    for number in range(1, 401):
        pair.do(f"XADD s {number}-0 n {number}")
    for number in [*range(10, 30), *range(101, 151)]:
        pair.do(f"XDEL s {number}-0")
    pair.cool(per_block=3)
    for number in [1, 2, *range(155, 190), *range(201, 251)]:
        pair.do(f"XDEL s {number}-0")

    pair.do(f"XTRIM s {words} LIMIT {limit}")

    pair.compare()


EDGES = [
    [(7, seq) for seq in range(1, 400)],
    [(7, seq) for seq in range(2**64 - 200, 2**64)] + [(2**64 - 1, seq) for seq in range(2**64 - 3, 2**64)],
    [(ms, ms % 3) for ms in range(1, 300)],
    [(1, 0), (2**63, 5), (2**64 - 1, 0), (2**64 - 1, 2**64 - 1)],
]


@pytest.mark.parametrize("parts", EDGES)
def test_ranges_that_begin_and_end_at_the_edges_of_blocks_have_the_entries_that_they_have_in_memory(pair, parts):
    pair.do("CONFIG SET stream-node-max-entries " + ("1" if len(parts) < 10 else "20"))
    for number, (ms, seq) in enumerate(parts):
        pair.do(f"XADD s {ms}-{seq} n {number}")
    pair.cool(per_block=2)
    rows = pair.rows
    edges: list[int] = []
    for stretch in rows.stretches:
        for row in range(stretch.low, stretch.high):
            edges += (stretch.file.index.first_id(row), stretch.file.index.last_id(row))
    assert edges

    for one in edges[:3] + edges[-3:] + edges[len(edges) // 2 : len(edges) // 2 + 2]:
        text = f"{one >> 64}-{one & 2**64 - 1}"
        for line in (
            f"XRANGE s {text} + COUNT 3",
            f"XRANGE s ({text} + COUNT 3",
            f"XRANGE s - {text}",
            f"XRANGE s - ({text}",
            f"XRANGE s {text} {text}",
            f"XREVRANGE s {text} - COUNT 3",
            f"XREVRANGE s ({text} - COUNT 3",
            f"XREVRANGE s + {text}",
            f"XREVRANGE s + ({text} COUNT 1000",
            f"XREAD COUNT 2 STREAMS s {text}",
            f"XSPLIT s {text} + 7",
        ):
            evict(pair.store)
            pair.do(line)


def test_large_and_small_entries_come_back_as_they_were(pair):
    for number, size in enumerate([1, 5_000_000, 1, 70_000, 1, 1] * 3, 1):
        pair.do([b"XADD", b"s", b"%d-0" % number, b"n", b"x" * size])
    pair.do("CONFIG SET stream-node-max-entries 2")
    for number in range(100, 110):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.cool(per_block=1)

    pair.do("XRANGE s - +")
    evict(pair.store)
    pair.do("XRANGE s 8-0 8-0")
    pair.do("XDEL s 8-0 9-0")
    pair.compare()


def test_a_history_over_more_blocks_than_the_cache_has_ends_with_what_it_has_in_memory(tmp_path):
    pair = Pair(str(tmp_path), limit_bytes=10_000)
    pair.do("CONFIG SET stream-node-max-entries 10")
    for number in range(1, 501):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XGROUP CREATE s g 0")
    pair.do("XREADGROUP GROUP g c COUNT 450 STREAMS s >")
    pair.cool(per_block=1)
    pair.do("XDEL s " + " ".join(f"{number}-0" for number in range(1, 450, 2)))
    evict(pair.store)

    pair.do("XREADGROUP GROUP g c STREAMS s 0")
    pair.do("XREADGROUP GROUP g c COUNT 100 STREAMS s 200")
    pair.do("XAUTOCLAIM s g d 0 0 COUNT 50")
    pair.do("XAUTOCLAIM s g d 0 0 COUNT 300 JUSTID")
    pair.compare()


def test_the_question_which_pending_entries_are_there_reads_no_block(pair):
    pair.do("CONFIG SET stream-node-max-entries 10")
    for number in range(1, 301):
        pair.do(f"XADD s {number}-0 n {number}")
    pair.do("XGROUP CREATE s g 0")
    pair.do("XREADGROUP GROUP g c STREAMS s >")
    pair.cool(per_block=1)
    for number in range(1, 300, 7):
        pair.do(f"XDEL s {number}-0")
    evict(pair.store)
    asked = pair.store.asked

    for line in (
        "XAUTOCLAIM s g d 0 0 COUNT 200 JUSTID",
        "XCLAIM s g c 0 51-0 52-0 JUSTID",
        "XPENDING s g",
        "XACK s g 51-0",
    ):
        assert call(pair.cold, line) == call(pair.plain, line)

    assert pair.store.asked == asked
    assert state_of(pair.cold) == state_of(pair.plain)
