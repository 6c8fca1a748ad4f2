"""A cable between a server and the others: a TCP proxy that can be cut so that no end notices, and made whole again."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

READ_BYTES = 256 * 1024


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
        self._cables = cables
        self.target_port = target_port
        self._whole = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        cables.run(self._open())

    def cut(self) -> None:
        """Let nothing pass."""
        self._cables.run(self._set(False))

    def mend(self) -> None:
        """Let everything pass, also what was held."""
        self._cables.run(self._set(True))

    def close(self) -> None:
        """Close all connections."""
        self._cables.run(self._close())

    async def _open(self) -> None:
        self._whole.set()
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _set(self, is_whole: bool) -> None:
        if is_whole:
            self._whole.set()
        else:
            self._whole.clear()

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, near: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        writers = [near_out]
        try:
            await self._whole.wait()
            far, far_out = await asyncio.open_connection("127.0.0.1", self.target_port, limit=READ_BYTES)
            writers.append(far_out)
            ways = [asyncio.create_task(self._pump(near, far_out)), asyncio.create_task(self._pump(far, near_out))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
        except (OSError, asyncio.CancelledError):
            pass  # the server is gone, or all is over
        finally:
            for writer in writers:
                writer.close()
            self._tasks.discard(task)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                data = await reader.read(READ_BYTES)
                await self._whole.wait()
                if not data:
                    return
                writer.write(data)
                await writer.drain()
        except OSError:
            await self._whole.wait()
