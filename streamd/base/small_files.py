"""Small files, read and replaced as a whole."""

import os
from contextlib import suppress

# Whom a new file is for: its owner alone.
_MODE = 0o600


def read_file(path: str) -> bytes:
    """Return what is in a file. Raises: OSError."""
    with open(path, "rb") as file:
        return file.read()


def keep_file(path: str, aside: str) -> str:
    """Give a file a second name, behind which a number stands if it is taken; return that name. Raises: OSError.

    What then replaces the file leaves it there.
    """
    number, free = 1, aside
    while True:
        try:
            os.link(os.path.realpath(path), free)
            return free
        except FileExistsError:
            number += 1
            free = f"{aside}-{number}"


def replace_file(path: str, data: bytes) -> None:
    """Let a file hold `data`, or, if that fails, what it held before. Raises: OSError."""
    path = os.path.realpath(path)  # a link stays one
    beside = f"{path}.tmp-{os.getpid()}"
    try:
        mode = os.stat(path).st_mode & 0o777
    except FileNotFoundError:
        mode = _MODE
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(number, mode)
            os.fsync(number)
        os.replace(beside, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(beside)
        raise
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
