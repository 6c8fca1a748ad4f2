"""The layout of a topic log on its server: the names of its keys, the contents of its meta hash.

All of it is ordinary keys, which redis-cli can read:

    topics:registry          stream, an entry per living log: log, uid, filters
    topics:generation        the number of the youngest generation; no number is given twice, also not to another log
    {log}:meta               hash: version of the entries, uid, retention_s, current, and g<n> for each generation
    {log}:shares             hash: the agreement and the gap mark of each shared replay
    {log}:numbers            stream of one entry, whose ID is the newest number of a retained message: see `numbers`
    {log}:retained           hash: the retained messages, which a gateway keeps
    {log}:cleared            hash: their removals, for some minutes; its field without a name has the highest number
    {log/shard}:g<n>         stream: the messages of one shard in one generation
    {log/shard}:meta         hash: g<n>:trimmed, the last entry ID that retention removed

The text in braces decides the slot of a cluster: all of a shard lies in one.

The version says which fields the entries may have. A log begins with version 1. The first message that needs a later
version raises it, before it is written. So a library that does not know the fields refuses the log, instead of reading
half of a message: every reader asks for the version behind its entries, or with them. (Libraries that know only version
1 ask before in a shared replay without order. A member of theirs that waits just then gets one such delivery.)

    1    t p c e q r u:<name>
    2    u (a JSON list of all properties, where names repeat), pf, ct, rt, cd
    3    n (the number of a retained message)

Properties whose names repeat are listed in one field: a stream keeps fields of the same name, but clients make
mappings of an entry's fields, which lose all but the last. `u:<name>` then has the last value, for other programs.
"""

import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamd.clients.topics.filters import TopicFilter, parse_filter

VERSION = 3  # the newest that this library knows
REGISTRY = "topics:registry"
COUNTER = "topics:generation"
SHARDS_MAX = 1_024  # a reader asks every shard in one round trip
# How long a log remembers iids, and how many of one publisher: for so long a publisher may try again.
WINDOW_S = 3_600
WINDOW_MAXSIZE = 10_000
BY = ("publisher", "topic")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


def check_name(what: str, name: str) -> str:
    """Return a name that can be part of keys. Raises: ValueError."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r}: a name has 1 to 100 letters, digits, or characters of '_.:-'")
    return name


@dataclass(frozen=True, slots=True)
class Generation:
    """One layout of a log.

    number: its own. after: the number of the one before it, 0 for the first. since_ms: the server's time at its start.
    """

    number: int
    shards: int
    by: str
    filters: tuple[str, ...]
    after: int
    since_ms: int

    def shard_of(self, topic: bytes, publisher: bytes | None) -> int:
        """Return the shard for messages of a publisher, or of a topic."""
        return self.shard_named(self.name_of(topic, publisher))

    def name_of(self, topic: bytes, publisher: bytes | None) -> bytes:
        """Return the name that decides a message's shard: its publisher, or without one its topic."""
        return topic if publisher is None or self.by == "topic" else publisher

    def shard_named(self, name: bytes) -> int:
        """Return the shard for a name."""
        return binascii.crc_hqx(name, 0) % self.shards

    def to_text(self) -> str:
        """Return its text in the meta hash."""
        return json.dumps(
            {
                "shards": self.shards,
                "by": self.by,
                "filters": self.filters,
                "after": self.after,
                "since_ms": self.since_ms,
            },
            ensure_ascii=False,
        )


@dataclass(frozen=True, slots=True)
class Meta:
    """A log's meta hash; generations are in the order of their numbers. version: of its entries."""

    name: str
    uid: str
    retention_s: int
    generations: tuple[Generation, ...]
    version: int = 1

    @property
    def current(self) -> Generation:
        """The generation that messages are published to."""
        return self.generations[-1]

    def generation(self, number: int) -> Generation | None:
        """Return a generation that still exists."""
        return next((one for one in self.generations if one.number == number), None)

    def after(self, number: int) -> Generation | None:
        """Return the oldest generation that is younger than this number."""
        return next((one for one in self.generations if one.number > number), None)


def meta_key(name: str) -> str:
    """Return the key of a log's meta hash."""
    return f"{{{name}}}:meta"


def shares_key(name: str) -> str:
    """Return the key of the agreements on a log's shared replays."""
    return f"{{{name}}}:shares"


def numbers_key(name: str) -> str:
    """Return the key of the stream that gives numbers to a log's retained messages."""
    return f"{{{name}}}:numbers"


def retained_key(name: str) -> str:
    """Return the key of the hash with a log's retained messages."""
    return f"{{{name}}}:retained"


def cleared_key(name: str) -> str:
    """Return the key of the hash with the removals of a log's retained messages, and the highest number among all."""
    return f"{{{name}}}:cleared"


def retained_keys(name: str) -> tuple[str, str, str]:
    """Return the keys of all that is known of a log's retained messages."""
    return numbers_key(name), retained_key(name), cleared_key(name)


def members_key(name: str, share: str) -> str:
    """Return the key of the hash of an ordered shared replay: when each member was last seen."""
    return f"{{{name}}}:share:{share}:members"


def stream_key(name: str, shard: int, generation: int) -> str:
    """Return the key of one shard's messages in one generation."""
    return f"{{{name}/{shard}}}:g{generation}"


def lease_key(name: str, shard: int, generation: int, share: str) -> str:
    """Return the key that names the member with the lease of a shard."""
    return f"{stream_key(name, shard, generation)}:lease:{share}"


def shard_meta_key(name: str, shard: int) -> str:
    """Return the key of a shard's meta hash."""
    return f"{{{name}/{shard}}}:meta"


def trimmed_field(generation: int) -> str:
    """Return the field of a shard's meta hash that holds the last entry ID that retention removed."""
    return f"g{generation}:trimmed"


def stream_keys(name: str, generation: Generation) -> list[str]:
    """Return the keys of a generation's shards, in their order."""
    return [stream_key(name, shard, generation.number) for shard in range(generation.shards)]


def parse_meta(name: str, fields: Mapping[bytes, bytes]) -> Meta | None:
    """Return the contents of a meta hash; None without such a log.

    Raises: ValueError, if a newer version of the library made it.
    """
    if not fields:
        return None
    version = check_version(name, fields.get(b"version", b"?"))
    generations = []
    for field, value in fields.items():
        if field[:1] == b"g" and field[1:].isdigit():
            said = json.loads(value)
            said["filters"] = tuple(said["filters"])
            generations.append(Generation(number=int(field[1:]), **said))
    generations.sort(key=lambda one: one.number)
    return Meta(name, fields[b"uid"].decode(), int(fields[b"retention_s"]), tuple(generations), version)


def check_version(name: str, version: bytes) -> int:
    """Return the version of a log's entries. Raises: ValueError, if this library does not know it."""
    if not (version.isdigit() and 1 <= int(version) <= VERSION):
        raise ValueError(
            f"log {name!r} was made by a newer version (layout {version.decode()}, this one knows {VERSION}): "
            "upgrade streamd"
        )
    return int(version)


def check_shards(shards: int) -> int:
    """Return a number of shards. Raises: ValueError."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= SHARDS_MAX:
        raise ValueError(f"shards {shards!r}: give a whole number from 1 to {SHARDS_MAX:,}")
    return shards


def check_by(by: str) -> str:
    """Return the property that decides a message's shard. Raises: ValueError."""
    if by not in BY:
        raise ValueError(f"by {by!r}: messages go to shards by 'publisher' or by 'topic'")
    return by


def check_retention(retention_s: int) -> int:
    """Return a retention in whole seconds. Raises: ValueError."""
    if isinstance(retention_s, bool) or not isinstance(retention_s, int) or retention_s < 1:
        raise ValueError(f"retention_s {retention_s!r}: give whole seconds, 1 or more: a log keeps something")
    return retention_s


def check_filters(filters: Iterable[str]) -> tuple[str, ...]:
    """Return a log's filters. Raises: ValueError."""
    if isinstance(filters, str):
        raise ValueError(f"filters {filters!r}: give a list of filters: [{filters!r}]")
    found = tuple(parse_filter(text).text for text in filters)
    if not found:
        raise ValueError("filters []: a log without filters takes no topic; give at least one, '#' for all")
    return found


def overlapping(filters: Iterable[str], others: Iterable[str]) -> tuple[str, str] | None:
    """Return a pair of filters that one topic can match."""
    for text in filters:
        for other in others:
            if TopicFilter(text).overlaps(TopicFilter(other)):
                return text, other
    return None
