"""The sockets that the gateway listens at: TCP ports, and the file of a Unix socket."""

import errno
import os
import socket
import stat
from pathlib import Path
from typing import Final

from streamd.clients.mqtt.listening.faults import ListenFault

PRIVILEGED_BELOW: Final = 1024
LIVE_CHECK_S: Final = 1.0  # a process that is stopped, or busy for so long, is not dead


def tcp(option: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens at the first address of a host. Raises: ListenFault."""
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = infos[0]
        both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
        made = socket.create_server((str(address[0]), port), family=family, backlog=backlog, dualstack_ipv6=both)
    except (socket.gaierror, UnicodeError) as error:
        raise ListenFault(
            f"--bind {host}: {getattr(error, 'strerror', None) or error}; give an address of this machine"
        )
    except OSError as error:
        raise ListenFault(f"{place}: {_why_not(error, option, port)}", of_place=True)
    # Connections inherit both. A client without keep alive that vanished is found by the system's probes.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setblocking(False)
    return made


def _why_not(error: OSError, option: str, port: int) -> str:
    if error.errno in (errno.EACCES, errno.EPERM) and 0 < port < PRIVILEGED_BELOW:
        return (
            f"a port below {PRIVILEGED_BELOW} needs the right CAP_NET_BIND_SERVICE;"
            f" give the process that right, or choose another with {option}"
        )
    if error.errno == errno.EADDRINUSE:
        return f"in use by another process; choose another with {option}"
    # (asyncio and socket add the address to the text: the number alone says it in a few words.)
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{text}; choose another with --bind, {option}"


def text_of(listening: socket.socket) -> str:
    """Return where a socket listens: `127.0.0.1:1883`, `[::1]:1883`, or the path of a Unix socket."""
    name = listening.getsockname()
    if listening.family == socket.AF_UNIX:
        return os.fsdecode(name)
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def unix(path: Path, mode: int, backlog: int) -> socket.socket:
    """Return a socket that listens at a path; the socket of a process that died there is replaced.

    Raises: ListenFault, also when a process listens there or the path is of another file.
    """
    try:
        _make_free(path)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o777)  # nobody gets in before the permissions are there
            try:
                made.bind(os.fspath(path))
            finally:
                os.umask(before)
            os.chmod(path, mode)
            made.listen(backlog)
        except BaseException:
            made.close()
            raise
    except OSError as error:
        text = os.strerror(error.errno) if error.errno else str(error)
        raise ListenFault(
            f"--unix {path}: {text}; choose a path whose directory this process can write to", of_place=True
        )
    made.setblocking(False)
    return made


def _make_free(path: Path) -> None:
    """Remove the socket of a dead process. Raises: ListenFault, OSError."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ListenFault(f"--unix {path}: another file is there, not a socket; choose another path", of_place=True)
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(LIVE_CHECK_S)
        try:
            asking.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except (BlockingIOError, TimeoutError):  # it lives, and its queue is full
            pass
    raise ListenFault(f"--unix {path}: in use by another process; choose another path", of_place=True)


def remove_unix(listening: socket.socket, made: tuple[int, int] | None) -> None:
    """Remove the file of a Unix socket, unless another process has put its own there. made: what `file_of` said."""
    if made is not None and file_of(listening) == made:
        os.unlink(listening.getsockname())


def file_of(listening: socket.socket) -> tuple[int, int] | None:
    """Return device and inode of the file at a Unix socket's path; None without one."""
    if listening.family != socket.AF_UNIX:
        return None
    try:
        found = os.lstat(listening.getsockname())
    except OSError:
        return None
    return found.st_dev, found.st_ino
