"""A journal of 1 MB, cut at many places: each time a server starts on it, and has the entries that were whole."""

import re
from bisect import bisect_right
from collections.abc import Callable

from streamd.journal.recovery import DamagedError
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk

_BYTES = 1_000_000
_PER_TURN = 20
_VALUE = b"x" * 970


def cut_at(disk: SimulatedDisk, length: int) -> SimulatedDisk:
    """Return the disk as a killed process leaves it, with the increment cut."""
    after = disk.kill()
    del after.names[INCREMENT].data[length:]
    return after


class CutLoop:
    """Writes the journal, pipelines of XADDs with iids; `run(step)` cuts it. journal, entries: its bytes, and what they
    say.
    """

    def __init__(self) -> None:
        server = Restartable(appendfsync="no")
        begin = len(server.disk.names[INCREMENT].data)
        iids: list[bytes] = []
        while len(server.disk.names[INCREMENT].data) < _BYTES:
            new = [b"i%d" % number for number in range(len(iids), len(iids) + _PER_TURN)]
            server.run(*([b"XADD", b"s", b"IDMP", b"p", iid, b"*", b"n", _VALUE] for iid in new))
            server.end_turn()
            server.clock.advance(1)
            iids += new
        self._disk = server.disk
        self.journal = bytes(server.disk.names[INCREMENT].data)
        self._begin = begin
        self._ends = [found.end() for found in re.finditer(_VALUE + b"\r\n", self.journal)]
        self.entries, remembered = _content(server)
        self._window = len(remembered)
        self._iids = [(b"p", iid, entry_id) for iid, (entry_id, _) in zip(iids, self.entries, strict=True)]
        assert len(self._ends) == len(self.entries) > self._window > 0

    def run(self, step: int, on_cut: Callable[[int, int], None] = lambda cut, of: None) -> tuple[int, list[int]]:
        """Cut at every `step`-th byte; return how often that was, and the lengths that gave anything but the entries
        that were whole. on_cut: called after each start with its number and how many there will be.
        """
        lengths = [length for length in range(0, len(self.journal), step) if length >= self._begin]
        different = []
        for number, length in enumerate(lengths, 1):
            if not self._is_right(length):
                different.append(length)
            on_cut(number, len(lengths))
        return len(lengths), different

    def _is_right(self, length: int) -> bool:
        try:
            server = Restartable(cut_at(self._disk, length), appendfsync="no")
        except DamagedError:
            return False
        whole = bisect_right(self._ends, length)
        return _content(server) == (self.entries[:whole], self._iids[max(0, whole - self._window) : whole])


def _content(server: Restartable) -> tuple[list, list]:
    stream = server.engine.state.keyspace[0].stream(b"s")
    return ([], []) if stream is None else (list(stream.log.iterate()), list(stream.idmp))
