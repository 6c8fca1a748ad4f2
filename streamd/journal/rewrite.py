"""The rewrite: a new base and a new increment, made in slices from the live state, which changes meanwhile.

The new files get the same contents as the old ones in this way: every key is written into the base at one instant, its
*cut*. The base has the changes of a key before its cut; the new increment gets the later ones. So the state of its key
decides about each record:

* the key waits for its cut: the record is dropped, the cut will include it;
* the key was cut, or did not exist at the beginning (then it is not in the base): the record is written to the new
  increment.

To list the keys takes some time by itself. Until the list is complete no key is cut; the keys of records join the list.

A record that ties several keys (RENAME, COPY, MOVE) is kept if all are cut and dropped if all wait. Otherwise each key
that is cut is written anew into the increment, as it is after that unit, and the other keys go on waiting. SWAPDB is
always kept; the waiting keys change their database, and are written to the base at the place that they would have
without it.

Meanwhile the old increment takes every unit, and is the valid one: until the manifest names the new files, a crash or a
failure loses only the work. So a failure with one key or one record ends the whole rewrite: files that lack a key never
replace files that have it. While the manifest is being replaced, a crash may leave either one; so each unit is written
to both increments before any client gets its reply.

Libraries of functions have no key: they are written to the base at the beginning, and later changes of them to the
increment.

There is no snapshot of everything at the beginning, since copying the key table alone takes longer than a slice at some
hundred thousand keys. A large stream gets a snapshot at its cut, which shares segments, windows and pending entries
until they change, and is written in slices.

Entries in segment files are not written: the base names the files, and where the stream's entries are in them (see
streamd.journal.cold_records). An increment names no files. So where a key whose entries are in files would have to be
written anew into the increment, the rewrite rather begins again, some times.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from streamd.base.errors import reason_of
from streamd.base.filesystem import FileSystem
from streamd.cold.store import ColdStore
from streamd.cold.tokens import Hold
from streamd.data.keyspace import Keyspace
from streamd.data.records import ColumnsRecord, Record, Words
from streamd.data.types import KeyValue, type_of
from streamd.journal.base_writer import BaseWriter
from streamd.journal.cold_records import NamedFiles, format_words, unwritten_from
from streamd.journal.dump import dump_key
from streamd.journal.jobs import Submit
from streamd.journal.manifest import Part
from streamd.journal.notes import DEFAULTS, FUNCTION, HISTORY
from streamd.journal.record import FIRST_LINE_BYTES, encode_command, encode_note, encode_select
from streamd.journal.recovery import create_part
from streamd.journal.writer import Writer
from streamd.stream.stream import Stream

# A value of fewer entries (fields, elements) is written at its cut, a larger one is copied and written in slices: 1,000
# take a millisecond.
_AT_ONCE_ENTRIES_MAX: Final = 1_000

# Keys are put on the list so many at once: half a millisecond.
_LISTED_AT_ONCE: Final = 5_000

# So much of a key's name is said where it cannot be written.
_SHOWN_BYTES_MAX: Final = 64

_Pieces = Iterator[tuple[bool, bytes]]


class UnwritableKey(Exception):
    """A key that could not be written; the message has the key and the reason."""

    def __init__(self, index: int, key: bytes, error: Exception) -> None:
        super().__init__(f"key {key[:_SHOWN_BYTES_MAX]!r} of database {index}: {reason_of(error)}")


class Rewrite:
    """One rewrite. The caller calls step() until it is_complete, then runs the jobs; see Journal.

    is_switching: the manifest is being replaced. is_named: a manifest that names the new files may be in place.
    keys_done, keys_total: the progress. must_restart: the files are useless and the rewrite must begin again, since a
    transaction mixed effects that cannot be separated (RENAME between a cut key and a waiting one, together with
    FLUSHDB or SWAPDB), or a key would have to be written anew whose entries are in files.
    """

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base: Part,
        increment: Part,
        keyspace: Keyspace,
        defaults: tuple[int, int],
        libraries: Sequence[bytes],
        submit: Submit,
        store: ColdStore | None = None,
        may_restart: bool = True,
    ) -> None:
        """Create the files and begin. Raises: OSError, after closing the files.

        libraries: the code of each library of functions. submit: gets the jobs that write the base. store: the segment
        files. may_restart: whether the rewrite may begin again instead of writing entries that are in files.
        """
        self._store = store
        self._named = None if store is None else NamedFiles(store)
        self._may_restart = may_restart
        self._files = files
        self._directory = directory
        self._keyspace = keyspace
        self.base = base
        self.increment = increment
        self.is_switching = False
        self.is_named = False
        self.must_restart = False
        self._unlisted = [list(db.values) for db in keyspace]
        self._waiting: list[dict[bytes, None]] = [{} for _ in keyspace]
        self._is_listed = False
        self._home = list(range(len(self._waiting)))  # live database -> where its keys would be without SWAPDB
        self.keys_total = sum(map(len, self._unlisted))
        self.keys_done = 0
        self._current: _Pieces | None = None
        self._queue: deque[Sequence[Record | ColumnsRecord] | _Pieces] = deque()
        self._db: int | None = None
        self._ended = self._is_turn_of_queue = False
        self._failure: Exception | None = None
        self._base = BaseWriter(files, directory, base, submit)
        try:
            file, salt = create_part(files, directory, increment.name)
            self.writer = Writer(file, FIRST_LINE_BYTES, 0, salt)
        except BaseException:
            self._base.close()
            raise
        if store is not None:
            self._base.add(encode_command(format_words(store)), False)
        note = (DEFAULTS, b"%d" % defaults[0], b"%d" % defaults[1])
        self._base.add(encode_note(0, note), True)
        for code in libraries:
            self._base.add(encode_command((FUNCTION, b"LOAD", code)), False)
        self.writer.append_unit([(0, note)])

    def begin_with(self, history: Words) -> None:
        """Begin base and increment with the note of where the state stands, so that a start knows its role soon."""
        self._base.add(encode_note(0, history), True)
        self.writer.append_unit([(0, history)])

    # -- what happens meanwhile -----------------------------------------------------------------------------------

    def observe(self, records: Sequence[Record | ColumnsRecord]) -> None:
        """Take a unit that has just been applied, with the keyspace still in the state behind it. Raises: nothing; the
        next step raises an error, since the writing client did not cause it.
        """
        if self._ended and not self._queue:
            self.writer.append_unit(records)
        elif self._failure is None:
            try:
                self._read_in_place(True)
                self._observe(records)
            except Exception as error:
                self._failure = error
            finally:
                self._read_in_place(False)

    def _read_in_place(self, is_so: bool) -> None:
        """Have blocks read at once, however long that takes: nothing here can wait, and next to none are needed."""
        if self._store is not None:
            self._store.in_place += 1 if is_so else -1

    def _observe(self, records: Sequence[Record | ColumnsRecord]) -> None:
        kept: list[Record | ColumnsRecord] = []
        anew: set[tuple[int, bytes]] = set()
        for record in records:
            if isinstance(record, ColumnsRecord):
                waiting, key = self._waiting[record.db_index], record.key
                if key is None:
                    for one in record.records():
                        self._observe([one])
                elif not self._is_listed:
                    waiting[key] = None
                elif key not in waiting:
                    kept.append(record)
                continue
            index, words = record
            name = words[0].upper()
            if name in (DEFAULTS, FUNCTION, HISTORY):
                kept.append(record)
            elif not self._is_listed:
                if name in _WHOLE:
                    self._observe_whole(index, words)
                else:
                    for db, key in places_of(index, words):
                        self._waiting[db][key] = None
            elif name in _WHOLE:
                self._observe_whole(index, words)
                self.must_restart = self.must_restart or bool(anew)
                kept.append(record)
            elif name in (b"DEL", b"UNLINK"):
                gone = [key for key in words[1:] if key not in self._waiting[index] and (index, key) not in anew]
                if gone:
                    kept.append((index, [words[0], *gone]))
            else:
                places = places_of(index, words)
                out = [key in self._waiting[db] or (db, key) in anew for db, key in places]
                if not any(out):
                    kept.append(record)
                elif not all(out):
                    # They will be written in their state behind the whole unit, with all that it did to them.
                    anew.update(place for place, is_out in zip(places, out, strict=True) if not is_out)
        if kept:
            self._append(kept)
        for db, key in sorted(anew):
            self._write_anew(db, key)

    def _observe_whole(self, index: int, words: Words) -> None:
        """Take a record that concerns whole databases."""
        name = words[0].upper()
        waiting, unlisted, home = self._waiting, self._unlisted, self._home
        if name == b"SWAPDB":
            one, two = int(words[1]), int(words[2])
            waiting[one], waiting[two] = waiting[two], waiting[one]
            unlisted[one], unlisted[two] = unlisted[two], unlisted[one]
            if self._is_listed:
                home[one], home[two] = home[two], home[one]
        else:
            for db in range(len(waiting)) if name == b"FLUSHALL" else (index,):
                waiting[db].clear()
                unlisted[db].clear()

    def _append(self, records: Sequence[Record | ColumnsRecord]) -> None:
        if self._queue:
            self._queue.append(records)
        else:
            self.writer.append_unit(records)

    def _write_anew(self, index: int, key: bytes) -> None:
        """Write the present value of a key to the increment, behind a DEL of the earlier one."""
        self._append([(index, (b"DEL", key))])
        db = self._keyspace[index]
        value = db.values.get(key)
        if self._may_restart and type(value) is Stream and unwritten_from(value):
            self.must_restart = True
        elif value is not None:
            self._queue.append(iter(((False, encode_select(index)),)))
            self._queue.append(_snapshot(index, key, value, db.expires_ms.get(key)))

    # -- the work -------------------------------------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether the base is whole, and the increment has all of its records."""
        return self._base.is_written and not self._queue

    @property
    def must_wait(self) -> bool:
        """Whether step() has no work before the submitted jobs have ended."""
        return not self._queue and (self._base.must_wait or (self._ended and not self._base.is_written))

    def wait(self) -> None:
        """Wait until no submitted job is running."""
        self._base.wait()

    @property
    def base_bytes(self) -> int:
        """The size of the base."""
        return self._base.size

    def step(self, should_stop: Callable[[], bool]) -> None:
        """Work until `should_stop` returns True (called about every half millisecond), it must_wait, or it is_complete.
        Raises: UnwritableKey, OSError, and any error of a bug; the caller then abandons the rewrite.
        """
        if self._failure is not None:
            raise self._failure
        self._base.check()
        self.writer.write()
        self._read_in_place(True)
        try:
            while not (self.is_complete or self.must_wait):
                if not self._is_listed:
                    self._list()
                elif self._queue and (self._ended or self._base.must_wait or self._is_turn_of_queue):
                    self._is_turn_of_queue = False
                    self._write_queue()
                else:
                    # In turns: COPY of a large key that waits for its cut fills the queue each time, until it is cut.
                    self._is_turn_of_queue = True
                    if not self._write_base():
                        self._ended = True
                        self._base.end()
                if should_stop():
                    break
        finally:
            self._read_in_place(False)

    def _list(self) -> None:
        for waiting, unlisted in zip(self._waiting, self._unlisted, strict=True):
            if unlisted:
                waiting.update(dict.fromkeys(unlisted[-_LISTED_AT_ONCE:]))
                del unlisted[-_LISTED_AT_ONCE:]
                return
        self._is_listed = True

    def _write_queue(self) -> None:
        item = self._queue[0]
        if isinstance(item, Iterator):
            piece = next(item, None)
            if piece is None:
                self._queue.popleft()
            else:
                self.writer.write_body(piece[1], piece[0])
        else:
            self._queue.popleft()
            self.writer.append_unit(item)
            if not self._queue:
                self.writer.write()

    def _write_base(self) -> bool:
        """Write the next piece of the base; return whether there was one."""
        if self._current is None:
            self._current = self._next_key()
            if self._current is None:
                return False
        piece = next(self._current, None)
        if piece is None:
            self._current = None
            self.keys_done += 1
        else:
            self._base.add(piece[1], piece[0])
        return True

    def _next_key(self) -> _Pieces | None:
        """Cut the next waiting key; return its pieces, or None without such a key."""
        for index, waiting in enumerate(self._waiting):
            if not waiting:
                continue
            key, _ = waiting.popitem()
            db = self._keyspace[index]
            value = db.values.get(key)
            home = self._home[index]
            if home != self._db:
                self._db = home
                self._base.select(home)
            if value is None:
                return iter(())
            return _snapshot(home, key, value, db.expires_ms.get(key), self._named)
        return None

    def start_sync(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return `(job, done)`: the job syncs both files and may run in a thread.

        It must end before the switch, which syncs only the later bytes.
        """
        assert self.is_complete
        self.writer.write()
        job, done = self.writer.start_sync()
        base = self._base

        def sync() -> None:
            base.sync()
            job()

        return sync, done

    def base_holds(self) -> list[Hold]:
        """Return what holds the segment files that the base names, as those of the base in place."""
        return [] if self._named is None else self._named.base_holds()

    def close_base(self) -> None:
        """Close the base; nothing more is written to it."""
        self._base.close()

    def abandon(self) -> None:
        """Close the files, and remove them unless a manifest may name them."""
        self._waiting = [{} for _ in self._waiting]
        self._unlisted = [[] for _ in self._unlisted]
        self._queue.clear()
        self._current = self._named = None
        self.close_base()
        try:
            self.writer.close()
        except OSError:
            pass
        for part in () if self.is_named else (self.base, self.increment):
            try:
                self._files.unlink(f"{self._directory}/{part.name}")
            except OSError:
                pass  # the next start removes it


_CONTAINERS: Final = frozenset((b"XGROUP", b"XIDMP"))
_WHOLE: Final = frozenset((b"FLUSHALL", b"FLUSHDB", b"SWAPDB"))
_TYING: Final = frozenset((b"RENAME", b"RENAMENX", b"COPY", b"MOVE", b"MSET", b"MSETNX"))


def places_of(index: int, words: Words) -> list[tuple[int, bytes]]:
    """Return (database, key) of all keys in a record; if there are several, the record ties them."""
    name = words[0].upper()
    if name not in _TYING:
        return [(index, words[2 if name in _CONTAINERS else 1])]
    if name in (b"MSET", b"MSETNX"):
        return [(index, key) for key in words[1::2]]
    if name == b"MOVE":
        return [(index, words[1]), (int(words[2]), words[1])]
    target = index
    for at, word in enumerate(words[3:], 3):
        if word.upper() == b"DB":
            target = int(words[at + 1])
    return [(index, words[1]), (target, words[2])]


def _snapshot(
    index: int, key: bytes, value: KeyValue, expires_ms: int | None, named: NamedFiles | None = None
) -> _Pieces:
    """Return the pieces of `value` as it is now; later changes do not reach them. Raises (this call, and the iterator):
    UnwritableKey.
    """
    try:
        kind = type_of(value)
        if kind.elements(value) <= _AT_ONCE_ENTRIES_MAX:
            return iter(list(dump_key(index, key, value, expires_ms, named)))
        copied = (kind.snapshot or kind.copy)(value)
    except Exception as error:
        raise UnwritableKey(index, key, error) from error
    return _pieces(index, key, copied, expires_ms, named)


def _pieces(index: int, key: bytes, value: KeyValue, expires_ms: int | None, named: NamedFiles | None) -> _Pieces:
    try:
        yield from dump_key(index, key, value, expires_ms, named)
    except Exception as error:
        raise UnwritableKey(index, key, error) from error
