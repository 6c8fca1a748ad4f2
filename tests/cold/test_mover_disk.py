"""Moves on a disk that fails at every operation, is full, or loses its power."""

import errno

import pytest

from streamd.cold.files import BASE, SegmentFiles
from streamd.cold.whole_file import blocks_of
from streamd.stream.entry_id import ID_MAX
from tests.cold.moving_bench import Bench
from tests.cold.world import WatchedDisk


class FullDisk:
    """Makes a disk refuse to be written to while `is_full`."""

    def __init__(self, disk):
        self.is_full = False
        self._step, disk.step = disk.step, self.step

    def step(self, name, length=0):
        if self.is_full and name in ("create", "write"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._step(name, length)


def history(bench):
    bench.add("s", 150)
    bench.add("t", 60)
    bench.settle(3)
    bench.trim("s", 20)
    bench.add("s", 150)
    bench.settle(3)


def operations():
    bench = Bench()
    history(bench)
    return range(bench.opened + 1, bench.disk.operations + 1)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, "short"])
@pytest.mark.parametrize("at", operations())
def test_a_failing_operation_loses_nothing_and_is_repeated(at, failure):
    bench = Bench()
    bench.disk.fail_at, bench.disk.failure = at, failure
    history(bench)
    bench.disk.fail_at = 0
    bench.check()
    bench.check_settled()
    assert bench.cold_entries("s") > 50
    assert bench.store.move_failed == ""
    bench.close()


@pytest.mark.parametrize("at", operations())
def test_a_bug_in_a_move_is_told_and_loses_nothing(at):
    bench = Bench()
    bench.disk.fail_at, bench.disk.failure = at, "bug"
    history(bench)
    bench.disk.fail_at = 0
    bench.bugs.clear()
    bench.check_settled()
    bench.close()


def test_a_full_disk_is_said_once_and_tried_again_ever_later(caplog):
    bench = Bench()
    disk = FullDisk(bench.disk)
    disk.is_full = True
    bench.add("s", 200)
    tries = []
    for second in range(300):
        before = bench.thread.count
        bench.tick()
        if bench.thread.count > before:
            tries.append(second)
    assert tries == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert "No space left" in bench.store.move_failed
    assert [record.event for record in caplog.records] == ["segments-failed"]
    assert bench.cold_entries("s") == 0
    bench.check()
    disk.is_full = False
    for _ in range(60):
        bench.tick()
    assert bench.store.move_failed == ""
    assert [record.event for record in caplog.records] == ["segments-failed", "segments-recovered"]
    bench.check_settled()
    bench.close()


def test_trimming_frees_space_on_a_full_disk():
    bench = Bench()
    disk = FullDisk(bench.disk)
    bench.add("s", 200)
    bench.settle()
    bench.add("s", 200)
    bench.settle()
    assert len(bench.files_there()) >= 2
    disk.is_full = True
    bench.add("s", 200)
    bench.tick()
    assert bench.store.move_failed
    bench.trim("s", 10)
    bench.tick(0)
    assert bench.files_there() == set()
    bench.close()


def test_a_rewrite_is_asked_for_on_a_full_disk_and_again_if_it_frees_anything():
    bench = Bench()
    disk = FullDisk(bench.disk)
    bench.add("s", 200)
    bench.settle()
    bench.add("s", 400)
    bench.settle()
    [_first, *_others] = sorted(bench.store.files._known)
    file = bench.logs["s"].sealed.rows.stretches[0].file
    bench.store.files.hold(file, BASE)
    disk.is_full = True
    bench.add("s", 200)
    bench.tick()
    assert bench.store.move_failed
    assert bench.rewrites == 1  # the journal has entries that are in files
    bench.clock.advance(60_000)
    bench.tick()
    assert bench.rewrites == 1
    bench.trim("s", 500)
    for _ in range(30):
        bench.tick()
    assert bench.rewrites == 2
    for _ in range(60):
        bench.tick()
    assert bench.rewrites == 3
    bench.store.files.release(file, BASE)
    bench.tick()
    assert file.path not in bench.files_there()
    disk.is_full = False
    bench.close()


@pytest.mark.parametrize(("size", "rewrites"), [(100, 0), (10_000, 1)])
def test_a_rewrite_is_asked_for_when_a_tenth_of_the_disk_is_held_by_the_base_alone(size, rewrites):
    bench = Bench()
    bench.add("s", 200, size)
    bench.settle()
    file = bench.logs["s"].sealed.rows.stretches[0].file
    bench.store.files.hold(file, BASE)
    bench.add("s", 200)
    bench.settle()
    assert bench.rewrites == 0
    bench.trim("s", 100)
    bench.settle()
    assert bench.rewrites == rewrites
    bench.store.files.release(file, BASE)
    bench.check_settled()
    bench.close()


def test_a_file_whose_sync_failed_is_not_synced_again():
    bench = Bench()
    synced = []
    step = bench.disk.step

    def watching(name, length=0):
        if name == "sync":
            synced.append(len(bench.files_there()) and max(bench.files_there()))
            if len(synced) == 1:
                raise OSError(errno.EIO, "EIO")
        return step(name, length)

    bench.disk.step = watching
    bench.add("s", 200)
    bench.settle()
    assert len(synced) == len(set(synced)) >= 2
    bench.check_settled()
    bench.close()


def test_what_lists_have_in_files_is_whole_wherever_the_power_is_cut():
    bench = Bench()
    disk = WatchedDisk()
    disk.names, disk.forgets = bench.disk.names, True
    bench.disk = bench.files._files = disk
    cuts = 0

    def check():
        nonlocal cuts
        cuts += 1
        for seed in range(3):
            files = SegmentFiles(disk.cut_power(seed), "dir", "a")
            for name, log in bench.logs.items():
                for stretch in log.sealed.rows.stretches if log.sealed else ():
                    one = stretch.file
                    blocks = list(blocks_of(files, files.load(one.number, one.size, one.checksum)))
                    ids = [
                        x
                        for block in blocks[stretch.low : stretch.high]
                        for seg in block
                        for x in seg.ids(0, seg.count)
                    ]
                    gone = {x for ids in stretch.gone.values() for x in ids}
                    there = bench.plain[name].ids_between(0, ID_MAX)
                    assert {x for x in ids if x >= there[0]} - gone <= set(there)

    disk.before = check
    history(bench)
    bench.delete("s", bench.ids("s")[20:60:3])
    bench.settle()
    assert cuts > 10
    disk.before = None
    bench.close()


def test_moves_leave_room_for_the_journal():
    bench = Bench()
    bench.disk.free = 100 * 1024 * 1024
    bench.add("s", 150)
    bench.settle(3)
    assert bench.cold_entries("s") == 0
    assert "the disk has 100 MB left, and 128 MB are kept for the journal" in bench.store.move_failed
    assert bench.rewrites == 1  # for the entries that are in files already
    bench.disk.free = 200 * 1024 * 1024
    bench.settle(90)
    assert bench.cold_entries("s") > 50
    assert bench.store.move_failed == ""
    bench.close()
