"""The broker of the demo of sessions: it keeps nothing itself, so it can be killed at any moment.

A line is a JSON array. From publishers: ["publish", device, number, payload], answered by ["stored", device, number].
From devices: ["connect", device]; then the four steps of MQTT's QoS 2, ["message", packet ID, payload] to the device,
["received", packet ID] from it, ["release", packet ID] to it, ["complete", packet ID] from it.
"""

import argparse
import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import redis
import redis.asyncio

from streamd.clients.sessions import AsyncDeviceStore, Message

T = TypeVar("T")

NUMBER = "number"  # the user property that says which of a device's messages it is


class Broker:
    """Takes messages for devices that are offline, and delivers them when they come."""

    def __init__(self, port: int, limit: int) -> None:
        self.client = redis.asyncio.Redis(port=port)
        self.store = AsyncDeviceStore(self.client, limit)
        self.last: dict[str, int] = {}  # device -> the number of its last message, once that was looked up
        self.order: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one publisher or one device."""
        device = ""
        try:
            while line := await reader.readline():
                kind, *words = json.loads(line)
                if kind == "connect":
                    (device,) = words
                    work = self.deliver(device, writer)
                elif kind == "publish":
                    work = self.take(writer, *words)
                elif kind == "received":
                    work = self.release(device, words[0], writer)
                else:
                    work = self.complete(device, words[0], writer)
                task = asyncio.ensure_future(work)
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def take(self, writer: asyncio.StreamWriter, device: str, number: int, payload: str) -> None:
        """Store a message, unless it is stored: publishers send again what was not answered."""
        async with self.order[device]:
            while True:
                try:
                    if device not in self.last:
                        self.last[device] = await self.last_number(device)
                    if number > self.last[device]:
                        properties = ((NUMBER, str(number)),)
                        message = Message("commands", payload.encode(), qos=2, user_properties=properties)
                        await self.store.add(device, message)
                        self.last[device] = number
                    break
                except redis.ConnectionError:
                    self.last.pop(device, None)  # nobody knows: the session will say
                    await asyncio.sleep(0.05)
        send(writer, "stored", device, number)

    async def last_number(self, device: str) -> int:
        """Return the number of the last message that was stored; or 0."""
        messages = await self.store.get(device)
        return int(dict(messages[-1].user_properties)[NUMBER]) if messages else 0

    async def deliver(self, device: str, writer: asyncio.StreamWriter) -> None:
        """Send a device what waits for it, each from the step at which it stood."""
        messages = await surely(lambda: self.store.get(device))
        for message in messages:
            if message.packet_type == "PUBREL":
                send(writer, "release", message.packet_id)
            else:
                send(writer, "message", message.packet_id, message.payload.decode())
        send(writer, "all", len(messages))

    async def release(self, device: str, packet_id: int, writer: asyncio.StreamWriter) -> None:
        """The device has a message: note that, then say that it need not remember its packet ID."""
        await surely(lambda: self.store.mark_pubrel(device, packet_id))
        send(writer, "release", packet_id)

    async def complete(self, device: str, packet_id: int, writer: asyncio.StreamWriter) -> None:
        """The device has forgotten the packet ID: forget the message."""
        await surely(lambda: self.store.remove(device, packet_id))
        send(writer, "removed", packet_id)


async def surely(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a call returns that may be made twice, once the server is there."""
    while True:
        try:
            return await call()
        except redis.ConnectionError:
            await asyncio.sleep(0.05)


def send(writer: asyncio.StreamWriter, *words: Any) -> None:
    """Send a line, if there is still somebody."""
    if not writer.is_closing():
        writer.write(json.dumps(words).encode() + b"\n")


async def run(port: int, server_port: int, limit: int) -> None:
    """Serve until killed."""
    broker = Broker(server_port, limit)
    server = await asyncio.start_server(broker.serve, "127.0.0.1", port)
    print("Ready for publishers and devices", flush=True)
    async with server:
        await server.serve_forever()


def main() -> int:
    """Run the broker."""
    parser = argparse.ArgumentParser(prog="python -m demo.sessions_broker")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server-port", type=int, required=True)
    parser.add_argument("--limit", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(run(options.port, options.server_port, options.limit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
