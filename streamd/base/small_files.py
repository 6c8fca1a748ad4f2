"""Small files, read and replaced as a whole."""

import os
from contextlib import suppress

# Whom a new file is for: its owner alone.
_MODE = 0o600


def read_file(path: str) -> bytes:
    """Return the contents of a file. Raises: OSError."""
    with open(path, "rb") as file:
        return file.read()


def keep_file(path: str, aside: str) -> str:
    """Give a file a second name, with a number if it is taken; return that name. Raises: OSError.

    The old contents stay there when the file is replaced.
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
    """Write `data` to a file, which keeps its permissions and its owner, and its old contents if that fails. Raises:
    OSError.
    """
    path = os.path.realpath(path)  # a link stays one
    beside = f"{path}.tmp-{os.getpid()}"
    before = os.stat(path) if os.path.exists(path) else None
    mode = _MODE if before is None else before.st_mode & 0o777
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(number, mode)
            if before is not None and os.geteuid() == 0:
                os.fchown(number, before.st_uid, before.st_gid)
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
