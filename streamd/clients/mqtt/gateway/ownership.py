"""The gateways of a store: each has a lease, all see the others, and one of them does what is due for all.

mqtt:gateways        hash: the gateways by run: who they are, in JSON
mqtt:gateway:<run>   string with a time to live: the lease of a gateway
mqtt:keeper          string with a time to live: the run that ends sessions, publishes wills that are due, removes what
                     is older than the retention, and writes the retained messages
mqtt:gateway         string with a time to live: a gateway of the first version refuses to start while it is there
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from dataclasses import asdict, dataclass
from typing import Final

from streamd.clients.mqtt.store.link import Link, Words

GATEWAYS: Final = "mqtt:gateways"
_KEEPER: Final = "mqtt:keeper"
_FIRST_VERSION: Final = "mqtt:gateway"
_SEVERAL: Final = "several"
LEASE_S: Final = 5
# While the store was away nobody could renew a lease: for so long after it has come back none is taken for over.
_GRACE_S: Final = 3.0
_RENEWED_S: Final = 1.5


class CannotStart(Exception):
    """The store cannot be used for a gateway; the text says what to do."""


def lease_key(run: str) -> str:
    """Return the key of a gateway's lease."""
    return f"mqtt:gateway:{run}"


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway. name: where its clients connect, for people and for a Server Reference; started: of its process."""

    run: str
    name: str
    host: str
    process: int
    started: str

    @classmethod
    def from_text(cls, text: bytes) -> Peer:
        """Return the gateway that a lease names. Raises: ValueError."""
        try:
            said = json.loads(text)
        except RecursionError:
            said = None
        if not isinstance(said, dict):
            raise ValueError("a lease is an object")
        return cls(
            str(said.get("run", "")),
            str(said.get("name", "")),
            str(said.get("host", "")),
            int(said.get("process", 0)),
            str(said.get("started", "")),
        )

    @property
    def is_known_dead(self) -> bool:
        """Whether it ran on this machine, and its process has ended: then nobody has to wait for its lease."""
        return self.host == _host() and (not _is_running(self.process) or _started(self.process) != self.started)


class Ownership:
    """The lease of this gateway, and what it knows of the others.

    peers: the others that live, by run. dead: runs whose lease is over, and whose sessions are to be taken up. is_sure:
    the sessions were looked at since the lease was over: another gateway may have taken some.
    """

    def __init__(self, link: Link, run: str) -> None:
        self._link, self.run = link, run
        self._loop = asyncio.get_running_loop()
        self.name = ""
        self.peers: dict[str, Peer] = {}
        self.dead: list[str] = []
        self._until_s = self._keeper_until_s = self._up_s = 0.0
        self._turn = 0
        self.is_sure = True

    @property
    def is_valid(self) -> bool:
        """Whether the lease is surely not over, and no session has been taken while it was."""
        return self.is_sure and self._loop.time() < self._until_s

    @property
    def is_keeper(self) -> bool:
        """Whether this gateway does what is due for all."""
        return self._loop.time() < self._keeper_until_s

    def store_is_back(self) -> None:
        """Note that the store can be used again."""
        self._up_s = self._loop.time()

    @property
    def _is_in_grace(self) -> bool:
        return self._loop.time() - self._up_s < _GRACE_S

    def reference(self) -> str | None:
        """Return where a client may go instead, each time to the next gateway; None without one."""
        names = sorted(one.name for one in self.peers.values() if one.name)
        if not names:
            return None
        self._turn += 1
        return names[self._turn % len(names)]

    async def begin(self) -> None:
        """Take a lease. Raises: CannotStart, while a gateway of the first version uses the store."""
        for _ in range(LEASE_S * 10 + 20):
            (first,) = await self._link.demand(("GET", _FIRST_VERSION))
            if first is None or first.startswith(_SEVERAL.encode()) or _is_over(first):
                break
            await asyncio.sleep(0.1)
        else:
            raise CannotStart("a gateway of an earlier version uses this store; stop it first")
        await self._renew()
        await self.look()

    async def announce(self, name: str) -> None:
        """Let others know where this gateway's clients connect."""
        self.name = name
        await self._renew()

    async def _renew(self) -> bool:
        """Extend the lease; return whether it was not over, or the sessions were looked at since."""
        now_s = self._loop.time()
        me = Peer(self.run, self.name, _host(), os.getpid(), _started(os.getpid()))
        several = f"{_SEVERAL} {socket.gethostname()} {os.getpid()}"
        before, *_ = await self._link.demand(
            ("GET", lease_key(self.run)),
            ("SET", lease_key(self.run), "1", "PX", LEASE_S * 1_000),
            ("HSET", GATEWAYS, self.run, json.dumps(asdict(me), ensure_ascii=False)),
            ("SET", _FIRST_VERSION, several, "PX", LEASE_S * 1_000),
        )
        if before is None and self._until_s:
            self.is_sure = False
        self._until_s = now_s + LEASE_S
        return self.is_sure

    async def look(self) -> None:
        """See who else is there, and whether this gateway is to do what is due for all."""
        now_s = self._loop.time()
        (members,) = await self._link.demand(("HGETALL", GATEWAYS))
        others = {run.decode(): text for run, text in zip(members[::2], members[1::2], strict=True)}
        others.pop(self.run, None)
        runs = sorted(others)
        leases = await self._link.demand(*[("EXISTS", lease_key(run)) for run in runs]) if runs else []
        peers, dead = {}, []
        for run, has_lease in zip(runs, leases, strict=True):
            peer = _peer_of(others[run])
            if peer is None or peer.is_known_dead or not (has_lease or self._is_in_grace):
                dead.append(run)
            else:
                peers[run] = peer
        self.peers, self.dead = peers, dead
        for run in dead:
            await self._link.demand(("DELEX", _KEEPER, "IFEQ", run), ("DEL", lease_key(run)))
        *_, keeper = await self._link.demand(("SET", _KEEPER, self.run, "NX", "PX", LEASE_S * 1_000), ("GET", _KEEPER))
        if keeper == self.run.encode():
            await self._link.demand(("PEXPIRE", _KEEPER, LEASE_S * 1_000))
            self._keeper_until_s = now_s + LEASE_S
        else:
            self._keeper_until_s = 0.0

    async def keep(self) -> bool:
        """Extend the lease; return False if it was over: the sessions are to be looked at."""
        was_valid = await self._renew()
        await self.look()
        return was_valid

    async def is_alive(self, run: str) -> bool:
        """Return whether another gateway lives."""
        text, has_lease = await self._link.demand(("HGET", GATEWAYS, run), ("EXISTS", lease_key(run)))
        peer = None if text is None else _peer_of(text)
        return peer is not None and not peer.is_known_dead and bool(has_lease or self._is_in_grace)

    async def is_at_work(self, run: str) -> bool:
        """Return whether another gateway has just renewed its lease: it is not stopped."""
        (left_ms,) = await self._link.demand(("PTTL", lease_key(run)))
        return bool(left_ms > (LEASE_S - _RENEWED_S) * 1_000)

    async def forget(self, run: str) -> None:
        """Note that the sessions of a dead gateway are taken up."""
        await self._link.demand(("HDEL", GATEWAYS, run), ("DEL", told_key(run)))

    async def end(self) -> None:
        """Give the lease back."""
        commands: list[Words] = [("DEL", lease_key(self.run), told_key(self.run)), ("HDEL", GATEWAYS, self.run)]
        commands.append(("DELEX", _KEEPER, "IFEQ", self.run))
        if not self.peers:
            commands.append(("DEL", _FIRST_VERSION))
        await self._link.ask(*commands)


def _peer_of(text: bytes) -> Peer | None:
    try:
        return Peer.from_text(text)
    except ValueError:
        return None


def told_key(run: str) -> str:
    """Return the key of the list of messages to a gateway."""
    return f"mqtt:told:{run}"


def _is_over(first: bytes) -> bool:
    """Return whether a gateway of the first version ran on this machine, and has ended."""
    _, host, process = first.decode("utf-8", "replace").rsplit(" ", 2) if first.count(b" ") > 1 else ("", "", "0")
    return host == socket.gethostname() and process.isdigit() and not _is_running(int(process))


def _host() -> str:
    """Return a name of this machine, or container: processes have numbers of their own there."""
    try:
        return f"{socket.gethostname()} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _started(process: int) -> str:
    """Return when a process began, as the system counts it; empty where that cannot be known."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
