"""The threads that write and sync beside the loop."""

import asyncio
from _thread import allocate_lock
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns

from streamd.journal.jobs import Done

# On average of the last ones. (Where a sync takes 8 ms, 50 clients are served 1.1 to 1.3 times as quickly within the
# turn, in pipelines of 16 0.8 times. A busy machine lengthens what is measured.)
QUICK_NS = 10_000_000
# A longer one counts as if it took so long: one alone, on a machine that was busy with others, is no slow disk.
COUNTED_NS_MAX = 4 * QUICK_NS


class Handed:
    """A job for the thread; its `done` is called once, on the loop's thread."""

    __slots__ = ("_done", "_failure", "_running", "ended", "job")

    def __init__(self, job: Callable[[], None], done: Done) -> None:
        self.ended = False
        self.job = job
        self._done = done
        self._failure: BaseException | None = None
        self._running = allocate_lock()
        self._running.acquire()

    def run(self) -> None:
        """Do the job, on the thread."""
        try:
            self.job()
        except BaseException as failure:
            self._failure = failure
        self._running.release()

    def wait(self) -> None:
        """Return when the job has ended and `done` was called."""
        with self._running:
            pass
        if not self.ended:
            self.ended = True
            self._done(self._failure)


class JournalThread:
    """Runs jobs one after the other. after_job: called on the loop when a job's `done` was called.

    It uses a queue and a lock in C instead of an executor, whose futures and conditions cost more per job.

    Beside a busy loop the thread waits for the interpreter's lock before and after each job, so a quick sync takes
    twice as long. So syncs that hold replies are done on the loop while they are quick: requests that arrive meanwhile
    are one turn and share the next sync, where each turn beside a sync has a write of its own. On a slower disk the
    next turn runs meanwhile.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, after_job: Callable[[], None], name: str = "streamd-journal"
    ) -> None:
        self._loop = loop
        self._after_job = after_job
        self._took_ns = 0.0
        self._jobs: SimpleQueue[Handed | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None], done: Done, is_timed: bool = False) -> Handed:
        """Run `job` on the thread, then `done` on the loop; is_timed: its time counts for `run_if_quick`."""
        handed = Handed((lambda: self._time(job)) if is_timed else job, done)
        self._jobs.put(handed)
        return handed

    def run_if_quick(self, job: Callable[[], None]) -> bool:
        """Run `job` on the calling thread if the last timed jobs were quick, on any thread; return whether it was run.

        Raises: the error of the job.
        """
        if self._took_ns >= QUICK_NS:
            return False
        self._time(job)
        return True

    def _time(self, job: Callable[[], None]) -> None:
        started = perf_counter_ns()
        job()
        self._took_ns += (min(perf_counter_ns() - started, COUNTED_NS_MAX) - self._took_ns) / 8

    def _work(self) -> None:
        while (handed := self._jobs.get()) is not None:
            handed.run()
            try:
                self._loop.call_soon_threadsafe(self._end, handed)
            except RuntimeError:
                pass  # the loop has ended: whoever closes the journal waits for its jobs

    def _end(self, handed: Handed) -> None:
        if not handed.ended:
            try:
                handed.wait()
            finally:
                self._after_job()

    def close(self) -> None:
        """Return when the thread has ended."""
        self._jobs.put(None)
        self._thread.join()
