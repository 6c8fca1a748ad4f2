"""Backups: keeps files of the journal readable while clients copy them, even when they are renamed or removed."""

from dataclasses import dataclass
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.base.filesystem import File
from streamd.cold.files import BACKUP, SegmentFile
from streamd.cold.store import ColdStore
from streamd.cold.tokens import Hold
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.durability.rewriting import Rewriting
from streamd.journal.journal import Journal
from streamd.journal.writer import Writer

# Each keeps files on the disk that a rewrite would remove.
BACKUPS_MAX: Final = 4
# A client that asks for nothing for so long has gone away without closing its connection.
IDLE_MS_MAX: Final = 600_000
# One answer: few enough bytes that nobody waits for the disk, many enough that the way there and back is cheap.
READ_BYTES_MAX: Final = 256 * 1024
# For so long what a rewrite has left for one replica serves others that ask.
SHARED_MS: Final = 1_000


class TooManyBackups(CommandError):
    """As many backups are under way as are allowed."""


class _Segment:
    """A segment file, held until it is closed."""

    def __init__(self, store: ColdStore, one: SegmentFile) -> None:
        self._files = store.files
        self._hold: Hold | None = store.hold(one, BACKUP)
        self._one = one

    def size(self) -> int:
        return self._one.size

    def read_at(self, offset: int, length: int) -> bytes:
        return self._files.read_part(self._one, offset, length)

    def close(self) -> None:
        self._hold = None


@dataclass(slots=True)
class _Pinned:
    """A client's files: names and open files, the writer of the last one, the time of its last request."""

    parts: list[tuple[str, File | _Segment]]
    writer: Writer
    asked_ms: int

    def sizes(self) -> list[int]:
        """Return the size of each file: the last one up to the end of a turn, so that they are one state."""
        return [*(file.size() for _, file in self.parts[:-1]), self.writer.size]

    def close(self) -> None:
        for _, file in self.parts:
            try:
                file.close()
            except OSError:
                pass  # nothing was written to it


class Backups:
    """The backups under way, one for each client."""

    def __init__(self, state: State, journal: Journal, rewriting: Rewriting) -> None:
        self._state = state
        self._journal = journal
        self._rewriting = rewriting
        self._clock = state.clock
        self._pinned: dict[Client, _Pinned] = {}
        self._waiting: dict[Client, tuple[int, int]] = {}  # how many rewrites had succeeded, and failed, before
        self._shared = -1, 0  # how many had succeeded when a rewrite ended for a replica, and when that was

    def begin(self, client: Client, shares: bool = False) -> list[tuple[str, int]] | None:
        """Pin the journal as the next rewrite leaves it: return names and present sizes of its files, None while that
        rewrite is under way. To be called until then. Raises: CommandError.

        shares: take also what a rewrite of this second has left; so replicas that come together have one rewrite, and
        however many they are keep no more files on the disk than one of them.
        """
        if client in self._pinned:
            raise CommandError("ERR this connection has a backup already; end it with JOURNAL END")
        rewriting = self._rewriting
        done, is_active = rewriting.progress
        now_ms = self._clock.monotonic_ms()
        if client not in self._waiting:
            if shares and not is_active and self._shared[0] == done and now_ms - self._shared[1] < SHARED_MS:
                return self._pin(client)
            comes_along = shares and any(before == (done, rewriting.failures) for before in self._waiting.values())
            if not comes_along and len(self._pinned) + len(self._waiting) >= BACKUPS_MAX:
                raise TooManyBackups(f"ERR {BACKUPS_MAX} backups are under way; try again when one has ended")
            if not rewriting.is_running:
                self._start_rewrite()
            self._waiting[client] = done, rewriting.failures
            return None
        done_before, failures_before = self._waiting[client]
        if done == done_before and rewriting.failures == failures_before and is_active:
            return None
        del self._waiting[client]
        if done == done_before:
            raise rewriting.failure()
        if shares and self._shared[0] != done:
            self._shared = done, now_ms
        return self._pin(client)

    def _start_rewrite(self) -> None:
        try:
            self._rewriting.start()
        except OSError as error:
            raise CommandError(f"ERR Can't execute an AOF background rewriting: {error.strerror}")

    def _pin(self, client: Client) -> list[tuple[str, int]]:
        journal, store = self._journal, self._state.cold
        parts: list[tuple[str, File | _Segment]] = []
        assert journal.writer is not None
        try:
            for one in {hold.file.number: hold.file for hold in journal.holds}.values():
                assert store is not None
                # In front of the others: a client that does not know them refuses their names before all else.
                parts.append((one.path.rpartition("/")[2], _Segment(store, one)))
            for part in journal.manifest.parts():
                parts.append((part.name, journal.files.open(f"{journal.directory}/{part.name}")))
        except Exception as error:
            for _, file in parts:
                file.close()
            raise CommandError(f"ERR the journal cannot be read: {reason_of(error)}")
        self._pinned[client] = pinned = _Pinned(parts, journal.writer, self._clock.monotonic_ms())
        return [(name, size) for (name, _), size in zip(parts, pinned.sizes(), strict=True)]

    def mark(self, client: Client) -> list[int]:
        """Return the present sizes of the files; up to these they are one state. Raises: CommandError."""
        return self._of(client).sizes()

    def read(self, client: Client, number: int, offset: int, count: int) -> bytes:
        """Return up to `count` bytes of a file. Raises: CommandError."""
        pinned = self._of(client)
        if not 0 <= number < len(pinned.parts) or offset < 0 or not 0 < count <= READ_BYTES_MAX:
            raise CommandError("ERR value is out of range")
        try:
            return pinned.parts[number][1].read_at(offset, count)
        except OSError as error:
            raise CommandError(f"ERR the journal cannot be read: {error.strerror}")

    def _of(self, client: Client) -> _Pinned:
        pinned = self._pinned.get(client)
        if pinned is None:
            raise CommandError("ERR this connection has no backup; begin one with JOURNAL BEGIN")
        pinned.asked_ms = self._clock.monotonic_ms()
        return pinned

    def end(self, client: Client) -> bool:
        """Release a client's files; return whether it had any."""
        self._waiting.pop(client, None)
        pinned = self._pinned.pop(client, None)
        if pinned is not None:
            pinned.close()
        return pinned is not None

    def tick(self) -> bool:
        """Release files that were not used for long; return whether a client waits for a rewrite."""
        if not self._pinned and not self._waiting:
            return False
        too_old_ms = self._clock.monotonic_ms() - IDLE_MS_MAX
        for client in [*self._waiting, *self._pinned]:
            pinned = self._pinned.get(client)
            if client.closed or (pinned is not None and pinned.asked_ms < too_old_ms):
                self.end(client)
        return bool(self._waiting)

    def close(self) -> None:
        """Release everything: the journal ends."""
        for client in [*self._waiting, *self._pinned]:
            self.end(client)
