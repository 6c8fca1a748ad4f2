"""Moves: when they begin, what clients do meanwhile, and how they end."""

import pytest

from tests.cold.moving_bench import Bench
from tests.cold.sealed import MS, entry_id

MB = 1024 * 1024


# When.


def test_sealed_segments_are_moved_when_memory_is_short():
    bench = Bench()
    bench.add("s", 200)
    bench.check_settled()
    assert 100 < bench.cold_entries("s") < 200
    bench.close()


def test_nothing_is_moved_while_there_is_room():
    bench = Bench(MB)
    bench.add("s", 200)
    bench.settle()
    assert bench.cold_entries("s") == 0
    assert bench.disk.operations == bench.opened
    bench.close()


def test_lists_with_a_quarter_of_a_megabyte_are_moved_early():
    bench = Bench(2 * MB)
    for name in "ab":
        bench.add(name, 270, 1_000)
    bench.settle()
    assert bench.cold_entries("a") > 250
    assert bench.cold_entries("b") > 250
    assert bench.store.hot_bytes < bench.store.limit_bytes // 4
    bench.check_settled()
    bench.close()


def test_early_lists_are_not_moved_before_they_fill_a_file():
    bench = Bench(2 * MB)
    bench.add("a", 270, 1_000)
    bench.settle()
    assert bench.cold_entries("a") == 0
    bench.close()


def test_the_last_sealed_segment_stays_in_memory_while_there_is_room():
    bench = Bench(2 * MB)
    bench.add("s", 561, 1_000)
    bench.settle()
    bench.mover.move_all(lambda: None)
    bench.settle()
    assert bench.cold_entries("s") > 500
    last = bench.logs["s"].sealed.newest()
    assert last is not None
    assert last.last_id == entry_id(MS + 560)
    del last
    bench.close()


def test_lists_of_one_segment_are_moved_when_memory_is_short():
    bench = Bench(2 * MB, node=100)
    for n in range(40):
        bench.add(f"s{n}", 101, 1_000)
        bench.settle()
    assert bench.store.hot_bytes < bench.store.limit_bytes
    assert sum(bench.cold_entries(f"s{n}") for n in range(40)) >= 2_000
    bench.check_settled()
    bench.close()


def test_very_small_lists_are_not_moved():
    bench = Bench(4_000)
    for n in range(20):
        bench.add(f"s{n}", 5, 10)
    assert bench.store.hot_bytes > 4_000
    bench.settle()
    assert not bench.files_there()
    bench.close()


def test_a_limit_of_nothing_moves_nothing():
    bench = Bench()
    bench.store.set_limit(0)
    bench.add("s", 400)
    bench.settle()
    assert not bench.files_there()
    bench.close()


def test_lists_are_moved_in_the_order_of_their_coming_and_wait_behind_others_then(monkeypatch):
    bench = Bench(64 * MB)
    taken = []
    for name in "abc":
        bench.add(name, 700, 1_000)
    names = {id(bench.logs[name].sealed): name for name in "abc"}
    for _ in range(3):
        bench.mover.move_all(lambda: None)
        queue = [names[id(one)] for one in bench.store.unwritten]
        taken.append("".join(queue))
        bench.settle(1)
        for name in queue[::-1]:
            bench.add(name, 300, 1_000)
    assert taken == ["abc", "cba", "abc"]
    bench.close()


def test_one_list_leaves_room_for_others(monkeypatch):
    from streamd.cold import moving

    monkeypatch.setattr(moving, "_LIST_BYTES_MAX", 300_000)
    bench = Bench(64 * MB)
    bench.add("a", 1_000, 1_000)
    bench.add("b", 300, 1_000)
    bench.mover.move_all(lambda: None)
    bench.tick()
    assert 270 < bench.cold_entries("a") < 310
    assert bench.cold_entries("b") > 270
    assert [len(bench.store.unwritten), bench.store.unwritten[0] is bench.logs["a"].sealed] == [1, True]
    bench.close()


def test_what_is_moved_is_in_the_cache():
    bench = Bench(MB)
    for name in "ab":
        bench.add(name, 270, 1_000)
    bench.settle()
    assert bench.cold_entries("a")
    assert bench.store.cache.bytes > 256 * 1024
    assert len(list(bench.logs["a"].iterate())) == 270  # nothing is absent
    bench.close()


def test_a_list_that_is_in_both_queues_is_written_once():
    bench = Bench(1_200 * 1024)
    bench.add("a", 270, 1_000)
    for name in "bcde":
        bench.add(name, 90, 1_000)
    bench.tick()
    [file] = {stretch.file for one in bench.lists() if one is not None for stretch in one.rows.stretches}
    assert bench.cold_entries("a") > 250
    assert file.index.entries(0, file.index.rows) == sum(map(bench.cold_entries, "abcde"))
    bench.close()


# Before a rewrite.


def test_a_rewrite_waits_until_lists_have_moved():
    bench = Bench(64 * MB, at_once=False)
    bench.add("a", 300, 1_000)
    begun = []
    bench.mover.move_all(lambda: begun.append(bench.cold_entries("a")))
    bench.tick(0)
    assert begun == []
    while bench.thread.run_one():
        bench.tick(0)
    assert len(begun) == 1
    assert begun[0] > 280
    bench.close()


def test_a_rewrite_waits_for_a_move_of_its_own_if_one_is_under_way():
    bench = Bench(MB, at_once=False)
    for name in "ab":
        bench.add(name, 270, 1_000)
    bench.tick()
    bench.add("c", 300, 1_000)
    begun = []
    bench.mover.move_all(lambda: begun.append(bench.cold_entries("c")))
    while not begun:
        assert bench.thread.run_one()
        bench.tick()
    assert begun[0] > 280
    bench.close()


def test_a_rewrite_does_not_wait_if_there_is_nothing_to_move():
    bench = Bench(MB)
    bench.add("a", 100)
    begun = []
    bench.mover.move_all(lambda: begun.append(1))
    assert begun == [1]
    bench.close()


def test_a_rewrite_does_not_wait_for_ever_for_segments_that_cannot_be_moved():
    bench = Bench(64 * MB)
    bench.node = 1
    bench.add("a", 2, 300_000)
    assert len(bench.store.unwritten) == 1
    begun = []
    bench.mover.move_all(lambda: begun.append(1))
    bench.settle()
    assert begun == [1]
    bench.close()


def test_a_rewrite_does_not_wait_for_a_disk_that_fails():
    bench = Bench(64 * MB)
    bench.add("a", 300, 1_000)
    bench.disk.fail_at, bench.disk.fails_for = 2, 10**9
    begun = []
    bench.mover.move_all(lambda: begun.append(1))
    bench.tick()
    assert begun == [1]
    bench.mover.move_all(lambda: begun.append(2))
    assert begun == [1, 2]
    bench.disk.fail_at = 0
    bench.close()


def test_a_rewrite_does_not_wait_for_the_pace():
    bench = Bench(64 * MB)
    bench.add("a", 6_000, 1_000)
    begun = []
    bench.mover.move_all(lambda: begun.append(1))
    bench.tick(0)
    assert begun == [1]
    bench.close()


def test_moves_are_paced():
    bench = Bench(160 * MB)
    bench.node = 100
    for name in "abc":
        bench.add(name, 2_000, 8_000)
    bench.tick(0)
    ticks = 0
    while not bench.cold_entries("c"):
        bench.tick(100)
        ticks += 1
        assert ticks < 100
    assert ticks >= 12  # 48 MB, of which a burst is written at once
    bench.close()


# Clients meanwhile.


def delete_some(bench):
    bench.delete("s", bench.ids("s")[3:150:7])


def delete_nodes(bench):
    bench.delete("s", bench.ids("s")[4:60])


def delete_all(bench):
    bench.delete("s", bench.ids("s"))


def trim(bench):
    bench.trim("s", 77)


def trim_nodes(bench):
    bench.trim("s", 77, approximate=True)


def trim_before(bench):
    bench.trim_before("s", bench.ids("s")[99])


def trim_all(bench):
    bench.trim("s", 0)
    bench.add("s", 3)


def copy(bench):
    bench.copy("s", "t")
    bench.delete("s", bench.ids("s")[10:20])
    bench.delete("t", bench.ids("t")[15:40])


def copy_and_remove(bench):
    bench.copy("s", "t")
    bench.remove("s")


def remove(bench):
    bench.remove("s")


def remove_and_add(bench):
    bench.remove("s")
    bench.last = 0
    bench.add("s", 50)


def rename(bench):
    bench.rename("s", "u")


def add(bench):
    bench.add("s", 100)


def reopen(bench):
    """The tail is deleted, and nodes take more entries from now on."""
    bench.delete("s", bench.ids("s")[-2:])
    bench.delete("s", bench.ids("s")[-30:-3])
    for log in (bench.logs["s"], bench.plain["s"]):
        log.node_max_entries = 10
    bench.add("s", 5)


def rewritten(bench):
    """Most of a node of 20 goes, so that it is sealed anew."""
    bench.delete("s", bench.ids("s")[20:35])
    bench.delete("s", bench.ids("s")[60:70:2])


CHANGES = [
    delete_some, delete_nodes, delete_all, trim, trim_nodes, trim_before, trim_all, copy, copy_and_remove, remove,
    remove_and_add, rename, add, reopen, rewritten,
]  # fmt: skip


@pytest.mark.parametrize("node", [4, 20])
@pytest.mark.parametrize("jobs", range(4))
@pytest.mark.parametrize("change", CHANGES)
def test_clients_change_a_stream_while_it_is_moved(change, jobs, node):
    bench = Bench(at_once=False, node=node)
    bench.add("s", 200)
    bench.tick()
    for _ in range(jobs):
        bench.thread.run_one()
        bench.mover.tick(lambda: True)
    change(bench)
    bench.check()
    bench.check_settled()
    bench.close()


@pytest.mark.parametrize("one", CHANGES)
@pytest.mark.parametrize("other", CHANGES)
def test_clients_change_a_stream_before_and_while_it_is_moved(one, other):
    bench = Bench(at_once=False)
    for name in "ss":
        bench.add(name, 100)
    one(bench)
    bench.tick()
    if "s" in bench.logs and len(bench.plain["s"]) > 150:
        other(bench)
        bench.check()
    bench.check_settled()
    bench.close()


def test_a_stream_switches_in_slices_and_others_change_it_in_between():
    bench = Bench(32 * MB, node=1)
    bench.add("s", 300, 20_000)
    bench.mover.move_all(lambda: None)
    changes = 0
    while bench.mover.tick(lambda: True):
        if bench.cold_entries("s"):
            changes += 1
            bench.delete("s", [bench.chance.choice(bench.ids("s")) for _ in range(3)])
            bench.trim("s", len(bench.plain["s"]) - 1)
            bench.check()
    assert changes > 5
    bench.check_settled()
    bench.close()


def test_a_list_that_was_removed_is_not_written():
    bench = Bench(2 * MB)
    for name in "ab":
        bench.add(name, 270, 1_000)
    bench.remove("a")
    bench.add("c", 270, 1_000)
    bench.settle()
    assert len(bench.store.unwritten) == 0
    assert sum(len(inode.data) for inode in bench.disk.names.values()) < 600_000
    assert bench.store.hot_bytes < 10_000
    bench.close()


def test_entries_of_a_node_that_was_deleted_before_a_move_are_not_taken_for_pending_ones():
    bench = Bench()
    bench.add("s", 200)
    gone = bench.ids("s")[40:44]
    bench.delete("s", gone)
    bench.settle()
    assert bench.cold_entries("s") > 100
    bench.store.in_place += 1
    assert [bench.logs["s"].holds_pending(one) for one in (*gone, bench.ids("s")[39])] == [False] * 4 + [True]
    bench.close()


def test_small_lists_that_were_removed_are_forgotten():
    bench = Bench(64 * MB)
    for n in range(250):
        bench.add(f"s{n}", 60)
    assert len(bench.store.small) == 250
    for n in range(0, 250, 2):
        bench.remove(f"s{n}")
    bench.settle()
    assert len(bench.store.small) == 125
    bench.check()
    bench.close()


# The end.


@pytest.mark.parametrize("jobs", range(6))
def test_the_end_leaves_no_orphan(jobs):
    bench = Bench(at_once=False)
    bench.add("s", 200)
    bench.tick()
    for _ in range(jobs):
        if bench.thread.run_one():
            bench.mover.tick(lambda: True)
    bench.mover.close()
    assert bench.thread.waiting == []
    assert bench.files_there() == bench.files_of_lists()
    bench.check()
    bench.close()


def test_a_lowered_limit_evicts_in_steps():
    bench = Bench(4 * MB)
    bench.node = 1
    for name in "abcd":
        bench.add(name, 300, 2_000)
    bench.settle()
    before = bench.store.cache.bytes
    assert before > MB
    bench.store.set_limit(64 * 1024)
    bench.settle()
    assert bench.store.cache.bytes <= 64 * 1024
    bench.check()
    bench.close()


def test_entries_after_entry_id_zero_are_moved_too():
    bench = Bench()
    bench.last = -MS
    bench.add("s", 200)
    assert bench.ids("s")[0] == entry_id(1)
    bench.check_settled()
    assert bench.cold_entries("s")
    bench.close()
