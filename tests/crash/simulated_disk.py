"""A disk in memory that fails when told to, and that loses what was not synced when its power is cut."""

import errno
import random

from streamd.base.filesystem import Identity, LockedError

SECTOR = 64  # what is written to the platter as one; small, so that short histories tear in many places


class Inode:
    """A file's content: as a running process sees it, as the disk has it, and the writes in between."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""
        self.writes: list[tuple[int, bytes] | int] = []  # (offset, data), or a length that the file was cut to


class SimulatedFile:
    def __init__(self, disk: "SimulatedDisk", inode: Inode, path: str, may_write: bool = True) -> None:
        self._disk = disk
        self._may_write = may_write
        self._path = path
        self._inode = inode
        self._open = True

    def write_at(self, offset: int, data: bytes) -> int:
        assert self._open
        assert self._may_write
        data = data[: self._disk.step("write", len(data))]
        content = self._inode.data
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        content[offset : offset + len(data)] = data
        self._inode.writes.append((offset, bytes(data)))
        return len(data)

    def read_at(self, offset: int, length: int) -> bytes:
        assert self._open
        self._disk.step("read")
        return bytes(self._inode.data[offset : offset + length])

    def read_cached(self, offset: int, length: int) -> bytes | None:
        assert self._open
        self._disk.step("read_cached")
        data = bytes(self._inode.data[offset : offset + length])
        return data if len(data) == length and self._disk.is_cached else None

    def read_ahead(self, offset: int, length: int) -> None:
        assert self._open
        self._disk.step("read_ahead")

    def size(self) -> int:
        assert self._open
        return len(self._inode.data)

    def truncate(self, length: int) -> None:
        assert self._open
        self._disk.step("truncate")
        del self._inode.data[length:]
        self._inode.writes.append(length)

    def sync(self) -> None:
        assert self._open
        try:
            self._disk.step("sync")
        except OSError as error:
            if error.errno != errno.EINTR and self._disk.forgets:
                self._inode.writes.clear()
            raise
        self._inode.durable = _with_all(self._inode) if self._disk.forgets else bytes(self._inode.data)
        self._inode.writes.clear()

    def push(self, offset: int, length: int) -> None:
        assert self._open
        assert offset >= 0
        assert offset + length <= len(self._inode.data)

    def check_place(self) -> None:
        if self._disk.names.get(self._path) is not self._inode:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self._path)

    def close(self) -> None:
        assert self._open
        self._open = False
        self._disk.open_files -= 1


class SimulatedLock:
    def __init__(self, disk: "SimulatedDisk", path: str) -> None:
        self._locked = disk.locked
        self._path = path
        self._own = self._locked[path] = object()

    def check_place(self) -> None:
        if self._locked.get(self._path) is not self._own:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", self._path)

    def close(self) -> None:
        if self._locked.get(self._path) is self._own:
            del self._locked[self._path]


class SimulatedDisk:
    """Stands for `FileSystem`.

    fail_at: the number of the operation (from 1) that fails; failure: an errno, "short" for a write that is cut in the
    middle, or "bug" for an exception that is no OSError. fails_for: how many operations fail from there on. operations:
    how many there were. forgets: whether a sync that fails has the system drop what it was to write, so that the next
    sync has nothing to do and succeeds. is_cached: whether reads need not wait. open_files: how many are open.
    """

    def __init__(self) -> None:
        self.free = 1 << 40
        self.names: dict[str, Inode] = {}
        self.durable_names: dict[str, Inode] = {}
        self.fail_at = 0
        self.fails_for = 1
        self.failure: int | str = errno.EIO
        self.operations = 0
        self.next_salt = 0x5A17 << 40
        self.failed: list[str] = []
        self.locked: dict[str, object] = {}
        self.forgets = False
        self.is_cached = True
        self.open_files = 0
        self._removed: set[str] = set()

    def step(self, name: str, length: int = 0) -> int:
        """Count an operation, let it fail if it is its turn; return how many of `length` bytes are written."""
        self.operations += 1
        if self.fail_at and self.fail_at <= self.operations < self.fail_at + self.fails_for:
            self.failed.append(name)
            if self.failure == "short":
                return length // 2 if name == "write" else length
            if self.failure == "bug":
                raise RuntimeError(f"a bug in {name}")
            number = self.failure
            assert isinstance(number, int)
            raise OSError(number, errno.errorcode[number])  # InterruptedError for EINTR
        return length

    def open(self, path: str, create: bool = False) -> SimulatedFile:
        self.step("open")
        if create and path.rpartition("/")[0] not in self._removed:
            self.names[path] = Inode()
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return self._opened(path)

    def create(self, path: str) -> SimulatedFile:
        self.step("create")
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        self.names[path] = Inode()
        return self._opened(path)

    def open_to_read(self, path: str) -> SimulatedFile:
        self.step("open")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._opened(path, may_write=False)

    def _opened(self, path: str, may_write: bool = True) -> SimulatedFile:
        self.open_files += 1
        return SimulatedFile(self, self.names[path], path, may_write)

    def salt(self) -> int:
        self.next_salt += 1
        return self.next_salt

    def exists(self, path: str) -> bool:
        return path in self.names

    def identity(self, path: str) -> Identity:
        self.step("identity")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        inode = self.names[path]
        return Identity(0, id(inode), len(inode.data), 0)

    def room(self, directory: str) -> tuple[int, int]:
        return self.free, 1 << 40

    def list(self, directory: str) -> list[str]:
        self.step("list")
        return [path.rpartition("/")[2] for path in self.names if path.rpartition("/")[0] == directory]

    def make_directory(self, directory: str) -> None:
        self.step("make_directory")
        self._removed.discard(directory)

    def remove_directory(self, directory: str) -> None:
        """Remove a directory and what is in it, as somebody else would; its lock too."""
        for path in [path for path in self.names if path.startswith(f"{directory}/")]:
            del self.names[path]
        for path in [path for path in self.locked if path.rpartition("/")[0] == directory]:
            del self.locked[path]
        self._removed.add(directory)

    def rename(self, old: str, new: str) -> None:
        self.step("rename")
        self.names[new] = self.names.pop(old)

    def link(self, old: str, new: str) -> None:
        self.step("link")
        self.names[new] = self.names[old]

    def unlink(self, path: str) -> None:
        self.step("unlink")
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        del self.names[path]

    def sync_directory(self, directory: str) -> None:
        self.step("sync_directory")
        for names in (self.durable_names, self.names):
            for path in [path for path in names if path.rpartition("/")[0] == directory]:
                if path in self.names:
                    self.durable_names[path] = self.names[path]
                else:
                    del self.durable_names[path]

    def lock(self, path: str) -> SimulatedLock:
        self.step("lock")
        if path in self.locked:
            raise LockedError(errno.EAGAIN, "in use by another server", path)
        return SimulatedLock(self, path)

    def kill(self) -> "SimulatedDisk":
        """Return the disk as the next process finds it: a killed process loses nothing that it has written."""
        after = SimulatedDisk()
        copies = {id(inode): _copy(inode) for names in (self.names, self.durable_names) for inode in names.values()}
        after.names = {path: copies[id(inode)] for path, inode in self.names.items()}
        after.durable_names = {path: copies[id(inode)] for path, inode in self.durable_names.items()}
        after.next_salt = self.next_salt
        return after

    def cut_power(self, seed: int) -> "SimulatedDisk":
        """Return the disk as it is after a power loss.

        Synced data and names are there. Of what was not synced each sector is on the disk or not, whatever the order,
        or garbled; each change of a name happened or not, but in their order.
        """
        chance = random.Random(seed)
        after = SimulatedDisk()
        names = dict(self.durable_names)
        # Changes of names since the last sync of the directory; journaling file systems keep their order.
        for path in list(dict.fromkeys([*self.names, *self.durable_names])):
            if self.names.get(path) is not self.durable_names.get(path) and chance.random() < 0.5:
                if path in self.names:
                    names[path] = self.names[path]
                elif path.rpartition("/")[2].startswith("temp-") or not _is_needed(path, names):
                    names.pop(path, None)
        for path, inode in names.items():
            twin = Inode()
            twin.data = bytearray(_after_power_loss(inode, chance))
            twin.durable = bytes(twin.data)
            after.names[path] = twin
        after.durable_names = dict(after.names)
        return after


def _is_needed(path: str, names: dict[str, Inode]) -> bool:
    """Return whether an old manifest that is still in place names the file: it was unlinked after the manifest's
    sync.
    """
    name = path.rpartition("/")[2].encode()
    return any(path.endswith(".manifest") and name in bytes(inode.durable) for path, inode in names.items())


def _copy(inode: Inode) -> Inode:
    twin = Inode()
    twin.data = bytearray(inode.data)
    twin.durable = inode.durable
    twin.writes = list(inode.writes)
    return twin


def _with_all(inode: Inode) -> bytes:
    """Return what the disk has once all writes that the system has not forgotten are there."""
    data = bytearray(inode.durable)
    for change in inode.writes:
        if isinstance(change, int):
            del data[change:]
        else:
            _put(data, *change)
    return bytes(data)


def _after_power_loss(inode: Inode, chance: random.Random) -> bytes:
    data = bytearray(inode.durable)
    kind = chance.choice(("lost", "reordered", "garbled", "all"))
    for change in inode.writes:
        if isinstance(change, int):
            if chance.random() < 0.5:
                del data[change:]
            continue
        offset, written = change
        end = offset + len(written)
        at = offset
        while at < end:
            upto = min(end, (at // SECTOR + 1) * SECTOR)
            sector = written[at - offset : upto - offset]
            if kind == "all" or (kind == "reordered" and chance.random() < 0.6):
                _put(data, at, sector)
            elif kind == "garbled" and chance.random() < 0.7:
                if chance.random() < 0.3:
                    sector = bytearray(sector)
                    for _ in range(chance.randint(1, 8)):
                        sector[chance.randrange(len(sector))] = chance.randrange(256)
                _put(data, at, bytes(sector))
            elif kind == "lost":
                return bytes(data)
            at = upto
    return bytes(data)


def _put(data: bytearray, at: int, sector: bytes) -> None:
    if len(data) < at:
        data.extend(bytes(at - len(data)))
    data[at : at + len(sector)] = sector
