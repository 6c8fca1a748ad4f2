"""The file operations that the journal and segment files are made of, behind an object that tests replace."""

import errno
import os
from collections.abc import Callable
from typing import Any, Final, NamedTuple

# Only what was written must be durable, not the file's times; where fdatasync is missing (macOS), fsync does it.
_sync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)

READ_BYTES: Final = 1024 * 1024

_UNKNOWN_BYTES: Final = 1 << 60

# The flag of a read that returns only what the system's cache has; 0 where the system knows none.
_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0) if hasattr(os, "preadv") else 0


class Identity(NamedTuple):
    """The identity of a file: it differs from that of another file of its name, and of itself before a change."""

    device: int
    inode: int
    size: int
    changed_ns: int


class LockedError(OSError):
    """Another server has the directory."""


class File:
    """An open file; each write says where."""

    def __init__(self, descriptor: int, path: str = "") -> None:
        self._descriptor = descriptor
        self._path = path
        self._place: tuple[int, int] | None = None  # its device and inode, which no other file has while it is open
        self._no_wait = _NO_WAIT

    def write_at(self, offset: int, data: bytes) -> int:
        """Write `data` or its beginning; return how many bytes. Raises: OSError."""
        return os.pwrite(self._descriptor, data, offset)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes; empty at the end of the file. Raises: OSError."""
        return os.pread(self._descriptor, length, offset)

    def read_cached(self, offset: int, length: int) -> bytes | None:
        """Return `length` bytes if that needs no wait for the disk, else None: `read_at` gets them. Raises: OSError."""
        if not self._no_wait:
            return None
        buffer = bytearray(length)
        try:
            got = os.preadv(self._descriptor, [buffer], offset, self._no_wait)
        except BlockingIOError:
            return None
        except OSError as error:
            # Some file systems do not know the flag, and some sandboxes forbid it: both will at the next read, too.
            if error.errno in (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL, errno.ENOSYS):
                self._no_wait = 0
                return None
            raise
        return bytes(buffer) if got == length else None

    def read_ahead(self, offset: int, length: int) -> None:
        """Have the system begin to read a part from the disk into its cache; it promises nothing. Raises: OSError."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_WILLNEED)

    def size(self) -> int:
        """Return the length in bytes. Raises: OSError."""
        return os.fstat(self._descriptor).st_size

    def truncate(self, length: int) -> None:
        """Cut the file. Raises: OSError."""
        os.ftruncate(self._descriptor, length)

    def sync(self) -> None:
        """Return when all that was written is on the disk. Raises: OSError."""
        _sync(self._descriptor)

    def check_place(self) -> None:
        """Return if this is still the file of its name. Raises: OSError if that file was removed or replaced; all that
        is written from then on is lost with the process.
        """
        if self._place is None:
            this = os.fstat(self._descriptor)
            self._place = this.st_dev, this.st_ino
        there = os.stat(self._path)
        if there.st_ino != self._place[1] or there.st_dev != self._place[0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)

    def push(self, offset: int, length: int) -> None:
        """Have the system begin to write a part to the disk, so that a later `sync` is short; it promises nothing."""
        if hasattr(os, "posix_fadvise"):
            # Linux writes what is to be dropped from its cache, and does not wait for that. Raises nothing but for a
            # descriptor that is none.
            os.posix_fadvise(self._descriptor, offset, length, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file. Raises: OSError."""
        os.close(self._descriptor)


class NoFile(File):
    """A file that takes each write and keeps nothing of it."""

    def __init__(self) -> None:
        super().__init__(-1)

    def write_at(self, offset: int, data: bytes) -> int:
        """Return that all is written."""
        return len(data)

    def sync(self) -> None:
        """Return at once."""

    def check_place(self) -> None:
        """Return at once."""

    def push(self, offset: int, length: int) -> None:
        """Return at once."""

    def close(self) -> None:
        """Return at once."""


class FileSystem:
    """The operating system's files. Every method raises OSError."""

    def open(self, path: str, create: bool = False) -> File:
        """Open a file for reading and writing; with `create` a new, empty one in place of any that is there."""
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return self.wrap(os.open(path, flags | (os.O_CREAT | os.O_TRUNC if create else 0), 0o644), path)

    def create(self, path: str) -> File:
        """Make a new, empty file that its owner alone may read, for reading and writing. Raises: FileExistsError if
        there is a file of that name.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return self.wrap(os.open(path, flags, 0o600), path)

    def open_to_read(self, path: str) -> File:
        """Open a file for reading alone."""
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        return self.wrap(os.open(path, flags), path)

    def wrap(self, descriptor: int, path: str) -> File:
        """Return an open file."""
        return File(descriptor, path)

    def salt(self) -> int:
        """Return a number of 64 bits that nobody can guess, not 0."""
        return int.from_bytes(os.urandom(8), "little") or 1

    def exists(self, path: str) -> bool:
        """Return whether there is a file or directory of that name."""
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        """Return whether there is a directory of that name."""
        return os.path.isdir(path)

    def identity(self, path: str) -> Identity:
        """Return which file has a name, its size, and when it was last changed."""
        found = os.stat(path)
        return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)

    def room(self, directory: str) -> tuple[int, int]:
        """Return how many bytes are free on the disk of a directory, and how many it has; large numbers where that is
        unknown.
        """
        if not hasattr(os, "statvfs"):
            return _UNKNOWN_BYTES, _UNKNOWN_BYTES
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize

    def list(self, directory: str) -> list[str]:
        """Return the names in a directory."""
        return os.listdir(directory)

    def make_directory(self, directory: str) -> None:
        """Create a directory, and those above it, unless it is there."""
        os.makedirs(directory, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Give a file a new name, and replace a file that has that name."""
        os.replace(old, new)

    def link(self, old: str, new: str) -> None:
        """Give a file a further name, which no file may have."""
        os.link(old, new)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def sync_directory(self, directory: str) -> None:
        """Return when the names in a directory are on the disk."""
        if os.name == "nt":
            return  # directories cannot be opened there; NTFS journals names by itself
        descriptor = os.open(directory, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> File:
        """Take the lock of the file `path`, until the returned file is closed. Raises: LockedError.

        The lock ends with the process, however that ends; the file stays, and means nothing by itself.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            _lock(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise LockedError(error.errno, "in use by another server", path)
        return File(descriptor, path)


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        windows: Any = msvcrt
        windows.locking(descriptor, windows.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_all(file: File, offset: int, data: bytes) -> None:
    """Write all of `data`; a short write is continued, and a write that a signal interrupted is repeated. Raises:
    OSError.
    """
    done, total = 0, len(data)
    while done < total:
        try:
            written = file.write_at(offset + done, data[done:] if done else data)
        except InterruptedError:
            continue
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done += written


def read_exactly(file: File, offset: int, length: int) -> bytes:
    """Return `length` bytes, or fewer at the end of the file. Raises: OSError."""
    parts: list[bytes] = []
    while length > 0:
        try:
            part = file.read_at(offset, length)
        except InterruptedError:
            continue
        if not part:
            break
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def repeat(operation: Callable[[], None]) -> None:
    """Do `operation` until no signal interrupts it. Raises: OSError."""
    while True:
        try:
            operation()
            return
        except InterruptedError:
            continue
