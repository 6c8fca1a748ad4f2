"""The segment files of a directory: written once, read by blocks, unlinked when nothing has them any more.

A file's way: *written* (other parts of this process may read it), then *durable* (its bytes and its name are on the
disk: a base may name it), at last *dead* (nothing holds it), and unlinked.

Names: `<appendfilename>.<number>.seg`. A file that another server has written has a number of this directory, and its
checksum behind that: `<appendfilename>.<number>-<checksum>.seg`. A base that comes with it names it by the number that
it had there, and by its checksum, by which it is found here.
"""

import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from streamd.base.filesystem import File, FileSystem, read_exactly, repeat, write_all
from streamd.cold.block import Block, check
from streamd.cold.format import ALIGNMENT, HEADER_BYTES, Damaged, Header, encode_header
from streamd.cold.index import Footer, Index, Place, read_index
from streamd.cold.notes_files import NotesFiles
from streamd.cold.room import check_room

# So many files are open at once: a quarter of the descriptors that a process commonly has, with room for clients.
OPEN_FILES_MAX: Final = 512
# Pieces are joined to writes of this size: to join more than a megabyte, Python lets other threads run.
_WRITE_BYTES: Final = 1024 * 1024 + 1

# What the names of segment files end with.
ENDING: Final = ".seg"

# The holders of a file. The mover that has written it, and has yet to sync it; a stream whose entries are in it; the
# base that the manifest names, and the next one; a rewrite that runs; a backup or a replica's full sync; a reply that
# is not finished.
MOVER: Final = "mover"
STREAM: Final = "stream"
BASE: Final = "base"
REWRITE: Final = "rewrite"
BACKUP: Final = "backup"
REPLY: Final = "reply"


class SegmentFile:
    """A segment file that is written whole.

    holders: how many of each kind need it. is_durable: whether its bytes and its name are on the disk.
    """

    def __init__(self, number: int, path: str, header: Header, checksum: int, size: int, index: Index) -> None:
        self.number = number
        self.path = path
        self.salt = header.salt
        self.created_ms = header.created_ms
        self.checksum = checksum
        self.size = size
        self.index = index
        self.is_durable = False
        self.holders: Counter[str] = Counter()
        # For SegmentFiles: the open file, and how many reads use it.
        self.file: File | None = None
        self.users = 0


class Writing:
    """A segment file that is being written, by one thread; an error ends it, and removes the file."""

    def __init__(self, store: "SegmentFiles", file: File, number: int, path: str, header: Header) -> None:
        self.number = number
        self.size = 0
        self._store = store
        self._file = file
        self._path = path
        self._header = header
        self._footer = Footer()
        self._pieces: list[bytes] = [encode_header(header)]
        self._pushed = 0
        self._end = HEADER_BYTES  # where the next block begins; `size` is how far the file is written

    def write(self, blocks: Iterable[Block]) -> None:
        """Add blocks. Raises: OSError, after which the file is gone."""
        try:
            for block in blocks:
                pieces = block.placed(self._header.salt, self._end)
                size = sum(map(len, pieces))
                self._footer.add(block, Place(self._end, size))
                padding = -size % ALIGNMENT
                self._pieces += pieces
                self._pieces.append(bytes(padding))
                self._end += size + padding
            self._write_pieces()
        except BaseException:
            self.abandon()
            raise

    def push(self) -> None:
        """Have the system begin to write to the disk what was written since the last call, so that syncing is short."""
        self._file.push(self._pushed, self.size - self._pushed)
        self._pushed = self.size

    def finish(self) -> SegmentFile:
        """Write the footer; return the file, which can be read now, and which MOVER holds. Raises: OSError, after which
        the file is gone.
        """
        try:
            footer, trailer, checksum = self._footer.encode(self._end, self._header.salt)
            self._pieces += (footer, trailer)
            self._write_pieces()
            index = self._footer.index()
        except BaseException:
            self.abandon()
            raise
        found = SegmentFile(self.number, self._path, self._header, checksum, self.size, index)
        found.holders[MOVER] = 1
        self._store.add(found, self._file)
        return found

    def abandon(self) -> None:
        """Close and remove the file."""
        self._store.remove(self.number, self._path, self._file)

    def _write_pieces(self) -> None:
        """Write all pieces; small ones together."""
        together: list[bytes] = []
        together_bytes = 0
        for piece in self._pieces:
            if len(piece) >= _WRITE_BYTES or together_bytes >= _WRITE_BYTES:
                self._write(b"".join(together))
                together, together_bytes = [], 0
            if len(piece) >= _WRITE_BYTES:
                self._write(piece)
            else:
                together.append(piece)
                together_bytes += len(piece)
        self._write(b"".join(together))
        self._pieces = []

    def _write(self, data: bytes) -> None:
        write_all(self._file, self.size, data)
        self.size += len(data)


class SegmentFiles:
    """The segment files of one directory, of which some are open.

    Holders come and go in one thread. All that reads or writes files may run in another.

    sizes: the bytes of each file that is written whole and not dead, by its number. notes: the files beside them.
    Shape: `_known` has the number of each file that is written or being written here. `_open`: the files with an open
    descriptor, the one that was read longest ago first. `_dead`: the paths that are to be unlinked. `_whole`: the files
    that are written whole, by their numbers. `_copies`: the numbers of the files that other servers have written, by
    their checksums, the newest copy last: it is the one that counts, as it was fetched anew.
    """

    def __init__(self, files: FileSystem, directory: str, filename: str, number: int = 0) -> None:
        """Look at the directory. Raises: OSError.

        filename: that of the journal. number: the greatest number that any file ever had, as far as that is known; a
        number that the directory has or had is never used again.
        """
        self._files = files
        self._directory = directory
        self._filename = filename
        self._stale: dict[int, SegmentFile] = {}
        self.sizes: dict[int, int] = {}
        self._pattern = re.compile(rf"{re.escape(filename)}\.([0-9]{{1,18}})(?:-([0-9a-f]{{16}}))?{re.escape(ENDING)}")
        names = self._files.list(self._directory)
        self.notes = NotesFiles(files, directory, filename, names)
        found = self._found(names)
        self.number = max([number, *[one for one, _ in found.values()]])
        self._copies: dict[int, list[int]] = {}
        for one, checksum in sorted(found.values()):
            if checksum >= 0:
                self._copies.setdefault(checksum, []).append(one)
        self._known: set[int] = set()
        self._whole: dict[int, SegmentFile] = {}
        self._open: OrderedDict[int, SegmentFile] = OrderedDict()
        self._dead: list[tuple[int, str]] = []
        self._is_unlinking = False
        self._lock = threading.Lock()

    def _found(self, names: list[str]) -> dict[str, tuple[int, int]]:
        """Return `(number, checksum in the name, else -1)` of each segment file among names of the directory."""
        matches = [(name, self._pattern.fullmatch(name)) for name in names]
        return {
            name: (int(match[1]), -1 if match[2] is None else int(match[2], 16))
            for name, match in matches
            if match is not None
        }

    def path(self, number: int, checksum: int = -1) -> str:
        """Return the path of a file that was written here; with `checksum`, of one that another server has written."""
        name = f"{number}" if checksum < 0 else f"{number}-{checksum:016x}"
        return f"{self._directory}/{self._filename}.{name}{ENDING}"

    def path_of(self, number: int, checksum: int) -> str:
        """Return the path of the file that a base names with this number and checksum."""
        copies = self._copies.get(checksum)
        return self.path(copies[-1], checksum) if copies else self.path(number)

    def _new(self) -> tuple[int, str, File]:
        """Return number, path and file of a new file. Raises: OSError."""
        while True:
            number = self._next_number()
            path = self.path(number)
            try:
                return number, path, self._files.create(path)
            except FileExistsError:
                continue

    def _next_number(self) -> int:
        with self._lock:
            self.number += 1
            return self.number

    # Writing.

    def create(self, created_ms: int) -> Writing:
        """Begin a file with a new number. Raises: OSError, also on a disk that has room for the journal alone."""
        check_room(self._files, self._directory)
        number, path, file = self._new()
        self._known.add(number)
        return Writing(self, file, number, path, Header(number, self._files.salt(), created_ms))

    def sync(self, one: SegmentFile) -> None:
        """Return when a written file and its name are on the disk: a base may name it from then on. Raises: OSError.

        After an error the file has no name any more, and is never synced again: the system may take pages that it
        could not write for written ones. Readers go on with the descriptor until the last holder is gone.
        """
        file = one.file
        assert file is not None
        try:
            repeat(file.sync)
            self._files.sync_directory(self._directory)
        except BaseException:
            self._unlink(one.number, one.path)
            raise
        one.is_durable = True

    def add(self, one: SegmentFile, file: File) -> None:
        """Take a file that is written whole; for `Writing`."""
        self.sizes[one.number] = one.size
        with self._lock:
            self._whole[one.number] = one
            one.file = file
            self._open[one.number] = one
            self._close_some()

    def remove(self, number: int, path: str, file: File) -> None:
        """Remove a file that is not written whole; for `Writing`."""
        _close(file)
        self._known.discard(number)
        self._unlink(number, path)

    # Files of other servers.

    def create_copy(self) -> tuple[File, int, str]:
        """Make a file for what another server has written; return it with its number and its path until `name_copy`.

        A crash leaves an orphan of it. Raises: OSError.
        """
        number, path, file = self._new()
        return file, number, path

    def name_copy(self, number: int) -> str:
        """Give a copy, all of whose bytes are on the disk, the name by which a base finds it; return its path.

        The name is on the disk once the directory is synced. Raises: Damaged, Unreadable, OSError.
        """
        opened = read_index(self._files, self.path(number))
        path = self.path(number, opened.checksum)
        self._files.rename(self.path(number), path)
        self._copies.setdefault(opened.checksum, []).append(number)
        return path

    def forget_copy(self, number: int, path: str) -> None:
        """Remove a copy that no base names. Raises: nothing; a start tries again."""
        for numbers in self._copies.values():
            if number in numbers:
                numbers.remove(number)
        self._unlink(number, path)

    # A start.

    def load(self, number: int, size: int, checksum: int) -> SegmentFile:
        """Return the file that a base names, with its size and the checksum of its footer. Raises: Damaged, Unreadable,
        OSError.

        A file that is loaded already, or was written here, is returned again. One that another server has written has a
        number of its own here.
        """
        copies = self._copies.get(checksum)
        path = self.path_of(number, checksum)
        own, number = number, copies[-1] if copies else number
        known = self._whole.get(number)
        if known is not None and (known.size, known.checksum) == (size, checksum):
            return known
        opened = read_index(self._files, path)
        if (opened.size, opened.checksum) != (size, checksum) or not (copies or opened.header.number == own):
            raise Damaged(path, 0, "it is another file than the one that was written with this name")
        assert number not in self._known
        found = SegmentFile(number, path, opened.header, checksum, size, opened.blocks)
        found.is_durable = True
        self.number = max(self.number, number)
        self._known.add(number)
        self.sizes[number] = size
        self._whole[number] = found
        return found

    def add_missing(self, one: SegmentFile) -> None:
        """Take a file that a base names and that is not there; it gets a number that no other file has here."""
        one.is_durable = True
        if one.number in self._known:
            one.number = self._next_number()
        self._known.add(one.number)

    def unlink_orphans(self) -> list[str]:
        """Unlink the segment files that are neither loaded nor written here; return their names. Raises: OSError.

        A crash leaves them: no base names them, and all that is in them is in the journal.
        """
        orphans = self.orphans()
        for name in orphans:
            self._files.unlink(f"{self._directory}/{name}")
        self.notes.unlink_orphans(self._known)
        return orphans

    def orphans(self) -> list[str]:
        """Return the names of the segment files that are neither loaded nor written here. Raises: OSError."""
        found = self._found(self._files.list(self._directory))
        return sorted(name for name, (number, _) in found.items() if number not in self._known)

    # Holders.

    def hold(self, one: SegmentFile, holder: str) -> None:
        """Keep a file until `release` is called as often. A dead file cannot be held; by a base, only a durable one."""
        assert one.number in self._known
        assert one.is_durable or holder != BASE
        one.holders[holder] += 1
        self._note_holders(one)

    def release(self, one: SegmentFile, holder: str) -> None:
        """Let go of a file; the last holder leaves it to `unlink_dead`."""
        assert one.holders[holder] > 0
        one.holders[holder] -= 1
        self._note_holders(one)
        if one.holders.total() == 0:
            self._known.discard(one.number)
            self.sizes.pop(one.number, None)
            self._whole.pop(one.number, None)
            self._dead.append((one.number, one.path))

    def _note_holders(self, one: SegmentFile) -> None:
        if one.holders[BASE] and one.holders.total() == one.holders[BASE]:
            self._stale[one.number] = one
        else:
            self._stale.pop(one.number, None)

    @property
    def stale_size(self) -> int:
        """The bytes of files that bases alone hold: the next rewrite of the journal lets go of them."""
        return sum([one.size for one in self._stale.values()])

    @property
    def has_dead(self) -> bool:
        """Whether there are files that nothing holds."""
        return bool(self._dead) or self._is_unlinking

    def unlink_dead(self) -> int:
        """Unlink the files that nothing holds; return how many. Raises: OSError, after all were tried; the next call
        tries again.

        Their space may take a while to free, so this is for a thread.
        """
        done = 0
        failed: list[tuple[int, str]] = []
        error: OSError | None = None
        self._is_unlinking = True
        while self._dead:
            one = self._dead.pop(0)
            number, path = one
            self._close(number)
            try:
                self.notes.unlink(number)
                self._files.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as failure:
                error = failure
                failed.append(one)
                continue
            done += 1
        self._dead += failed
        self._is_unlinking = False
        if error is not None:
            raise error
        return done

    def _unlink(self, number: int, path: str) -> None:
        """Unlink a file that failed, now or later."""
        try:
            self._files.unlink(path)
        except OSError:
            self._dead.append((number, path))

    # Reading.

    def read(self, one: SegmentFile, place: Place) -> bytes:
        """Return a block, checked. Raises: Damaged, OSError."""
        file = self._borrow(one)
        try:
            data = read_exactly(file, place.offset, place.size)
        finally:
            self._give_back(one)
        check(data, place.size, one.salt, place.offset, one.path)
        return data

    def read_cached(self, one: SegmentFile, place: Place) -> bytes | None:
        """Return a block, checked, if that needs no wait for the disk, else None. Raises: Damaged, OSError."""
        file = self._borrow(one)
        try:
            data = file.read_cached(place.offset, place.size)
        finally:
            self._give_back(one)
        if data is not None:
            check(data, place.size, one.salt, place.offset, one.path)
        return data

    def read_part(self, one: SegmentFile, offset: int, count: int) -> bytes:
        """Return up to `count` bytes of a file as they are, unchecked. Raises: OSError."""
        file = self._borrow(one)
        try:
            return file.read_at(offset, count)
        finally:
            self._give_back(one)

    def read_ahead(self, one: SegmentFile, places: Collection[Place]) -> None:
        """Have the system begin to read blocks. Raises: OSError."""
        file = self._borrow(one)
        try:
            for place in places:
                file.read_ahead(place.offset, place.size)
        finally:
            self._give_back(one)

    def _borrow(self, one: SegmentFile) -> File:
        """Return the open file; it stays open until `_give_back`."""
        with self._lock:
            if one.file is None:
                one.file = self._files.open_to_read(one.path)
                self._open[one.number] = one
            else:
                self._open.move_to_end(one.number)
            one.users += 1
            self._close_some()
            return one.file

    def _give_back(self, one: SegmentFile) -> None:
        with self._lock:
            one.users -= 1
            if not one.users and one.number not in self._known and one.number in self._open:
                self._close_one(one)

    def _close_some(self) -> None:
        """Close files until the bound is kept, those first that were read longest ago; the lock is held."""
        if len(self._open) <= OPEN_FILES_MAX:
            return
        for one in [*self._open.values()]:
            if not one.users and one.is_durable:
                self._close_one(one)
                if len(self._open) <= OPEN_FILES_MAX:
                    return

    def _close(self, number: int) -> None:
        with self._lock:
            one = self._open.get(number)
            if one is not None and not one.users:
                self._close_one(one)

    def _close_one(self, one: SegmentFile) -> None:
        del self._open[one.number]
        if one.file is not None:
            _close(one.file)
            one.file = None

    def close(self) -> None:
        """Close all files."""
        for number in [*self._open]:
            self._close(number)


def _close(file: File) -> None:
    try:
        file.close()
    except OSError:
        pass
