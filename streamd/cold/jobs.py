"""Work in steps of the loop, which wait for jobs that a thread does."""

from collections.abc import Callable, Iterator
from typing import Protocol


class Pending(Protocol):
    """A job that was handed out. ended: its `done` was called."""

    @property
    def ended(self) -> bool:
        """Whether its `done` was called."""

    def wait(self) -> None:
        """Return when the job has ended; its `done` was called, or is called here."""


# submit(job, done): run job on a thread, then call done on the loop, with None or what the job raised.
Submit = Callable[[Callable[[], None], Callable[[BaseException | None], None]], Pending]

# Work in slices: each step yields True if the next one may follow at once, and False to wait for a job or for a time.
Steps = Iterator[bool]


class Jobs:
    """The jobs of one work in steps: one at a time. is_busy: one is under way."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._pending: Pending | None = None
        self._failure: BaseException | None = None
        self.is_busy = False

    def run(self, job: Callable[[], None]) -> Steps:
        """Run a job, and wait for its end. Raises: what it raises."""
        self.is_busy, self._failure = True, None
        self._pending = self._submit(job, self._end)
        while self._is_under_way():
            yield False
        self._pending = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _end(self, failure: BaseException | None) -> None:
        self._failure = failure
        self.is_busy = False

    def _is_under_way(self) -> bool:
        return self.is_busy

    def wait(self) -> None:
        """Return when no job is under way."""
        if self.is_busy and self._pending is not None:
            self._pending.wait()
