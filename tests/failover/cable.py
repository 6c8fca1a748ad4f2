"""A cable between a server and the others: a TCP proxy that can be cut so that no end notices, and made whole again."""

import asyncio
import re
import threading
from collections.abc import Coroutine
from typing import Any

READ_BYTES = 256 * 1024
# What a replica says of itself in its handshake.
REPLICA_PORT = re.compile(rb"listening-port\r\n\$\d+\r\n(\d+)\r\n")


class Cables:
    """Cables that share a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> "Cables":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the thread, and wait for its end."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(10)


class Cable:
    """Forwards connections at `port` to a server.

    While it is cut, nothing passes: no byte, no end of a connection, no answer to a new one. What was sent meanwhile
    arrives when it is whole again.
    """

    def __init__(self, cables: Cables, target_port: int = 0) -> None:
        self.port = 0
        self.target_port = target_port
        self.whole = asyncio.Event()
        self._cables = cables
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        cables.run(self._open())

    def cut(self) -> None:
        """Let nothing pass."""
        self._cables.run(self._set_whole(False))

    def mend(self) -> None:
        """Let everything pass, also what was held."""
        self._cables.run(self._set_whole(True))

    def hold_replica(self, port: int) -> None:
        """Let nothing pass to or from the replica that announces a port."""
        self._cables.run(self._each_of(port, _Connection.hold))

    def drop_replica(self, port: int) -> None:
        """Break the connection of that replica; what was held is lost."""
        self._cables.run(self._each_of(port, _Connection.drop))

    def close(self) -> None:
        """Close all connections."""
        self._cables.run(self._close())

    async def _open(self) -> None:
        self.whole.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _set_whole(self, is_whole: bool) -> None:
        if is_whole:
            self.whole.set()
        else:
            self.whole.clear()

    async def _each_of(self, port: int, what: Any) -> None:
        for one in list(self._connections):
            if one.replica_port == port:
                what(one)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        connection = _Connection(self, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        except (OSError, asyncio.CancelledError):
            pass  # the server is gone, or all is over
        finally:
            self._connections.discard(connection)
            self._tasks.discard(task)


class _Connection:
    """One connection over a cable. replica_port: what the client has announced, if it is a replica."""

    def __init__(self, cable: Cable, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        self.replica_port = 0
        self._cable = cable
        self._near = near
        self._writers = [near_out]
        self._ways: list[asyncio.Task[None]] = []
        self._free = asyncio.Event()
        self._free.set()

    def hold(self) -> None:
        """Let nothing pass."""
        self._free.clear()

    def drop(self) -> None:
        """Break both ends off."""
        for way in self._ways:
            way.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def run(self) -> None:
        """Forward both ways until one of them ends."""
        try:
            await self._cable.whole.wait()
            far, far_out = await asyncio.open_connection("127.0.0.1", self._cable.target_port, limit=READ_BYTES)
            self._writers.append(far_out)
            ways = ((self._near, far_out), (far, self._writers[0]))
            self._ways = [asyncio.create_task(self._pump(reader, writer)) for reader, writer in ways]
            try:
                await asyncio.wait(self._ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in self._ways:
                    way.cancel()
        finally:
            for writer in self._writers:
                writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b"."
        while data:
            try:
                data = await reader.read(READ_BYTES)
            except OSError:
                data = b""
            if reader is self._near and (said := REPLICA_PORT.search(data)):
                self.replica_port = int(said[1])
            await self._free.wait()
            await self._cable.whole.wait()
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                return
