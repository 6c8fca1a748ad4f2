"""`check --skip` of a directory with a damaged segment file, whose power is cut at each step."""

import random

import pytest

from streamd.checking.trial_start import Trials
from streamd.durability import check, fixing
from streamd.journal.loader import LoadError
from streamd.journal.recovery import DamagedError
from tests.cold.cold_restartable import PLACE, ColdRestartable
from tests.cold.cold_server import evict, make_cold
from tests.cold.world import WatchedDisk

NOW_MS = 1_700_000_000_000


def written():
    """Return a server that was killed, with two segment files."""
    server = ColdRestartable(WatchedDisk())
    server.cool(b"s")
    server.fill(b"s", 100, 201)
    server.fill(b"t", 50)
    make_cold(server.engine, b"s", b"t")
    evict(server.engine)
    server.send("XDEL", "s", "5-1", "250-1")
    server.rewrite()
    server.send("XADD", "s", "1000-1", "f", "v")
    return server


def place_of(disk):
    trials = Trials(disk, PLACE.rstrip("/"), "appendonly.aof")
    return fixing.Place(disk, "data", PLACE.rstrip("/"), loaders=trials.loader, now_ms=NOW_MS, segments=trials.segments)


def watched(disk):
    """Return a disk with what another one has, all of it durable."""
    found = WatchedDisk()
    found.names, found.durable_names, found.next_salt = disk.names, disk.durable_names, disk.next_salt
    return found


@pytest.mark.parametrize("what", ["damaged", "missing"])
@pytest.mark.parametrize("seed", range(3))
def test_a_power_cut_leaves_a_refused_directory_or_the_mended_one(what, seed):
    server = written()
    first, second = server.segments()
    disk = watched(server.disk.kill())
    spoiled = disk.names[first]
    if what == "damaged":
        spoiled.data[3] ^= 1
        spoiled.durable = bytes(spoiled.data)
    else:
        disk.unlink(first)
        disk.sync_directory(PLACE.rstrip("/"))
    chance = random.Random(seed)
    refused, started = [], []

    def cut():
        left = disk.cut_power(chance.getrandbits(32))
        try:
            again = ColdRestartable(left, stream_memory=1 << 24)
        except (DamagedError, LoadError):
            refused.append(True)
            return
        started.append(again.seen())
        kept = [bytes(one.data) for path, one in left.names.items() if first in path]
        # (This disk may lose a file while it is renamed; but then the base still names it, and no start succeeds.)
        assert kept == ([bytes(spoiled.data)] if what == "damaged" else [])

    disk.before = cut
    report = fixing.skip(place_of(disk), lambda known, question: True)
    disk.before = None
    cut()
    assert report.is_mended
    again = ColdRestartable(disk.kill(), stream_memory=1 << 24)
    entries = [number >> 64 for number, _ in again.engine.state.keyspace[0].values[b"s"].log.iterate()]
    assert entries == [number for number in range(181, 301) if number != 250] + [1_000]
    assert refused
    assert started
    assert all(one == again.seen() for one in started)
    assert again.segments() == [second]


def test_trimmed_entries_do_not_come_back_when_a_later_file_is_left_out():
    server = written()
    server.send("XDEL", "s", "35-1")
    server.send("XTRIM", "s", "MAXLEN", "=", str(301 - 2 - 28))
    server.rewrite()
    before = [number >> 64 for number, _ in server.engine.state.keyspace[0].values[b"s"].log.iterate()]
    assert before[0] not in (1, 181)
    disk = watched(server.disk.kill())
    disk.unlink(server.segments()[1])
    report = fixing.skip(place_of(disk), lambda known, question: True)
    assert report.is_mended
    assert any("RANGE s`: its 100 entries from 181-1 to 280-1 are in segment file 2" in line for line in report.done)
    again = ColdRestartable(disk.kill(), stream_memory=1 << 24)
    after = [number >> 64 for number, _ in again.engine.state.keyspace[0].values[b"s"].log.iterate()]
    assert after == [number for number in before if not 181 <= number <= 280]


def test_an_export_writes_what_is_in_memory_and_in_files():
    server = written()
    disk = watched(server.disk.kill())
    commands = check.export(disk, PLACE.rstrip("/"), "out")
    data = bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert data.count(b"\r\nXADD\r\n") == 200 + 100 + 50 - 2 + 1
    assert commands == data.count(b"\r\nXADD\r\n") + 2 + 2  # XSETIDs, and SELECTs of runs
    assert b"STREAMCOLD" not in data


def test_an_export_leaves_out_the_front_that_was_trimmed_by_count():
    server = ColdRestartable(WatchedDisk())
    server.cool(b"s")
    server.send("XDEL", "s", "30-1")
    server.send("XTRIM", "s", "MAXLEN", "123")
    server.rewrite()
    before = [entry_id >> 64 for entry_id, _ in server.seen()[0, b"s"][2]["entries"]]
    assert len(before) == 123
    assert b"XTRIM" in server.base()
    disk = watched(server.disk.kill())
    check.export(disk, PLACE.rstrip("/"), "out")
    data = bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    exported = [int(part.split(b"-")[0]) for part in data.split(b"\r\n") if part.endswith(b"-1") and part[:1].isdigit()]
    assert exported[: len(before)] == before
    assert b"XTRIM" not in data


@pytest.mark.parametrize("trimmed", [0, 77])
def test_entries_that_are_missing_from_an_export_are_counted_without_the_trimmed_ones(trimmed):
    server = ColdRestartable(WatchedDisk())
    server.cool(b"s")
    server.send("XDEL", "s", "10-1", "90-1")
    if trimmed:
        server.send("XTRIM", "s", "MAXLEN", str(200 - 2 - trimmed))
    server.rewrite()
    disk = watched(server.disk.kill())
    (path,) = server.segments()
    disk.names[path].data[3] ^= 1
    missing: list[str] = []
    check.export(disk, PLACE.rstrip("/"), "out", missing=missing)
    data = bytes(disk.names["out/appendonlydir/appendonly.aof.1.incr.aof"].data)
    assert sum(int(line.split()[0]) for line in missing) == 180 - 2 - trimmed
    assert f"{path} is damaged at offset 0" in missing[0]
    assert data.count(b"\r\nXADD\r\n") == 20 + data.count(b"MAXLEN") == 21  # one makes an empty stream


def test_segment_files_that_a_damaged_base_may_have_named_are_kept():
    server = written()
    names = server.segments()
    disk = watched(server.disk.kill())
    (base,) = [path for path in disk.names if path.endswith(".base.aof")]
    data = disk.names[base].data
    data[data.index(b"STREAMCOLD") + 3] ^= 1
    disk.names[base].durable = bytes(data)
    report = fixing.skip(place_of(disk), lambda *_: True)
    assert report.done
    kept = [path for path in disk.names if ".seg.cut-" in path]
    assert len(kept) == len(names)
    assert [disk.names[path].data for path in names] == [disk.names[path].data for path in sorted(kept)]
