"""Merges: which files, what clients do meanwhile, and the disk failing at every operation."""

import errno

import pytest

from streamd.cold.files import BASE, MOVER, REPLY
from tests.cold.moving_bench import LIMIT, Bench
from tests.cold.test_mover_moves import CHANGES


def moved(names="st", entries=200, at_once=True, **options):
    """Return a bench on which the first streams are in one file, and nothing is short of memory."""
    bench = Bench(at_once=at_once, **options)
    for name in names:
        bench.add(name, entries)
    bench.settle()
    bench.store.set_limit(64 * LIMIT)
    bench.settle()
    assert len(bench.files_there()) == 1
    return bench


def file_of(bench, name):
    return bench.logs[name].sealed.rows.stretches[0].file


def tombstones(bench, name):
    return sum(stretch.gone_count for stretch in bench.logs[name].sealed.rows.stretches)


def test_a_file_of_which_less_than_half_is_alive_is_merged():
    bench = moved("stu")
    old = file_of(bench, "s")
    bench.remove("s")
    bench.settle(3)
    assert file_of(bench, "t") is old
    bench.remove("t")
    bench.settle()
    new = file_of(bench, "u")
    assert new is not old
    assert new.size < old.size / 2
    bench.check_settled()
    bench.close()


def test_a_merged_file_is_not_merged_again():
    bench = moved("stu")
    bench.remove("s")
    bench.remove("t")
    bench.settle()
    new, count = file_of(bench, "u"), bench.thread.count
    bench.store.changes += 1
    bench.settle(100)
    assert (file_of(bench, "u"), bench.thread.count) == (new, count)
    bench.close()


def test_nothing_is_looked_at_without_deletions():
    bench = moved()
    looked = []
    lists = bench.lists
    bench.mover._lists = lambda: looked.append(1) or lists()
    bench.settle(60)
    assert looked == []
    bench.delete("s", bench.ids("s")[:1])
    bench.settle(60)
    assert looked == [1]
    bench.close()


def test_lists_are_looked_at_every_few_seconds_at_most():
    bench = moved()
    looked = []
    lists = bench.lists
    bench.mover._lists = lambda: looked.append(1) or lists()
    for _ in range(50):
        bench.delete("s", bench.ids("s")[:1])
        bench.tick()
    assert 8 <= len(looked) <= 11
    bench.close()


def test_tombstones_of_more_than_a_tenth_are_left_out():
    bench = moved(node=10)
    bench.delete("s", bench.ids("s")[1:130:5])
    bench.settle()
    assert tombstones(bench, "s") > 20
    bench.delete("s", bench.ids("s")[30:60])
    bench.settle()
    assert tombstones(bench, "s") == 0
    bench.check_settled()
    bench.delete("s", bench.ids("s")[31:50:2])
    bench.check_settled()
    bench.close()


def test_rows_without_entries_are_left_out():
    bench = Bench(node=1)
    bench.add("s", 8, 30_000)
    bench.settle()
    bench.store.set_limit(64 * 1024 * 1024)
    bench.settle()
    rows = sum(one.high - one.low for one in bench.logs["s"].sealed.rows.stretches)
    assert rows >= 6
    bench.delete("s", bench.ids("s")[2:4])
    bench.settle()
    assert sum(one.high - one.low for one in bench.logs["s"].sealed.rows.stretches) == rows - 2
    assert tombstones(bench, "s") == 0
    bench.check_settled()
    bench.close()


def test_a_front_that_was_trimmed_by_length_stays_trimmed():
    bench = moved(node=10)
    bench.trim("s", 195)
    bench.trim("s", 193)
    bench.delete("s", bench.ids("s")[3:190:3])
    assert bench.logs["s"].sealed.rows.skipped
    bench.check_settled()
    assert tombstones(bench, "s") == 0
    bench.trim("s", 100)
    bench.check_settled()
    bench.close()


def test_copies_switch_together_and_keep_their_tombstones():
    bench = moved("stu", node=10)
    bench.copy("s", "c")
    bench.delete("s", bench.ids("s")[10:90:3])
    bench.delete("c", bench.ids("c")[11:50:3])
    bench.remove("t")
    bench.remove("u")
    bench.settle()
    assert file_of(bench, "s") is file_of(bench, "c")
    assert len(bench.files_there()) == 1
    assert tombstones(bench, "s")
    bench.check_settled()
    bench.remove("c")
    bench.delete("s", bench.ids("s")[:1])
    bench.check_settled()
    assert tombstones(bench, "s") == 0
    bench.close()


def test_files_with_little_are_merged_into_one():
    bench = Bench()
    for n in range(20):
        bench.add(f"s{n}", 120)
        bench.settle(3)
    assert len(bench.files_there()) > 15
    bench.store.set_limit(64 * LIMIT)
    bench.delete("s1", bench.ids("s1")[:1])
    bench.settle()
    assert len(bench.files_there()) == 1
    bench.check_settled()
    bench.close()


def test_the_old_file_stays_as_long_as_something_else_holds_it():
    bench = moved("stu")
    old = file_of(bench, "s")
    for holder in (BASE, REPLY):
        bench.files.hold(old, holder)
    bench.remove("s")
    bench.remove("t")
    bench.settle()
    assert file_of(bench, "u") is not old
    assert old.path in bench.files_there()
    bench.files.release(old, REPLY)
    bench.settle()
    assert old.path in bench.files_there()
    bench.files.release(old, BASE)
    bench.settle()
    assert old.path not in bench.files_there()
    bench.close()


def test_a_file_that_streams_are_about_to_switch_to_is_not_merged():
    bench = moved("stu")
    file = file_of(bench, "u")
    bench.files.hold(file, MOVER)
    bench.remove("s")
    bench.remove("t")
    bench.settle()
    assert file_of(bench, "u") is file
    bench.files.release(file, MOVER)
    bench.delete("u", bench.ids("u")[:1])
    bench.settle()
    assert file_of(bench, "u") is not file
    bench.check_settled()
    bench.close()


def test_a_reply_that_is_being_made_goes_on_with_the_old_file():
    bench = moved("stu")
    bench.store.in_place += 1
    reply = bench.logs["u"].iterate()
    begin = [next(reply) for _ in range(30)]
    bench.remove("s")
    bench.remove("t")
    bench.settle()
    assert begin + list(reply) == list(bench.plain["u"].iterate())
    bench.close()


@pytest.mark.parametrize("jobs", range(4))
@pytest.mark.parametrize("change", CHANGES)
def test_clients_change_a_stream_while_its_file_is_merged(change, jobs):
    bench = moved("trs", at_once=True)
    bench.thread.at_once = False
    bench.remove("t")
    bench.remove("r")
    bench.delete("s", bench.ids("s")[5:90:9])
    bench.tick(60_000)
    for _ in range(jobs):
        bench.thread.run_one()
        bench.mover.tick(lambda: True)
    change(bench)
    bench.check()
    bench.check_settled()
    bench.close()


@pytest.mark.parametrize("seed", range(20))
def test_moves_go_on_while_files_are_merged(seed):
    bench = moved("trs")
    bench.chance.seed(seed)
    bench.thread.at_once = False
    bench.remove("t")
    bench.remove("r")
    bench.store.set_limit(LIMIT)
    for _ in range(60):
        bench.add("s", bench.chance.randrange(20))
        bench.delete("s", [bench.chance.choice(bench.ids("s")) for _ in range(5)])
        if bench.chance.random() < 0.5:
            bench.thread.run_one()
        bench.clock.advance(bench.chance.choice((0, 1_000, 6_000)))
        bench.mover.tick(lambda: bench.chance.random() < 0.5)
    bench.check_settled()
    bench.close()


def with_tombstones():
    bench = moved("trs")
    bench.delete("s", bench.ids("s")[5:90:9])
    return bench


def history(bench):
    bench.remove("t")
    bench.remove("r")
    bench.settle()


def operations():
    bench = with_tombstones()
    before = bench.disk.operations
    history(bench)
    return range(before + 1, bench.disk.operations + 1)


@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EIO, "short"])
@pytest.mark.parametrize("at", operations())
def test_a_failing_operation_changes_nothing_and_is_repeated(at, failure):
    bench = with_tombstones()
    old = file_of(bench, "s")
    bench.disk.fail_at, bench.disk.failure = at, failure
    history(bench)
    bench.check()
    bench.check_settled()
    assert file_of(bench, "s") is not old
    bench.close()


def test_a_damaged_file_is_not_merged_and_said_once(caplog):
    bench = moved("stuv")
    for name in "xyz":
        bench.add(name, 200)
    bench.store.set_limit(LIMIT)
    bench.settle()
    bench.store.set_limit(64 * LIMIT)
    bench.settle()
    old, other = file_of(bench, "s"), file_of(bench, "x")
    place = old.index.place(old.index.rows - 1)
    bench.disk.names[old.path].data[place.offset + 90] ^= 1
    for name in "stuxy":
        bench.remove(name)
    bench.settle(60)
    assert file_of(bench, "v") is old
    assert file_of(bench, "z") is not other
    assert [record.event for record in caplog.records] == ["segments-damaged"]
    assert old.path in caplog.text
    bench.remove("v")
    bench.check_settled()
    bench.close()


@pytest.mark.parametrize("jobs", range(5))
def test_the_end_of_a_merge_in_the_middle_leaves_no_orphan(jobs):
    bench = moved("trs")
    bench.thread.at_once = False
    bench.remove("t")
    bench.remove("r")
    bench.tick(60_000)
    for _ in range(jobs):
        bench.thread.run_one()
        bench.mover.tick(lambda: True)
    bench.mover.close()
    assert bench.files_there() == bench.files_of_lists()
    bench.check()
    bench.close()
