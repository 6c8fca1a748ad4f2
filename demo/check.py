"""The comparison that decides the demo, entry by entry: lost, duplicated or altered."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Fields = Mapping[str, str]


@dataclass
class Comparison:
    """Differences between expected and actual entries; each list holds keys."""

    expected: int
    found: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    altered: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        """Return whether each expected entry is there once and unaltered, and no other."""
        return not (self.lost or self.duplicated or self.altered)

    def first_differences(self, count: int = 3) -> list[str]:
        """Return a line for each of the first differences of each kind."""
        kinds = {"lost": self.lost, "duplicated": self.duplicated, "altered": self.altered}
        return [f"{kind}: {key}" for kind, keys in kinds.items() for key in keys[:count]]


def compare(expected: Mapping[str, Fields], found: Iterable[tuple[str, Fields]]) -> Comparison:
    """Compare entries with the expected ones, by key and content.

    A repeated key counts as duplicated, with any content. Other fields than expected count as altered, and so does an
    unexpected key.
    """
    result = Comparison(expected=len(expected))
    seen: set[str] = set()
    for key, fields in found:
        result.found += 1
        if key in seen:
            result.duplicated.append(key)
            continue
        seen.add(key)
        if expected.get(key) != fields:
            result.altered.append(key)
    result.lost = [key for key in expected if key not in seen]
    return result
