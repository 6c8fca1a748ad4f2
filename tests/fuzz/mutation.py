"""Looks for inputs without coverage, for a form whose code cannot be watched: known inputs, changed at random."""

import hashlib
import random
import re
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

BYTES_MAX = 4096
# At most so many changes make an input of another.
CHANGES_MAX = 6
# Where the machine's integers end, and those of Redis.
_EDGES = [0, 1, 2, 7, 8, 63, 64, 255, 256, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63]
_NUMBER = re.compile(rb"-?\d+")


def look(target: ModuleType, known: Path, seconds: float, seed: int) -> bool:
    """Try the known inputs, and those that the target begins with, and then others for so many seconds in all; return
    whether none failed.

    One that fails is written to `known`, and why to the standard output, in the words that atheris uses.
    """
    chance, check, words = random.Random(seed), target.check, target.WORDS
    inputs = [path.read_bytes() for path in sorted(known.iterdir())] or [b""]
    begun = target.seeds() if hasattr(target, "seeds") else []
    inputs += chance.sample(begun, len(begun))
    tried, until_s = 0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        data = inputs[tried] if tried < len(inputs) else changed(chance, inputs, words)
        tried += 1
        try:
            check(data)
        except Exception:
            path = known / f"crash-{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"
            path.write_bytes(data)
            print(f"{traceback.format_exc()}\nTest unit written to {path}")
            break
    else:
        print(f"stat::number_of_executed_units: {tried}", flush=True)
        return True
    print(f"stat::number_of_executed_units: {tried}", flush=True)
    return False


def changed(chance: random.Random, inputs: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    """Return an input that is made of one or two others."""
    data = bytearray(chance.choice(inputs))
    for _ in range(chance.randint(1, CHANGES_MAX)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.choice((0, 0, 1, 1, 4, 16)))
        kind = chance.randrange(5)
        if kind == 0:
            data[at:end] = chance.choice(words)
        elif kind == 1:
            data[at:end] = chance.randbytes(chance.randint(0, 4))
        elif kind == 2:
            other = chance.choice(inputs)
            begin = chance.randint(0, len(other))
            data[at:end] = other[begin : begin + chance.randint(0, 64)]
        elif kind == 3 and (numbers := list(_NUMBER.finditer(data))):
            start, stop = chance.choice(numbers).span()
            data[start:stop] = b"%d" % _number(chance)
        else:
            data[at:at] = b"%d" % _number(chance)
    return bytes(data[:BYTES_MAX])


def _number(chance: random.Random) -> int:
    near = chance.choice(_EDGES) if chance.randrange(4) == 0 else chance.randint(0, 16)
    return (near + chance.randint(-1, 1)) * chance.choice((1, -1))
