"""The thread that syncs the journal beside the loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

Done = Callable[[OSError | None], None]


class Handed:
    """A job that was handed to the thread; its `done` is called once, on the loop's thread."""

    def __init__(self, future: "Future[None]", done: Done) -> None:
        self.ended = False
        self._future = future
        self._done = done

    def wait(self) -> None:
        """Return when the job has ended and `done` was called."""
        try:
            self._future.result()
            error = None
        except OSError as caught:
            error = caught
        if not self.ended:
            self.ended = True
            self._done(error)


class JournalThread:
    """Runs jobs one after the other. after_job: called on the loop when a job's `done` was called."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_job: Callable[[], None]) -> None:
        self._loop = loop
        self._after_job = after_job
        self._executor = ThreadPoolExecutor(1, "streamd-journal")

    def submit(self, job: Callable[[], None], done: Done) -> Handed:
        """Run `job` on the thread, then `done` on the loop."""
        future = self._executor.submit(job)
        handed = Handed(future, done)
        future.add_done_callback(lambda _: self._call_soon(handed))
        return handed

    def _call_soon(self, handed: Handed) -> None:
        def end() -> None:
            if not handed.ended:
                handed.wait()
                self._after_job()

        try:
            self._loop.call_soon_threadsafe(end)
        except RuntimeError:
            pass  # the loop has ended: whoever closes the journal waits for its jobs

    def close(self) -> None:
        """Return when the thread has ended."""
        self._executor.shutdown()
