"""How work that waits for the disk is handed to a thread."""

from collections.abc import Callable
from typing import Protocol


class Pending(Protocol):
    """A job that was handed out. ended: its `done` was called."""

    @property
    def ended(self) -> bool:
        """Whether its `done` was called."""

    def wait(self) -> None:
        """Return when the job has ended; its `done` was called, or is called here."""


# What is told how a job ended: None, or what it raised. An OSError is the system's; anything else is a bug, and who
# waits for the job is told of that as well, or would wait for ever.
Done = Callable[[BaseException | None], None]

# submit(job, done): run job outside of the turn, then call done between two turns.
Submit = Callable[[Callable[[], None], Done], Pending]


class Syncs(Protocol):
    """Runs the jobs that output waits for."""

    def submit(self, job: Callable[[], None], done: Done, is_timed: bool = False) -> Pending:
        """Run `job` outside of the turn, then call `done` between two turns. is_timed: it is like those that
        run_if_quick() is given, and tells how quick they are.
        """

    def run_if_quick(self, job: Callable[[], None]) -> bool:
        """Run `job` within the turn if such jobs have been quick lately; return whether it was run. Raises: the
        error of the job.
        """
