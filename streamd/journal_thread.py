"""The thread that syncs the journal beside the loop."""

import asyncio
from _thread import allocate_lock
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Done = Callable[[OSError | None], None]


class Handed:
    """A job that was handed to the thread; its `done` is called once, on the loop's thread."""

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
        """Return when the job has ended and `done` was called. Raises: what the job raised, but for an OSError."""
        with self._running:
            pass
        if not self.ended:
            self.ended = True
            if self._failure is not None and not isinstance(self._failure, OSError):
                raise self._failure
            self._done(self._failure)


class JournalThread:
    """Runs jobs one after the other. after_job: called on the loop when a job's `done` was called.

    A queue and a lock of C code, and no executor: with `appendfsync always` each turn hands over a job, which takes
    20 us of CPU this way and 28 with futures and their conditions.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after_job: Callable[[], None]) -> None:
        self._loop = loop
        self._after_job = after_job
        self._jobs: SimpleQueue[Handed | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="streamd-journal", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None], done: Done) -> Handed:
        """Run `job` on the thread, then `done` on the loop."""
        handed = Handed(job, done)
        self._jobs.put(handed)
        return handed

    def _work(self) -> None:
        while (handed := self._jobs.get()) is not None:
            handed.run()
            try:
                self._loop.call_soon_threadsafe(self._end, handed)
            except RuntimeError:
                pass  # the loop has ended: whoever closes the journal waits for its jobs

    def _end(self, handed: Handed) -> None:
        if not handed.ended:
            handed.wait()
            self._after_job()

    def close(self) -> None:
        """Return when the thread has ended."""
        self._jobs.put(None)
        self._thread.join()
