"""Positions in a log: of a reader, and of one entry."""

from typing import NamedTuple

from streamd.clients.topics import layout
from streamd.clients.topics.entry_ids import BEGIN, END, Id, format_id, parse_id


class Place(NamedTuple):
    """The place of one entry. log: the log's name."""

    log: str
    generation: int
    shard: int
    entry_id: Id

    def to_text(self) -> str:
        """Return its text in a session's record."""
        return f"{self.log} {self.generation} {self.shard} {format_id(self.entry_id)}"

    @classmethod
    def from_text(cls, text: str) -> "Place":
        """Return the place of a text. Raises: ValueError."""
        log, generation, shard, entry_id = text.split(" ")
        return cls(log, int(generation), int(shard), parse_id(entry_id))


def key_of(place: Place) -> str:
    """Return the key of the stream that an entry is in."""
    return layout.stream_key(place.log, place.shard, place.generation)


class Position(NamedTuple):
    """How far a reader has come: the last ID that it has seen in each shard of a generation."""

    generation: int
    at: tuple[Id, ...]

    def to_text(self) -> str:
        """Return its text in a session's record."""
        return " ".join((str(self.generation), *map(format_id, self.at)))

    @classmethod
    def from_text(cls, text: str) -> "Position":
        """Return the position of a text. Raises: ValueError."""
        generation, *ids = text.split(" ")
        return cls(int(generation), tuple(parse_id(one) for one in ids))

    @classmethod
    def begin(cls, generation: int, shards: int) -> "Position":
        """Return the position before the first entry of a generation."""
        return cls(generation, (BEGIN,) * shards)

    def moved(self, shard: int, entry_id: Id) -> "Position":
        """Return the position after an entry of one shard."""
        return Position(self.generation, (*self.at[:shard], entry_id, *self.at[shard + 1 :]))

    def has_passed(self, generation: int, shard: int, entry_id: Id) -> bool:
        """Return whether a reader that is here has seen an entry."""
        if generation != self.generation:
            return generation < self.generation
        return entry_id <= self.at[shard]

    def has_reached(self, other: "Position") -> bool:
        """Return whether a reader that is here has seen all that one at the other position has seen."""
        if self.generation != other.generation:
            return self.generation > other.generation
        return all(mine >= its for mine, its in zip(self.at, other.at, strict=True))

    @property
    def is_closed(self) -> bool:
        """Whether the generation was read to its end, in all shards."""
        return all(one == END for one in self.at)


def furthest(one: Position, other: Position) -> Position:
    """Return the position of a reader that has seen what either has seen."""
    if one.generation != other.generation:
        return max(one, other, key=lambda position: position.generation)
    return Position(one.generation, tuple(map(max, one.at, other.at)))
