"""One kind of the mover's work: when it may begin, its steps, and what follows a failure."""

from collections.abc import Callable
from typing import Final

from streamd.base.clock import Clock
from streamd.base.errors import reason_of
from streamd.base.log import log
from streamd.cold.jobs import Jobs, Steps, Submit
from streamd.cold.output import Output

# After a failure, twice as long each time.
_RETRY_MS_MIN: Final = 1_000
_RETRY_MS_MAX: Final = 60_000


class Work:
    """One kind of work of the mover, of which one is under way at most, and which waits after a failure.

    failure: why the last one failed, "" after a success.
    """

    def __init__(self, name: str, submit: Submit, clock: Clock, on_bug: Callable[[BaseException], None]) -> None:
        self._name = name
        self._clock = clock
        self._on_bug = on_bug
        self._steps: Steps | None = None
        self._output: Output | None = None
        self._next_ms = 0
        self._wait_ms = _RETRY_MS_MIN
        self.jobs = Jobs(submit)
        self.failure = ""

    def is_running(self) -> bool:
        """Whether it is under way."""
        return self._steps is not None

    def may_begin(self) -> bool:
        """Whether it is not under way, and does not wait after a failure."""
        return self._steps is None and self._clock.monotonic_ms() >= self._next_ms

    def wait(self, milliseconds: int) -> None:
        """Do not begin earlier than that."""
        self._next_ms = self._clock.monotonic_ms() + milliseconds

    def begin(self, steps: Steps, output: Output | None = None) -> None:
        """Begin; output: what is abandoned if the work fails."""
        self._steps, self._output = steps, output

    def go_on(self, stop: Callable[[], bool]) -> bool:
        """Do steps until it is done or waits, or `stop` returns True; return whether more can be done at once."""
        while (steps := self._steps) is not None and not self.jobs.is_busy:
            try:
                can_go_on = next(steps)
            except StopIteration:
                self._end("")
                break
            except Exception as error:
                if not isinstance(error, OSError):
                    self._on_bug(error)
                failure = str(error) if isinstance(error, OSError) else reason_of(error)
                error.__traceback__ = None  # it refers to the steps, and these to lists whose keys may be removed
                self._end(failure)
                break
            if not can_go_on:
                return False
            if stop():
                return True
        return False

    def _end(self, failure: str) -> None:
        self._steps = None
        output, self._output = self._output, None
        if output is not None:
            output.abandon()
        if failure:
            self.wait(self._wait_ms)
            if failure != self.failure:
                text = "%s failed: %s; the next try is in %d s, later ones after up to %d s"
                log.warning("segments-failed", text, self._name, failure, self._wait_ms // 1000, _RETRY_MS_MAX // 1000)
            self._wait_ms = min(2 * self._wait_ms, _RETRY_MS_MAX)
        else:
            self._wait_ms = _RETRY_MS_MIN
            if self.failure:
                log.warning("segments-recovered", "%s succeeds again", self._name)
        self.failure = failure

    def close(self) -> None:
        """Wait for the job that is under way, and abandon the rest."""
        self.jobs.wait()
        self._steps = None  # what it has in its `finally` is done now
        output, self._output = self._output, None
        if output is not None:
            output.abandon()
