"""A sketch of a range from a few probes: the places of its entries and their approximate number, without counting.

Redis has no command that counts the entries of a range, and to walk over them costs more than to read them. So a range
is halved, by time, until no piece holds much. Each probe takes a few entries before the middle and the one behind it.
Pieces shrink to the times that have entries, and pauses count for nothing. The rates of the entries at both ends of a
piece, from their IDs, give its approximate number of entries; within one millisecond the sequence numbers give it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_source import ids

SAMPLE = 12  # entries that a probe takes: they tell the rate
PROBES = 64  # sent together
BURST = 4  # times the rate of a whole sample in the older half of it: more than chance makes of a steady stream
NEAR = 1.25  # times what is taken: up to there pieces are fine

ID = tuple[int, int]


class Ask(Protocol):
    """A way to send many questions to a server at once."""

    def __call__(self, questions: Sequence[tuple[str, str, str, int]]) -> list[list[str]]:
        """Return the IDs that each XRANGE or XREVRANGE (name, from, to, count) finds."""


@dataclass(frozen=True)
class Piece:
    """Entries from `first` to `last`. `sample`: the last of them, newest first. `rate`: the rate before the piece, in
    entries per millisecond, if known.
    """

    first: ID
    last: ID
    sample: tuple[ID, ...]
    rate: float | None

    @property
    def is_counted(self) -> bool:
        return self.sample[-1] == self.first

    def entries(self) -> float:
        """Return the approximate number of its entries."""
        if self.is_counted:
            return len(self.sample)
        if self.first[0] == self.last[0]:
            return max(len(self.sample) + 1.0, (self.last[1] - self.first[1]) * _density(self.sample) + 1)
        behind = _rate(self.sample)
        rate = behind if self.rate is None else (self.rate + behind) / 2
        return max(len(self.sample) + 1.0, rate * (self.last[0] - self.first[0] + 1))

    def middle(self) -> ID:
        """Return the ID at which it is halved: behind `first`, at `last` at most."""
        if self.first[0] == self.last[0]:
            return self.first[0], (self.first[1] + self.last[1] + 1) // 2
        return (self.first[0] + self.last[0] + 1) // 2, 0


def _density(sample: tuple[ID, ...]) -> float:
    """Return the share of a millisecond's sequence numbers that are taken: all, if the server gave them."""
    span = sample[0][1] - sample[-1][1]
    return (len(sample) - 1) / span if span > 0 else 1.0


def _rate(sample: tuple[ID, ...]) -> float:
    """Return the rate of a sample in entries per millisecond; if a pause cuts a burst off, the rate of the burst."""
    whole, older = _rate_of(sample), _rate_of(sample[len(sample) // 2 :])
    return older if older > BURST * whole else whole


def _rate_of(sample: tuple[ID, ...]) -> float:
    newest, oldest = sample[0], sample[-1]
    if newest[0] == oldest[0]:
        return (newest[1] + 1) * _density(sample)
    return sum(one[0] > oldest[0] for one in sample) / (newest[0] - oldest[0])


def sketch(ask: Ask, start: str, end: str, take: float | None, fine: int, coarse: int) -> list[Piece]:
    """Return the pieces of the entries behind `start` up to `end`.

    About `fine` pieces hold the first `take` entries, or all; about `coarse` pieces hold the entries behind those.
    """
    begin, final = _behind(start), _text(ids.parse(end))
    firsts, sample = ask([("XRANGE", begin, final, 1), ("XREVRANGE", final, begin, SAMPLE)])
    if not firsts or not sample:
        return []
    found = tuple(ids.parse(one) for one in sample)
    pieces = [Piece(ids.parse(firsts[0]), found[0], found, None)]
    left = 6 * (fine + coarse) + 128
    while left > 0 and (large := _too_large(pieces, take, fine, coarse)):
        large = large[:PROBES]
        left -= len(large)
        halves = _halve(ask, [pieces[place] for place in large])
        for place, made in sorted(zip(large, halves, strict=True), reverse=True):
            pieces[place : place + 1] = made
    return pieces


def _too_large(pieces: list[Piece], take: float | None, fine: int, coarse: int) -> list[int]:
    """Return the places of the pieces to halve, the largest excess first."""
    sizes = [piece.entries() for piece in pieces]
    total = sum(sizes)
    wanted = total if take is None else min(take, total)
    excess: dict[int, float] = {}
    before = 0.0
    for place, size in enumerate(sizes):
        most = wanted / fine if before < NEAR * wanted else total / coarse
        if size > most and not pieces[place].is_counted:
            excess[place] = size / most
        before += size
    return sorted(excess, key=lambda place: -excess[place])


def _halve(ask: Ask, pieces: list[Piece]) -> list[list[Piece]]:
    questions = []
    for piece in pieces:
        middle = _text(piece.middle())
        questions.append(("XREVRANGE", ids.before(middle), _text(piece.first), SAMPLE))
        questions.append(("XRANGE", middle, _text(piece.last), 1))
    answers = ask(questions)
    made = []
    for piece, sample, firsts in zip(pieces, answers[0::2], answers[1::2], strict=True):
        halves, rate = [], piece.rate
        if sample:
            found = tuple(ids.parse(one) for one in sample)
            # Fewer entries than asked for are all: then the first one of the piece is the oldest of the sample.
            halves.append(Piece(piece.first if len(found) == SAMPLE else found[-1], found[0], found, rate))
            rate = _rate(found)
        if firsts:
            first = ids.parse(firsts[0])
            kept = tuple(one for one in piece.sample if one >= first)
            halves.append(Piece(first, piece.last, kept or (piece.last,), rate))
        made.append(halves)
    return made


def _behind(entry_id: str) -> str:
    ms, seq = ids.parse(entry_id)
    return f"{ms}-{seq + 1}" if seq < ids.SEQ_MAX else f"{ms + 1}-0"


def _text(entry_id: ID) -> str:
    return f"{entry_id[0]}-{entry_id[1]}"
