"""The orders in which a server's clients, its cron and the jobs of its threads can follow each other, and crashes."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from streamd.journal import manifest
from streamd.journal.manifest import Manifest, Part
from streamd.net.moving import Moving
from streamd.stream.stream import Stream
from tests.cold.cold_restartable import PLACE, ColdRestartable
from tests.crash.restartable import Job
from tests.crash.simulated_disk import SimulatedDisk

# Memory is short from half of it on, and a list with half of it is moved: three entries.
LIMIT = 8 * 1024
VALUES = [random.Random(number).randbytes(1_500) for number in range(100)]


class Thread:
    """Stands for the mover's thread; its jobs wait in `jobs`."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Callable[[], None], done: Any) -> Job:
        self.jobs.append(Job(self, job, done))
        return self.jobs[-1]

    def close(self) -> None:
        assert not self.jobs


class Backup:
    """A copy of a server's journal, which is taken in steps."""

    def __init__(self, run: "Run") -> None:
        self.run = run
        self.is_begun = False
        self.client = run.server.connect()
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.entries: object = None
        self.is_compared = False

    @property
    def can_go_on(self) -> bool:
        """Whether the next request gets something new."""
        is_ready = not self.is_begun or self.names or not self.run.server.persistence.rewriting.progress[1]
        return bool(is_ready) and not self.is_compared

    def go_on(self) -> None:
        """Ask once more; at last start on the copy, and see that it is the state of the mark."""
        self.is_begun = True
        backups = self.run.server.persistence.backups
        if not self.names:
            self.names = [name for name, _ in backups.begin(self.client) or ()]
        elif not self.sizes:
            self.sizes = backups.mark(self.client)
            self.entries = self.run.entries(self.run.server)
        elif not self.is_compared:
            disk = SimulatedDisk()
            for number, (name, size) in enumerate(zip(self.names, self.sizes, strict=True)):
                with closing(disk.create(PLACE + name)) as file:
                    file.write_at(0, backups.read(self.client, number, 0, size))
            backups.end(self.client)
            base, *increments = [Part(name, 1, "i") for name in self.names if name.endswith(".aof")]
            manifest.replace(disk, PLACE[:-1], "appendonly.aof.manifest", Manifest(base._replace(kind="b"), increments))
            again = ColdRestartable(disk, self.run.server.clock, stream_node_max_entries=1)
            assert self.run.entries(again) == self.entries
            self.is_compared = True


class Run:
    """A server on its way: `do` has one thing happen.

    c: the next request of the script. t: some seconds pass, and the cron runs. j: the oldest job of the journal. m: the
    oldest one of the mover. b: a backup begins, or asks again whether it has; notes its mark; reads all.
    """

    def __init__(
        self, script: list[list[str]], ticks: int, seconds: int = 1, faults: str = "", extra: str = ""
    ) -> None:
        self.seconds = seconds
        self.script = [words for words in script if words != ["-"]]
        self.ticks = ticks
        self.faults = faults
        self.disk = SimulatedDisk()
        self.disk.forgets = True
        self.server = ColdRestartable(
            self.disk, at_once=False, is_quick=True, stream_node_max_entries=1, auto_aof_rewrite_percentage=0
        )
        self.thread = Thread()
        self.moving = Moving(self.server.engine.state, lambda: self.thread, self.server.persistence.rewriting.plan)
        self.server.store.set_limit(LIMIT)
        self.done = 0
        self.states = [self.entries(self.server)]  # behind each request
        self.backup = Backup(self) if "b" in extra else None
        self.merges: list[object] = []
        self.moving.look()
        mover: Any = self.server.engine.state.mover
        survey = mover._survey_and_merge

        def watched(output: Any) -> Iterator[bool]:
            yield from survey(output)
            if output.rows:
                self.merges.append(output)

        mover._survey_and_merge = watched
        self.begin_faults()

    def begin_faults(self) -> None:
        """Have the server do something wrong."""
        files = self.server.store.files
        if self.faults == "not synced":
            files.sync = lambda one: setattr(one, "is_durable", True)
        elif self.faults == "unlinked while a base names it":
            release = files.release

            def release_all(one: Any, holder: str) -> None:
                release(one, holder)
                if holder == "stream" and not one.holders["stream"]:
                    one.holders.clear()
                    files._dead.append((one.number, one.path))

            files.release = release_all

    def choices(self) -> str:
        """Return what can happen next."""
        return (
            ("c" if self.done < len(self.script) else "")
            + ("t" if self.ticks else "")
            + ("j" if self.server.jobs else "")
            + ("m" if self.thread.jobs else "")
            + ("b" if self.backup is not None and self.backup.can_go_on else "")
        )

    def do(self, what: str) -> None:
        server = self.server
        if what == "c":
            words = [VALUES[int(word[1:])] if word[0] == "$" else word for word in self.script[self.done]]
            self.done += 1
            server.send(*words)
            self.states.append(self.entries(server))
        elif what == "t":
            self.ticks -= 1
            server.clock.advance(1_000 * self.seconds)
            self.moving.look()
            server.engine.cron()
            server.end_turn()
        elif what == "j":
            server.jobs[0].wait()
        elif what == "b":
            assert self.backup is not None
            self.backup.go_on()
        else:
            self.thread.jobs[0].wait()

    def finish(self) -> None:
        """Let all that is under way come to its end, and the journal be rewritten; see that no file is left over."""
        if self.backup is not None:
            self.server.persistence.backups.end(self.backup.client)
            self.backup = None
        for _ in range(3):
            self.settle()
            self.script = [*self.script[: self.done], ["BGREWRITEAOF"], *self.script[self.done :]]
            self.do("c")
        assert set(self.server.segments()) == self.files_of(self.server)
        self.check(self.disk.cut_power(1))

    def prepare(self, first: list[list[str]], ticks: int) -> None:
        """Do what comes first."""
        for words in first:
            if words == ["-"]:
                self.settle()
            else:
                self.do("c")
        self.ticks = ticks

    def settle(self) -> None:
        """Let all that is under way come to its end, but the script and the backup."""
        for _ in range(8):
            self.ticks = 1
            while choices := [what for what in self.choices() if what in "tjm"]:
                self.do(choices[-1])

    def files_of(self, server: ColdRestartable) -> set[str]:
        lists = [value.log.sealed for value in server.engine.state.keyspace[0].values.values()]
        return {stretch.file.path for one in lists if one is not None for stretch in one.rows.stretches}

    def key(self) -> object:
        """Return what tells this state from others: two that are equal go on in the same way."""
        state = self.server.engine.state
        lists = [
            (
                key,
                value.log.sealed
                and [(s.file.number, s.low, s.high, s.gone_count) for s in value.log.sealed.rows.stretches],
            )
            for key, value in state.keyspace[0].values.items()
        ]
        disk = self.disk
        inodes = {id(one): one for names in (disk.names, disk.durable_names) for one in names.values()}
        contents = {number: (bytes(one.data), one.durable, repr(one.writes)) for number, one in inodes.items()}
        names = [
            [(path, contents[id(one)]) for path, one in names.items()] for names in (disk.names, disk.durable_names)
        ]
        rewrite = self.server.persistence.journal.rewrite
        return hash(
            repr(
                (
                    self.done,
                    self.backup
                    and (self.backup.is_begun, self.backup.is_compared, self.backup.names, self.backup.sizes),
                    self.ticks,
                    len(self.server.jobs),
                    len(self.thread.jobs),
                    lists,
                    names,
                    rewrite is None,
                )
            )
        )

    def happened(self) -> set[str]:
        """Return what has happened so far."""
        server, found = self.server, set()
        files = server.store.files
        here, named = self.files_of(server), {one.path for one in files._whole.values() if one.holders["base"]}
        if here:
            found.add("moved")
        if here & named:
            found.add("named")
        if named - here:
            found.add("named alone")
        if self.merges:
            found.add("merged")
        if self.backup is not None and self.backup.is_compared:
            found.add("backed up")
        return found

    # Crashes.

    def entries(self, server: ColdRestartable) -> dict[bytes, list[Any]]:
        store = server.store
        if store is not None:
            store.in_place += 1
        found = {
            key: list(value.log.iterate())
            for key, value in server.engine.state.keyspace[0].values.items()
            if isinstance(value, Stream)
        }
        if store is not None:
            store.in_place -= 1
        return found

    def check(self, disk: SimulatedDisk) -> None:
        """Start on a disk, and see that all is there that was acknowledged, and no file too many."""
        acknowledged = len(self.server.replies[self.server.client])
        again = ColdRestartable(disk, self.server.clock, stream_node_max_entries=1)
        assert self.entries(again) in self.states[acknowledged:]
        known = {one.path for one in again.store.files._whole.values()} if again.store is not None else set()
        assert set(again.segments()) == known
        again.persistence.journal.close()

    def crash(self, seed: int) -> None:
        """Check what a kill and a power cut leave."""
        self.check(self.disk.kill())
        self.check(self.disk.cut_power(seed))


def explore(
    before: list[str],
    script: list[str],
    ticks: int,
    runs_max: int,
    seconds: int = 1,
    seed: int = 0,
    faults: str = "",
    extra: str = "",
) -> Counter[str]:
    """Run every order of a script and `ticks` runs of the cron, with a crash in each state; states that were met before
    are not gone on from. before: requests that come first; `-` lets all that is under way come to its end.

    Each run begins as another one did, takes another turn somewhere, and goes on to the end. Return how many runs there
    were, how many beginnings were left because of `runs_max`, and in how many states something had happened.
    """
    found: Counter[str] = Counter()
    first, requests = [line.split() for line in before], [line.split() for line in script]
    chance = random.Random(seed)
    waiting: list[str] = [""]
    seen: set[object] = set()
    while waiting and found["runs"] < runs_max:
        at = chance.randrange(len(waiting))
        waiting[at], waiting[-1] = waiting[-1], waiting[at]
        path = waiting.pop()
        run = Run([*first, *requests], ticks, seconds, faults, extra)
        found["runs"] += 1
        try:
            run.prepare(first, ticks)
            for what in path:
                run.do(what)
            while (key := run.key()) not in seen:
                seen.add(key)
                run.crash(len(seen))
                found.update(run.happened())
                choices = run.choices()
                if not choices:
                    break
                what = chance.choice(choices)
                waiting += [path + other for other in choices if other != what]
                path += what
                run.do(what)
            run.finish()
        except Exception as error:
            raise AssertionError(f"{path}: {error!r}") from error
    found["left"], found["states"] = len(waiting), len(seen)
    return found
