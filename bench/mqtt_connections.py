"""How many idle connections one gateway holds, and what each of them takes."""

import asyncio
import resource
from time import monotonic
from typing import Final

from bench.mqtt_brokers import gateway_on
from bench.mqtt_scale_figures import Figure, Meter, run
from bench.servers import Target
from streamd.clients.mqtt.bench import processes
from streamd.clients.mqtt.bench.client import Client
from streamd.clients.mqtt.bench.file_limit import TooFewFiles, make_room
from streamd.clients.mqtt.bench.load import Load
from streamd.clients.mqtt.bench.tally import Tally

_PER_ADDRESS: Final = 20_000  # the ports that a client's address has for connections to one address, with room
_AT_A_TIME: Final = 64
_SETTLE_S: Final = 1.0
_IDLE_S: Final = 5.0
_OTHER_FILES: Final = 60  # of the gateway: of its store, its listeners, the interpreter


def measure(kind: str, connections: int) -> list[Figure]:
    """Return how many of so many connections a gateway holds, and the memory of each."""
    try:
        make_room(connections)
    except TooFewFiles:
        connections = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - _OTHER_FILES
        make_room(connections - _OTHER_FILES)
    with Target(kind) as store, gateway_on(store) as gateway:
        return run(_measure(gateway.port, gateway.processes[0], connections))


async def _measure(port: int, process: int, connections: int) -> list[Figure]:
    loop = asyncio.get_running_loop()
    lost: asyncio.Future[None] = loop.create_future()
    load, tally = Load("idle", port=port, clients=connections, keep_alive_s=600), Tally()
    before = processes.anonymous_bytes([process])
    clients: list[Client] = []
    begun_s, meter = monotonic(), Meter([process])
    rest = iter(range(connections))

    async def work() -> None:
        for number in rest:
            client = Client(load, tally, lost, f"idle-{number}", f"idle/{number}")
            # (An address has as many connections to one port as it has ports.)
            source = f"127.0.0.{2 + number // _PER_ADDRESS}", 0
            try:
                await loop.create_connection(lambda one=client: one, "127.0.0.1", port, local_addr=source)
                await client.ready
            except OSError:
                return
            clients.append(client)

    await asyncio.gather(*[work() for _ in range(_AT_A_TIME)])
    connect_s, connect_us = monotonic() - begun_s, meter.cpu_s / max(1, len(clients)) * 1e6
    await asyncio.sleep(_SETTLE_S)
    held = sum(not one.gone.done() for one in clients)
    each_kb = (processes.anonymous_bytes([process]) - before) / max(1, held) / 1024
    meter = Meter([process])
    await asyncio.sleep(_IDLE_S)
    idle = meter.cpu_s / meter.seconds * 100
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = "no limit" if limit == resource.RLIM_INFINITY else f"{limit:,} files a process here"
    for one in clients:
        if not one.gone.done():
            one.leave()
    await asyncio.wait([one.gone for one in clients], timeout=30)
    return [
        Figure("connections held", held, least=connections, note=f"bounded by {files}"),
        Figure("memory of a connection with a subscription", each_kb, "KB", most=6),
        Figure("connections in 1 GB by that", 2**20 / each_kb),
        Figure("CPU of all while idle", idle, "%", note="of a core; keep alive 600 s"),
        Figure("CPU of a connect with SUBSCRIBE", connect_us, "us", note=f"{held / connect_s:,.0f} a second"),
    ]
