"""The layout of a topic log on its server: its streams, and the stream for a published row."""

import binascii
import json
import re
from dataclasses import dataclass

from spark_source.connecting.connection import Server
from spark_source.errors import OptionError, StreamdError

LAYOUTS = (b"1", b"2", b"3")  # of the keys; see docs/topics.md
_STREAM = re.compile(r"(\{.*\}):(g\d+)", re.DOTALL)


@dataclass(frozen=True)
class Generation:
    """One layout of a log: messages go to one of `shards` streams, by publisher or by topic."""

    number: int
    shards: int
    by: str
    filters: tuple[str, ...]

    def shard_of(self, topic: bytes, publisher: bytes | None) -> int:
        """Return the shard for messages of a publisher, or of a topic."""
        name = topic if self.by == "topic" or publisher is None else publisher
        return binascii.crc_hqx(name, 0) % self.shards


@dataclass(frozen=True)
class TopicLog:
    """The present state of a log; rows are published to its last generation.

    version: says which fields the entries may have.
    """

    name: str
    generations: tuple[Generation, ...]
    version: int = 1

    def stream(self, generation: Generation, shard: int) -> str:
        """Return the key of one shard in one generation."""
        return f"{{{self.name}/{shard}}}:g{generation.number}"

    def streams(self) -> list[str]:
        """Return the keys of all shards, those of the oldest generation first."""
        return [self.stream(one, shard) for one in self.generations for shard in range(one.shards)]


def is_shard(name: str, stream: str) -> bool:
    """Return whether a key is that of a shard of a log, in any generation."""
    return re.fullmatch(re.escape(f"{{{name}/") + r"\d+\}:g\d+", stream) is not None


def meta_key(name: str) -> str:
    """Return the key of a log's settings."""
    return f"{{{name}}}:meta"


def numbers_key(name: str) -> str:
    """Return the key of the stream that gives numbers to a log's retained messages."""
    return f"{{{name}}}:numbers"


def cleared_key(name: str) -> str:
    """Return the key of the hash in whose field without a name a gateway notes the highest number it has read."""
    return f"{{{name}}}:cleared"


def read_log(server: Server, name: str) -> TopicLog:
    """Return a log. Raises: OptionError, if no log has this name; StreamdError."""
    key = meta_key(name)
    reply = server.patiently(lambda session: session.call("HGETALL", key), key)
    assert isinstance(reply, list)
    fields: dict[bytes, bytes] = dict(zip(reply[::2], reply[1::2], strict=True))  # type: ignore[arg-type]
    if not fields:
        raise OptionError(f"log={name}: no topic log has this name: create it, or name streams by option stream")
    if fields.get(b"version") not in LAYOUTS:
        raise StreamdError(f"log {name} was made by a newer version of streamd.clients.topics: upgrade the data source")
    generations = []
    for field, value in fields.items():
        if re.fullmatch(rb"g\d+", field):
            said = json.loads(value)
            generations.append(Generation(int(field[1:]), said["shards"], said["by"], tuple(said["filters"])))
    return TopicLog(name, tuple(sorted(generations, key=lambda one: one.number)), int(fields[b"version"]))


def trimmed_place(stream: str) -> tuple[str, str]:
    """Return the key and the field that hold the last entry ID that retention removed from a log's stream."""
    found = _STREAM.fullmatch(stream)
    assert found is not None, stream
    return f"{found[1]}:meta", f"{found[2]}:trimmed"
