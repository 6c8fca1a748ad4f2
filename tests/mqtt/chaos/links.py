"""A client's connection to a broker, which breaks in the ways that connections of real devices do."""

import asyncio
import random
import socket
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import Connack, Connect, Disconnect, Packet

CONNECT_S = 15.0  # for CONNACK: a broker that starts, or whose store starts, takes some seconds
SILENT_S = 4.0  # so long a dead peer keeps its connection open
FORSAKEN_S = 25.0  # after which the broker has closed a connection whose client has another; it may have been stopped


class Cut(Enum):
    """Where a connection breaks."""

    TORN = "in the middle of a packet"
    UNANSWERED = "behind a whole packet, before its answer"
    ANSWER_LOST = "when an answer had come, before it was read"
    SILENT = "not at all: the client is gone, and its connection stays open for a while"


class Plan(NamedTuple):
    """How a connection breaks, and behind how many packets that it sent or received."""

    cut: Cut
    packets: int


def random_plan(chance: random.Random, mean_packets: float) -> Plan:
    """Return when and how the next connection breaks."""
    return Plan(chance.choice(list(Cut)), 1 + int(chance.expovariate(1 / mean_packets)))


async def pause(seconds: float) -> None:
    """Let that much time pass."""
    done = asyncio.get_running_loop().create_future()
    timer = asyncio.get_running_loop().call_later(max(0.0, seconds), done.set_result, None)
    try:
        await done
    finally:
        timer.cancel()


class Link(asyncio.Protocol):
    """One connection. `receive` is called for each packet that arrives behind CONNACK.

    connack: set when CONNACK has come, to None if the connection broke before. ended: why the connection is over for
    its client, None while it is not; `on_end` is called then, once. number: of the client's connections. is_left_open:
    its client had forsaken it, and the broker has not closed it.
    """

    def __init__(
        self,
        version: int,
        receive: Callable[["Link", Packet], None],
        on_end: Callable[[], None],
        plan: Plan | None = None,
        chance: random.Random | None = None,
        number: int = 0,
    ) -> None:
        self.version, self.number = version, number
        self.plan = plan
        self.ended: str | None = None
        self.reason: int | None = None  # of the broker's DISCONNECT
        self.is_left_open = False
        self._forsaken: asyncio.TimerHandle | None = None
        self.fault: str | None = None  # what was wrong with the broker's bytes
        self.connack: asyncio.Future[Connack | None] = asyncio.get_running_loop().create_future()
        self._receive, self._on_end = receive, on_end
        self._chance = chance or random.Random(0)
        self._decoder = Decoder(from_client=False, version=version)
        self._packets = 0
        self._transport: asyncio.Transport

    @property
    def is_open(self) -> bool:
        return self.ended is None

    def send(self, packet: Packet) -> None:
        """Send a packet, or the part of it that leaves before the connection breaks."""
        self.send_bytes(encode(packet, self.version))

    def send_bytes(self, data: bytes) -> None:
        """Send the bytes of one packet."""
        if not self.is_open:
            return
        self._packets += 1
        cut = self.plan.cut if self.plan is not None and self._packets >= self.plan.packets else None
        if cut is Cut.TORN:
            self._transport.write(data[: self._chance.randrange(1, len(data))])
            self.break_off(cut.value)
            return
        self._transport.write(data)
        if cut is Cut.UNANSWERED:
            self.break_off(cut.value)
        elif cut is Cut.SILENT:
            self._go_silent()

    def break_off(self, why: str) -> None:
        """End the connection from this side without DISCONNECT; what was written before is sent."""
        if self.is_open:
            if self._chance.random() < 0.5:
                self._linger_no_longer()
            self._transport.close()
            self._end(why)

    def disconnect(self, packet: Disconnect | None = None) -> None:
        """Send DISCONNECT and close."""
        if self.is_open:
            self._transport.write(encode(packet or Disconnect(), self.version))
            self._transport.close()
            self._end("DISCONNECT")

    def forsake(self, when_left_open: Callable[[], None]) -> None:
        """Use it no more, as its client has another connection, and leave it to the broker to close it."""
        if self.is_open:
            if not self._transport.is_closing():
                self._transport.resume_reading()  # it may be held; the broker's end of it is to be seen
            self._end("its client has another connection")
            self._forsaken = asyncio.get_running_loop().call_later(FORSAKEN_S, self._leave, when_left_open)

    def _leave(self, when_left_open: Callable[[], None]) -> None:
        self.is_left_open = True
        self._transport.abort()
        when_left_open()

    def hold_reading(self, seconds: float) -> None:
        """Read nothing for so long, so that the broker's bytes stay in the network."""
        if self.is_open:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, self._read_again)

    def _read_again(self) -> None:
        if self.is_open and not self._transport.is_closing():
            self._transport.resume_reading()

    def _linger_no_longer(self) -> None:
        # A reset instead of an end: 0 seconds for what the other side has not acknowledged.
        raw = self._transport.get_extra_info("socket")
        if raw is not None:
            try:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            except OSError:
                pass

    def _go_silent(self) -> None:
        self._transport.pause_reading()
        asyncio.get_running_loop().call_later(SILENT_S, self._transport.abort)
        self._end(Cut.SILENT.value)

    def _end(self, why: str) -> None:
        if self.ended is None:
            self.ended = why
            if not self.connack.done():
                self.connack.set_result(None)
            self._on_end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's are no subclasses

    def connection_lost(self, error: Exception | None) -> None:
        if self._forsaken is not None:
            self._forsaken.cancel()
        self._end("closed by the broker" if error is None else f"{type(error).__name__}")

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            return
        for packet in self._decoder.feed(data):
            self._packets += 1
            if self.plan is not None and self._packets >= self.plan.packets:
                if self.plan.cut is Cut.SILENT:
                    self._go_silent()
                    return
                if self.plan.cut is Cut.ANSWER_LOST:
                    self.break_off(self.plan.cut.value)
                    return
            self._take(packet)
            if not self.is_open:
                return
        if self._decoder.fault is not None:
            self.fault = str(self._decoder.fault)
            self.break_off(f"bytes that no broker may send: {self.fault}")

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Connack) and not self.connack.done():
            self.connack.set_result(packet)
            return
        if isinstance(packet, Disconnect):
            self.reason = packet.reason
            self._transport.close()
            self._end(f"DISCONNECT {packet.reason:#04x} of the broker")
            return
        self._receive(self, packet)


async def open_link(
    address: tuple[str, int],
    connect: Connect,
    receive: Callable[["Link", Packet], None],
    on_end: Callable[[], None],
    plan: Plan | None = None,
    chance: random.Random | None = None,
    number: int = 0,
) -> tuple[Link | None, Connack | None]:
    """Return a connection and its CONNACK; without the latter where it broke before, without both where none was made.

    What arrives behind CONNACK in the same read is received before this returns.
    """
    try:
        _, link = await asyncio.get_running_loop().create_connection(
            lambda: Link(connect.version, receive, on_end, plan, chance, number), *address
        )
    except OSError:
        return None, None
    link.send(connect)
    timer = asyncio.get_running_loop().call_later(CONNECT_S, link.break_off, "no CONNACK")
    connack = await link.connack
    timer.cancel()
    return link, connack
