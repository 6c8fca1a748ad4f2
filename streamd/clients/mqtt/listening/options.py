"""The options of the listeners, and which of them go together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamd.clients.mqtt.listening.faults import ListenFault

PORT_MAX: Final = 65_535


@dataclass(frozen=True, kw_only=True)
class Listeners:
    """Where the gateway listens, and for whom. A port of None is not listened at; 0 takes a free one.

    tls_ca: asks clients for certificates that these authorities signed. tls_user_from_certificate: lets in no client
    without one. ws_origins: the origins of pages that browsers may connect from, "*" for all; see `origins`.
    unix_mode: the permissions of the Unix socket's file. backlog: connections that wait until they are accepted.
    connections_max: open connections of all listeners; others are closed as soon as they are accepted.
    ws_message_bytes_max: of a WebSocket message, all of its frames together; larger ones close the connection. At least
    the largest packet that the gateway takes: many clients send a packet as one message.
    """

    bind: str = "127.0.0.1"
    port: int | None = 1883
    tls_port: int | None = None
    ws_port: int | None = None
    tls_ws_port: int | None = None
    unix: Path | None = None
    unix_mode: int = 0o600
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    tls_user_from_certificate: bool = False
    ws_origins: tuple[str, ...] = ()
    ws_message_bytes_max: int = 1024 * 1024 + 64 * 1024
    backlog: int = 1024
    connections_max: int = 10_000

    @property
    def tls(self) -> bool:
        """Whether a listener speaks TLS."""
        return self.tls_port is not None or self.tls_ws_port is not None

    @property
    def is_plain(self) -> bool:
        """Whether a listener speaks no TLS."""
        return self.port is not None or self.ws_port is not None or self.unix is not None

    @property
    def websocket(self) -> bool:
        """Whether a listener speaks WebSocket."""
        return self.ws_port is not None or self.tls_ws_port is not None


def check(options: Listeners) -> None:
    """Check what can be checked without a look at files or ports. Raises: ListenFault."""
    ports = {
        "--port": options.port,
        "--tls-port": options.tls_port,
        "--ws-port": options.ws_port,
        "--tls-ws-port": options.tls_ws_port,
    }
    for option, port in ports.items():
        if port is not None and not 0 <= port <= PORT_MAX:
            raise ListenFault(f"{option} {port}: give one from 0 to {PORT_MAX}")
    if options.unix is None and all(port is None for port in ports.values()):
        raise ListenFault("nothing to listen at: give --port, --tls-port, --ws-port or --unix")
    if not options.bind:  # the system would take it for all addresses; it may be a variable that is not set
        raise ListenFault("--bind is empty: give an address of this machine, or 0.0.0.0 for all of them")
    fixed = [port for port in ports.values() if port]
    if len(set(fixed)) < len(fixed):
        twice = next(port for port in fixed if fixed.count(port) > 1)
        raise ListenFault(f"port {twice} is given twice: each listener needs a port of its own")
    if options.connections_max < 1:
        raise ListenFault(f"--connections-max {options.connections_max}: give at least 1")
    if options.ws_origins and not options.websocket:
        raise ListenFault("--ws-origin is given without --ws-port: browsers connect by WebSocket only")
    _check_tls(options)


def _check_tls(options: Listeners) -> None:
    given = {"--tls-cert": options.tls_cert, "--tls-key": options.tls_key, "--tls-ca": options.tls_ca}
    if not options.tls:
        for option, path in given.items():
            if path is not None:
                raise ListenFault(f"{option} is given without --tls-port: no listener would use it")
        if options.tls_user_from_certificate:
            raise ListenFault("--tls-user-from-certificate is given without --tls-port: no client has a certificate")
        return
    for option in ("--tls-cert", "--tls-key"):
        if given[option] is None:
            raise ListenFault(f"{option} is missing: TLS needs --tls-cert and --tls-key")
    if options.tls_user_from_certificate and options.tls_ca is None:
        raise ListenFault("--tls-user-from-certificate needs --tls-ca: the authorities whose certificates name users")
