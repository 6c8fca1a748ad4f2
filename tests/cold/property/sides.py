"""Two servers with connections on one clock: one with all entries in memory, one with hardly any."""

import random
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from streamd.base.clock import ManualClock
from streamd.cold.files import REPLY
from streamd.cold.mover import Mover
from streamd.cold.store import ColdStore
from streamd.durability.persistence import Persistence
from streamd.net.connection import Connection
from streamd.net.moving import lists_of
from tests.cold.jobs_at_hand import JobsAtHand
from tests.connected import Host, encoded
from tests.crash.restartable import DIRECTORY, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

MIB = 1024 * 1024
PROTOCOLS = [2, 3, 2, 3]
# The last client has the keyspace events.
LISTENER = len(PROTOCOLS) - 1
Words = list[bytes]


def counted(counts: dict[str, int], name: str, work: Any) -> Any:
    """Return a function that counts how often it calls another one."""

    def run(*arguments: Any) -> Any:
        counts[name] += 1
        return work(*arguments)

    return run


class ColdRestartable(Restartable):
    """A server whose thread for the disk does a job when `beside` is told to."""

    def _make_persistence(self) -> Persistence:
        self.beside = JobsAtHand()
        state = self.engine.state
        submit: Any = self.beside.submit
        return Persistence(state, self.disk, DIRECTORY, self, submit, self._died, self.engine.serve)


class Side(Host):
    """Connections to one server, by their number; the server can be started again.

    bugs: what was noted as one. wants_turn: the engine has work to go on with.
    """

    options: dict[str, Any] = {"stream_node_max_entries": 5}
    kind: type[Restartable] = Restartable

    def __init__(self, clock: ManualClock, rules: Sequence[bytes] = ()) -> None:
        """rules: those of the user that the third client is."""
        self.bugs: list[str] = []
        self.rules = rules
        self.clock = clock
        self.begin(None)

    def close(self) -> None:
        """Free what a server that has run scripts keeps in memory until its end."""
        if hasattr(self, "engine"):
            self.engine.scripts.close()

    def begin(self, disk: SimulatedDisk | None) -> None:
        """Start the server and connect all clients."""
        self.close()
        self.restartable = self.kind(disk, self.clock, True, False, **self.options)
        self.engine = self.restartable.engine
        self.engine.disconnect(self.restartable.client)
        self.connections: set[Connection] = set()
        self.soon: list[Connection] = []
        self.transports: dict[Connection, Any] = {}
        self.wants_turn = False
        self.engine.want_turn = self._want_turn
        self.clients: list[Connection] = []
        self.read: list[int] = []
        for number in range(len(PROTOCOLS)):
            self.clients.append(None)  # type: ignore[arg-type]
            self.read.append(0)
            self.connect(number)
        self.turns()
        self.listen()

    def listen(self) -> None:
        """Have the last client get all events."""
        self.receive(self.clients[0], [[b"CONFIG", b"SET", b"notify-keyspace-events", b"AKE"]], is_shared=False)
        # (A server whose disk does not keep up refuses to grow; not one that has a bound.)
        self.receive(self.clients[0], [[b"CONFIG", b"SET", b"maxmemory", b"1000gb"]], is_shared=False)
        self.receive(self.clients[LISTENER], [[b"PSUBSCRIBE", b"__*"]], is_shared=False)
        self.turns()
        for number in range(len(PROTOCOLS)):
            self.received(number)

    def connect(self, number: int) -> None:
        """Connect a client, which says its protocol."""
        connection = self.clients[number] = self.open()
        self.read[number] = 0
        self.receive(connection, [[b"HELLO", b"%d" % PROTOCOLS[number]]], is_shared=False)
        if self.rules and number == 2:
            self.receive(connection, [[b"ACL", b"SETUSER", b"ann", b"reset", b"on", b"nopass", b"&*", *self.rules]])
            self.receive(connection, [[b"AUTH", b"ann", b"x"]])

    def _want_turn(self) -> None:
        self.wants_turn = True

    def received(self, number: int) -> bytes:
        """Return what has come to a client since the last call."""
        written = self.written(self.clients[number])
        data = written[self.read[number] :]
        self.read[number] = len(written)
        return data

    def send(self, number: int, requests: list[Words], is_shared: bool = False) -> None:
        """Have requests of a client arrive."""
        self.engine.gathering.is_shared = is_shared
        self.clients[number].data_received(b"".join(map(encoded, requests)))

    def settle(self, chance: random.Random) -> None:
        """Run turns until nothing goes on."""
        self.turns()
        while self.wants_turn:
            self.wants_turn = False
            self.engine.tick()
            self.turns()

    def pass_time(self) -> None:
        """Do what the time demands."""
        self.restartable.cron()  # (First: XINFO counts expired iids until it frees them.)
        self.engine.tick()

    def rewrite(self) -> None:
        """Begin a rewrite of the journal."""
        self.restartable.persistence.rewriting.plan()
        self.restartable.cron()

    def restart(self, how: str, seed: int) -> None:
        """End the server in order, by a kill, or by a loss of power, and start it again."""
        if how == "in order":
            failure = self.restartable.persistence.close()
            assert failure is None, failure
        self.check()
        disk = self.restartable.disk
        self.begin(disk.cut_power(seed) if how == "power" else disk.kill())

    def lose(self, number: int) -> None:
        """Forget a client and what it waits for, and connect another one in its place."""
        connection = self.clients[number]
        assert connection.client is not None
        self.engine.disconnect(connection.client)
        connection.connection_lost(None)
        self.soon = [one for one in self.soon if one is not connection]
        self.connect(number)
        self.turns()
        self.received(number)

    def seen(self) -> Any:
        """Return all that clients see."""
        return dump(self.engine)

    def check(self) -> None:
        """Check that the server has met no bug."""
        assert self.engine.state.stats.internal_errors == 0
        assert self.restartable.dead is None, self.restartable.dead


class ColdSide(Side):
    """A server with small blocks and hardly any memory for entries; its threads work when the test says so.

    counts: what has happened, all starts together.
    """

    options = {**Side.options, "stream_memory": 16 * MIB}
    kind = ColdRestartable

    def __init__(
        self, clock: ManualClock, limit_bytes: int, counts: dict[str, int], rules: Sequence[bytes] = ()
    ) -> None:
        self.limit_bytes = limit_bytes
        self.counts = counts
        super().__init__(clock, rules)

    def begin(self, disk: SimulatedDisk | None) -> None:
        super().begin(disk)
        self.restartable.disk.is_cached = False
        self.reader = JobsAtHand()
        self.engine.absences.submit = self.reader.submit
        self.thread = JobsAtHand()
        absences, counts, enter = self.engine.absences, self.counts, self.engine.absences._enter

        def entered(wait: Any) -> None:
            counts["absences"] += 1
            if wait.request is None and wait.unfinished is None:
                counts["absences of blocked commands"] += 1
            enter(wait)

        absences._enter = entered  # type: ignore[method-assign]
        absences._calls.answer = counted(counts, "read in place", absences._calls.answer)  # type: ignore[method-assign]
        self.engine.make_slices.__self__._pause = counted(counts, "pauses", absences.pause)  # type: ignore[attr-defined]
        self.store: ColdStore | None = None
        self.mover: Mover | None = None
        self.look()
        assert self.store is not None

    def look(self) -> None:
        """Have a mover if there is a store."""
        store = self.engine.state.cold
        if store is self.store:
            return
        if self.mover is not None:
            self.mover.close()
        self.store, self.mover = store, None
        if store is not None:
            store.set_limit(self.limit_bytes)
            rewriting, keyspace = self.restartable.persistence.rewriting, self.engine.state.keyspace
            self.mover = Mover(
                store, self.clock, self.thread.submit, lambda: lists_of(keyspace), rewriting.plan, self._note_bug
            )
            self._count(store, self.mover)
        self.engine.state.mover = self.mover

    def turn_off(self) -> None:
        """Have all entries in memory."""
        self.restartable.persistence.set_stream_memory(0)
        self.keep_journal()

    def turn_on(self) -> None:
        """Have entries in segment files again."""
        if self.store is None or not self.store.limit_bytes:
            self.restartable.persistence.set_stream_memory(self.limit_bytes)
            self.keep_journal()

    def _count(self, store: ColdStore, mover: Mover) -> None:
        """Count what goes on in a store."""
        counts, files, cache, merge = self.counts, store.files, store.cache, mover._survey_and_merge
        files.read = counted(counts, "blocks read", files.read)  # type: ignore[method-assign]
        cache._evict = counted(counts, "evictions", cache._evict)  # type: ignore[method-assign]
        files.create = counted(counts, "files", files.create)  # type: ignore[method-assign]

        def merged(output: Any) -> Iterator[bool]:
            yield from merge(output)
            if output.rows:
                counts["merges"] += 1

        mover._survey_and_merge = merged  # type: ignore[method-assign]

    def _note_bug(self, error: BaseException) -> None:
        self.bugs.append("".join(traceback.format_exception(error)))

    # What goes on beside the clients.

    def work(self, chance: random.Random) -> None:
        """Do some of what goes on in a server with segment files."""
        kind = chance.random()
        if kind < 0.35 and self.mover is not None:
            self.mover.tick(lambda: chance.random() < 0.1)
        elif kind < 0.6:
            self.thread.run_one()
        elif kind < 0.7:
            self.restartable.beside.run_one()
            self.keep_journal()
        elif kind < 0.9:
            self.evict(chance)
        else:
            self.keep_journal()

    def keep_journal(self) -> bool:
        """Have the journal do what is due; other chores of the cron are seen by clients, and both servers have them at
        the same time.
        """
        more = self.restartable.persistence.tick()
        self.look()
        self.engine.end_turn()
        return more

    def evict(self, chance: random.Random) -> None:
        """Forget blocks that nothing holds, each with some probability."""
        if self.store is None:
            return
        cache = self.store.cache
        share = chance.choice((0.3, 1, 1))
        for key in [key for key, one in cache._blocks.items() if not one.pins]:
            if chance.random() < share:
                cache.discard(key)
                self.counts["evictions"] += 1
        self.store._held = {}

    def settle(self, chance: random.Random) -> None:
        for _ in range(100_000):
            self.turns()
            if self.wants_turn:
                self.wants_turn = False
                self.engine.tick()
            elif self.reader.waiting:
                if chance.random() < 0.3:
                    self.work(chance)
                if self.reader.waiting:
                    self.reader.waiting[0].wait()  # (The thread does them in order, too.)
            else:
                break
        else:
            raise AssertionError("clients wait for ever")

    def move(self, chance: random.Random) -> None:
        """Have all that can be moved moved, unless moving waits."""
        if self.mover is None:
            return
        self.mover.move_all(lambda: None)
        for _ in range(chance.choice((1, 5, 30))):
            self.mover.tick(lambda: False)
            self.thread.run_one()

    def work_out(self) -> None:
        """Do all jobs and what follows them."""
        for _ in range(30):
            more = self.mover is not None and self.mover.tick(lambda: False)
            more = self.thread.run_one() or more
            more = self.restartable.beside.run_one() or more
            more = self.keep_journal() or more
            if not more:
                break

    def pass_time(self) -> None:
        super().pass_time()
        self.look()

    def restart(self, how: str, seed: int) -> None:
        self.end()
        if how == "in order" and self.mover is not None:
            self.mover.close()
        super().restart(how, seed)

    def end(self) -> None:
        """Check what is to be so once no client waits."""
        self.check()
        store = self.store
        assert not self.bugs, self.bugs
        assert self.engine.state.blocked.reading == 0
        if store is None:
            return
        assert store.in_place == 0
        assert all(not one.pins for one in store.cache._blocks.values())
        assert not store.damaged, store.last_damage
        store.settle()
        assert all(not one.holders[REPLY] for one in store.files._open.values())

    def seen(self) -> Any:
        if self.store is None:
            return super().seen()
        with self.store.at_once():
            return super().seen()
