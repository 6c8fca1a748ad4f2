"""The receiving side of a WebSocket: its handshake, and the bytes in its binary frames."""

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, cast

from websockets.exceptions import NegotiationError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import OPEN, Event
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from streamd.clients.mqtt.listening.admission import Counts, MakeProtocol
from streamd.clients.mqtt.listening.origins import Origins
from streamd.clients.mqtt.listening.websocket_transport import WebSocketTransport

# The first of these that the client offers is chosen. Which version of MQTT it speaks, its CONNECT says.
SUBPROTOCOLS: Final = (Subprotocol("mqtt"), Subprotocol("mqttv3.1"))
UNSUPPORTED_DATA: Final = 1003
# A browser needs three round trips; a client that says nothing holds one of the connections.
HANDSHAKE_S: Final = 10.0
# A request has a few hundred bytes, with cookies a few thousand. The library alone would take 1 MiB.
HANDSHAKE_BYTES_MAX: Final = 64 * 1024
ORIGIN_SHOWN: Final = 200
# The client's good-bye, or the end of what it sends, is awaited for so long before the network connection is closed.
CLOSE_S: Final = 2.0
# The smallest frames have 6 bytes: of more than this in one turn other clients would notice.
READ_BYTES_MAX: Final = 16 * 1024

# Not in the tree of loggers, so that no setting makes it write a line for each connection. An error is a fault of the
# library, not the client's, and goes to stderr.
_LOGGER: Final = logging.Logger("websockets", logging.ERROR)


def _chosen(websocket: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    for one in offered:
        if one in SUBPROTOCOLS:
            return one
    if offered:
        raise NegotiationError(f"subprotocol: offer one of {', '.join(SUBPROTOCOLS)}, or none")
    return None


class WebSocketConnection(asyncio.Protocol):
    """The protocol of a network connection that is to become a WebSocket.

    A client that offers `mqtt` or `mqttv3.1` gets the first of them, and one that offers no subprotocol gets none. A
    client that offers only others is answered 400, a page of another origin 403. The MQTT connection is made after
    that. Its bytes are handed on as they come, frames and fragments joined; a text frame closes the connection with
    1003.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_protocol: MakeProtocol,
        origins: Origins,
        bytes_max: int,
        counts: Counts,
    ) -> None:
        """bytes_max: of a message of the client."""
        self._loop = loop
        self._make_protocol = make_protocol
        self._origins = origins
        self._counts = counts
        self._websocket = ServerProtocol(select_subprotocol=_chosen, max_size=bytes_max, logger=_LOGGER)
        self._handshake_bytes = 0
        self._unread = bytearray()
        self._read_s = 0.0  # when the last bytes came
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._network_paused = False
        self._writing_paused = False
        self._pong: bytes | None = None
        self.held = False
        self._served: asyncio.Protocol | None = None

    @property
    def handshaking(self) -> bool:
        """Whether there is no MQTT connection yet."""
        return self._served is None

    @property
    def frame_moved_s(self) -> float | None:
        """When the last bytes of a frame came that is not complete; None without one."""
        return self._read_s if self._unread or self._websocket.reader.buffer else None

    # What the network says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's request."""
        self._network = cast(asyncio.Transport, transport)  # uvloop's are not of the class
        self._timer = self._loop.call_later(HANDSHAKE_S, self._give_up)

    def _give_up(self) -> None:
        self._counts.failed += 1
        self._network.abort()

    def data_received(self, data: bytes) -> None:
        """Hand on the bytes of the frames, some in this turn and the rest in the next ones."""
        self._unread += data
        self._read_s = self._loop.time()
        if self._next is None and not self.held:
            self._read()

    def _read(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        part = self._unread[:READ_BYTES_MAX]
        del self._unread[:READ_BYTES_MAX]
        try:
            self._receive(part)
        except BaseException:  # a fault of ours: the loop reports it
            self._network.abort()
            raise
        self._follow()

    def _follow(self) -> None:
        """Read what is left in the next turn; let the network wait meanwhile, or while data is not wanted."""
        if self._network.is_closing():
            return
        if self._unread and not self.held and self._next is None:
            self._next = self._loop.call_soon(self._read)
        pause = self.held or bool(self._unread)
        if pause == self._network_paused:
            return
        self._network_paused = pause
        if pause:
            self._network.pause_reading()
        else:
            self._network.resume_reading()

    def eof_received(self) -> None:
        """Take it as the end: without a close frame before it the client is gone."""
        while self._unread:
            self._read()
        self._websocket.receive_eof()
        if self._served is not None:
            self._served.eof_received()

    def pause_writing(self) -> None:
        """Hand on: the client does not take what was sent."""
        self._writing_paused = True
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        self._writing_paused = False
        pong, self._pong = self._pong, None
        if pong is not None and self._websocket.state is OPEN:
            self._network.write(pong)
        if self._served is not None:
            self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on what was read, then the end."""
        if self._timer is not None:
            self._timer.cancel()
        if self._served is None:
            return
        try:
            while self._unread:
                self._read()
        finally:
            self._transport.ended()
            self._served.connection_lost(exc)

    # What the transport says.

    def hold(self) -> None:
        """Hand on nothing for now."""
        self.held = True
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._follow()

    def go_on(self) -> None:
        """Hand on what comes."""
        self.held = False
        self._follow()

    def end(self) -> None:
        """Write the WebSocket's frames, and close the network connection when the client answers, or soon."""
        self._write(self._websocket.data_to_send())
        if self._websocket.close_sent is not None:
            self._close_soon()
        self.go_on()

    # Frames.

    def _receive(self, data: bytearray) -> None:
        self._websocket.receive_data(data)
        events = self._websocket.events_received()
        if self._served is None:
            self._handshake_bytes += len(data)
            self._handshake(events)
            return
        ready = self._websocket.data_to_send()
        if self._writing_paused and self._websocket.state is OPEN:  # pongs: the last one answers for all
            self._pong = ready[-1] if ready else self._pong
        else:
            self._write(ready)
        self._hand_on(events)

    def _handshake(self, events: list[Event]) -> None:
        ready = self._websocket.data_to_send()
        if not events:
            if ready:  # no HTTP, or too long a header
                self._counts.refused += 1
                self._write(ready)
            elif self._handshake_bytes > HANDSHAKE_BYTES_MAX and not self._websocket.eof_sent:
                self._counts.refused += 1
                self._network.abort()
            return
        request = events[0]
        assert isinstance(request, Request)
        if ready:  # a ping or a close before the handshake is over
            self._counts.refused += 1
            self._network.abort()
            return
        response = self._answer(request)
        self._websocket.send_response(response)
        if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
            self._counts.refused += 1
            self._write(self._websocket.data_to_send())
            return
        self._write(self._websocket.data_to_send())
        self._begin()
        self._hand_on(events[1:])

    def _answer(self, request: Request) -> Response:
        headers = request.headers
        origins = headers.get_all("Origin")
        if not self._origins.lets_in(origins, headers.get_all("Host")):
            self._counts.of_other_origin += 1
            text = f"Origin {' '.join(origins)[:ORIGIN_SHOWN]!a} may not connect: see --ws-origin.\n"
            return self._websocket.reject(HTTPStatus.FORBIDDEN, text)
        return self._websocket.accept(request)

    def _begin(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._served = self._make_protocol()
        self._transport = WebSocketTransport(self._loop, self._network, self._websocket, self, self._served)
        self._served.connection_made(self._transport)
        if self._writing_paused:
            self._served.pause_writing()

    def _hand_on(self, events: Sequence[Event]) -> None:
        assert self._served is not None
        data: list[bytes | bytearray | memoryview] = []
        text = False
        for event in events:
            assert isinstance(event, Frame)
            if event.opcode is Opcode.TEXT:
                text = True
                break
            if event.opcode is Opcode.BINARY or event.opcode is Opcode.CONT:
                data.append(event.data)
        if any(data) and not self._transport.closed:
            self._served.data_received(b"".join(data))
        if text and not self._transport.closed:
            self._transport.flush()
            self._websocket.fail(UNSUPPORTED_DATA, "MQTT is sent in binary frames")
            self._write(self._websocket.data_to_send())

    def _write(self, ready: list[bytes]) -> None:
        """Write frames to the network. An empty one stands for the end of it."""
        for frame in ready:
            if frame:
                self._network.write(frame)
            elif self._websocket.close_rcvd is None and self._network.can_write_eof():
                # The client may be sending still: if nobody read that, its system would drop what we said last.
                self._network.write_eof()
                self._close_soon()
            else:
                self._network.close()

    def _close_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(CLOSE_S, self._network.close)
