"""Small files, read and replaced as a whole."""

import os
from contextlib import suppress

# Whom a new file is for: its owner alone.
_MODE = 0o600


def read_file(path: str) -> bytes:
    """Return what is in a file. Raises: OSError."""
    with open(path, "rb") as file:
        return file.read()


def replace_file(path: str, data: bytes) -> None:
    """Let a file hold `data`, or, if that fails, what it held before. Raises: OSError."""
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
    directory = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
