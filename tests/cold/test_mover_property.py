"""Random histories of clients, moves and merges give what plain logs in memory have."""

import errno
import random

import pytest

from tests.cold.moving_bench import LIMIT, Bench

NAMES = "abc"


class History:
    """One history; `fails`: the disk fails now and then."""

    def __init__(self, seed: int, fails: bool = False) -> None:
        self.chance = chance = random.Random(seed)
        self.bench = Bench(chance.choice((LIMIT, 4 * LIMIT)), at_once=False, node=chance.choice((1, 3, 10, 100)))
        self.bench.chance.seed(seed)
        self.fails = fails
        self.sizes = chance.choice(((10, 100), (100, 3_000), (1_000, 20_000)))

    def some_ids(self, name: str) -> list[int]:
        ids, chance = self.bench.ids(name), self.chance
        if not ids:
            return []
        if chance.random() < 0.5:
            at = chance.randrange(len(ids))
            return ids[at : at + chance.choice((1, 5, 40))]
        found = chance.sample(ids, min(len(ids), chance.choice((1, 3, 20))))
        return found + [one + 1 for one in found[:2]]

    def client(self) -> None:
        bench, chance = self.bench, self.chance
        name = chance.choice(NAMES)
        if name not in bench.logs or chance.random() < 0.4:
            bench.add(name, chance.choice((1, 5, 30, 90)), chance.choice(self.sizes))
            return
        length = len(bench.plain[name])
        what = chance.randrange(9)
        if what < 4:
            bench.delete(name, self.some_ids(name))
        elif what == 4:
            bench.trim(name, max(0, length - chance.choice((1, 7, 50))), approximate=chance.random() < 0.5)
        elif what == 5:
            ids = self.some_ids(name)
            if ids:
                bench.trim_before(name, min(ids[0], bench.ids(name)[length // 2]))
        elif what == 6:
            bench.copy(name, chance.choice(NAMES + "xy"))
        elif what == 7:
            bench.rename(name, chance.choice(NAMES))
        elif chance.random() < 0.4:
            bench.remove(name)

    def step(self) -> None:
        bench, chance = self.bench, self.chance
        if self.fails:
            bench.disk.fail_at = 0
        what = chance.random()
        if what < 0.35:
            self.client()
        elif what < 0.38:
            entries = chance.choice((2, 5, 20, 150))
            for name in bench.logs:
                bench.logs[name].node_max_entries = bench.plain[name].node_max_entries = entries
        elif what < 0.4:
            bench.store.set_limit(chance.choice((LIMIT // 2, LIMIT, 16 * LIMIT)))
        elif what < 0.42:
            bench.mover.move_all(lambda: None)
        else:
            if self.fails and chance.random() < 0.3:
                bench.disk.fail_at = bench.disk.operations + chance.randint(1, 4)
                bench.disk.failure = chance.choice((errno.EIO, errno.ENOSPC, "short"))
            if chance.random() < 0.6:
                bench.thread.run_one()
            bench.clock.advance(chance.choice((0, 0, 1_000, 6_000)))
            bench.mover.tick(lambda: chance.random() < 0.3)

    def run(self, steps: int) -> None:
        for number in range(steps):
            self.step()
            if number % 10 == 9:
                if self.fails:
                    self.bench.disk.fail_at = 0
                self.bench.check()
        self.bench.disk.fail_at = 0
        for _ in range(3):
            self.bench.tick(100_000)
        self.bench.check_settled()
        self.bench.close()


@pytest.mark.parametrize("seed", range(60))
def test_any_history(seed):
    History(seed).run(150)


@pytest.mark.parametrize("seed", range(40))
def test_any_history_on_a_disk_that_fails(seed):
    History(seed, fails=True).run(150)
