"""The memory limits: above these, commands that make data grow are refused."""

from collections.abc import Callable
from typing import Final

from streamd.base.heap import give_back
from streamd.base.process import resident_bytes
from streamd.connected.state import State

# Entries wait in memory for the disk. Where `maxmemory` sets no limit, this many times `stream-memory` is the limit for
# them while the disk is full, or fails. While it works, so much more may wait for it, and whatever a start or an option
# has left to be moved, as long as it becomes less from one look to the next.
_UNWRITTEN_MAX: Final = 2
_SLOW_DISK_BYTES: Final = 64 * 1024 * 1024
_LOOK_MS: Final = 5_000

# When so much of them has gone to the disk, the allocator is told to give their memory back.
_MOVED_BYTES: Final = 64 * 1024 * 1024

# The allocator keeps freed pages for itself until it is told to give them back, which takes milliseconds.
_GIVE_BACK_MS: Final = 1_000


class MemoryLimit:
    """Compares the process's resident memory with `maxmemory`, ten times a second and when the option is set.

    Resident memory includes the allocator's free lists. When it is above the limit, the allocator is first asked to
    return unused memory. Between two checks data may grow beyond the limit by the input of a tenth of a second.
    """

    def __init__(
        self,
        state: State,
        measure: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = give_back,
    ) -> None:
        self._state = state
        self._measure = measure
        self._give_back = give_back
        self._next_give_back_ms = 0
        self._look_ms = self._looked_bytes = self._most_bytes = 0
        self._grows = False
        state.config.on_change("maxmemory", self.check)

    def look(self, state: State, stop: Callable[[], bool]) -> bool:
        """Check as one of the cron's chores."""
        self.check()
        return False

    def check(self) -> None:
        """Measure, and refuse or allow growth."""
        state = self._state
        limit_bytes = state.config.values["maxmemory"]
        assert isinstance(limit_bytes, int)
        if state.cold is not None:
            self._give_back_moved(state.cold.hot_bytes + state.cold.cache.bytes)
        if not limit_bytes or state.read_only is not None:  # what a replica must hold its primary decides
            state.refuse_growth(state.read_only is None and self._waits_for_disk())
            return
        exceeded = self._measure() > limit_bytes
        if exceeded and state.time.monotonic_ms >= self._next_give_back_ms:
            self._next_give_back_ms = state.time.monotonic_ms + _GIVE_BACK_MS
            self._give_back()
            exceeded = self._measure() > limit_bytes
        state.refuse_growth(exceeded)

    def _give_back_moved(self, size: int) -> None:
        """Have the memory of entries given back that are on the disk alone now; size: of those that are in memory."""
        self._most_bytes = max(self._most_bytes, size)
        if self._most_bytes - size >= _MOVED_BYTES and self._state.time.monotonic_ms >= self._next_give_back_ms:
            self._most_bytes = size
            self._next_give_back_ms = self._state.time.monotonic_ms + _GIVE_BACK_MS
            self._give_back()

    def _waits_for_disk(self) -> bool:
        """Return whether far more entries are in memory, and in no segment file yet, than `stream-memory` allows, and
        the disk does not take them.
        """
        store, now_ms = self._state.cold, self._state.time.monotonic_ms
        if store is None or not store.limit_bytes:
            return False
        waiting, limit = store.hot_bytes, _UNWRITTEN_MAX * store.limit_bytes
        if store.move_failed or waiting <= limit + _SLOW_DISK_BYTES:
            self._look_ms, self._looked_bytes, self._grows = now_ms + _LOOK_MS, waiting, False
            return bool(store.move_failed) and waiting > limit
        if now_ms >= self._look_ms:
            self._grows = waiting >= self._looked_bytes
            self._look_ms, self._looked_bytes = now_ms + _LOOK_MS, waiting
        return self._grows
