"""The ways into the server: where each listens, and which class serves its connections."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from streamd.configuration.server_options import Config
from streamd.net.admin import AdminConnection
from streamd.net.connection import Connection
from streamd.net.measures import MeasuredConnection

if TYPE_CHECKING:
    from streamd.net.server import Server


class AddressError(OSError):
    """An address that cannot be listened on; the message is one line for the user. flags: the flags for another one."""

    def __init__(self, line: str, flags: str = "--port or --bind") -> None:
        super().__init__(line)
        self.flags = flags


class Listener(NamedTuple):
    """A way into the server: its places `(host, port, whether it may fail)`, the factory of its connections, whether
    these are encrypted, and the flags that choose another place. A Unix socket is a path with the port UNIX.
    """

    places: Callable[[Config], list[tuple[str, int, bool]]]
    serve: Callable[[Server], asyncio.Protocol]
    is_admin: bool = False
    is_encrypted: bool = False
    flags: str = "--port or --bind"


# In place of a port, with a path for a host.
UNIX: Final = -1
# Redis's words for all addresses of this machine.
_EVERYWHERE: Final = {"*": "0.0.0.0", "::*": "::"}


def _bound_to(config: Config, port: int) -> list[tuple[str, int, bool]]:
    """Return the addresses of the option bind; a leading `-` marks one that may fail."""
    hosts = [(word.removeprefix("-"), word.startswith("-")) for word in config.text("bind").split()]
    return [(_EVERYWHERE.get(host, host), port, may_fail) for host, may_fail in hosts]


def _bound_places(config: Config) -> list[tuple[str, int, bool]]:
    port = config.integer("port")
    has_others = config.integer("tls-port") or config.text("unixsocket")
    return _bound_to(config, port) if port or not has_others else []


def _encrypted_places(config: Config) -> list[tuple[str, int, bool]]:
    port = config.integer("tls-port")
    return _bound_to(config, port) if port else []


def _unix_places(config: Config) -> list[tuple[str, int, bool]]:
    path = config.text("unixsocket")
    return [(path, UNIX, False)] if path else []


def _admin_places(config: Config) -> list[tuple[str, int, bool]]:
    port = config.integer("admin-port")
    return [(host, port, False) for host in config.text("admin-bind").split()] if port else []


def _connection(host: Server) -> asyncio.Protocol:
    return MeasuredConnection(host, host.measures) if host.measures else cast(asyncio.Protocol, Connection(host))


# All ways in. (A server of another protocol is a row here, and a class beside Connection.)
LISTENERS: Final = (
    Listener(_bound_places, _connection),
    Listener(_encrypted_places, _connection, is_encrypted=True, flags="--tls-port or --bind"),
    Listener(_unix_places, _connection, flags="--unixsocket"),
    Listener(_admin_places, AdminConnection, is_admin=True, flags="--admin-port or --admin-bind"),
)


def keep_alive(listener: socket.socket, seconds: int) -> None:
    """Have the system probe accepted connections, as Redis does: a dead host does not say good-bye."""
    if not seconds:
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(seconds, 32_767))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, min(max(1, seconds // 3), 32_767))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
