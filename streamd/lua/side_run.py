"""Runs interruptible work: the caller goes on meanwhile, and resumes it later.

A script may run for ever, and meanwhile other clients must be told that the server is busy, and one must be able to end
it. Lua calls Python now and then (a hook), but then Lua's frames lie on the thread's stack above those of the event
loop, and neither asyncio's loop nor uvloop's is re-entrant. Reading the sockets behind its back would take bytes from
it, and is impossible for TLS.

So scripts have a stack of their own, by greenlet. A hook that finds that a script has taken too long switches back to
the loop's stack. The client is parked like any client that waits, and the loop goes on: it serves other clients, and
switches to the script again for a slice, until that has ended.

The alternative is a thread for the scripts. With greenlets a switch takes a tenth of the time, and each thread would
have to switch at least once a turn. And threads see each other's changes at any point, greenlets only where one of them
switches: the server needs no locks.
"""

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final

from streamd.resp.types import Reply


class _Paused:
    def __repr__(self) -> str:
        return "PAUSED"


class _Raised:
    """The exception of the work, on its way to the other stack."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


PAUSED: Final = _Paused()  # instead of a reply: the work goes on when `go_on` is called


class SideRun:
    """Runs one piece of work at a time.

    is_possible: greenlet is installed. is_paused: work was interrupted and has not ended. is_current: work runs now, so
    the caller is part of it and could be interrupted.
    """

    is_possible: Final = find_spec("greenlet") is not None

    def __init__(self) -> None:
        self.is_paused = False
        self.is_current = False
        self._current: Callable[[], Any] = lambda: None
        self._worker: Any = None
        self._host: Any = None
        self._thread_id = 0

    def run(self, work: Callable[[], Reply]) -> Reply:
        """Return the result of `work`, or PAUSED; called by work that runs here already, it is just a call.

        Raises: the exceptions of `work`.
        """
        if self.is_current:
            return work()
        assert not self.is_paused, "one thing at a time"
        if self._worker is None or self._thread_id != threading.get_ident():
            self._begin()
        self._host = self._current()
        return self._switch(work)

    def _switch(self, *work: Callable[[], Reply]) -> Reply:
        self.is_current = True
        try:
            outcome: Reply | _Raised = self._worker.switch(*work)
        finally:
            self.is_current = False
        if type(outcome) is _Raised:
            raise outcome.error
        return outcome

    def _begin(self) -> None:
        """Start the stack: one for all work, since a new one costs more than the work."""
        # (Not before there is a script: a start need not wait for it.)
        from greenlet import getcurrent, greenlet

        self._current = getcurrent
        self._worker = greenlet(self._work)
        self._thread_id = threading.get_ident()

    def _work(self, work: Callable[[], Reply]) -> None:
        while True:
            try:
                outcome: Reply | _Raised = work()
            except Exception as error:
                outcome = _Raised(error)
            work = self._host.switch(outcome)

    def pause(self) -> None:
        """Interrupt the running work: `run` returns PAUSED. Returns when `go_on` is called."""
        assert self.is_current
        self.is_paused = True
        self._host.switch(PAUSED)
        self.is_paused = False

    def go_on(self) -> Reply:
        """Resume interrupted work; the results and errors are those of `run`."""
        assert self.is_paused
        self._host = self._current()
        return self._switch()

    def close(self) -> None:
        """End the stack, which no work may be using; what its frames refer to is free then."""
        if self._worker is not None and self._thread_id == threading.get_ident():
            self._worker.throw()
        self._worker = self._host = None
