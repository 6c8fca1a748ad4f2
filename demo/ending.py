"""How a demo ends: told to its end, interrupted, or failed with one line; and what is left of its files."""

import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import redis
from rich.console import Console

from demo.processes import ChildFailed


class DemoFailed(Exception):
    """The story could not be told; the text says why."""


def tell(
    story: Callable[[Path], int], console: Console, name: str, files: str, keep: bool, *failures: type[Exception]
) -> int:
    """Return the exit code of a story, which is told with a directory of its own; SIGTERM ends it as Ctrl-C does.

    files: what is in the directory, which stays if `keep` says so, or if the story fails. failures: what a story may
    end with besides DemoFailed, a child, a server or a disk that fails.
    """
    known: tuple[type[Exception], ...] = (DemoFailed, ChildFailed, redis.RedisError, OSError, *failures)
    signal.signal(signal.SIGTERM, _interrupt)
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
    raise KeyboardInterrupt
