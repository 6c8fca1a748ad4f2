"""Messages between systemd and the server: readiness, and sockets opened before the server started."""

import os
import socket
from collections.abc import MutableMapping
from typing import Final

# The first one that is handed over.
_FIRST_DESCRIPTOR: Final = 3
# How long systemd is to wait for the next word while a journal is loaded.
LOADING_US: Final = 60_000_000


def notify(environment: MutableMapping[str, str], **facts: object) -> bool:
    """Tell the service manager the state: `notify(os.environ, READY=1, STATUS="serving")`; return whether there is one.

    Source: sd_notify(3).
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    text = "\n".join(f"{name}={value}" for name, value in facts.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect("\0" + address[1:] if address[0] == "@" else address)
            sock.send(text.encode())
    except OSError:
        return False  # it has gone away: nobody is to be told
    return True


def take_sockets(environment: MutableMapping[str, str]) -> list[socket.socket]:
    """Return the listening sockets that systemd has opened for this process; child processes do not inherit the claim.

    Source: sd_listen_fds(3).
    """
    count = environment.pop("LISTEN_FDS", "")
    pid = environment.pop("LISTEN_PID", "")
    environment.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    found = []
    for descriptor in range(_FIRST_DESCRIPTOR, _FIRST_DESCRIPTOR + int(count)):
        os.set_inheritable(descriptor, False)
        found.append(socket.socket(fileno=descriptor))
    return found
