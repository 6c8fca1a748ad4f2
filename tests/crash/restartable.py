"""An engine with a journal on a simulated disk, which can be killed and started again, without sockets, threads or
time.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from streamd.base.clock import ManualClock
from streamd.catalog import COMMANDS, CommandTable, Context
from streamd.configuration.server_options import Config
from streamd.durability.persistence import Persistence
from streamd.engine.engine import Engine
from streamd.journal.jobs import Done
from tests.crash.simulated_disk import SimulatedDisk
from tests.engines import noted

_COMMANDS = COMMANDS.copy_for_server()
DIRECTORY = "data"
INCREMENT = "data/appendonlydir/appendonly.aof.1.incr.aof"


class Job:
    """A job that runs when the test says so."""

    def __init__(self, owner: "Restartable", job: Callable[[], None], done: Done) -> None:
        self.ended = False
        self._owner = owner
        self._job = job
        self._done = done

    def wait(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self in self._owner.jobs:
            self._owner.jobs.remove(self)
        failure: BaseException | None = None
        try:
            self._job()
        except BaseException as error:
            failure = error
        self._done(failure)


class Restartable:
    """A server without a network.

    replies: client -> what has left towards it. jobs: syncs that were handed out; with `at_once` they run at the end
    of each turn. is_quick: syncs that all output waits for are done within the turn. dead: why the journal gave up, or
    None.
    """

    def __init__(
        self,
        disk: SimulatedDisk | None = None,
        clock: ManualClock | None = None,
        at_once: bool = True,
        is_quick: bool = False,
        **options: Any,
    ) -> None:
        self.disk = disk or SimulatedDisk()
        self.clock = clock or ManualClock(1_700_000_000_000)
        self.options = {"appendfsync": "always", "appendonly": True, **options}
        self.at_once = at_once
        self.is_quick = is_quick
        self.jobs: list[Job] = []
        self.dead: str | None = None
        self.replies: dict[Context, list[bytes]] = {}
        # One table of commands for all: copying it would be half of a start's time.
        with patch.object(CommandTable, "copy_for_server", lambda table: _COMMANDS):
            self.engine = noted(Engine(self.clock, Config(**self.options)))
        self.engine.calls.stopwatch = lambda: 0
        self.persistence = self._make_persistence()
        self.persistence.open()
        for _ in self.persistence.load():
            pass
        self.persistence.begin()
        self.client = self.connect()

    def _make_persistence(self) -> Persistence:
        state = self.engine.state
        return Persistence(state, self.disk, DIRECTORY, self, self.submit, self._died, self.engine.serve)

    def turn_off(self) -> None:
        """End the journal, as CONFIG SET appendonly no does."""
        self.persistence.close()

    def turn_on(self) -> None:
        """Begin a journal while the server runs, as CONFIG SET appendonly yes does."""
        self.persistence = self._make_persistence()
        self.persistence.begin_anew()

    def submit(self, job: Callable[[], None], done: Done, is_timed: bool = False) -> Job:
        """Keep a job until the test says that it runs."""
        handed = Job(self, job, done)
        self.jobs.append(handed)
        return handed

    def run_if_quick(self, job: Callable[[], None]) -> bool:
        """Run a job within the turn if the disk is said to be quick."""
        if self.is_quick:
            job()
        return self.is_quick

    def _died(self, reason: str) -> None:
        self.dead = reason

    def connect(self) -> Context:
        """Return a new client."""
        client = self.engine.connect()
        left = self.replies[client] = []

        def flush() -> None:
            left.extend(client.out)
            client.out.clear()

        client.flush = flush
        return client

    def run(self, *requests: list[bytes], client: Context | None = None) -> None:
        """Execute requests without ending the turn."""
        self.engine.run(client or self.client, [list(request) for request in requests])

    def send(self, *words: bytes | str, client: Context | None = None) -> bytes | None:
        """Execute one request in a turn of its own; return the reply, None if none has left."""
        client = client or self.client
        before = len(self.replies[client])
        self.run([word.encode() if isinstance(word, str) else word for word in words], client=client)
        self.end_turn()
        replies = self.replies[client][before:]
        assert len(replies) <= 1, replies
        return replies[0] if replies else None

    def end_turn(self) -> None:
        """End the turn; with `at_once` also the syncs that it needs."""
        self.engine.end_turn()
        while self.at_once and self.jobs:
            self.jobs[0].wait()

    def cron(self) -> None:
        """Do what time demands until nothing more is due, syncs included."""
        while self.engine.cron() or (self.at_once and self.jobs):
            while self.at_once and self.jobs:
                self.jobs[0].wait()

    def rewrite(self) -> bytes | None:
        """Rewrite the journal to the end; return BGREWRITEAOF's reply."""
        reply = self.send("BGREWRITEAOF")
        self.cron()
        return reply

    def restart(self, disk: SimulatedDisk | None = None, **options: Any) -> "Restartable":
        """Start again on what a killed process has left, or on `disk`."""
        options = {**self.options, **options}
        return Restartable(disk or self.disk.kill(), self.clock, self.at_once, self.is_quick, **options)
