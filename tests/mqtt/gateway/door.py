"""A way to the store that a test can shut, or hold up, and open again."""

import asyncio


class Door:
    """Passes bytes on to the store, on a port of its own."""

    def __init__(self, url):
        self._store = int(url.rpartition(":")[2])
        self._port = 0
        self._server = None
        self._writers = set()
        self._passes = asyncio.Event()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self._port}"

    async def open(self):
        """Let through what comes, and what was held up."""
        self._passes.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    def shut(self):
        """End all connections, and take none."""
        self._server.close()
        self._server = None
        for writer in self._writers:
            writer.transport.abort()

    def hold_up(self):
        """Let nothing through: the connections stay, and new ones are taken."""
        self._passes.clear()

    async def _serve(self, reader, writer):
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self._store)
        both = {writer, store_writer}
        self._writers |= both

        async def pump(source, drain):
            while data := await source.read(65_536):
                await self._passes.wait()
                drain.write(data)

        tasks = [asyncio.create_task(pump(reader, store_writer)), asyncio.create_task(pump(store_reader, writer))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writers -= both
        for one in both:
            one.transport.abort()
