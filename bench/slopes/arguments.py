"""Rows that are derived from others: each argument of each command, grown to a megabyte."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from bench.slopes.row import BYTES, Row, grown

# Text, a number, and a pattern that tries many places.
FILLINGS = ("*a", "1", "x")
# What ends or stops the server, or waits for so long as it is told.
_LEFT_OUT = frozenset({"debug", "shutdown", "client|pause", "client|reply", "wait", "waitaof"})
_SMALL = 100


def long_arguments(rows: Iterable[Row], fillings: Sequence[str] = FILLINGS) -> Iterator[Row]:
    """Yield rows that replace one argument by N bytes, in each command's longest request."""
    longest: dict[str, Row] = {}
    for row in rows:
        if not grown(row.before) and row.name not in _LEFT_OUT and " x " not in row.request:
            best = longest.setdefault(row.name, row)
            if len(row.request.split()) > len(best.request.split()):
                longest[row.name] = row
    for name, row in longest.items():
        first, _, behind = row.request.partition(" ; ")
        words = [_small(word) for word in shlex.split(first)]
        for at in range(2 if "|" in name else 1, len(words)):
            for filling in fillings:
                changed = [shlex.quote(word) for word in (*words[:at], f"{filling}^N", *words[at + 1 :])]
                yield Row(
                    " ; ".join(filter(None, (" ".join(changed), _small(behind)))),
                    "n",
                    prepare=" ; ".join(_small(one) for one in row.prepare.split(" ; ")),
                    before=row.before,
                    fresh=row.fresh,
                    refused=True,
                    command=name.replace("|", " "),
                    n=BYTES,
                )


def _small(text: str) -> str:
    """Return a text whose N is a small number."""
    for sign in ("*N", "^N", "{N}"):
        text = text.replace(sign, sign.replace("{N}", "N").replace("N", str(_SMALL)))
    text = text.replace("{H}", str(_SMALL // 2))
    return " ".join(str(_SMALL) if word == "N" else word for word in text.split(" "))
