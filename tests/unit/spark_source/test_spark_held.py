"""Rows that are held until all are known: the same in memory and in a file, and what is said of them in short."""

import random
import subprocess
import sys
from collections import Counter
from itertools import permutations, product
from pathlib import Path

import pyarrow as pa
import pytest

from spark_source.errors import StreamdError
from spark_source.naming.held import Held, Part
from spark_source.naming.identity import DIGEST_BYTES, digests_of, hash_column
from spark_source.naming.repeats import Repeats
from spark_source.naming.tally import SAMPLE_MAX, Tally, missing


def part(number: int, rows: int = 3) -> Part:
    texts = [b"%d.%d" % (number, row) for row in range(rows)]
    return Part("s", pa.array(texts, pa.binary()), list(range(rows)), digests_of(texts))


@pytest.mark.parametrize("hold_bytes", [0, 100, 400, 1 << 20])
def test_parts_come_out_in_the_order_in_which_they_came(hold_bytes: int) -> None:
    held = Held(hold_bytes)
    parts = [part(number, rows=number + 1) for number in range(9)]
    for one in parts:
        held.append(one)

    assert [(one.payloads.to_pylist(), one.words, one.digests) for one in held.take()] == [
        (one.payloads.to_pylist(), one.words, one.digests) for one in parts
    ]


def test_no_room_on_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spark_source.naming.held.spill_file", full)
    with pytest.raises(StreamdError, match=r"\(No space left on device\): make room in the directory that spark.local"):
        Held(0).append(part(1))


@pytest.mark.parametrize("share", [1, 3, 1000])
@pytest.mark.parametrize("chunk", [1, 4])
def test_what_comes_more_than_once_is_found_in_shares(share: int, chunk: int) -> None:
    for hashes in product([0, 7, 8, 2**64 - 1], repeat=5):
        repeats = Repeats(share)
        for at in range(0, 5, chunk):
            repeats.add(pa.array(hashes, pa.uint64()).slice(at, chunk))
        assert repeats.repeated() == {number for number, count in Counter(hashes).items() if count > 1}


def test_too_many_that_repeat_are_not_kept() -> None:
    repeats = Repeats(most=2)
    repeats.add(pa.array([1, 1, 2, 2, 3, 3], pa.uint64()))

    assert repeats.repeated() is None
    assert Repeats().repeated() == set()


def short(kind: str, rows: list[bytes], chunk: int = 2):
    tally = Tally(kind)
    for at in range(0, len(rows), chunk):
        tally.add(pa.array(rows[at : at + chunk], pa.binary()), digests_of(rows[at : at + chunk]))
    return tally.short()


@pytest.mark.parametrize("kind", ["content", "key", "position"])
def test_rows_in_short_tell_every_short_list_from_every_other(kind: str) -> None:
    """All lists of up to three rows over three: by position the order counts, else it does not."""
    found: dict[object, set] = {}
    for count in range(4):
        for rows in product([b"a", b"b", b"ab"], repeat=count):
            for chunk in (1, 2):
                same = rows if kind == "position" else tuple(sorted(rows))
                found.setdefault((short(kind, list(rows), chunk)), set()).add(same)

    assert all(len(same) == 1 for same in found.values())
    assert len(found) == (1 + 3 + 9 + 27 if kind == "position" else 1 + 3 + 6 + 10)


def test_a_part_of_an_array_is_digested_as_it_stands_there() -> None:
    rows = [b"a", b"bcd", b"", b"e"]
    tally = Tally("position")
    tally.add(pa.array([b"x", *rows, b"y"], pa.binary()).slice(1, 4), b"")

    assert tally.short() == short("position", rows, 4)


@pytest.mark.parametrize("rows", [3, SAMPLE_MAX, 20_000])
def test_a_sample_shows_keys_that_are_gone_and_none_that_moved(rows: int) -> None:
    keys = [b"%d" % n for n in range(rows)]
    mixed = random.Random(5).sample(keys, rows)
    before = [short("key", keys[::2]).sample, short("key", keys[1::2]).sample]

    assert missing(before, [short("key", mixed[n::3]).sample for n in range(3)]) == 0
    assert missing(before, [short("key", [*mixed, b"more"]).sample]) == 0
    gone = missing(before, [short("key", mixed[: rows // 2]).sample])
    assert abs(gone - (rows - rows // 2)) <= rows * 0.15
    assert missing(before, []) == pytest.approx(rows, rel=0.15)


def test_a_sample_does_not_depend_on_the_order() -> None:
    for order in permutations([b"a", b"b", b"c", b"d"]):
        assert short("key", list(order)) == short("key", [b"a", b"b", b"c", b"d"])


MANY = """
import re, sys
import pyarrow as pa
import spark_source.naming.tally
from spark_source.naming.held import Held, Part
from spark_source.naming.identity import Identity, BatchName, digests_of
from spark_source.naming.tally import Tally

def run(batches):
    held, tally = Held(), Tally("content")
    for number in range(batches):
        texts = [b"%0100d" % (number * 10_000 + row) for row in range(10_000)]
        digests = digests_of(texts)
        payloads = pa.array(texts, pa.binary())
        tally.add(payloads, digests)
        held.append(Part("s", payloads, 8, digests))
    identity = Identity("content", BatchName("q", "0", 0, True), 0, "batch", 10_000, 64)
    identity.repeated = tally.repeats.repeated()
    for part in held.take():
        identity.name_rows(len(part.payloads), part.digests)
    # Not ru_maxrss: that begins with what the process had from which this one was forked, here that of all tests.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

small = run(40)
print(run(int(sys.argv[1])) - small)
"""


def test_memory_does_not_grow_with_the_rows() -> None:
    """1.5 million rows of 100 bytes, in a process of its own, take little more than 400,000."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell")
    told = subprocess.run([sys.executable, "-c", MANY, "150"], capture_output=True, text=True, check=True).stdout
    assert int(told) < 32 << 10, f"{told} KiB"


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_hashes_are_the_first_eight_bytes_of_each_digest(count: int) -> None:
    digests = random.Random(count).randbytes(count * DIGEST_BYTES)
    plain = [int.from_bytes(digests[at : at + 8], "little") for at in range(0, len(digests), DIGEST_BYTES)]

    assert hash_column(digests).to_pylist() == plain
