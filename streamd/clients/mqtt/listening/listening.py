"""Starts the listeners, and serves what they accept."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from streamd.clients.mqtt.listening import places
from streamd.clients.mqtt.listening.admission import Admission, AdmittedConnection, Counts, MakeProtocol
from streamd.clients.mqtt.listening.options import Listeners, check
from streamd.clients.mqtt.listening.origins import Origins
from streamd.clients.mqtt.listening.tls_context import make_context
from streamd.clients.mqtt.listening.websocket_connection import WebSocketConnection

# Kind of the listener (mqtt, mqtts, ws, wss, unix), whether the client's certificate names its user -> its protocol.
Factory = Callable[[str, bool], asyncio.Protocol]

# A client that says nothing for so long has no handshake; and one that does not say good-bye is not waited for.
TLS_HANDSHAKE_S: Final = 10.0
TLS_SHUTDOWN_S: Final = 2.0
# Connections accepted in one turn of the loop; those that are served have their turn in between.
ACCEPTED_PER_TURN: Final = 32
# Without free files nothing can be accepted, and the loop would be told so at once, again and again.
DELAY_S: Final = 0.5
NO_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True)
class _Place:
    kind: str
    listening: socket.socket
    make_protocol: MakeProtocol
    tls: bool
    file: tuple[int, int] | None  # of a Unix socket


async def start(loop: asyncio.AbstractEventLoop, options: Listeners, factory: Factory) -> "Listening":
    """Return the listeners of the options, which accept from now on.

    factory: called for each connection when MQTT can begin, that is after the handshakes of TLS and WebSocket.
    Raises: ListenFault; then nothing listens.
    """
    check(options)
    origins = Origins(options.ws_origins)
    context = make_context(options) if options.tls else None
    listening = Listening(loop, options, factory, origins, context)
    try:
        listening.open()
    except BaseException:
        listening.close()
        raise
    listening.accept()
    return listening


class Listening:
    """The listeners: accept connections until `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        options: Listeners,
        factory: Factory,
        origins: Origins,
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = loop
        self._options = options
        self._factory = factory
        self._origins = origins
        self._context = context
        self._admission = Admission(options.connections_max)
        self._places: list[_Place] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._handshakes: set[asyncio.Task[None]] = set()  # those that can be cancelled: they own their socket
        self._delays: set[asyncio.TimerHandle] = set()

    @property
    def places(self) -> list[tuple[str, str]]:
        """Kind and address of each listener, such as ("mqtt", "127.0.0.1:1883")."""
        return [(place.kind, places.text_of(place.listening)) for place in self._places]

    @property
    def connections(self) -> int:
        """The open connections, also those whose handshake is not over."""
        return len(self._admission)

    @property
    def counts(self) -> Counts:
        """Connections since the start."""
        return self._admission.counts

    def open(self) -> None:
        """Bind all sockets. Raises: ListenFault."""
        options = self._options
        if options.port is not None:
            self._add("mqtt", self._tcp("--port", options.port))
        if options.tls_port is not None:
            self._add("mqtts", self._tcp("--tls-port", options.tls_port))
        if options.ws_port is not None:
            self._add("ws", self._tcp("--ws-port", options.ws_port))
        if options.tls_ws_port is not None:
            self._add("wss", self._tcp("--tls-ws-port", options.tls_ws_port))
        if options.unix is not None:
            self._add("unix", places.unix(options.unix, options.unix_mode, options.backlog))

    def _tcp(self, option: str, port: int) -> socket.socket:
        return places.tcp(option, self._options.bind, port, self._options.backlog)

    def _add(self, kind: str, listening: socket.socket) -> None:
        tls = kind in ("mqtts", "wss")
        make: MakeProtocol = partial(self._factory, kind, tls and self._options.tls_user_from_certificate)
        if kind in ("ws", "wss"):
            bytes_max = self._options.ws_message_bytes_max
            make = partial(WebSocketConnection, self._loop, make, self._origins, bytes_max, self.counts)
        self._places.append(_Place(kind, listening, make, tls, places.file_of(listening)))

    def accept(self) -> None:
        """Begin to accept at all places."""
        for place in self._places:
            self._loop.add_reader(place.listening.fileno(), self._accept, place)

    def _accept(self, place: _Place) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, _ = place.listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # the client gave up
                continue
            except OSError as error:
                if error.errno not in NO_RESOURCES:
                    raise
                self._delay(place)
                return
            self._admit(accepted, place)

    def _delay(self, place: _Place) -> None:
        self.counts.delayed += 1
        self._loop.remove_reader(place.listening.fileno())
        self._delays = {one for one in self._delays if one.when() > self._loop.time()}
        again = partial(self._loop.add_reader, place.listening.fileno(), self._accept, place)
        self._delays.add(self._loop.call_later(DELAY_S, again))

    def _admit(self, accepted: socket.socket, place: _Place) -> None:
        admitted = self._admission.admit(place.make_protocol)
        if admitted is None:
            accepted.close()
            return
        accepted.setblocking(False)
        serving = self._loop.create_task(self._serve(accepted, place, admitted))
        self._tasks.add(serving)
        serving.add_done_callback(self._tasks.discard)

    async def _serve(self, accepted: socket.socket, place: _Place, admitted: AdmittedConnection) -> None:
        """Hand a connection to its protocol, after the TLS handshake with the present certificate."""
        context = self._context if place.tls else None
        this = asyncio.current_task()
        assert this is not None
        if self._admission.closed:
            accepted.close()
            self._admission.dismiss(admitted)
            return
        if context is not None:
            self._handshakes.add(this)
        try:
            await self._loop.connect_accepted_socket(
                lambda: admitted,
                accepted,
                ssl=context,
                ssl_handshake_timeout=None if context is None else TLS_HANDSHAKE_S,
                ssl_shutdown_timeout=None if context is None else TLS_SHUTDOWN_S,
            )
        except OSError:  # no TLS, no certificate that is trusted, gone, or too slow
            self.counts.failed += 1
            self._admission.dismiss(admitted)
        except BaseException:
            self._admission.dismiss(admitted)
            raise
        finally:
            self._handshakes.discard(this)

    def reload_certificates(self) -> None:
        """Read certificates, key and authorities again, for connections that come from now on.

        Raises: ListenFault; then everything stays as it was.
        """
        if self._context is not None:
            self._context = make_context(self._options)

    def close(self) -> None:
        """Accept no more, and end the connections whose handshake is not over; the others go on."""
        self._admission.closed = True
        for place in self._places:
            self._loop.remove_reader(place.listening.fileno())
            places.remove_unix(place.listening, place.file)
            place.listening.close()
        self._places.clear()
        for delay in self._delays:
            delay.cancel()
        for handshake in self._handshakes:
            handshake.cancel()
        for admitted in self._admission.unserved():
            admitted.abort()
