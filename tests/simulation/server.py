"""A server of a simulation: it is stopped, killed, without power, destroyed, and starts again on what its disk has."""

from collections.abc import Callable
from typing import Any

from streamd.durability.persistence import Persistence
from streamd.journal.jobs import Done
from streamd.replication.following import Link
from tests.crash.restartable import Job
from tests.crash.simulated_disk import SimulatedDisk
from tests.replication.cluster import Node
from tests.simulation.world import SimulatedWorld

_CRON_EVERY_MS = 100


class SimulatedNode(Node):
    """A server of a simulated world.

    is_off: its machine has no power, or is gone. has_lost: it lacks what its disk has lost, and has not got it from its
    primary yet; said of one that has ended, too. began_with_loss: this process began so. is_emptied: it began with
    nothing, as a primary.
    """

    is_emptied = False

    world: SimulatedWorld

    def __init__(self, world: SimulatedWorld, port: int, disk: SimulatedDisk | None = None, **options: Any) -> None:
        self.is_off = False
        self.has_lost = self.began_with_loss = False
        self.slow_disk_ms = world.disks_ms.get(port, 0)
        self.kills_at_turn = 0
        self._deferred: list[Callable[[], None]] = []
        world.where = str(port)
        super().__init__(world, port, disk, **options)
        self.do(world.chance.randrange(_CRON_EVERY_MS), self._tick)

    def _make_persistence(self) -> Persistence:
        state, chance = self.engine.state, self.world.chance
        state.random.seed(chance.getrandbits(64))
        state.run_id = f"{state.random.getrandbits(160):040x}"
        state.config.values["repl-backlog-size"] = self.world.ring_bytes
        persistence = super()._make_persistence()
        begin = persistence.begin

        def begin_and_look() -> None:
            begin()
            side = self.replication.side
            taken = side._taken

            def note_taken() -> None:
                self._note_taken()
                taken()

            side._taken = note_taken  # type: ignore[method-assign]
            side.link.copy_anew = lambda: self._copy_anew(side.link)  # type: ignore[method-assign]

        persistence.begin = begin_and_look  # type: ignore[method-assign]
        return persistence

    def _copy_anew(self, link: Link) -> None:
        """Only behind a fault of a disk a frame may not fit."""
        assert self.world.has_bad_disk, "a frame does not fit this state"
        Link.copy_anew(link)

    def _note_taken(self) -> None:
        wire = getattr(self.network, "wire", None)
        is_lacking = wire is not None and wire.server.began_with_loss and wire.server.has_lost
        if is_lacking and not self.has_lost and wire is not None and wire.server.is_emptied:
            self.world.replaced.append(f"the data of {self.port} were replaced by those of {wire.server.port}")
        if is_lacking and not self.has_lost:
            self.world.note("has the state of a server whose disk has lost something")
        self.has_lost = self.began_with_loss = is_lacking

    # -- its time -------------------------------------------------------------------------------------------------

    def do(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let this process do something after a delay, unless it has ended by then."""
        self.world.later(delay_ms, lambda: self._do(action))

    def _do(self, action: Callable[[], None]) -> None:
        if not self.is_alive:
            return
        if self.is_stopped:
            self._deferred.append(action)
            return
        self.world.where = str(self.port)
        action()

    def _tick(self) -> None:
        self.engine.tick()
        self._cron()
        self.do(_CRON_EVERY_MS, self._tick)

    def _cron(self) -> None:
        if self.engine.cron():
            self.do(1, self._cron)

    def submit(self, job: Callable[[], None], done: Done, is_timed: bool = False) -> Job:
        handed = super().submit(job, done, is_timed)
        chance = self.world.chance
        took_ms = chance.randrange(4) if chance.random() < 0.9 else chance.randrange(40)
        self.do(took_ms + chance.randrange(self.slow_disk_ms + 1), handed.wait)
        return handed

    def end_turn_soon(self) -> None:
        if not self._ends_turn:
            self._ends_turn = True
            self.do(0, self._end_turn_later)

    def _end_turn_later(self) -> None:
        if self.kills_at_turn:
            self.kills_at_turn -= 1
            if not self.kills_at_turn:
                self.world.note("killed in front of the end of a turn")
                self.die()
                return
        super()._end_turn_later()

    def _died(self, reason: str) -> None:
        super()._died(reason)
        self.world.note(f"has given up: {reason}")
        self.world.later(0, lambda: self.die() if self.is_alive else None)

    # -- what happens to it ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Stop it, as SIGSTOP does."""
        self.is_stopped = True

    def go_on(self) -> None:
        """Let it go on, as SIGCONT does."""
        self.is_stopped = False
        deferred, self._deferred = self._deferred, []
        for action in deferred:
            self.do(0, action)
        self.world.net.wake()

    def die(self, is_off: bool = False) -> None:
        """End as by kill -9, or with the machine's power."""
        self.is_alive = False
        self.is_off = is_off
        self.jobs.clear()
        for wire in self.world.net.wires:
            if wire.server is self and not wire.is_closed_there:
                wire.server_died(is_off)
            if wire.owner is self and not wire.is_closed_here:
                wire.owner_died(is_off)
        self.world.net.clean()

    def start_again(self, disk: SimulatedDisk | None = None) -> "SimulatedNode":
        """Start a new process on a disk, or on what the dead one has left."""
        world = self.world
        assert not self.is_alive
        after = SimulatedNode(world, self.port, disk or self.disk.kill(), **self.options)
        after.has_lost = after.began_with_loss = self.has_lost
        after.is_emptied = self.is_emptied and self.has_lost
        for wire in world.net.wires:
            if wire.is_dark and (wire.server is self or wire.owner is self):
                world.later(world.chance.randrange(1_500), wire.light)
        return after
