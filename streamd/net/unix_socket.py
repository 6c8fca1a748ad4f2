"""The file of a Unix socket: made with its permissions, and removed."""

import os
import socket
import stat


def bind(path: str, permissions: int) -> socket.socket:
    """Return a socket bound to a path that was free or held another socket. Raises: OSError."""
    remove(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777)  # nobody gets in before the permissions are there
    try:
        made.bind(path)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    os.chmod(path, permissions)
    return made


def remove(path: str) -> None:
    """Remove the socket at a path; other files stay."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        pass
