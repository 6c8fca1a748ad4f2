"""Times turns, the barrier and syncs, if metrics are on."""

import asyncio
from time import perf_counter_ns

from streamd.base.filesystem import File, FileSystem
from streamd.base.histogram import Histogram
from streamd.net.connection import Connection
from streamd.net.net_ports import ConnectionHost


class Measures:
    """Histograms of a server: how long turns take, how long replies are held by the barrier, how long syncs take."""

    def __init__(self) -> None:
        self.turns = Histogram()
        self.barrier = Histogram()
        self.syncs = Histogram()
        self._turn_began_ns = 0

    def begin_turn(self) -> None:
        """Note that input was received: the turn begins, unless it has."""
        if not self._turn_began_ns:
            self._turn_began_ns = perf_counter_ns()

    def end_turn(self) -> None:
        """Note that the turn has ended."""
        if self._turn_began_ns:
            self.turns.observe((perf_counter_ns() - self._turn_began_ns) / 1000)
            self._turn_began_ns = 0


class MeasuredConnection(asyncio.Protocol):
    """A connection that reports the begin of turns.

    It holds a connection and inherits nothing: a compiled class cannot have interpreted subclasses.
    """

    def __init__(self, server: ConnectionHost, measures: Measures) -> None:
        self._measures = measures
        self._connection = connection = Connection(server)
        self.connection_made = connection.connection_made  # type: ignore[method-assign]
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign, assignment]
        self.eof_received = connection.eof_received  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def data_received(self, data: bytes) -> None:
        """Begin a measured turn, and hand the received bytes to the connection."""
        self._measures.begin_turn()
        self._connection.data_received(data)


class MeasuredFile(File):
    """A file whose syncs are timed."""

    def __init__(self, descriptor: int, path: str, syncs: Histogram) -> None:
        super().__init__(descriptor, path)
        self._syncs = syncs

    def sync(self) -> None:
        """Return when all writes are on the disk. Raises: OSError."""
        began_ns = perf_counter_ns()
        super().sync()
        self._syncs.observe((perf_counter_ns() - began_ns) / 1000)


class MeasuredFiles(FileSystem):
    """The operating system's files, with timed syncs."""

    def __init__(self, syncs: Histogram) -> None:
        self._syncs = syncs

    def wrap(self, descriptor: int, path: str) -> File:
        """Return an open file."""
        return MeasuredFile(descriptor, path, self._syncs)
