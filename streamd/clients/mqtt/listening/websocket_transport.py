"""The transport of an MQTT connection inside of a WebSocket: what it writes becomes binary frames."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol

from websockets.protocol import OPEN
from websockets.server import ServerProtocol

# What is written in one turn is one frame, up to here: from here on the network has to say how it keeps up.
GATHER_BYTES_MAX: Final = 64 * 1024
# A larger packet is sent as several frames, since some clients take frames of 1 MiB at most.
FRAME_BYTES_MAX: Final = 256 * 1024
NORMAL_CLOSURE: Final = 1000

Buffer = bytes | bytearray | memoryview


class Reading(Protocol):
    """The receiving side of the connection."""

    def hold(self) -> None:
        """Hand on nothing for now."""

    def go_on(self) -> None:
        """Hand on what comes."""

    def end(self) -> None:
        """Write the WebSocket's frames, and close the network connection when the client answers, or soon."""

    @property
    def held(self) -> bool:
        """Whether nothing is handed on."""

    @property
    def frame_moved_s(self) -> float | None:
        """When the last bytes of a frame came that is not complete; None without one."""


class WebSocketTransport(asyncio.Transport):
    """Takes bytes as a TCP transport does; frames and bytes need not match."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: asyncio.Transport,
        websocket: ServerProtocol,
        reading: Reading,
        protocol: asyncio.BaseProtocol,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._network = network
        self._websocket = websocket
        self._reading = reading
        self._protocol = protocol
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._flushing: asyncio.Handle | None = None
        self.closed = False  # by this side

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the network connection says, such as `peername`; `frame_moved_s`: see `Reading`."""
        if name == "frame_moved_s":
            return self._reading.frame_moved_s
        return self._network.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the MQTT connection."""
        return self._protocol

    def write(self, data: Buffer) -> None:
        """Send bytes with the others of this turn; after a close they are dropped."""
        if self.closed or not data:
            return
        self._gathered.append(data if isinstance(data, bytes) else bytes(data))
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= GATHER_BYTES_MAX:
            self.flush()
        elif self._flushing is None:
            self._flushing = self._loop.call_soon(self.flush)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Send several pieces, in one frame if there is room."""
        for data in list_of_data:
            self.write(data)

    def flush(self) -> None:
        """Send what was gathered."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if not gathered or self._websocket.state is not OPEN or self._network.is_closing():
            return
        payload = gathered[0] if len(gathered) == 1 else b"".join(gathered)
        for start in range(0, len(payload), FRAME_BYTES_MAX):
            self._websocket.send_binary(payload[start : start + FRAME_BYTES_MAX])
        for frame in self._websocket.data_to_send():
            self._network.write(frame)

    def can_write_eof(self) -> bool:
        """Return False: a WebSocket is closed in both directions."""
        return False

    def close(self) -> None:
        """Send what was gathered and close the WebSocket; what the client still sends is dropped."""
        if self.closed:
            return
        self.flush()
        self.closed = True
        if self._websocket.state is OPEN:
            self._websocket.send_close(NORMAL_CLOSURE)
        self._reading.end()

    def abort(self) -> None:
        """End the connection at once."""
        self.closed = True
        self._network.abort()

    def is_closing(self) -> bool:
        """Return whether nothing is sent any more."""
        return self.closed or self._network.is_closing()

    def pause_reading(self) -> None:
        """Let the client wait: nothing is read from the network."""
        self._reading.hold()

    def resume_reading(self) -> None:
        """Read on; what was read before the pause follows in a later turn."""
        self._reading.go_on()

    def is_reading(self) -> bool:
        """Return whether data may come."""
        return not self.closed and not self._reading.held

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the network has not taken, without the frame headers of those gathered."""
        return self._gathered_bytes + self._network.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the sizes at which writing is resumed and paused."""
        return self._network.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which writing is paused and resumed."""
        self._network.set_write_buffer_limits(high, low)

    def ended(self) -> None:
        """Drop what was gathered: the network connection is gone."""
        self.closed = True
        self.flush()
