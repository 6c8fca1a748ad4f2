"""The end of a demo: complete, interrupted, or failed with one line; and its remaining files."""

import io
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import redis
from rich.console import Console

from demo.processes import ChildFailed


class DemoFailed(Exception):
    """The demo could not be completed; the text gives the reason."""


def tell(
    story: Callable[[Path], int], console: Console, name: str, files: str, keep: bool, *failures: type[Exception]
) -> int:
    """Run a demo in a directory of its own, and return its exit code; SIGTERM ends it as Ctrl-C does, and
    a second Ctrl-C does not disturb that.

    files: the directory's contents, which stays if `keep` says so, or if the demo fails. failures: exceptions that
    count as failures besides DemoFailed: a child, a server or a disk that fails.
    """
    known: tuple[type[Exception], ...] = (DemoFailed, ChildFailed, redis.RedisError, OSError, *failures)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # in an encoding that lacks a letter of the story
    directory = Path(tempfile.mkdtemp(prefix=f"streamd-{name}-"))
    try:
        return story(directory)
    except KeyboardInterrupt:
        console.print("interrupted; everything that was started has ended")
        return 130
    except known as error:
        keep = True
        console.print(f"the demo failed: {error}", markup=False, highlight=False, soft_wrap=True)
        return 1
    finally:
        if keep:
            console.print(f"{files} are in {directory}", highlight=False)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _interrupt(number: int, frame: FrameType | None) -> None:
    # From now on all that was started is ended: a second Ctrl-C would leave some of it behind.
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, signal.SIG_IGN)
    raise KeyboardInterrupt
