"""A TCP proxy that cuts the connections of its clients on purpose."""

import asyncio
import random
import threading
from collections import Counter

# The three moments of a cut, as the producer meets them:
REPLY_WITHHELD = "after the server had all bytes, before its reply"
REQUEST_TORN = "in the middle of a request"
REPLY_TORN = "in the middle of a reply"
# Most cuts are of the kind that makes a retry dangerous.
KINDS = (REPLY_WITHHELD, REQUEST_TORN, REPLY_WITHHELD, REPLY_TORN)
READ_BYTES = 256 * 1024


class CuttingProxy:
    """Forwards connections to a port of this machine and cuts each after some reads from its client.

    Runs in a thread of its own between `start()` and `stop()`. `cuts` counts them by kind, `writes` the reads that
    brought an XADD; each of these waits `write_delay_s` before it goes on.
    """

    def __init__(
        self,
        target_port: int,
        reads_between_cuts: tuple[int, int] = (10, 40),
        seed: int = 1,
        write_delay_s: float = 0.0,
    ) -> None:
        self.port = 0
        self.cuts: Counter[str] = Counter()
        self.writes = 0
        self._write_delay_s = write_delay_s
        self._target_port = target_port
        self.reads_between_cuts = reads_between_cuts
        self._rng = random.Random(seed)
        self._connections = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    def start(self) -> None:
        """Listen on a free port, which `port` then holds."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Close the listener and every connection."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=READ_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()

    async def _connection(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        kind = KINDS[self._connections % len(KINDS)]
        self._connections += 1
        reads_left = self._rng.randint(*self.reads_between_cuts)
        try:
            server_in, server_out = await asyncio.open_connection("127.0.0.1", self._target_port, limit=READ_BYTES)
        except OSError:
            client_out.transport.abort()
            return

        async def forward_replies() -> None:
            try:
                while data := await server_in.read(READ_BYTES):
                    if reads_left > 0:
                        client_out.write(data)
                        await client_out.drain()
                        continue
                    if kind == REPLY_TORN:
                        client_out.write(data[: len(data) // 2])
                        await client_out.drain()
                    self._count(kind)
                    break
            except OSError:
                pass
            finally:
                client_out.close()

        replies = asyncio.create_task(forward_replies())
        try:
            while data := await client_in.read(READ_BYTES):
                reads_left -= 1
                if b"XADD" in data:
                    self.writes += 1
                    await asyncio.sleep(self._write_delay_s)
                if reads_left <= 0 and kind == REQUEST_TORN:
                    server_out.write(data[: len(data) // 2])
                    self._count(kind)
                    break
                server_out.write(data)
                await server_out.drain()
        except OSError:
            pass
        finally:
            # Closed and not aborted: what was written before still reaches the server.
            server_out.close()
            client_out.close()
            replies.cancel()

    def _count(self, kind: str) -> None:
        self.cuts[kind] += 1
