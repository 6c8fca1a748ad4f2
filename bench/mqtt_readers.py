"""Subscribers that take many messages at little cost, as their topics and payloads have one length each."""

import asyncio
import os
from collections.abc import Sequence
from struct import Struct
from time import monotonic
from typing import Final, cast

from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.encoding import encode

PAYLOAD_BYTES: Final = 62
_SEQUENCE: Final = Struct(">Q")
_VERSION: Final = 4
_PUBACKS: Final = [b"\x40\x02%c%c" % divmod(packet_id, 256) for packet_id in range(65_536)]
_CONNACK, _PUBLISH, _SUBACK = 0x20, 0x30, 0x90
_AT_A_TIME: Final = 32  # that connect
_PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.005


def payload(sequence: int) -> bytes:
    """Return the payload of a message that is the so-many-th of its topic."""
    return _SEQUENCE.pack(sequence).ljust(PAYLOAD_BYTES, b".")


class Reader(asyncio.Protocol):
    """A persistent session of MQTT 3.1.1 with a subscription to one topic, QoS 1; its client comes and goes.

    got: messages that came for the first time and in order; lost: of which a later one came first; again: that came
    twice. sequence_at: where payloads have the number that counts them.
    """

    def __init__(self, client_id: str, topic: bytes, sequence_at: int = 0) -> None:
        self.client_id, self.topic = client_id, topic
        self.next = self.got = self.lost = self.again = 0
        self._is_silent = self._is_paused = False
        self._unacknowledged: list[bytes] = []
        behind_topic = 2 + PAYLOAD_BYTES
        remaining = 2 + len(topic) + behind_topic
        head = 1 + (2 if remaining > 127 else 1)
        behind = PAYLOAD_BYTES - sequence_at - _SEQUENCE.size
        self._message = Struct(f">B{head - 1 + 2 + len(topic)}xH{sequence_at}xQ{behind}x")
        assert self._message.size == head + remaining
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._is_new = True
        self._ready: asyncio.Future[None]
        self._gone: asyncio.Future[None]

    async def come(self, host: str, port: int) -> None:
        """Connect, and subscribe the first time. Raises: SystemExit."""
        loop = asyncio.get_running_loop()
        self._ready, self._gone = loop.create_future(), loop.create_future()
        self._buffer = b""
        await loop.create_connection(lambda: self, host, port)
        async with asyncio.timeout(_PATIENCE_S):
            await self._ready

    async def leave(self) -> None:
        """Disconnect; the session lasts."""
        assert self._transport is not None
        self._transport.write(encode(packets.Disconnect(), _VERSION))
        self._transport.close()
        await self._gone

    def pause(self) -> None:
        """Read nothing more from the socket."""
        assert self._transport is not None
        self._is_paused = True
        self._transport.pause_reading()

    def fall_silent(self) -> None:
        """Acknowledge nothing more."""
        self._is_silent = True

    def resume(self) -> None:
        """Read again, and acknowledge what was not acknowledged."""
        assert self._transport is not None
        self._is_silent = False
        self._transport.write(b"".join(self._unacknowledged))
        self._unacknowledged.clear()
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send CONNECT."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(encode(packets.Connect(_VERSION, self.client_id, clean_start=False), _VERSION))

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        self._transport = None
        if not self._ready.done():
            self._ready.set_exception(SystemExit(f"bench: {self.client_id} was not let in"))
        if not self._gone.done():
            self._gone.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        data = self._buffer + data if self._buffer else data
        while data and data[0] & 0xF0 != _PUBLISH:
            if len(data) < 2 or len(data) < 2 + data[1]:
                self._buffer = data
                return
            self._take_answer(data[0], data[2 : 2 + data[1]])
            data = data[2 + data[1] :]
        whole = len(data) - len(data) % self._message.size
        if whole:
            self._take_messages(memoryview(data)[:whole])
        self._buffer = data[whole:]

    def _take_answer(self, kind: int, body: bytes) -> None:
        assert self._transport is not None
        if kind == _CONNACK and body[1] == 0:
            if not self._is_new:
                self._ready.set_result(None)
                return
            subscription = packets.Subscription(self.topic.decode(), 1)
            self._transport.write(encode(packets.Subscribe(1, (subscription,)), _VERSION))
        elif kind == _SUBACK and body[2] == 1:
            self._is_new = False
            self._ready.set_result(None)
        else:
            raise SystemExit(f"bench: {self.client_id} was sent {kind:#04x} {body.hex()}")

    def _take_messages(self, data: memoryview) -> None:
        acknowledgements, following = [], self.next
        for first, packet_id, sequence in self._message.iter_unpack(data):
            if first & 0xF0 != _PUBLISH:
                raise SystemExit(f"bench: {self.client_id} was sent {first:#04x} between messages")
            acknowledgements.append(_PUBACKS[packet_id])
            if sequence < following:
                self.again += 1
                continue
            self.lost += sequence - following
            self.got += 1
            following = sequence + 1
        self.next = following
        if self._is_silent:
            self._unacknowledged += acknowledgements
        elif self._transport is not None and not self._transport.is_closing():
            answer = b"".join(acknowledgements)
            file = self._transport.get_extra_info("socket").fileno()
            if not self._transport.get_write_buffer_size():  # at once, as a device by itself would
                try:
                    answer = answer[os.write(file, answer) :]
                except BlockingIOError:
                    pass
            if answer:
                self._transport.write(answer)


async def come_all(readers: Sequence[Reader], port: int) -> None:
    """Connect readers, some at a time and as fast as the broker lets them in."""
    rest = iter(readers)

    async def work() -> None:
        for one in rest:
            await one.come("127.0.0.1", port)

    await asyncio.gather(*[work() for _ in range(_AT_A_TIME)])


async def leave_all(readers: Sequence[Reader]) -> None:
    """Disconnect readers."""
    await asyncio.gather(*[one.leave() for one in readers])


async def until_got(readers: Sequence[Reader], count: int, silent_s: float = 30.0) -> float:
    """Wait until each reader has had so many messages; return when the last one came. Raises: SystemExit."""
    seen, since_s = -1, monotonic()
    while True:
        total = sum(one.next for one in readers)
        if all(one.next >= count for one in readers):
            return monotonic()
        if total != seen:
            seen, since_s = total, monotonic()
        elif monotonic() - since_s > silent_s:
            raise SystemExit(f"bench: {total:,} of {count * len(readers):,} messages have come, and no more do")
        await asyncio.sleep(_LOOK_S)
