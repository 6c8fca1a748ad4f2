"""Writing one segment file in jobs: the pace, and the disk failing at every operation."""

import errno

import pytest

from streamd.base.clock import ManualClock
from streamd.cold.block import Block
from streamd.cold.files import STREAM, SegmentFiles
from streamd.cold.jobs import Jobs
from streamd.cold.output import JOB_BYTES, Output, Pace
from streamd.cold.whole_file import blocks_of
from tests.cold.jobs_at_hand import JobsAtHand
from tests.cold.sealed import MS, entry_id, sealed, stored
from tests.crash.simulated_disk import SimulatedDisk

SEGMENTS = sealed([(entry_id(MS + n), [b"f", b"%d" % n]) for n in range(40)])


class Bench:
    """An output on a simulated disk."""

    def __init__(self, at_once: bool = True) -> None:
        self.disk = SimulatedDisk()
        self.disk.forgets = True
        self.clock = ManualClock(MS)
        self.thread = JobsAtHand(at_once)
        self.files = SegmentFiles(self.disk, "dir", "a")
        self.opened = self.disk.operations
        self.jobs = Jobs(self.thread.submit)
        self.output = Output(self.files, self.jobs, self.clock)

    def write(self):
        """Write three blocks in two jobs, and finish."""
        self.output.add(Block(SEGMENTS[:2]))
        self.output.add(Block(SEGMENTS[2:3]))
        self.drain(self.output.write(None))
        self.output.add(Block(SEGMENTS[3:]))
        self.drain(self.output.finish(None))

    def drain(self, steps):
        for can_go_on in steps:
            assert not can_go_on
            assert self.thread.run_one()


def test_a_file_is_durable_and_held_when_it_is_finished():
    bench = Bench(at_once=False)
    bench.write()
    one = bench.output.file
    assert one.is_durable
    assert one.index.rows == bench.output.rows == 3
    blocks = [stored(segment) for block in blocks_of(bench.files, one) for segment in block]
    assert blocks == [stored(segment) for segment in SEGMENTS]
    after = SegmentFiles(bench.disk.cut_power(1), "dir", "a")
    assert after.load(one.number, one.size, one.checksum).index.rows == 3
    bench.output.release()
    assert bench.files.unlink_dead() == 1


def test_a_file_that_a_stream_holds_stays_when_the_output_lets_go():
    bench = Bench()
    bench.write()
    bench.files.hold(bench.output.file, STREAM)
    bench.output.release()
    bench.output.abandon()
    assert bench.files.unlink_dead() == 0


def operations():
    bench = Bench()
    bench.write()
    return range(bench.opened + 1, bench.disk.operations + 1)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, "bug"])
@pytest.mark.parametrize("at", operations())
def test_nothing_is_left_wherever_writing_fails(at, failure):
    bench = Bench()
    bench.disk.fail_at, bench.disk.failure = at, failure
    with pytest.raises(RuntimeError if failure == "bug" else OSError):
        bench.write()
    bench.output.abandon()
    bench.disk.fail_at = 0
    bench.files.unlink_dead()
    assert bench.disk.names == {}
    assert bench.disk.open_files == 0


@pytest.mark.parametrize("at", operations())
def test_a_short_write_is_continued(at):
    bench = Bench()
    bench.disk.fail_at, bench.disk.failure = at, "short"
    bench.write()
    assert len(list(blocks_of(bench.files, bench.output.file))) == 3


def test_a_sync_that_failed_is_not_repeated():
    bench = Bench()
    syncs = 0
    step = bench.disk.step

    def failing(name, length=0):
        nonlocal syncs
        if name == "sync":
            syncs += 1
            raise OSError(errno.EIO, "EIO")
        return step(name, length)

    bench.disk.step = failing
    with pytest.raises(OSError):
        bench.write()
    bench.output.abandon()
    assert syncs == 1


def test_an_output_is_abandoned_in_the_middle():
    bench = Bench()
    bench.output.add(Block(SEGMENTS))
    bench.drain(bench.output.write(None))
    assert len(bench.disk.names) == 1
    bench.output.abandon()
    assert (bench.disk.names, bench.disk.open_files) == ({}, 0)


def test_an_output_that_was_given_nothing_makes_no_file():
    bench = Bench()
    bench.output.abandon()
    assert bench.disk.names == {}


def test_a_job_is_due_for_a_megabyte():
    bench = Bench()
    [large] = sealed([(entry_id(MS), [b"f", bytes(JOB_BYTES)])], 1)
    assert not bench.output.add(Block(SEGMENTS))
    assert bench.output.add(Block([large]))


def test_the_pace_is_thirty_megabytes_a_second():
    clock = ManualClock(MS)
    pace = Pace(clock)
    written = 0
    for _ in range(200):  # twenty seconds of a cron that comes ten times a second
        while pace.allows():
            pace.take(1_000_000)
            written += 1_000_000
        clock.advance(100)
    assert 20 * 30_000_000 <= written <= 20 * 30_000_000 + 6_000_000


def test_the_pace_does_not_save_up_while_nothing_is_written():
    clock = ManualClock(MS)
    pace = Pace(clock)
    clock.advance(3_600_000)
    written = 0
    while pace.allows():
        pace.take(1_000_000)
        written += 1_000_000
    assert written <= 5_000_000


def test_a_large_block_is_paid_for_by_a_bounded_wait():
    clock = ManualClock(MS)
    pace = Pace(clock)
    pace.take(2_000_000_000)
    clock.advance(200)
    assert pace.allows()


def test_the_pace_is_lifted():
    pace = Pace(ManualClock(MS))
    pace.take(100_000_000)
    assert not pace.allows()
    pace.is_lifted = True
    assert pace.allows()


def test_an_output_waits_for_the_pace():
    bench = Bench()
    pace = Pace(bench.clock)
    pace.take(7_000_000)
    bench.output.add(Block(SEGMENTS))
    steps = bench.output.write(pace)
    assert [next(steps), next(steps)] == [False, False]
    assert bench.disk.names == {}
    bench.clock.advance(1_000)
    assert list(steps) == []
    assert len(bench.disk.names) == 1
