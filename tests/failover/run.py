"""One run: clients at work, and a primary that is destroyed or cut off again and again."""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain

import redis

from tests.failover.clients import Client, LocalProducer, Producer, Worker, create, wait_for
from tests.failover.machines import REPLICAS, Machine, Machines
from tests.failover.query import Query
from tests.failover.verdict import Entry, Verdict, judge, judge_once

# Destroyed; cut off; and destroyed, and started again at once, empty, with its clients still at work.
DESTROYED, CUT_OFF, EMPTIED = "destroyed", "cut-off", "emptied"
PROMISED = "orders"  # what its producers wait for both replicas for
# Measured, not promised: the stream, the replicas that its producer waits for, whether it is on the primary's machine.
MEASURED = (("wait-1", 1, False), ("wait-0", 0, False), ("local-0", 0, True))
# How far the replicas are when it happens: level; one behind by a moment; and this one is what the priorities prefer.
LEVEL, BEHIND, PREFERRED = "replicas level", "one replica behind", "the replica behind has priority"
PRIORITY = 100
PROGRESS_S = 60.0
PAGE = 5_000


@dataclass
class Result:
    """What a run found. losses: of each measured stream and circumstance the entries that each failover lost."""

    verdict: Verdict = field(default_factory=Verdict)
    failovers: Counter[str] = field(default_factory=Counter)
    switched_s: list[float] = field(default_factory=list)
    losses: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    told: int = 0
    tries: int = 0
    jobs: int = 0
    rows: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """Return the run in words."""
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.failovers.items()))
        told = (
            f"{self.told:,} entries told as stored, {self.jobs:,} jobs acknowledged, {self.rows:,} rows through Spark"
        )
        lines = [f"{self.failovers.total()} failovers ({counts}) in {self.seconds:.0f} s; {told}"]
        if self.switched_s:
            middle, longest = statistics.median(self.switched_s), max(self.switched_s)
            lines.append(f"another server was the primary after {middle:.1f} s (median), {longest:.1f} s (longest)")
        for (stream, where), found in sorted(self.losses.items()):
            runs = f"{sum(map(bool, found))} of {len(found)} failovers lost something, {sum(found)} entries in all"
            lines.append(f"not promised: {stream}, {where}: {runs}")
        lines += [f"{count} x the query stopped and was started again: {why}" for why, count in self.stops.items()]
        lines += self.verdict.examples
        verdict = self.verdict
        return [*lines, f"lost {verdict.lost}, doubled {verdict.doubled}, reordered {verdict.reordered}"]


class Run:
    """Clients, and a hand that destroys machines and cuts cables."""

    def __init__(
        self,
        machines: Machines,
        how: list[str],
        parts: list[str],
        seed: int,
        say: Callable[[str], None],
        query: Query | None = None,
    ) -> None:
        self.machines = machines
        self.how = how
        self.chance = random.Random(seed)
        self.say = say
        self.query = query
        self.result = Result()
        self.client = machines.remote_client()
        self.promised: list[Producer] = []
        self.measured: list[Producer] = []
        self.feeders: list[Producer] = []
        self.workers: list[Worker] = []
        self._make(parts)

    def _make(self, parts: list[str]) -> None:
        streams = [PROMISED, *(stream for stream, _, _ in MEASURED), "jobs", "results", "in"]
        for stream in streams:
            create(self.client, stream)
        machines = self.machines
        if "producers" in parts:
            self.promised = [Producer(machines, PROMISED, f"remote-{number}", REPLICAS) for number in range(3)]
            self.promised.append(LocalProducer(machines, PROMISED, "local", REPLICAS))
            for stream, replicas, is_local in MEASURED:
                kind = LocalProducer if is_local else Producer
                self.measured.append(kind(machines, stream, stream, replicas))
        if "groups" in parts:
            done: dict[bytes, bytes] = {}
            self.feeders = [Producer(machines, "jobs", "feeder", REPLICAS)]
            self.workers = [Worker(machines, f"worker-{number}", done) for number in range(2)]
        if self.query is not None:
            self.feeders.append(Producer(machines, "in", "feeder", REPLICAS))

    @property
    def clients(self) -> list[Client]:
        """All threads."""
        return [*self.promised, *self.measured, *self.feeders, *self.workers]

    def run(self, failovers: int) -> Result:
        """Return what came of so many failovers. Raises: AssertionError when something does not come to an end."""
        began = time.monotonic()
        for client in self.clients:
            client.start()
        try:
            if self.query is not None:
                self.query.keep_going()
            for number in range(failovers):
                self._work_for_a_while()
                kind = self.how[number % len(self.how)]
                taken_s = self._fail_over(kind)
                self.say(f"{number + 1} of {failovers}: {kind}, another primary after {taken_s:.1f} s")
            self._work_for_a_while()
            self._finish()
        finally:
            for client in self.clients:
                client.is_over.set()
            for client in self.clients:
                client.join(30)
            if self.query is not None:
                self.query.stop()
        self.result.seconds = time.monotonic() - began
        return self.result

    def _work_for_a_while(self) -> None:
        producers = [*self.promised, *self.measured, *self.feeders]
        before = {producer: producer.next for producer in producers}
        wait_for(self.clients, lambda: all(one.next > before[one] for one in producers), PROGRESS_S)
        if self.query is not None:
            rows = self.query.rows()
            wait_for(self.clients, lambda: self._query_has_more_than(rows), PROGRESS_S * 2)
        time.sleep(self.chance.uniform(0.0, 0.5))

    def _query_has_more_than(self, rows: int) -> bool:
        assert self.query is not None
        self.query.keep_going()
        return self.query.rows() > rows

    def _fail_over(self, kind: str) -> float:
        former = self.machines.named()
        assert former is not None
        lag = self.chance.choice((LEVEL, BEHIND, PREFERRED))
        behind = None if lag == LEVEL else self._leave_behind(former, lag)
        with ExitStack() as stack:
            if kind == CUT_OFF:
                former.cable.cut()
            elif kind == EMPTIED:
                stack.enter_context(self.machines.late_sentinels())
            if kind != CUT_OFF:
                former.destroy(directory_first=self.chance.random() < 0.5)
            if behind is not None:
                former.cable.drop_replica(behind.address)
            if kind == EMPTIED:
                former.start()
                time.sleep(self.chance.uniform(0.5, 4.0))  # until then its replicas ask it for its state
            chosen, taken_s = self.machines.wait_for_another(former, asks=kind == EMPTIED)
        self.result.failovers[kind] += 1
        if kind != EMPTIED:  # then an operator decides when
            self.result.switched_s.append(taken_s)
        self._look(chosen)
        if kind == DESTROYED:
            # Without a word about another it is empty, and takes itself for a primary until Sentinel has seen it.
            former.start(chosen if self.chance.random() < 0.5 else None)
        elif kind == CUT_OFF:
            time.sleep(self.chance.uniform(0.0, 1.0))
            former.cable.mend()
        if behind is not None:
            behind.node.client.config_set("replica-priority", PRIORITY)
        self.machines.wait_until_whole()
        self._measure(kind, lag)
        return taken_s

    def _leave_behind(self, former: Machine, lag: str) -> Machine:
        """Have one replica lack what is written from now on, without a sign of it."""
        chosen = self.chance.choice([machine for machine in self.machines.machines if machine is not former])
        if lag == PREFERRED:
            chosen.node.client.config_set("replica-priority", PRIORITY // 10)
            self.machines.wait_until_seen(chosen, "slave-priority", str(PRIORITY // 10))
        former.cable.hold_replica(chosen.address)
        time.sleep(self.chance.uniform(0.05, 0.8))
        return chosen

    # --- what is looked at -------------------------------------------------------------------------------------------

    def _look(self, primary: Machine) -> None:
        """Compare what producers were told with what the new primary has."""
        for stream, producers in self._producers().items():
            told = {producer.pid: dict(producer.told) for producer in producers}
            judge(self.result.verdict, told, _entries(primary.node.client, stream))

    def _producers(self) -> dict[str, list[Producer]]:
        found: dict[str, list[Producer]] = {}
        for producer in chain(self.promised, self.feeders):
            found.setdefault(producer.stream, []).append(producer)
        return found

    def _measure(self, kind: str, lag: str) -> None:
        """Count what the clients lost that were promised nothing."""
        for producer in self.measured:
            told = dict(producer.told)
            found = Verdict()
            primary = self.machines.named()
            assert primary is not None
            there = {entry_id for entry_id, _ in _entries(primary.node.client, producer.stream)}
            for number, entry_id in told.items():
                if entry_id not in there:
                    found.note("lost", number)
                    producer.told.pop(number)
            where = f"{kind}, {lag}" if isinstance(producer, LocalProducer) else lag
            self.result.losses.setdefault((producer.stream, where), []).append(found.lost)

    def _finish(self) -> None:
        """Let the producers end, the workers and the query catch up, and look at everything."""
        result = self.result
        for producer in chain(self.promised, self.measured, self.feeders):
            producer.is_over.set()
            producer.join(30)
        primary = self.machines.named()
        assert primary is not None
        self._look(primary)
        result.told = sum(len(producer.told) for producer in chain(self.promised, self.feeders))
        result.tries = sum(producer.tries for producer in chain(self.promised, self.feeders))
        client = primary.node.client
        if self.workers:
            jobs = [b"%b:%b" % (fields[b"p"], fields[b"n"]) for _, fields in _entries(client, "jobs")]
            wait_for(self.clients, lambda: _is_done(client), PROGRESS_S)
            results = [fields[b"job"] for _, fields in _entries(client, "results")]
            judge_once(result.verdict, "results", jobs, results)
            result.jobs = len(results)
            for entry_id, count in sum((worker.again for worker in self.workers), Counter()).items():
                result.verdict.note("doubled", ("given again", entry_id, count))
        if self.query is not None:
            wanted = [fields[b"n"] for _, fields in _entries(client, "in")]
            self.query.catch_up(len(wanted))
            found = [(entry_id, {b"p": b"query", **fields}) for entry_id, fields in _entries(client, "out")]
            judge(result.verdict, {}, found)
            judge_once(result.verdict, "rows", wanted, [fields[b"n"] for _, fields in found])
            result.rows, result.stops = len(found), self.query.stops


def _is_done(client: redis.Redis) -> bool:
    (group,) = client.xinfo_groups("jobs")
    return group["pending"] == 0 and group["lag"] == 0


def _entries(client: redis.Redis, stream: str) -> list[Entry]:
    """Return all entries of a stream."""
    found: list[Entry] = []
    start = "-"
    while page := client.xrange(stream, min=start, count=PAGE):
        found += page
        start = "(" + page[-1][0].decode()
    return found
