"""A small server of one stream on a simulated disk: moves, deletions, rewrites and a backup, in any order of steps.

The segment files and the manifest are the real ones. What a base and an increment say is as simple as can be: a base
names files and has the blocks that are in no file, an increment has a line for each block that was added or deleted.
After each operation of the disk the power may be cut; `check` is called with what the next start finds.
"""

import errno
import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from zlib import crc32

from streamd.base.filesystem import write_all
from streamd.cold.block import Block
from streamd.cold.files import BACKUP, BASE, MOVER, REWRITE, STREAM, SegmentFile, SegmentFiles
from streamd.cold.whole_file import blocks_of
from streamd.journal import manifest
from streamd.journal.manifest import Manifest, Part
from streamd.stream.log.segment import Segment
from tests.cold.sealed import MS, entry_id, sealed, stored
from tests.crash.simulated_disk import SimulatedDisk

NAME = "appendonly.aof"
PLACE = "dir/" + NAME + ".manifest"


def block(number: int) -> list[Segment]:
    """Return the segments of a block, which are known by its number."""
    return sealed([(entry_id(MS + number * 100 + n), [b"f", b"%d" % (number * n)]) for n in range(8)], 4)


def line_of(what: str, number: int) -> bytes:
    """Return a record of an increment, with a checksum."""
    return f"{what} {number} {crc32(f'{what} {number}'.encode())}\n".encode()


class Lost(AssertionError):
    """What a start found is not what the server had acknowledged."""


class WatchedDisk(SimulatedDisk):
    """Calls `before` in front of each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None

    def step(self, name: str, length: int = 0) -> int:
        if self.before is not None and name not in ("read", "open", "list", "identity"):
            self.before()
        return super().step(name, length)


class World:
    """The server; `faults` names what it does wrong, for a test of the test; failing: the disk fails the mover.

    live: the blocks of the stream in order, and the file and row of each that is in one. named: the files that the base
    in place names.
    """

    def __init__(self, seed: int, faults: str = "", failing: bool = False) -> None:
        self.chance = random.Random(seed)
        self.failing = failing
        self.faults = faults
        self.disk = WatchedDisk()
        self.disk.forgets = True
        self.store = SegmentFiles(self.disk, "dir", NAME)
        self.live: dict[int, tuple[SegmentFile, int] | None] = {}
        self.named: list[SegmentFile] = []
        self.acknowledged: list[set[int]] = []
        self.increments: list[str] = []
        self.seq = 0
        self.sizes: dict[str, int] = {}
        self.cuts = 0
        for _ in self.rewrite():
            pass
        for number in range(1, 6):
            self.record("add", number)

    # The journal.

    def record(self, what: str, number: int) -> None:
        """Add or delete a block: acknowledged once it is in every increment, and synced."""
        after = set(self.live) | {number} if what == "add" else set(self.live) - {number}
        place = self.live.get(number)
        others = [one[0] for key, one in self.live.items() if key != number and one is not None]
        is_last = place is not None and place[0] not in others
        if is_last and place is not None and self.faults == "unlinked before the record is synced":
            self.disk.unlink(place[0].path)
        self.acknowledged.append(after)  # may be there, and must be once this returns
        for name in self.increments:
            self.append(name, line_of(what, number))
        del self.acknowledged[:-1]
        if what == "add":
            self.live[number] = None
            return
        del self.live[number]
        if is_last and place is not None:
            self.store.release(place[0], STREAM)

    def append(self, name: str, data: bytes) -> None:
        with closing(self.disk.open(f"dir/{name}")) as file:
            write_all(file, self.sizes[name], data)
            file.sync()
        self.sizes[name] += len(data)

    def create(self, name: str, data: bytes) -> None:
        with closing(self.disk.create(f"dir/{name}")) as file:
            write_all(file, 0, data)
            file.sync()
        self.sizes[name] = len(data)

    # What goes on beside each other: each `yield` lets others go on.

    def client(self) -> Iterator[None]:
        for what, number in (("del", 1), ("add", 6), ("del", 2), ("del", 4), ("del", 3)):
            self.record(what, number)
            yield

    def mover(self, blocks: int) -> Iterator[None]:
        """Move the oldest blocks that are in no file."""
        moved = [number for number, place in self.live.items() if place is None][:blocks]
        self.fail_soon(4)
        try:
            writing = self.store.create(MS)
            self.disk.fail_at = 0
            yield
            self.fail_soon(4)
            writing.write(Block(block(number)) for number in moved)
            one = writing.finish()
        except OSError:
            self.disk.fail_at = 0
            return
        self.disk.fail_at = 0
        there = [number for number in moved if number in self.live]  # others were deleted meanwhile
        if there:
            self.store.hold(one, STREAM)
        for number in there:
            self.live[number] = one, moved.index(number)
        yield
        self.fail_soon(3)
        try:
            if self.faults == "not synced":
                one.is_durable = True
            else:
                self.store.sync(one)
        except OSError:
            # What it has is still readable; another file will have it.
            self.disk.fail_at = 0
            there = [number for number in there if number in self.live]
            assert all(isinstance(segments, list) for segments in blocks_of(self.store, one))
            for number in there:
                self.live[number] = None
            if there:
                self.store.release(one, STREAM)
        self.disk.fail_at = 0
        self.store.release(one, MOVER)
        yield

    def fail_soon(self, operations: int) -> None:
        """Let one of the next operations fail, if this world is one of failures."""
        if self.failing:
            self.disk.fail_at = self.disk.operations + self.chance.randint(1, operations)
            self.disk.failure = self.chance.choice((errno.EIO, errno.ENOSPC, "short"))

    def merger(self) -> Iterator[None]:
        """Write what is left of a file to a new one, and leave the old one to whatever still has it."""
        olds = [place[0] for place in self.live.values() if place is not None and place[0].is_durable]
        if not olds:
            return
        old = olds[0]
        moved = [number for number, place in self.live.items() if place is not None and place[0] is old]
        writing = self.store.create(MS)
        writing.write(Block(block(number)) for number in moved)
        yield
        one = writing.finish()
        yield
        self.store.sync(one)
        there = [number for number in moved if number in self.live]
        if there:
            self.store.hold(one, STREAM)
            self.store.release(old, STREAM)
        for number in there:
            self.live[number] = one, moved.index(number)
        self.store.release(one, MOVER)
        yield

    def rewrite(self) -> Iterator[None]:
        self.seq += 1
        base, increment = f"{NAME}.{self.seq}.base.aof", f"{NAME}.{self.seq}.incr.aof"
        old_increments, old_named, old_seq = list(self.increments), self.named, self.seq - 1
        cut = dict(self.live)
        files = {one.number: one for place in cut.values() if place is not None and (one := place[0]).is_durable}
        for one in files.values():
            self.store.hold(one, REWRITE)
        text = {
            "files": [[one.number, one.size, one.checksum] for one in files.values()],
            "blocks": [
                [number, place[0].number, place[1]]
                if place is not None and place[0].number in files
                else [number, 0, 0]
                for number, place in cut.items()
            ],
            "number": self.store.number,
        }
        self.create(increment, b"")
        self.increments.append(increment)
        yield
        self.create(base, json.dumps(text).encode() + b"\n")
        yield
        self.disk.sync_directory("dir")
        yield
        for one in files.values():
            self.store.hold(one, BASE)
        parts = [Part(base, self.seq, "b"), Part(increment, self.seq, "i")]
        manifest.replace(self.disk, "dir", NAME + ".manifest", Manifest(parts[0], parts[1:]))
        if self.faults == "let go before the directory is synced":
            self.let_go(old_named)
            self.store.unlink_dead()
        yield
        self.disk.sync_directory("dir")
        self.named = list(files.values())
        self.increments = [increment]
        for one in files.values():
            self.store.release(one, REWRITE)
        if self.faults != "let go before the directory is synced":
            self.let_go(old_named)
        if old_increments:
            self.disk.unlink(f"dir/{NAME}.{old_seq}.base.aof")
            self.disk.unlink(f"dir/{old_increments[0]}")
        yield

    def let_go(self, files: list[SegmentFile]) -> None:
        for one in files:
            self.store.release(one, BASE)

    def unlinker(self) -> Iterator[None]:
        for _ in range(12):
            self.store.unlink_dead()
            yield

    def backup(self) -> Iterator[None]:
        """Read all that the base names, some time after it was noted."""
        for _ in range(8):
            if not self.named:
                yield
        files = list(self.named)
        if self.faults != "a backup without holds":
            for one in files:
                self.store.hold(one, BACKUP)
        for _ in range(6):
            yield
        for one in files:
            try:
                found = list(blocks_of(self.store, one))
            except FileNotFoundError as error:
                raise Lost(f"a backup lacks {error.filename}")
            assert all(isinstance(segments, list) for segments in found)
            if self.faults != "a backup without holds":
                self.store.release(one, BACKUP)

    # A start.

    def check(self, disk: SimulatedDisk) -> None:
        """Start on a disk as a power cut left it. Raises: Lost."""
        self.cuts += 1
        found = manifest.read(disk, PLACE)  # type: ignore[arg-type]
        assert found is not None
        assert found.base is not None
        text = json.loads(bytes(disk.names[f"dir/{found.base.name}"].data))
        store = SegmentFiles(disk, "dir", NAME, text["number"])
        files: dict[int, SegmentFile] = {}
        for number, size, checksum in text["files"]:
            try:
                files[number] = store.load(number, size, checksum)
            except FileNotFoundError:
                pass  # wrong only if an entry of it is left
            except Exception as error:
                raise Lost(str(error))
        state = {number: (file, row) for number, file, row in text["blocks"]}
        for part in found.increments:
            for line in bytes(disk.names[f"dir/{part.name}"].data).splitlines(keepends=True):
                words = line.split()
                if (
                    len(words) != 3
                    or not words[1].isdigit()
                    or line != line_of(words[0].decode("latin-1"), int(words[1]))
                ):
                    break  # a torn tail
                if words[0] == b"add":
                    state[int(words[1])] = 0, 0
                else:
                    state.pop(int(words[1]), None)
        if set(state) not in self.acknowledged:
            raise Lost(f"{sorted(state)} is none of {self.acknowledged}")
        for number, (file, row) in state.items():
            if not file:
                continue
            if file not in files:
                raise Lost(f"file {file} is missing, which has block {number}")
            segments = list(blocks_of(store, files[file]))[row]
            if not isinstance(segments, list) or [*map(stored, segments)] != [*map(stored, block(number))]:
                raise Lost(f"block {number} in file {file}: {segments}")
        store.unlink_orphans()
        left = {path for path in disk.names if path.endswith(".seg")}
        assert left == {one.path for one in files.values()}
        further = store.create(MS)
        assert further.number > max([0, *files])
        further.abandon()
        store.close()

    def run(self) -> None:
        """Let all go on in an order of this world's own; cut the power before each operation. Raises: Lost."""
        self.disk.before = lambda: self.check(self.disk.cut_power(self.chance.getrandbits(32)))
        waiting = [
            self.client(),
            self.chain(self.mover(2), self.merger(), self.mover(1)),
            self.chain(self.rewrite(), self.rewrite(), self.rewrite()),
            self.unlinker(),
            self.backup(),
        ]
        while waiting:
            one = self.chance.choice(waiting)
            try:
                next(one)
            except StopIteration:
                waiting.remove(one)
        for one in (self.rewrite(), self.unlinker()):
            for _ in one:
                pass
        self.disk.before = None
        self.check(self.disk.kill())
        there = {path for path in self.disk.names if path.endswith(".seg")}
        in_use = {place[0].path for place in self.live.values() if place is not None}
        assert there == in_use | {one.path for one in self.named}
        self.store.close()
        assert self.disk.open_files == 0

    @staticmethod
    def chain(*parts: Iterator[None]) -> Iterator[None]:
        for part in parts:
            yield from part


def check_worlds(seeds: range, faults: str = "", failing: bool = False) -> int:
    """Run worlds; return how often the power was cut. Raises: Lost."""
    cuts = 0
    for seed in seeds:
        world = World(seed, faults, failing)
        world.run()
        cuts += world.cuts
    return cuts
