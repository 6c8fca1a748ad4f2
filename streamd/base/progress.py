"""ProgressLine: the progress of a long operation, on the standard error stream."""

import sys
import time
from collections.abc import Callable
from typing import Final

# On a terminal a line is written anew so often; in a log, where each is kept, one a second is enough.
_ON_A_TERMINAL_S: Final = 0.2
_IN_A_LOG_S: Final = 1.0


class ProgressLine:
    """A line that is redrawn on a terminal; elsewhere (a file, the mail of a cron job) a new line a second.

    Operations shorter than that interval show nothing, and a log does not get the same line twice in a row. what: the
    first words of each line. seconds: the clock.
    """

    def __init__(self, what: str, seconds: Callable[[], float] = time.monotonic) -> None:
        self._what, self._seconds = what, seconds
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._every_s = _ON_A_TERMINAL_S if self._is_terminal else _IN_A_LOG_S
        self._next_s = seconds() + self._every_s
        self._is_open = False
        self._last = ""

    def show(self, done: int, total: int) -> None:
        """Show a number of bytes of a total, if it is time."""
        if self._is_due():
            percent = 100 * done // max(total, 1)
            self._write(f"{percent} % of {total >> 20} MB" if total >> 20 else f"{percent} % of {total} bytes")

    def say(self, text: str) -> None:
        """Show another text, if it is time."""
        if self._is_due():
            self._write(text)

    def end(self) -> None:
        """Clear the line, for later output."""
        if self._is_open:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self._is_open = False

    def _is_due(self) -> bool:
        now_s = self._seconds()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._every_s
        return True

    def _write(self, text: str) -> None:
        if text == self._last and not self._is_terminal:
            return
        self._last = text
        self._is_open = self._is_terminal
        try:
            if self._is_terminal:
                print(f"\r\033[K{self._what}: {text}", end="", file=sys.stderr, flush=True)
            else:
                print(f"{self._what}: {text}", file=sys.stderr, flush=True)
        except OSError:
            self._is_open = False  # nobody may be there to read it, and the work goes on
