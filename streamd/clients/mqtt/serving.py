"""Runs a gateway from its options to its end."""

import argparse
import asyncio
import gc
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import uvloop

from streamd.clients.mqtt.access import Access
from streamd.clients.mqtt.gateway.gateway import Gateway, Settings
from streamd.clients.mqtt.gateway.ownership import CannotStart
from streamd.clients.mqtt.gateway.seeing import Seeing
from streamd.clients.mqtt.listening import Listening, start
from streamd.clients.mqtt.options import (
    applications_of,
    limits_of,
    listeners_of,
    logs_of,
    replicas_of,
    rules_of,
    sys_interval_of,
)
from streamd.clients.mqtt.own_server import OwnServer, start_server
from streamd.clients.mqtt.store.logs import RETENTION_S
from streamd.clients.sentinels import pool
from streamd.clients.server_url import without_password

EXIT_OK: Final = 0
# The heap of a gateway holds many objects that live long: looking through them often finds nothing.
_COLLECT: Final = (50_000, 20, 100)


def serve(arguments: argparse.Namespace) -> int:
    """Run a gateway until it is told to end; return the exit code.

    Raises: ValueError; FileFault; ListenFault; CannotStart; ServerFault.
    """
    limits, listeners = limits_of(arguments), listeners_of(arguments)
    logs, rules = logs_of(arguments), rules_of(arguments)
    sys_interval_s, applications = sys_interval_of(arguments), applications_of(arguments)
    replicas = replicas_of(arguments)
    if arguments.url is not None:
        _check_url(arguments.url)
    access = Access(arguments.password_file, arguments.acl_file)
    is_loopback = _is_loopback(arguments.bind)
    # Names come from certificates where a listener has TLS, and nowhere else.
    are_named = listeners.tls_user_from_certificate and not listeners.is_plain
    if arguments.acl_file is not None and arguments.password_file is None and not are_named:
        print("streamd: --acl-file without --password-file: any client may name itself as any user", file=sys.stderr)

    def settings(url: str) -> Settings:
        kinds = frozenset({"mqtts", "wss"}) if listeners.tls_user_from_certificate else frozenset[str]()
        is_open = arguments.allow_anonymous
        return Settings(url, logs, access, limits, rules, is_open, is_loopback, kinds, applications, replicas)

    async def run() -> None:
        server: OwnServer | None = None
        if arguments.url is None:
            server = await start_server(arguments.dir, arguments.appendfsync)
        try:
            gateway = Gateway(settings(server.url if server is not None else arguments.url))
            seeing = Seeing(gateway, sys_interval_s)
            listening: Listening | None = None
            try:
                await gateway.start()
                await seeing.start(arguments.bind, arguments.metrics_port)
                listening = await start(gateway.loop, listeners, lambda kind, _: gateway.make_connection(kind))
                reload = partial(_reload, gateway, listening)
                gateway.loop.add_signal_handler(signal.SIGHUP, lambda: gateway.spawn(reload()))
                await gateway.ownership.announce(arguments.reference or _reference(arguments.bind, listening))
                _show_banner(arguments, listening, seeing, server)
                gc.collect()
                gc.freeze()
                gc.set_threshold(*_COLLECT)
                await _until_ended(gateway, server)
            finally:
                if listening is not None:
                    listening.close()
                seeing.stop()
                await gateway.stop()
        finally:
            if server is not None:
                await server.stop()

    return uvloop.run(_until_told(run()))


def _check_url(url: str) -> None:
    """Raises: ValueError."""
    try:
        pool(url)
    except ValueError as error:
        raise ValueError(f"--url or STREAMD_URL: {error}")


async def _until_told(run: Coroutine[Any, Any, None]) -> int:
    """Run something until a signal comes, which may be before it serves; return the exit code."""
    running = asyncio.get_running_loop().create_task(run)
    is_told = False

    def tell() -> None:
        nonlocal is_told
        if not is_told:  # a second signal does not disturb the end
            is_told = True
            running.cancel()

    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, tell)
    try:
        await running
    except asyncio.CancelledError:
        pass
    return EXIT_OK


async def _until_ended(gateway: Gateway, server: OwnServer | None) -> None:
    """Wait until the gateway is drained, or its own server ends. Raises: CannotStart."""
    told = asyncio.ensure_future(gateway.told_to_end.wait())
    if server is None:
        await told
        return
    ended = asyncio.ensure_future(server.wait())
    done, _ = await asyncio.wait([told, ended], return_when=asyncio.FIRST_COMPLETED)
    if ended in done:
        raise CannotStart(f"the gateway's own server has ended: {ended.result()}")


def _reference(bind: str, listening: Listening) -> str:
    """Return where clients find a gateway whose options do not say it; empty for a Unix socket."""
    place = next((place for kind, place in listening.places if kind != "unix"), "")
    host, _, port = place.rpartition(":")
    return f"{socket.gethostname()}:{port}" if host.strip("[]") in ("0.0.0.0", "::") else place


async def _reload(gateway: Gateway, listening: Listening) -> None:
    """Read users, rights and certificates again."""
    reloaded = await gateway.access.reload()
    for fault in reloaded.faults:
        gateway.warn(fault)
    try:
        listening.reload_certificates()
    except ValueError as error:
        gateway.warn(f"{error}; the earlier certificate stays")
    gateway.rights_changed(reloaded.changed_users)
    if not reloaded.faults:
        gateway.warn("users and rights were read again")


def _show_banner(arguments: argparse.Namespace, listening: Listening, seeing: Seeing, server: OwnServer | None) -> None:
    store = f"a server of its own in {arguments.dir}" if server is not None else without_password(arguments.url)
    lines = [f"streamd mqtt, process {os.getpid()}", f"  store             {store}"]
    lines += [f"  {kind:<17} {place}" for kind, place in listening.places]
    if seeing.place is not None:
        lines.append(f"  metrics           http://{seeing.place}/metrics")
    if arguments.retention is None:
        lines.append(f"  retention         {RETENTION_S // 3_600} hours for new logs; --retention SECONDS sets another")
    print("\n".join([*lines, "  stop with         Ctrl-C", "  ready"]), flush=True)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
