"""Makes a gateway the only one of its store, and takes up the sessions of one that was killed."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from streamd.clients.mqtt.store.link import Link, Words
from streamd.clients.mqtt.store.records import INDEX, WILLS, key_of, parse_record

OWNER: Final = "mqtt:gateway"
_LEASE_S: Final = 5


class CannotStart(Exception):
    """The store cannot be used for a gateway; the text says what to do."""


class Ownership:
    """The lease of a store: a key that names the run, the host and the process of its gateway."""

    def __init__(self, link: Link, run: str, now_ms: Callable[[], int]) -> None:
        self._link, self._run, self._now_ms = link, run, now_ms
        self._mine = f"{run} {socket.gethostname()} {os.getpid()}"

    async def take(self) -> None:
        """Be the only gateway of the store: wait until the lease of one that was killed is over."""
        for _ in range(_LEASE_S * 10 + 20):
            taken, other = await self._link.demand(
                ("SET", OWNER, self._mine, "NX", "PX", _LEASE_S * 1_000), ("GET", OWNER)
            )
            if taken is not None or other == self._mine.encode():
                return
            _, host, process = other.decode().rsplit(" ", 2) if other else ("", "", "0")
            if host == socket.gethostname() and not _is_running(int(process)):
                # Another that starts at the same time may have taken it meanwhile.
                (taken,) = await self._link.demand(("SET", OWNER, self._mine, "IFEQ", other, "PX", _LEASE_S * 1_000))
                if taken is not None:
                    return
                continue
            await asyncio.sleep(0.1)
        raise CannotStart(f"another gateway uses this store: process {process} on {host}; stop it first")

    async def keep(self) -> bool:
        """Extend the lease; return False if another gateway has it."""
        _, owner = await self._link.demand(("SET", OWNER, self._mine, "NX", "PX", _LEASE_S * 1_000), ("GET", OWNER))
        if owner != self._mine.encode():
            return False
        await self._link.demand(("PEXPIRE", OWNER, _LEASE_S * 1_000))
        return True

    async def take_up_sessions(self) -> None:
        """Let the connections of a gateway that was killed end: sessions run out from now on, wills are due."""
        (names,) = await self._link.demand(("ZRANGEBYSCORE", INDEX, "+inf", "+inf"))
        now_ms = self._now_ms()
        for at in range(0, len(names), 1_000):
            some = [one.decode() for one in names[at : at + 1_000]]
            replies = await self._link.demand(*[("HMGET", key_of(one), "owner", "expiry_s", "will") for one in some])
            commands: list[Words] = []
            for client_id, (owner, expiry_s, will) in zip(some, replies, strict=True):
                if expiry_s is None:  # it was never written
                    commands.append(("ZREM", INDEX, client_id))
                    continue
                if owner is None:
                    continue
                ends_ms = now_ms + int(expiry_s) * 1_000
                words: list[bytes | str | int] = ["HSET", key_of(client_id), "ends_ms", ends_ms]
                if will is not None:
                    (reply,) = await self._link.demand(("HGETALL", key_of(client_id)))
                    record = parse_record(client_id, reply)
                    assert record is not None
                    assert record.will is not None
                    delay = record.will.properties.get(0x18, 0)
                    assert isinstance(delay, int)
                    will_ms = now_ms + min(delay, record.expiry_s) * 1_000
                    words += ["will_ms", will_ms]
                    commands.append(("ZADD", WILLS, will_ms, client_id))
                commands += [words, ("ZADD", INDEX, ends_ms, client_id)]
            if commands:
                await self._link.demand(*commands)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
