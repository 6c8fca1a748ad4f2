"""A server with cold segments on a simulated disk, killed and started again."""

from typing import Any

from tests.cold.cold_server import evict, make_cold
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

MIB = 1024 * 1024
PLACE = "data/appendonlydir/"


class ColdRestartable(Restartable):
    """A server with cold segments on a simulated disk."""

    def __init__(self, disk: SimulatedDisk | None = None, *arguments: Any, **options: Any) -> None:
        """An option that is None is not given."""
        given = {"stream_memory": 16 * MIB, "stream_node_max_entries": 10, **options}
        super().__init__(disk, *arguments, **{name: value for name, value in given.items() if value is not None})
        self.options = given

    def restart(self, disk: SimulatedDisk | None = None, **options: Any) -> "ColdRestartable":
        options = {**self.options, **options}
        return ColdRestartable(disk or self.disk.kill(), self.clock, self.at_once, self.is_quick, **options)

    @property
    def store(self) -> Any:
        return self.engine.state.cold

    def fill(self, key: bytes = b"s", entries: int = 200, since: int = 1) -> None:
        for number in range(since, since + entries):
            self.run([b"XADD", key, b"%d-1" % number, b"f", b"value %d" % number])
        self.end_turn()

    def cool(self, key: bytes = b"s", entries: int = 200, since: int = 1) -> None:
        self.fill(key, entries, since)
        make_cold(self.engine, key)
        evict(self.engine)

    def cron(self) -> None:
        """Do what time demands; no list waits for the mover, which these servers do not have."""
        if self.store is not None:
            self.store.small.clear()
            self.store.unwritten.clear()
        super().cron()

    def count_reads(self) -> list[int]:
        """Return a list that gets the row of each block that is read from now on."""
        rows: list[int] = []
        files = self.store.files

        def read(one: Any, place: Any, read: Any = files.read) -> bytes:
            rows.append(place.offset)
            return read(one, place)

        def read_cached(one: Any, place: Any, read: Any = files.read_cached) -> bytes | None:
            rows.append(place.offset)
            return read(one, place)

        files.read, files.read_cached = read, read_cached
        return rows

    def seen(self) -> Any:
        """Return all that clients see; blocks are read in place."""
        if self.store is None:
            return dump(self.engine)
        self.store.in_place += 1
        try:
            return dump(self.engine)
        finally:
            self.store.in_place -= 1

    def base(self) -> bytes:
        manifest = self.persistence.journal.manifest
        assert manifest.base is not None
        return bytes(self.disk.names[PLACE + manifest.base.name].data)

    def segments(self) -> list[str]:
        return sorted(path for path in self.disk.names if path.endswith(".seg"))
