"""The topic logs of a gateway: opened or made, and which of them takes a topic."""

import asyncio
import re
from collections.abc import Iterable
from typing import NamedTuple

import redis.asyncio

from streamd.clients.mqtt.store.patience import patiently
from streamd.clients.topics import administration, layout, retention
from streamd.clients.topics.drivers import run_async
from streamd.clients.topics.filters import check_topic
from streamd.clients.topics.handle import Handle, refresh
from streamd.clients.topics.messages import pack

DEFAULT_LOG = "mqtt"
RETENTION_S = 86_400


class LogSettings(NamedTuple):
    """A log as the command line names it. prefix: the beginning of its topics, None for all that no other log takes."""

    name: str
    prefix: str | None
    shards: int
    retention_s: int


def parse_log(text: str, shards: int, retention_s: int) -> LogSettings:
    """Return the settings in PREFIX=NAME[,shards=N][,retention=SECONDS]. Raises: ValueError."""
    prefix, equals, rest = text.partition("=")
    name, *settings = rest.split(",")
    if not equals or not prefix or not name:
        raise ValueError(f"--log {text}: give PREFIX=NAME, devices=telemetry say")
    prefix = prefix.rstrip("/")
    try:
        check_topic(prefix)
        layout.check_name("log", name)
    except ValueError as error:
        raise ValueError(f"--log {text}: {error}")
    if prefix.startswith("$"):
        raise ValueError(f"--log {text}: topics that begin with $ are the gateway's own")
    for one in settings:
        found = re.fullmatch(r"(shards|retention)=(\d{1,9})", one)
        if found is None:
            raise ValueError(f"--log {text}: {one!r} is no setting; give shards=N or retention=SECONDS")
        if found[1] == "shards":
            shards = int(found[2])
        else:
            retention_s = int(found[2])
    try:
        layout.check_shards(shards)
        layout.check_retention(retention_s)
    except ValueError as error:
        raise ValueError(f"--log {text}: {error}")
    return LogSettings(name, prefix, shards, retention_s)


def check_logs(settings: Iterable[LogSettings]) -> None:
    """Refuse logs whose topics overlap. Raises: ValueError."""
    found: list[LogSettings] = []
    for one in settings:
        for other in found:
            if one.name == other.name and None in (one.prefix, other.prefix):
                raise ValueError(f"--log: {one.name} is the log of all other topics; give another name")
            if one.name == other.name:
                raise ValueError(f"--log {one.name}: a log has one prefix; it is given twice")
            if one.prefix is not None and other.prefix is not None and _overlap(one.prefix, other.prefix):
                raise ValueError(
                    f"--log: prefix {one.prefix!r} of log {one.name} overlaps {other.prefix!r} of log {other.name}: "
                    "a topic belongs to one log"
                )
        found.append(one)


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")


def head_of(key: bytes) -> bytes:
    """Return the first words of an XADD to a stream."""
    return pack((b"XADD", key, b"NOMKSTREAM"))


class OpenLog:
    """A log that is open: its present generation, and the keys of its streams, ready for requests."""

    def __init__(self, client: redis.asyncio.Redis, settings: LogSettings, handle: Handle) -> None:
        self._client = client
        self.settings, self.handle = settings, handle
        self.name = settings.name
        self.filters = ("#",) if settings.prefix is None else (f"{settings.prefix}/#",)
        self._raising: dict[int, asyncio.Future[None]] = {}
        self._take()

    def _take(self) -> None:
        meta = self.handle.meta
        self.generation = meta.current
        self.version = meta.version
        self.keys = [one.encode() for one in layout.stream_keys(self.name, self.generation)]
        # The words of an XADD before its name and its ID.
        self.heads = [head_of(key) for key in self.keys]
        self._shards: dict[bytes, int] = {}

    def shard_of(self, publisher: bytes) -> int:
        """Return the shard for a publisher's messages."""
        shard = self._shards.get(publisher)
        if shard is None:
            if len(self._shards) > 100_000:
                self._shards.clear()
            shard = self._shards[publisher] = self.generation.shard_named(publisher)
        return shard

    def keys_of(self, generation: layout.Generation) -> list[bytes]:
        """Return the keys of a generation's streams."""
        return [one.encode() for one in layout.stream_keys(self.name, generation)]

    def awaiting_key(self, shard: int, session_uid: str) -> str:
        """Return the key of the packet identifiers of a session that wait for PUBREL."""
        return f"{{{self.name}/{shard}}}:in:{session_uid}"

    def trimmed_command(self, generation: int, shard: int) -> tuple[str, str, str]:
        """Return the command that asks what the retention has removed."""
        return ("HGET", layout.shard_meta_key(self.name, shard), layout.trimmed_field(generation))

    async def refresh(self) -> bool:
        """Read the log's settings again; return whether it has a new generation. Raises: LogDropped."""
        before = self.generation.number
        await patiently(self._client, lambda: refresh(self.handle))
        self._take()
        return self.generation.number != before

    async def retain(self) -> int:
        """Remove what is older than the retention; return the number of entries."""
        removed = await run_async(self._client, retention.retain(self.handle))
        if self.handle.meta.current.number != self.generation.number:
            self._take()
        return removed

    async def raise_version(self, version: int) -> None:
        """Allow entries of a later version. All messages that wait for the same version wait for one transaction."""
        raising = self._raising.get(version)
        if raising is None:
            raising = self._raising[version] = asyncio.ensure_future(self._raise_version(version))
            raising.add_done_callback(lambda _: self._raising.pop(version, None))
        await asyncio.shield(raising)

    async def _raise_version(self, version: int) -> None:
        await patiently(self._client, lambda: administration.raise_version(self.handle, version))
        self.version = self.handle.meta.version


async def open_log(client: redis.asyncio.Redis, settings: LogSettings) -> OpenLog:
    """Return a log, which is made if it does not exist. Raises: ValueError."""
    if settings.name in await run_async(client, administration.names()):
        return OpenLog(client, settings, await run_async(client, administration.open_log(settings.name)))
    filters = ("#",) if settings.prefix is None else (f"{settings.prefix}/#",)
    steps = administration.create(
        settings.name, settings.shards, "publisher", settings.retention_s, filters, is_rest=settings.prefix is None
    )
    try:
        made = await run_async(client, steps)
    except ValueError:
        if settings.name not in await run_async(client, administration.names()):
            raise
        made = await run_async(client, administration.open_log(settings.name))  # another gateway has made it meanwhile
    return OpenLog(client, settings, made)


class Logs:
    """All logs of a gateway."""

    def __init__(self, logs: list[OpenLog]) -> None:
        self.all = logs
        self.by_name = {one.name: one for one in logs}
        (self._rest,) = [one for one in logs if one.settings.prefix is None]
        self._prefixes = [(one.settings.prefix.encode(), one) for one in logs if one.settings.prefix is not None]

    def of_topic(self, topic: bytes) -> OpenLog:
        """Return the log that takes a topic."""
        for prefix, log in self._prefixes:
            if topic.startswith(prefix) and (len(topic) == len(prefix) or topic[len(prefix)] == 0x2F):
                return log
        return self._rest
