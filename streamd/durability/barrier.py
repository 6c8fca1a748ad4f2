"""The barrier: a turn's output leaves when the journal is as durable as the policy demands."""

import os
from collections import deque
from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.base.log import log
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.journal.jobs import Done, Pending, Syncs
from streamd.journal.journal import Journal

# Redis: a second between two syncs, and a write that waits no longer than two for one that is under way.
SYNC_EVERY_MS: Final = 1_000
SYNC_LATE_MS: Final = 2_000


class Barrier:
    """Decides when the output of clients leaves.

    A turn is written with one operation. `no`, `everysec`: then its output leaves; a sync a second runs beside. If such
    a sync is late (2 s), output waits for it, which bounds the loss under everysec. `always`: the turn's output is held
    until a sync that began after the write has ended; the next turns run meanwhile, and share the next sync. Replies to
    reads are held as well: no client sees a state that could still be lost.

    held_us: told how long output has waited, once for each turn that has.

    A failure under `always` is the end: nothing leaves any more, `on_fatal` is called once. Under the other policies
    the writers of that turn get an error in place of their replies, and writes are refused until it works again.
    """

    def __init__(self, state: State, journal: Journal, syncs: Syncs, on_fatal: Callable[[str], None]) -> None:
        self._state = state
        self._journal = journal
        self._syncs = syncs
        self._on_fatal = on_fatal
        self._held: deque[tuple[int, Client, list[bytes]]] = deque()
        self._holds: dict[Client, int] = {}
        self._pending: Pending | None = None
        self._sync_started_ms = 0
        self._looked_ms = 0
        self._sync_wanted = False
        self._next_job: tuple[Callable[[], None], Done] | None = None
        self.writers: list[Client] = []  # of the running turn; one that wrote twice may be there twice
        self.ship: Callable[[list[Client]], None] = lambda writers: None
        self.on_synced: Callable[[], None] = lambda: None
        self.on_sync_failed: Callable[[], None] = lambda: None
        self.is_dead = False
        self.write_failed: BaseException | None = None
        self.sync_failed: BaseException | None = None
        self.delayed_syncs = 0
        self.held_us: Callable[[float], None] | None = None
        self._held_since: deque[tuple[int, int]] = deque()

    # -- the end of a turn ----------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Write the turn's records; let its output leave, or hold it."""
        state, journal = self._state, self._journal
        clients, state.to_flush = state.to_flush, []
        if self.is_dead:
            self.writers.clear()
            return
        assert journal.writer is not None
        if journal.writer.has_units:
            try:
                journal.write()
                if self.write_failed is not None:
                    self.write_failed = None
                    self._refuse_writes()
            except Exception as error:
                if self._always:
                    self._note_if_bug(error)
                    self.die(f"cannot write to {journal.directory}: {reason_of(error)}")
                    return
                self._fail_write(error)
                self._take_back()
        if journal.writer.shipped is not None:
            self.ship(self.writers)
            if state.to_flush:
                clients += state.to_flush
                state.to_flush = []
        self.writers.clear()
        always = state.config.values["appendfsync"] == "always"
        if self._pending is None and (
            self._sync_wanted or (always and not self._held and journal.synced_writes < journal.writes)
        ):
            if not (always and self._sync_now()):
                self._start_sync()
            if self._has_died():
                return
        if self._held or (
            (always or self._pending is not None)
            and journal.synced_writes < journal.writes
            and (always or self._is_late())
        ):
            ticket = journal.writes
            if self.held_us is not None:
                self._held_since.append((ticket, state.clock.monotonic_us()))
            for client in clients:
                client.flush_wanted = False
                self._held.append((ticket, client, client.out[:]))
                client.out.clear()
                self._holds[client] = self._holds.get(client, 0) + 1
            if self._held and self._pending is None:
                self._start_sync()
            return
        state.flush(clients)

    @property
    def _always(self) -> bool:
        return self._state.config.values["appendfsync"] == "always"

    def _is_late(self) -> bool:
        return self._pending is not None and self._now_ms() - self._sync_started_ms > SYNC_LATE_MS

    def _now_ms(self) -> int:
        return self._state.clock.monotonic_us() // 1000

    def release_all(self) -> None:
        """Release held output: the journal ends, and all of it is on the disk."""
        self._state.refuse_writes(None)
        self._release()

    def _release(self) -> None:
        """Release output that is durable enough."""
        always = self._always
        synced = self._journal.synced_writes
        while self.held_us is not None and self._held_since and (not always or self._held_since[0][0] <= synced):
            since_us = self._held_since.popleft()[1]
            self.held_us(self._state.clock.monotonic_us() - since_us)
        while self._held and (not always or self._held[0][0] <= synced):
            _, client, chunk = self._held.popleft()
            left = self._holds[client] - 1
            if left:
                self._holds[client] = left
            else:
                del self._holds[client]
            if client.closed:
                continue
            # `out` may have newer replies already, which have to wait for their own turn's sync.
            newer = client.out[:]
            client.out[:] = chunk
            closing, client.close_soon = client.close_soon, client.close_soon and not (newer or left)
            self._state.guard(client, "the output of a client", client.flush)
            client.close_soon = closing or client.closed
            client.out.extend(newer)

    # -- syncing --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Do the work that is due: the sync of every second, and another try after a failure."""
        if self.is_dead:
            return
        journal = self._journal
        if self.write_failed is not None:
            try:
                journal.write()
                self.write_failed = None
                self._refuse_writes()
            except Exception as error:
                self._fail_write(error)
        if self._now_ms() - self._looked_ms >= SYNC_EVERY_MS:
            self._look()
            if self._has_died():
                return
        if self._pending is None and journal.synced_writes < journal.writes:
            policy = self._state.config.values["appendfsync"]
            due = self._now_ms() - self._sync_started_ms >= SYNC_EVERY_MS
            if policy == "always" or self._sync_wanted or (policy == "everysec" and due):
                self._start_sync()
        elif self._pending is None and self.write_failed is None and self.sync_failed is None:
            try:
                assert journal.writer is not None
                journal.writer.note_synced()
            except Exception as error:
                self._fail_write(error)

    def _look(self) -> None:
        """Check that the journal's files still exist: the system writes to a removed one without an error."""
        self._looked_ms = self._now_ms()
        if self.sync_failed is None:
            try:
                self._journal.check_places()
            except Exception as error:
                self._fail_sync(error)

    def want_sync_soon(self) -> None:
        """Sync this turn's records at its end, under any policy (WAITAOF)."""
        self._sync_wanted = True

    def drop_unanswered(self) -> None:
        """Close the connections of clients whose writes were not answered, without an answer: who cannot tell whether
        these last must not say that they do.
        """
        for client in dict.fromkeys([*self._holds, *self.writers]):
            client.out.clear()
            client.kill()
        self._held.clear()
        self._holds.clear()
        self._held_since.clear()

    @property
    def is_holding(self) -> bool:
        """Whether some output waits."""
        return bool(self._held) and not self.is_dead

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way."""
        return self._pending is not None

    def run_job(self, job: Callable[[], None], done: Done) -> None:
        """Run a job in place of the next sync: only one is under way at a time."""
        assert self._next_job is None
        self._next_job = (job, done)
        if self._pending is None:
            self._start_sync()

    def drain(self) -> None:
        """Return when no job is under way."""
        while self._pending is not None:
            self._pending.wait()

    def wait_for(self, client: Client) -> None:
        """Return once no output of a client is held."""
        while client in self._holds and self._pending is not None:
            self._pending.wait()

    def _sync_now(self) -> bool:
        """Sync within the turn, if syncs are quick: then no output is held. Return whether that was done."""
        began_us = self._state.clock.monotonic_us() if self.held_us is not None else 0
        try:
            if self._next_job is not None or not self._syncs.run_if_quick(self._journal.sync):
                return False
        except Exception as error:
            self._fail_sync(error)
            return True
        if self.held_us is not None:
            self.held_us(self._state.clock.monotonic_us() - began_us)
        self._sync_wanted = False
        self.on_synced()
        return True

    def _start_sync(self) -> None:
        is_timed = self._always and self._next_job is None
        if self._next_job is not None:
            (job, done), self._next_job = self._next_job, None
        else:
            self._sync_wanted = False
            job, synced = self._journal.start_sync()

            def done(error: BaseException | None) -> None:
                if error is None:
                    synced()
                else:
                    self._fail_sync(error)

        self._sync_started_ms = self._now_ms()

        def ended(error: BaseException | None) -> None:
            if self._now_ms() - self._sync_started_ms > SYNC_LATE_MS:
                self.delayed_syncs += 1
            self._pending = None
            try:
                done(error)
            except Exception:  # what waits for this job goes on all the same
                self._state.note_bug("the end of a job of the journal")
            if self.is_dead:
                return
            self._release()
            self.on_synced()
            if not self.is_busy and (self._next_job is not None or self._held or self._sync_wanted):
                self._start_sync()

        pending = self._syncs.submit(job, ended, is_timed)
        if not pending.ended:
            self._pending = pending

    # -- failures -------------------------------------------------------------------------------------------------

    def _has_died(self) -> bool:
        """Return `is_dead` now: compiled code would keep the value from before a call."""
        return self.is_dead

    def die(self, reason: str) -> None:
        """Acknowledge nothing any more: the journal, or another part, has failed."""
        self.is_dead = True
        self._held.clear()
        self._on_fatal(f"{reason}; nothing was acknowledged that is not on the disk")

    def _note_if_bug(self, error: BaseException) -> None:
        if not isinstance(error, OSError):
            self._state.note_bug("the journal", error=error)

    def _fail_write(self, error: Exception) -> None:
        """Refuse writes until the failed one succeeds."""
        if self.write_failed is None:
            self._note_if_bug(error)  # with that a rewrite is wanted, whose files take the place of this one
        self.write_failed = error
        self._refuse_writes()

    def _fail_sync(self, error: BaseException) -> None:
        """End under `always`; else have the journal rewritten: the system may have dropped unwritten data."""
        if self._always:
            self._note_if_bug(error)
            self.die(f"cannot sync {self._journal.directory}: {reason_of(error)}")
            return
        if self.sync_failed is None:
            self._note_if_bug(error)
            log.warning(
                "journal-sync-failed",
                "cannot sync %s: %s; writes are refused until it is rewritten",
                self._journal.directory,
                reason_of(error),
            )
        self.sync_failed = error
        self._refuse_writes()
        self.on_sync_failed()

    def note_rewritten(self) -> None:
        """Note that a rewrite has made the journal whole."""
        self.sync_failed = self.write_failed = None
        self._refuse_writes()

    def _refuse_writes(self) -> None:
        error = self.write_failed or self.sync_failed
        if error is None:
            self._state.refuse_writes(None)
        else:
            number = error.errno if isinstance(error, OSError) else None
            text = os.strerror(number) if number else reason_of(error)
            self._state.refuse_writes(CommandError(f"MISCONF Errors writing to the AOF file: {text}"))

    def _take_back(self) -> None:
        """Replace the replies of this turn's writers by an error: their writes are applied, but may not last."""
        assert self._state.write_error is not None
        for client in dict.fromkeys(self.writers):
            client.take_back(self._state.write_error)
