"""The connections that are let in: how many there are, and when one ends."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

# Of a client that has reset its connection: about as much as waits of one that is connected.
REST_BYTES_MAX: Final = 256 * 1024

MakeProtocol = Callable[[], asyncio.Protocol]


@dataclass
class Counts:
    """Connections since the start. accepted: those let in. surplus: closed at once, since there were too many.

    failed: ended before the first byte of MQTT, in the handshake of TLS or WebSocket.
    refused: by the WebSocket handshake: their origin or subprotocol was wrong, or they spoke no WebSocket.
    of_other_origin: those of them that were refused for their origin.
    delayed: times that nothing could be accepted for a while, since the system had no file or memory for it.
    """

    accepted: int = 0
    surplus: int = 0
    failed: int = 0
    refused: int = 0
    of_other_origin: int = 0
    delayed: int = 0


class Admission:
    """The open connections of all listeners, at most so many."""

    def __init__(self, connections_max: int) -> None:
        self.counts = Counts()
        self.closed = False  # then nobody begins any more
        self._max = connections_max
        self._open: set[AdmittedConnection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, make_protocol: MakeProtocol) -> "AdmittedConnection | None":
        """Return a protocol for a new connection; None if there are too many. It ends with `dismiss`."""
        if len(self._open) >= self._max:
            self.counts.surplus += 1
            return None
        self.counts.accepted += 1
        admitted = AdmittedConnection(self, make_protocol)
        self._open.add(admitted)
        return admitted

    def dismiss(self, admitted: "AdmittedConnection") -> None:
        """Forget a connection that ended, or that never began."""
        self._open.discard(admitted)

    def unserved(self) -> "list[AdmittedConnection]":
        """Return the connections that are not in the gateway's hands yet."""
        return [one for one in self._open if one.handshaking]


class AdmittedConnection(asyncio.Protocol):
    """The protocol of an admitted connection; another one, made when TLS is there, does the work."""

    def __init__(self, admission: Admission, make_protocol: MakeProtocol) -> None:
        self._admission = admission
        self._make_protocol = make_protocol
        self._served: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def handshaking(self) -> bool:
        """Whether TLS or WebSocket are not ready."""
        return self._served is None or bool(getattr(self._served, "handshaking", False))

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the protocol of the gateway begin."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of the class
        if self._admission.closed:
            self._transport.abort()
            return
        try:
            self._served = self._make_protocol()
            self._served.connection_made(transport)
        except BaseException:  # a fault of ours, which the loop reports; it tells nobody of the end then
            self._admission.dismiss(self)
            self.abort()
            raise

    def data_received(self, data: bytes) -> None:
        """Hand on."""
        if self._served is not None:
            self._served.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on; a TLS connection cannot stay open in one direction."""
        stays_open = None if self._served is None else self._served.eof_received()
        encrypted = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return None if encrypted else stays_open

    def pause_writing(self) -> None:
        """Hand on."""
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        if self._served is not None:
            self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place for another connection."""
        self._admission.dismiss(self)
        if self._served is not None:
            if exc is not None:
                self._read_rest(self._served)
            self._served.connection_lost(exc)

    def _read_rest(self, served: asyncio.Protocol) -> None:
        """Hand on what came before the client reset the connection: the loop reads no more when a write has failed."""
        assert self._transport is not None
        sock = self._transport.get_extra_info("socket")
        if sock is None or self._transport.get_extra_info("sslcontext") is not None:
            return
        rest = bytearray()
        try:
            while len(rest) < REST_BYTES_MAX and (data := os.read(sock.fileno(), REST_BYTES_MAX)):
                rest += data
        except OSError:  # there is nothing more
            pass
        if rest:
            served.data_received(bytes(rest))
