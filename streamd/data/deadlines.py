"""When keys are due: who has to go by a time, at a few bytes a key."""

from heapq import heapify, heappop, heappush
from typing import Final

# Keys are kept by steps of so many milliseconds: the server looks ten times a second who is due.
STEP_MS: Final = 100


class Deadlines:
    """Keys by the step in which they are due; a key may be in several, of which all but one are out of date.

    Sessions and caches give many keys nearly the same time to live. A list for each step takes eight bytes a key; a
    heap of times and keys took 64, and more time.

    Shape: `_steps`, step -> a key, or a list of them; `_order`, a heap of the steps. Of the step that is being worked
    off, which may be the current one: `_due`, the keys to be looked at, the next one last; `_later`, those that were
    looked at before their time. step: the last step that was begun: what is due in it or before has no other row.
    """

    __slots__ = ("_due", "_later", "_looked_ms", "_order", "_rows", "_steps", "step")

    def __init__(self) -> None:
        self._steps: dict[int, bytes | list[bytes]] = {}
        self._order: list[int] = []
        self._due: list[bytes] = []
        self._later: list[bytes] = []
        self._rows = 0
        self._looked_ms = -1
        self.step = -1

    def __len__(self) -> int:
        """How many rows there are, out of date ones among them."""
        return self._rows

    def add(self, due_ms: int, key: bytes) -> None:
        """Note that a key is due at a Unix time in milliseconds."""
        step = due_ms // STEP_MS
        keys = self._steps.get(step)
        if keys is None:
            self._steps[step] = key
            heappush(self._order, step)
        elif type(keys) is list:
            keys.append(key)
        else:
            self._steps[step] = [keys, key]  # type: ignore[list-item]
        self._rows += 1

    def begin(self, now_ms: int) -> None:
        """Have those looked at again for whom it was too early, if time has passed since."""
        if self._later and not self._due and now_ms != self._looked_ms:
            self._due, self._later = self._later[::-1], []
        self._looked_ms = now_ms

    def may_be_due(self, now_ms: int) -> bool:
        """Return whether `take` would give a key."""
        return bool(self._due) or (bool(self._order) and self._order[0] * STEP_MS <= now_ms)

    def take(self, now_ms: int) -> bytes | None:
        """Take out a key of a step that has begun, the oldest one; None if there is none. It may not be due yet."""
        if not self._due:
            if not self.may_be_due(now_ms):
                return None
            step = heappop(self._order)
            self.step = max(self.step, step)
            keys = self._steps.pop(step)
            self._due = keys[::-1] if type(keys) is list else [keys]  # type: ignore[list-item]
        self._rows -= 1
        return self._due.pop()

    def put_off(self, key: bytes) -> None:
        """Put back a key that was taken before its time."""
        self._later.append(key)
        self._rows += 1

    def fill(self, expires_ms: dict[bytes, int]) -> None:
        """Hold these keys, each once, and nothing else."""
        steps: dict[int, list[bytes]] = {}
        for key, due_ms in expires_ms.items():
            steps.setdefault(due_ms // STEP_MS, []).append(key)
        self._steps = {step: keys if len(keys) > 1 else keys[0] for step, keys in steps.items()}
        self._order = [*steps]
        heapify(self._order)
        self._due = []
        self._later = []
        self._rows = len(expires_ms)
        self.step = -1
