"""A reader's position in a log, as a value that can be stored."""

import json
import zlib
from dataclasses import dataclass

from streamd.clients.topics.entry_ids import Id, format_id, parse_id
from streamd.clients.topics.filters import parse_filter

_MAGIC = b"streamd-topics-1:"


@dataclass(frozen=True, slots=True)
class Iterator:
    """A reader's position in a log; the server does not keep it.

    at: the last entry ID passed in each shard of `generation`. floor_ms: the start, if it is a time that the reader has
    not reached yet; later generations are read from there.

    `bytes(iterator)` can be stored anywhere, and `Iterator.from_bytes` restores it, also after a restart of both sides.
    """

    log: str
    uid: str
    filter: str
    generation: int
    at: tuple[Id, ...]
    floor_ms: int | None = None

    def __bytes__(self) -> bytes:
        said = [self.log, self.uid, self.filter, self.generation, [format_id(one) for one in self.at], self.floor_ms]
        text = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        return b"%b%08x:%b" % (_MAGIC, zlib.crc32(text), text)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Iterator":
        """Return the iterator of these bytes. Raises: ValueError, if they were changed."""
        if not bytes(data).startswith(_MAGIC):
            version = "a newer version's: upgrade streamd" if bytes(data).startswith(_MAGIC[:15]) else "no iterator's"
            raise ValueError(f"these {len(data)} bytes are {version}; give what bytes(iterator) made")
        checksum, _, text = bytes(data)[len(_MAGIC) :].partition(b":")
        if checksum != b"%08x" % zlib.crc32(text):
            raise ValueError(f"{len(data)} bytes of a changed or cut iterator: begin again with log.iterator()")
        try:
            log, uid, pattern, generation, at, floor_ms = json.loads(text)
            iterator = cls(log, uid, pattern, generation, tuple(parse_id(one) for one in at), floor_ms)
            parse_filter(iterator.filter)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"an iterator that says what none can say ({error}): begin again with log.iterator()")
        return iterator
