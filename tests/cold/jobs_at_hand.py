"""A thread's jobs that run when the test says so."""

from collections.abc import Callable

Done = Callable[[BaseException | None], None]


class Handed:
    """A job that waits to be run."""

    def __init__(self, owner: "JobsAtHand", job: Callable[[], None], done: Done) -> None:
        self.ended = False
        self._owner = owner
        self._job = job
        self._done = done

    def wait(self) -> None:
        """Run it, unless it has run."""
        if self.ended:
            return
        self.ended = True
        self._owner.waiting.remove(self)
        failure: BaseException | None = None
        try:
            self._job()
        except BaseException as error:
            failure = error
        self._done(failure)


class JobsAtHand:
    """Takes jobs; at_once: runs each when it is submitted. count: how many have been submitted."""

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once
        self.waiting: list[Handed] = []
        self.count = 0

    def submit(self, job: Callable[[], None], done: Done) -> Handed:
        self.count += 1
        handed = Handed(self, job, done)
        self.waiting.append(handed)
        if self.at_once:
            handed.wait()
        return handed

    def run_one(self) -> bool:
        """Run the oldest job; return whether there was one."""
        if not self.waiting:
            return False
        self.waiting[0].wait()
        return True
