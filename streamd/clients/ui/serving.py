"""The page on a socket, from its start to a signal."""

import ipaddress
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

# How long a stop waits for responses that are under way.
STOP_S = 3


def is_loopback(bind: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return bind == "localhost"


def listen(bind: str, port: int) -> socket.socket:
    """Return a listening socket. Raises: OSError; OverflowError for an invalid port."""
    (family, kind, protocol, _, address), *_ = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def place_of(listening: socket.socket) -> str:
    """Return the host and port of a socket for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve(app: ASGIApp, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; ready: called when both lead to a clean end."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        http="h11",
        ws="none",
        timeout_graceful_shutdown=STOP_S,
    )
    server = uvicorn.Server(config)

    def stop(number: int, frame: FrameType | None) -> None:
        # (No exception: Python drops one that meets the callback of a weak reference, and the signal with it.)
        server.should_exit = True

    # uvicorn has its own once it runs, and sends itself the signal again when it has stopped.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    ready()
    server.run(sockets=[listening])
