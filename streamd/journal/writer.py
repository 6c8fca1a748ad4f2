"""The end of an increment: units are collected, written a turn at a time, and synced."""

from collections.abc import Callable, Sequence

from streamd.base.filesystem import File, repeat, write_all
from streamd.data.records import ColumnsRecord, Record, Words
from streamd.journal.duplicates import DUPLICATES, DuplicateNotes, without_overtaken
from streamd.journal.notes import NOTES
from streamd.journal.record import (
    DATABASES_LINE,
    UNITS_PER_RUN_MAX,
    encode_columns,
    encode_command,
    encode_first_line,
    encode_note,
    encode_run,
    encode_select,
    encode_synced,
    encode_together,
    encode_unit,
)


class Writer:
    """Appends to one file, and knows how much of it is on the disk.

    shipped: None while there is no replica; else the bodies of runs that were encoded and not taken from there yet.
    size: bytes written, a trailing note about syncing included. synced: bytes known to be on the disk. salt: that of
    the file. names_databases: each run begins with a SELECT, since another database than 0 was named before.
    """

    def __init__(self, file: File, size: int, synced: int, salt: int, begun: bool = True) -> None:
        """Append to `file` at `size`; `begun`: everything before that, or its end, was written with this salt."""
        self.file = file
        self.size = size
        self.synced = synced
        self.salt = salt
        self.names_databases = False
        self.shipped: list[bytes] | None = None
        self._own: list[Words] = []
        self._select = b""  # what a run begins with, if the database of its first unit is the one that is selected
        self._db: int | None = None
        self._units: list[Sequence[Record | ColumnsRecord]] = []
        # Take a unit for the next `write`; a run stands alone, and is several. (On the hot path: no call between.)
        self.append_unit = self._units.append
        self._unwritten = DATABASES_LINE if begun else encode_first_line(salt) + DATABASES_LINE
        self._noted = synced
        self._data_end = self._place = size

    @property
    def has_units(self) -> bool:
        """Whether `write` has something to write."""
        return bool(self._units or self._unwritten or self._own)

    def write(self) -> bool:
        """Write the collected units with one operation; return whether there were any.

        Raises: OSError, and any error of a bug. The units are kept, and the next call writes them in the same place.
        """
        units = self._units
        if units or self._own:
            only = (
                units[0][0] if len(units) == 1 and len(units[0]) == 1 and not (self._unwritten or self._own) else None
            )
            if type(only) is tuple and only[0] == self._db and only[1][0] not in NOTES:
                # What a client without a pipeline leaves, without what many need.
                body = self._select + encode_command(only[1])
                self._unwritten = encode_run((body,), self.synced, False, self.salt, self.size, self.shipped)
                units.clear()
                self._noted = self.synced
            else:
                self._encode()
        data = self._unwritten
        if not data:
            return False
        file, size = self.file, self.size
        try:
            done = file.write_at(size, data)  # as `write_all` does it, without its call
        except InterruptedError:
            done = 0
        if done < len(data):
            write_all(file, size + done, data[done:])
        self._unwritten = b""
        self._data_end = self.size = size + len(data)
        return True

    def hand_on(self, successor: "Writer") -> None:
        """Let a writer that has been given the same units take this one's place, with what is to be shipped.

        Units that were given to this writer and not written yet are shipped; the successor ships only later ones.
        """
        if self.shipped is None:
            return
        try:
            successor.encode_waiting()
            self.encode_waiting()
        except Exception:
            pass  # it is a bug that a `write` has met before: replicas take the whole state since then
        successor.shipped, self.shipped = self.shipped, None

    def encode_waiting(self) -> None:
        """Encode the units that wait for the next `write`."""
        if self._units or self._own:
            self._encode()

    def append_own(self, words: Words) -> None:
        """Take a note that is about this journal alone, and is not shipped, for the end of the next `write`."""
        self._own.append(words)

    def write_body(self, body: bytes, notes: bool) -> None:
        """Write ready-made commands as one run behind the collected units; they are no unit, and torn as a whole.

        The selected database is unknown afterwards. Raises: OSError; then the file is of no more use.
        """
        self.write()
        data = encode_run([body], self.synced, notes, self.salt, self.size)
        write_all(self.file, self.size, data)
        self.size += len(data)
        self._data_end = self.size
        self._selected(None)

    def sync(self) -> None:
        """Return when all that was written is on the disk, in the file of that name. Raises: OSError."""
        self._sync(self.file)
        self.synced = self.size

    def start_sync(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """Return `(job, done)`: the job syncs and may run in a thread, done is called here once the job has
        succeeded.
        """
        file, size = self.file, self.size

        def done() -> None:
            self.synced = max(self.synced, size)

        return lambda: self._sync(file), done

    @staticmethod
    def _sync(file: File) -> None:
        repeat(file.sync)
        file.check_place()

    def note_synced(self) -> None:
        """Write the synced length, unless a run names it already. The caller does so when no more units come.

        The line itself needs no sync, for it is true whether it is lost or not. Raises: OSError.
        """
        if self.synced > self._noted and not self.has_units and self.synced >= self._data_end:
            line = encode_synced(self.synced, self.salt)
            write_all(self.file, self.size, line)
            self.size += len(line)
            self._noted = self.synced

    def close(self) -> None:
        """Close the file. Raises: OSError."""
        self.file.close()

    def _encode_run(self, bodies: list[bytes], notes: bool) -> bytes:
        """Return units as a run for the next place, with `_select` in front of the first."""
        if self._select:
            bodies[0] = self._select + bodies[0]
        run = encode_run(bodies, self.synced, notes, self.salt, self._place, self.shipped)
        self._place += len(run)
        return run

    def _encode(self) -> None:
        db = self._db
        parts = [self._unwritten] if self._unwritten else []
        self._place = self.size + len(self._unwritten)
        bodies: list[bytes] = []
        notes = False
        duplicates = DuplicateNotes()
        for unit in self._units:
            only, before = unit[0], db
            if duplicates.kept and not duplicates.may_wait(unit):
                bodies += duplicates.end()
            if type(only) is ColumnsRecord:
                first = len(bodies)
                if len(unit) > 1:  # a frame of a primary, with notes of where that leads
                    ends = [encode_note(index, words) for index, words in unit[1:]]  # type: ignore[misc]
                    bodies.append(encode_together([*encode_columns(only.columns), *ends]))
                    notes = True
                elif only.end is None:
                    bodies += encode_columns(only.columns)
                else:
                    bodies.append(encode_together([*encode_columns(only.columns), encode_command(only.end)]))
                if only.db_index != db:
                    before = db = only.db_index
                    self.names_databases = self.names_databases or db > 0
                    bodies[first] = encode_select(db) + bodies[first]
            elif len(unit) == 1 and only[0] == db and only[1][0] not in NOTES:  # type: ignore[index]
                # The most frequent kind: one command in the same database as the one before.
                bodies.append(encode_command(only[1]))  # type: ignore[index]
            elif len(unit) == 1 and only[1][0] == DUPLICATES:  # type: ignore[index]
                duplicates.take(only)  # type: ignore[arg-type]
                notes = True
            else:
                body, db, has_notes = encode_unit(without_overtaken(unit), db)  # type: ignore[arg-type]  # no run
                notes = notes or has_notes
                bodies.append(body)
                self.names_databases = self.names_databases or any(index for index, _ in unit)  # type: ignore[misc]
            while len(bodies) > UNITS_PER_RUN_MAX:
                parts.append(self._encode_run(bodies[:UNITS_PER_RUN_MAX], notes))
                del bodies[:UNITS_PER_RUN_MAX]
                self._selected(before)  # by what stands in front of the units that are left: one, or those of columns
        if duplicates.kept:
            bodies += duplicates.end()
        for at in range(0, len(bodies), UNITS_PER_RUN_MAX):
            parts.append(self._encode_run(bodies[at : at + UNITS_PER_RUN_MAX], notes))
        for words in self._own:
            own = encode_run([encode_note(0, words)], self.synced, True, self.salt, self._place)
            self._place += len(own)
            parts.append(own)
        self._own.clear()
        self._units.clear()
        self._selected(db)
        self._noted = self.synced
        self._unwritten = parts[0] if len(parts) == 1 else b"".join(parts)

    def _selected(self, db: int | None) -> None:
        self._db = db
        self.names_databases = self.names_databases or bool(db)
        self._select = encode_select(db) if self.names_databases and db is not None else b""
