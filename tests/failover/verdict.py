"""Compares what clients were told with what a primary has: lost, doubled, reordered."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Entry = tuple[bytes, Mapping[bytes, bytes]]


@dataclass
class Verdict:
    """Counts, and the first of what they count."""

    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        """Return whether nothing was found."""
        return not (self.lost or self.doubled or self.reordered)

    def note(self, kind: str, what: object) -> None:
        """Count a finding."""
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.examples) < 10:
            self.examples.append(f"{kind}: {what}")


def judge(verdict: Verdict, told: Mapping[str, Mapping[int, bytes]], entries: Iterable[Entry]) -> None:
    """Add what is wrong with a stream's entries to a verdict.

    told: of each producer the number of each entry that it takes for stored, and the ID that it was told.
    """
    ids: dict[tuple[str, int], bytes] = {}
    newest: dict[str, int] = {}
    for entry_id, fields in entries:
        producer, number = fields[b"p"].decode(), int(fields[b"n"])
        if (producer, number) in ids:
            verdict.note("doubled", (producer, number, ids[producer, number], entry_id))
        elif number < newest.get(producer, -1):
            verdict.note("reordered", (producer, number, entry_id))
        ids[producer, number] = entry_id
        newest[producer] = max(number, newest.get(producer, -1))
    for producer, numbers in told.items():
        for number, entry_id in numbers.items():
            if ids.get((producer, number)) != entry_id:
                verdict.note("lost", (producer, number, entry_id, ids.get((producer, number))))


def judge_once(verdict: Verdict, what: str, expected: Iterable[bytes], found: Iterable[bytes]) -> None:
    """Add to a verdict what is not there, or there more than once."""
    seen: set[bytes] = set()
    for one in found:
        if one in seen:
            verdict.note("doubled", (what, one))
        seen.add(one)
    for one in expected:
        if one not in seen:
            verdict.note("lost", (what, one))
