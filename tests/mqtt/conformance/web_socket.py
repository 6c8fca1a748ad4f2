"""A WebSocket client that sends the frames it is told to."""

import base64
import os
import struct

from tests.mqtt.conformance.device import Deviation, Stream

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


class WebSocket(Stream):
    """A connection over WebSockets: the bytes of its binary frames. `chosen` is the subprotocol of the answer."""

    def __init__(self, port: int, offered: str | None = "mqtt", path: str = "/mqtt") -> None:
        super().__init__(port)
        self.pongs: list[bytes] = []
        self._held = b""
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if offered is not None:
            lines.append(f"Sec-WebSocket-Protocol: {offered}")
        super().send(("\r\n".join(lines) + "\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer and (more := super().receive(10)):
            answer += more
        head, _, self._held = answer.partition(b"\r\n\r\n")
        self.is_accepted = b" 101 " in head.split(b"\r\n")[0]
        fields = dict(line.decode().lower().split(": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        self.chosen = fields.get("sec-websocket-protocol")

    def send(self, data: bytes) -> None:
        """Send bytes as one binary frame."""
        self.frame(BINARY, data)

    def frame(self, kind: int, data: bytes, last: bool = True) -> None:
        """Send one frame, masked."""
        super().send(self.bytes_of(kind, data, last))

    @staticmethod
    def bytes_of(kind: int, data: bytes, last: bool = True) -> bytes:
        """Return one frame, masked."""
        length = len(data)
        size = (
            bytes((0x80 | length,))
            if length < 126
            else b"\xfe" + struct.pack(">H", length)
            if length < 65_536
            else b"\xff" + struct.pack(">Q", length)
        )
        mask = os.urandom(4)
        whole = int.from_bytes((mask * (length // 4 + 1))[:length], "big")
        masked = (int.from_bytes(data, "big") ^ whole).to_bytes(length, "big")
        return bytes((kind | (0x80 if last else 0),)) + size + mask + masked

    def receive(self, timeout_s: float) -> bytes:
        """Return the bytes of the next frame with data; empty at the end. Raises: TimeoutError, Deviation."""
        while True:
            frame = self._frame()
            if frame is None:
                more = super().receive(timeout_s)
                if not more:
                    return b""
                self._held += more
                continue
            kind, data = frame
            if kind == CLOSE:
                return b""
            if kind == PONG:
                self.pongs.append(data)
            elif kind == PING:
                self.frame(PONG, data)
            elif kind not in (BINARY, CONTINUATION):
                raise Deviation(f"a frame of kind {kind}")
            elif data:
                return data

    def _frame(self) -> tuple[int, bytes] | None:
        held = self._held
        if len(held) < 2:
            return None
        length, at = held[1] & 0x7F, 2
        if length >= 126:
            at = 4 if length == 126 else 10
            if len(held) < at:
                return None
            length = int.from_bytes(held[2:at], "big")
        if len(held) < at + length:
            return None
        self._held = held[at + length :]
        return held[0] & 0x0F, held[at : at + length]
