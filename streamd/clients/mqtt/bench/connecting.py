"""The connections of a run: opened at a steady rate, and closed."""

import asyncio
import ssl
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import cast

from streamd.clients.mqtt.bench.client import Client, Refused
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.tally import Tally

# At most so many are opened at a time: fewer than the backlog of usual brokers, which is 100 to 1,024.
_AT_A_TIME = 64
_PATIENCE_S = 30.0
_BACKLOG_S = 0.01


class Opener:
    """Opens connections to the broker of a load."""

    def __init__(self, load: Load) -> None:
        """Raises: OSError, for a certificate file."""
        self._load = load
        self._tls = ssl.create_default_context(cafile=load.tls_ca) if load.tls_ca else None
        self._address: tuple[str, int] | None = None

    async def open_all(self, clients: Sequence[Client]) -> float:
        """Connect all clients, at the load's rate; return the seconds it took. Raises: Refused."""
        begun_s = monotonic()
        # The first one alone: it finds out which address of a name answers, or that none does.
        await self._open(clients[0])
        rest = iter(enumerate(clients[1:], 1))
        workers = [asyncio.ensure_future(self._work(rest, begun_s)) for _ in range(min(_AT_A_TIME, len(clients)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        return monotonic() - begun_s

    async def _work(self, rest: Iterator[tuple[int, Client]], begun_s: float) -> None:
        for number, client in rest:
            early_s = begun_s + number / self._load.connect_rate - monotonic()
            if early_s > 0:
                await asyncio.sleep(early_s)
            await self._open(client)

    async def _open(self, client: Client) -> None:
        load, loop = self._load, asyncio.get_running_loop()
        host, port = self._address or (load.host, load.port)
        name = load.host if self._tls else None
        client.begun_s = monotonic()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if load.unix is not None:
                    await self._open_unix(client, load.unix)
                else:
                    transport, _ = await loop.create_connection(
                        lambda: client, host, port, ssl=self._tls, server_hostname=name
                    )
                    self._address = cast(tuple[str, int], transport.get_extra_info("peername")[:2])
                await client.ready
        except Refused:
            raise
        except TimeoutError:
            raise Refused(f"{load.place} did not answer CONNECT and SUBSCRIBE within {_PATIENCE_S:.0f} s") from None
        except OSError as error:
            raise Refused(f"{load.place}: {_cause(error)}") from None
        except UnicodeError:
            raise Refused(f"{load.place}: no host can have this name") from None

    async def _open_unix(self, client: Client, path: str) -> None:
        """Connect to a Unix socket; where its backlog is full, again: unlike TCP it does not wait by itself."""
        while True:
            try:
                await asyncio.get_running_loop().create_unix_connection(lambda: client, path)
                return
            except BlockingIOError:
                await asyncio.sleep(_BACKLOG_S)


async def close_all(load: Load, clients: Sequence[Client]) -> None:
    """Disconnect all clients; sessions that lasted are forgotten."""
    for client in clients:
        client.leave(forget=load.persistent)
    await asyncio.wait([client.gone for client in clients], timeout=_PATIENCE_S)


async def forget_all(load: Load, clients: Sequence[Client]) -> None:
    """Have a broker of 3.1.1 drop the sessions of these clients: only a clean session by that name does so."""
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    again = [Client(load, Tally(), lost, client.client_id) for client in clients]
    await Opener(load).open_all(again)
    await close_all(load, again)


def _cause(error: OSError) -> str:
    """Return what the system says, in its words."""
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    return str(error.strerror or error)
