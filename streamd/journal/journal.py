"""The journal of one server: its directory, from the lock through loading to appending and rewriting."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from streamd.base.filesystem import File, FileSystem, Identity, NoFile, repeat
from streamd.cold.store import ColdStore
from streamd.cold.tokens import Hold
from streamd.data.keyspace import Keyspace
from streamd.data.records import ColumnsRecord, Record, Words
from streamd.journal import manifest as manifests
from streamd.journal.jobs import Submit
from streamd.journal.leftovers import ASIDE, leftovers
from streamd.journal.loader import Loader
from streamd.journal.manifest import BASE, INCREMENT, Manifest, Part
from streamd.journal.mending import free_name, stamp
from streamd.journal.recovery import Cut, Loading, apply_cut, create_part, read_manifest, read_parts
from streamd.journal.rewrite import Rewrite
from streamd.journal.writer import Writer

LOCK_NAME: Final = "streamd.lock"


class Journal:
    """The append-only files of one directory.

    open() -> load() to its end -> start() -> append_unit() and write() for ever, syncs and rewrites in between ->
    close(). `write` and the jobs raise the errors of the file system; the caller decides about them.
    Instead of load() and start(): start_anew() -> a rewrite.

    is_unsaved: after start_anew() until its rewrite has ended; the directory is still as it was before. own: after
    close(), the files that this process has loaded or written, by their paths. old_directory: the directory for files
    that it has neither loaded nor written, once a rewrite has replaced them. moved_aside: the new names of files that
    the manifest does not name. rewrite: the running rewrite. base_bytes: the size of the base, or of all files at the
    start if there is no base; automatic rewriting compares with it. writes: how many `write` calls have written units;
    synced_writes: how many of these are on the disk. holds: of the segment files that the base names.
    """

    def __init__(
        self, files: FileSystem, directory: str, dirname: str = "appendonlydir", filename: str = "appendonly.aof"
    ) -> None:
        self.files = files
        self.data_directory = directory
        self.directory = f"{directory}/{dirname}"
        self.filename = filename
        self.loading = Loading()
        self.manifest = Manifest()
        self.writer: Writer | None = None
        self.rewrite: Rewrite | None = None
        self.base_bytes = 0
        self.writes = 0
        self.synced_writes = 0
        self.moved_aside: list[str] = []
        self.is_unsaved = False
        self.own: Mapping[str, Identity] = {}
        self.old_directory: str | None = None
        self._lock: File | None = None
        self.holds: list[Hold] = []
        self._older_bytes = 0
        self._names_databases = False
        self._old_segments: list[str] = []

    # -- start ----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the lock and read the manifest. Raises: LockedError, DamagedError, OSError."""
        self.files.make_directory(self.data_directory)
        self._lock = self.files.lock(f"{self.data_directory}/{LOCK_NAME}")
        self.files.make_directory(self.directory)
        self.manifest = read_manifest(self.files, self.directory, self.filename) or Manifest()

    def load(self, loader: Loader) -> Iterator[None]:
        """Apply the records of the files, a slice of work with each step. Raises: DamagedError, OSError."""
        self.loading = Loading()
        for piece in read_parts(self.files, self.directory, self.manifest, self.loading, loader.begin_file):
            yield from loader.take(piece)
        self._names_databases = loader.names_databases

    def start(self, now_ms: int) -> Cut | None:
        """Make the directory ready for appending; return the cut that was made, or None. Raises: OSError."""
        cut = self.loading.cut
        salt = self.loading.last_salt
        begun = bool(salt) and self.loading.goes_on
        names_databases = bool(self.manifest.increments) and self._names_databases
        if not self.manifest.increments:
            file, salt = self._create_increment()
            begun = True
        else:
            if cut is not None:
                cut = apply_cut(self.files, cut, now_ms)
            file = self.files.open(self._path(self.manifest.increments[-1]))
            repeat(file.sync)  # a later power loss must not lose loaded records, on which new ones build
        size = file.size()
        manifest = self.manifest
        self.writer = Writer(file, size, size, salt or self.files.salt(), begun)
        self.writer.names_databases = names_databases
        self.base_bytes = self.loading.sizes.get(manifest.base.name, 0) if manifest.base else 0
        self._older_bytes = sum(self.loading.sizes.get(part.name, 0) for part in manifest.parts()[:-1])
        if self.base_bytes == 0:
            self.base_bytes = self._older_bytes + size
        self._move_leftovers()
        return cut

    def _create_increment(self) -> tuple[File, int]:
        """Create a first increment and the manifest that names it; return the file with its salt. Raises: OSError."""
        manifest, seq = self.manifest, self.free_seq()
        part = Part(f"{self.filename}.{seq}.incr.aof", seq, INCREMENT)
        file, salt = create_part(self.files, self.directory, part.name)
        try:
            repeat(file.sync)
            repeat(lambda: self.files.sync_directory(self.directory))
            has_base = manifest.base is not None and self.loading.sizes[manifest.base.name] > 0
            manifest = Manifest(manifest.base if has_base else None, [part])
            manifests.replace(self.files, self.directory, self._manifest_name, manifest)
            repeat(lambda: self.files.sync_directory(self.directory))
            repeat(lambda: self.files.sync_directory(self.data_directory))
        except BaseException:
            file.close()
            raise
        self.manifest = manifest
        return file, salt

    def free_seq(self) -> int:
        """Return a number that no file in the directory has."""
        seq = self.manifest.next_seq()
        while any(self.files.exists(f"{self.directory}/{self.filename}.{seq}.{kind}.aof") for kind in ("base", "incr")):
            seq += 1  # a file that could not be moved aside
        return seq

    def start_anew(self, own: Mapping[str, Identity], now_ms: int) -> None:
        """Take units, but leave the files of the directory as they are until a rewrite replaces them.

        own: the files of an earlier journal of this process. The rewrite does not remove other files, but moves them
        to a directory of their own, in which they are a journal. Raises: OSError.
        """
        self.own = own
        self._move_leftovers()
        if any(self.files.identity(path) != own.get(path) for path in map(self._path, self.manifest.parts())):
            self.old_directory = free_name(self.files, f"{self.directory}.old-{stamp(now_ms)}")
            names = self.files.list(self.directory)
            self._old_segments = [one for one in names if one.startswith(f"{self.filename}.") and one.endswith(".seg")]
        if not self.manifest.parts():
            self._create_increment()[0].close()  # files of a rewrite that a crash ends are never without a manifest
        repeat(lambda: self.files.sync_directory(self.data_directory))
        self.writer = Writer(NoFile(), 0, 0, self.files.salt())
        self.is_unsaved = True

    def adopt(
        self, manifest: Manifest, loading: Loading, names_databases: bool, note: Words, holds: Sequence[Hold] = ()
    ) -> Callable[[], None]:
        """Make other files of the directory, which were loaded and are on the disk, the journal.

        note: ends these files; it is on the disk before they are the journal. holds: of the segment files that they
        name. To be called only while no job of the journal is under way. Returns the job that removes the files that
        were the journal before. Raises: OSError; then these still are it.
        """
        old, obsolete = self.writer, self.manifest
        assert old is not None
        if self.rewrite is not None:
            assert not self.rewrite.is_switching
            self.abandon_rewrite()
        file = self.files.open(self._path(manifest.increments[-1]))
        try:
            size = file.size()
            begun = bool(loading.last_salt) and loading.goes_on
            writer = Writer(file, size, size, loading.last_salt or self.files.salt(), begun)
            writer.names_databases = names_databases
            writer.append_own(note)
            writer.write()
            writer.sync()
            repeat(lambda: self.files.sync_directory(self.directory))
            manifests.replace(self.files, self.directory, self._manifest_name, manifest)
        except BaseException:
            file.close()
            raise
        self.manifest = manifest
        self.loading = loading
        self.writer = writer
        self._older_bytes = sum(loading.sizes.values()) - size
        self.base_bytes = self._older_bytes or size
        self.is_unsaved = False
        self.synced_writes = self.writes
        old_holds, self.holds = self.holds, [*holds]
        try:
            repeat(lambda: self.files.sync_directory(self.directory))
            removable = obsolete.parts()
        except OSError:
            removable = []  # which manifest a power loss leaves is open, so the files of both stay
            self.holds += old_holds

        def job() -> None:
            try:
                old.close()
            except OSError:
                pass
            for part in removable:
                try:
                    self.files.unlink(self._path(part))
                except OSError:
                    pass  # the next start moves it aside

        return job

    def close(self) -> None:
        """Close the files and give the lock back; units that were not written are lost. Raises: nothing."""
        if self.writer is not None:
            try:
                self.writer.close()
                if not self.is_unsaved:
                    self.own = {path: self.files.identity(path) for path in map(self._path, self.manifest.parts())}
            except OSError:
                pass
            self.writer = None
        if self.rewrite is not None:
            self.abandon_rewrite()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _path(self, part: Part) -> str:
        return f"{self.directory}/{part.name}"

    def _move_leftovers(self) -> None:
        """Move aside the files of unfinished rewrites, and files replaced by rewrites, that a crash has left."""
        for name in leftovers(self.files, self.directory, self.filename, self.manifest):
            path = f"{self.directory}/{name}"
            try:
                aside = free_name(self.files, path + ASIDE)
                self.files.rename(path, aside)
                self.moved_aside.append(aside)
            except OSError:
                pass  # the file does no harm, and the next start tries again

    # -- appending ------------------------------------------------------------------------------------------------

    def append_unit(self, records: Sequence[Record | ColumnsRecord]) -> None:
        """Take the effects of one command or one transaction, which stand or fall together; `write` writes them."""
        assert self.writer is not None
        self.writer.append_unit(records)
        if self.rewrite is not None:
            self.rewrite.observe(records)

    def append_own(self, words: Words) -> None:
        """Take a note about this journal alone, which is not shipped; it stands behind the units of the next write."""
        assert self.writer is not None
        self.writer.append_own(words)
        if self.rewrite is not None:
            self.rewrite.observe([(0, words)])

    def write(self) -> bool:
        """Write the units of this turn with one operation; return whether there were any. Raises: OSError."""
        assert self.writer is not None
        wrote = self.writer.write()
        self.writes += wrote
        if self.rewrite is not None and self.rewrite.is_switching:
            self.rewrite.writer.write()
        return wrote

    def sync(self) -> None:
        """Wait until all written units are on the disk. Raises: OSError."""
        assert self.writer is not None
        self.writer.sync()
        self.synced_writes = self.writes

    def start_sync(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return `(job, done)`: the job syncs and may run in a thread, done is called here once the job has
        succeeded.
        """
        assert self.writer is not None
        job, synced = self.writer.start_sync()
        writes = self.writes

        def done() -> None:
            synced()
            self.synced_writes = max(self.synced_writes, writes)

        return job, done

    def check_places(self) -> None:
        """Check that all files are still in their places. Raises: OSError if one was removed, moved or replaced; a
        start would not find the written units then.
        """
        assert self.writer is not None
        if self.is_unsaved:
            return
        self.writer.file.check_place()
        for name in [self._manifest_name, *(part.name for part in self.manifest.parts())]:
            if not self.files.exists(f"{self.directory}/{name}"):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.directory}/{name}")

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return self._older_bytes + (self.writer.size if self.writer else 0)

    # -- rewriting ------------------------------------------------------------------------------------------------

    def begin_rewrite(
        self,
        keyspace: Keyspace,
        defaults: tuple[int, int],
        libraries: Sequence[bytes],
        submit: Submit,
        history: Words | None = None,
        store: ColdStore | None = None,
        may_restart: bool = True,
    ) -> None:
        """Begin a rewrite of a keyspace and of functions; see Rewrite. Raises: OSError."""
        assert self.rewrite is None
        assert self._lock is not None
        self._lock.check_place()  # a directory of the same name may be another server's
        self.files.make_directory(self.directory)
        seq = self.free_seq()
        base = Part(f"{self.filename}.{seq}.base.aof", seq, BASE)
        increment = Part(f"{self.filename}.{seq}.incr.aof", seq, INCREMENT)
        self.rewrite = Rewrite(
            self.files, self.directory, base, increment, keyspace, defaults, libraries, submit, store, may_restart
        )
        if history is not None:
            self.rewrite.begin_with(history)

    def start_switch(self) -> tuple[Callable[[], None], Callable[[], Callable[[], None]]]:
        """Return `(job, done)`: the job makes the rewritten files the journal, and may run in a thread.

        Until the job has ended, units are written to both increments. Raises (the job): OSError. After that the old
        manifest is in place and the rewrite can be abandoned; if `rewrite.is_named`, the job must be repeated instead.
        The caller calls done after the job has succeeded; it returns the job that removes the old files. Raises (this
        call): OSError.
        """
        rewrite = self.rewrite
        assert rewrite is not None
        rewrite.is_switching = True
        rewrite.writer.write()
        sync, synced = rewrite.writer.start_sync()
        writes = self.writes
        manifest = Manifest(rewrite.base, [rewrite.increment])

        def job() -> None:
            sync()
            repeat(lambda: self.files.sync_directory(self.directory))
            manifests.replace(self.files, self.directory, self._manifest_name, manifest)
            rewrite.is_named = True  # which manifest a power loss leaves is open until the directory is synced
            repeat(lambda: self.files.sync_directory(self.directory))

        def done() -> Callable[[], None]:
            synced()
            self.synced_writes = max(self.synced_writes, writes)
            return self._finish_rewrite()

        return job, done

    @property
    def _manifest_name(self) -> str:
        return f"{self.filename}.manifest"

    def _finish_rewrite(self) -> Callable[[], None]:
        rewrite, old = self.rewrite, self.writer
        assert rewrite is not None
        assert old is not None
        obsolete, old_directory, self.old_directory = self.manifest, self.old_directory, None
        self.manifest = Manifest(rewrite.base, [rewrite.increment])
        self.writer = rewrite.writer
        old.hand_on(self.writer)
        self.rewrite = None
        self.is_unsaved = False
        self._older_bytes = self.base_bytes = rewrite.base_bytes
        self.holds = rewrite.base_holds()  # the new base is the one that counts, so the files of the old one may go
        rewrite.close_base()

        def job() -> None:
            try:
                old.close()
            except OSError:
                pass
            try:
                if old_directory is not None:
                    self._move_old(obsolete, old_directory)
                    return
            except OSError:
                return  # the next start moves them aside
            for part in obsolete.parts():
                try:
                    self.files.unlink(self._path(part))
                except OSError:
                    pass  # the next start moves it aside

        return job

    def _move_old(self, old: Manifest, directory: str) -> None:
        """Move the replaced files, with their manifest, to another directory. Raises: OSError."""
        self.files.make_directory(directory)
        segments, self._old_segments = self._old_segments, []
        for name in segments:  # the first, as a start removes those that no base names
            self.files.rename(f"{self.directory}/{name}", f"{directory}/{name}")
        manifests.replace(self.files, directory, self._manifest_name, old)
        for part in old.parts():
            self.files.rename(self._path(part), f"{directory}/{part.name}")
        for changed in (directory, self.directory, self.data_directory):
            self.files.sync_directory(changed)

    def abandon_rewrite(self) -> None:
        """Give up the running rewrite, and remove its files unless a manifest may name them."""
        rewrite, self.rewrite = self.rewrite, None
        assert rewrite is not None
        rewrite.abandon()


def lock_directory(files: FileSystem, directory: str) -> File:
    """Take a data directory's lock, to work on a journal while no server has it open. Raises: LockedError, OSError."""
    return files.lock(f"{directory}/{LOCK_NAME}")
