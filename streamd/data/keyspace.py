"""The databases: keys, their values, when they expire and who watches or waits for them."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from streamd.base.clock import TurnTime
from streamd.base.errors import WrongType
from streamd.base.heap import packed
from streamd.data.deadlines import STEP_MS, Deadlines
from streamd.data.scan_order import ScanOrder
from streamd.data.types import STREAM, KeyValue, T, ValueType

if TYPE_CHECKING:
    from collections.abc import MutableSet

    from streamd.stream.stream import Stream


class Watcher:
    """Somebody who wants to know that a key changed (a client in WATCH)."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        self.touched = False


class Database:
    """One numbered database.

    A command finds a value by `read` when it returns something of it, by `get` when it is to change it, by `inspect`
    when it says something about it; `peek` leaves no trace. That is how Redis counts hits and misses, and idle times.

    values: key -> value, also of keys whose time has passed and which nobody has met since.
    expires_ms: key -> Unix milliseconds, for the keys that have an expiry; written by set_expiry and clear_expiry.
    expires_sum_ms: the sum of expires_ms.
    deadlines: every expiry, and some that hold no more.
    newest: the key that was put last, so that who names it as well can hold the same bytes.
    used_s: key -> the Unix second of its last access. touched: where accesses are noted, mostly used_s.
    hits, misses: how often a key that was to be read or inspected was there, and was not.
    scan_order: the keys in SCAN's order; None until somebody scans: who never does pays nothing for it.
    watchers: key -> the watchers to mark when it changes.
    waiting: the keys some blocked client waits for (counted by the owner of the blocked clients).
    on_ready(db, key): a key that somebody waits for may have become useful.
    on_expired(db, key): a key was removed because its time had passed.
    on_new(db, key), on_miss(db, key): a key is added, was asked for and is not there; None where nobody wants to know.
    """

    __slots__ = (
        "deadlines",
        "expires_ms",
        "expires_sum_ms",
        "hits",
        "index",
        "misses",
        "newest",
        "on_expired",
        "on_miss",
        "on_new",
        "on_ready",
        "scan_order",
        "time",
        "touched",
        "used_s",
        "values",
        "waiting",
        "watchers",
    )

    def __init__(self, index: int, time: TurnTime) -> None:
        self.index = index
        self.time = time
        self.values: dict[bytes, KeyValue] = {}
        self.expires_ms: dict[bytes, int] = {}
        self.expires_sum_ms = 0
        self.deadlines = Deadlines()
        self.newest = b""
        self.used_s: dict[bytes, int] = {}
        self.touched = self.used_s
        self.hits = self.misses = 0
        self.scan_order: ScanOrder | None = None
        self.watchers: dict[bytes, MutableSet[Watcher]] = {}
        self.waiting: dict[bytes, int] = {}
        self.on_ready: Callable[[Database, bytes], None] = _ignore
        self.on_expired: Callable[[Database, bytes], None] = _ignore
        self.on_new: Callable[[Database, bytes], None] | None = None
        self.on_miss: Callable[[Database, bytes], None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def peek(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key, or None; a key whose time has passed is removed."""
        value = self.values.get(key)
        if value is not None and self.expires_ms and key in self.expires_ms and self.expires_ms[key] <= self.time.ms:
            self.expire(key)
            return None
        return value

    def get(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key for a command that may change it, or None."""
        value = self.peek(key)
        if value is not None:
            self.touched[key] = self.time.s
        return value

    def get_as(self, key: bytes, kind: ValueType[T]) -> T | None:
        """Return the value of a live key for a command that may change it, or None. Raises: WrongType."""
        value = self.values.get(key)
        if type(value) is kind.holds and key not in self.expires_ms:
            # The hot path.
            self.touched[key] = self.time.s
            return value
        return self._as(key, self.get(key), kind)

    def inspect(self, key: bytes, *, says_miss: bool = True) -> KeyValue | None:
        """Return the value of a live key for a command that says something about it, or None: no access to it."""
        value = self.peek(key)
        if value is not None:
            self.hits += 1
        else:
            self.misses += 1
            if says_miss and self.on_miss is not None:
                self.on_miss(self, key)
        return value

    def read(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key for a command that reads it, or None."""
        value = self.inspect(key)
        if value is not None:
            self.touched[key] = self.time.s
        return value

    def read_as(self, key: bytes, kind: ValueType[T]) -> T | None:
        """Return the value of a live key for a command that reads it, or None. Raises: WrongType."""
        value = self.values.get(key)
        if type(value) is kind.holds and key not in self.expires_ms:
            # The hot path.
            self.hits += 1
            self.touched[key] = self.time.s
            return value
        return self._as(key, self.read(key), kind)

    def stream(self, key: bytes) -> "Stream | None":
        """Return the stream at `key` for a command that may change it, or None. Raises: WrongType."""
        return self._as(key, self.get(key), STREAM)

    def _as(self, key: bytes, value: KeyValue | None, kind: ValueType[T]) -> T | None:
        if value is None or type(value) is kind.holds:
            return value
        if kind.plain is None or type(value) not in kind.also:
            raise WrongType()
        plain = kind.plain(value)
        self.values[key] = plain  # type: ignore[assignment]
        return plain

    def put(self, key: bytes, value: KeyValue) -> None:
        """Store a value; its key's expiry stays."""
        if (self.scan_order is not None or self.on_new is not None) and key not in self.values:
            self._gains(key)
        self.values[key] = value
        self.newest = key
        self.used_s[key] = self.time.s
        if key in self.waiting:
            self.on_ready(self, key)

    def remove(self, key: bytes) -> KeyValue | None:
        """Take a key out with its expiry and return its value."""
        value = self.values.pop(key, None)
        if value is not None:
            if self.expires_ms:
                self.clear_expiry(key)
            self.used_s.pop(key, None)
            if self.scan_order is not None:
                self.scan_order.remove(key)
            if key in self.waiting:
                self.on_ready(self, key)
        return value

    def delete(self, key: bytes) -> bool:
        """Remove a live key; return whether there was one."""
        return self.peek(key) is not None and self.remove(key) is not None

    def expire(self, key: bytes) -> None:
        """Remove a key whose time has passed."""
        self.remove(key)
        self.touch(key)
        self.on_expired(self, key)

    def set_expiry(self, key: bytes, expires_ms: int) -> None:
        """Let a key that is there end at a Unix time in milliseconds."""
        self.expires_sum_ms += expires_ms - self.expires_ms.get(key, 0)
        self.expires_ms[key] = expires_ms
        deadlines = self.deadlines
        deadlines.add(expires_ms, key)
        # A moved or cleared expiry leaves its row: no more of them than rows that hold, so O(1) for each.
        if len(deadlines) > 2 * len(self.expires_ms) + 1_000:
            deadlines.fill(self.expires_ms)

    def clear_expiry(self, key: bytes) -> bool:
        """Let a key live for ever; return whether it had an expiry."""
        expires_ms = self.expires_ms.pop(key, None)
        if expires_ms is None:
            return False
        self.expires_sum_ms -= expires_ms
        return True

    def mean_left_ms(self) -> int:
        """Return how many milliseconds the keys that expire have left on average, 0 without such keys."""
        return max(0, self.expires_sum_ms // len(self.expires_ms) - self.time.ms) if self.expires_ms else 0

    def expire_due(self, stop: Callable[[], bool]) -> bool:
        """Remove the keys whose time has passed until `stop` says so; return whether there are more."""
        now_ms, deadlines, expires_ms = self.time.ms, self.deadlines, self.expires_ms
        deadlines.begin(now_ms)
        while (key := deadlines.take(now_ms)) is not None:
            due_ms = expires_ms.get(key)
            if due_ms is not None:
                if due_ms <= now_ms:
                    self.expire(key)
                elif due_ms // STEP_MS <= deadlines.step:
                    deadlines.put_off(key)  # else there is another row for it
            if stop():
                return deadlines.may_be_due(now_ms)
        return False

    def in_scan_order(self) -> ScanOrder:
        """Return the keys in SCAN's order. The first call walks all keys."""
        if self.scan_order is None or not self.scan_order.fits:
            self.scan_order = ScanOrder(self.values.keys())
        return self.scan_order

    def _gains(self, key: bytes) -> None:
        if self.on_new is not None:
            self.on_new(self, key)
        if self.scan_order is not None:
            self.scan_order.add(key)
            if not self.scan_order.fits:
                self.scan_order = None

    def clear(self) -> int:
        """Remove every key; return how many there were."""
        count = len(self.values)
        for key in list(self.watchers):
            if key in self.values:
                self.touch(key)
        values, self.values = self.values, {}
        self.used_s = self.touched = {}
        self.expires_ms = {}
        self.expires_sum_ms = 0
        self.deadlines = Deadlines()
        self.scan_order = None
        for key in list(self.waiting):
            if key in values:
                self.on_ready(self, key)
        return count

    def pack(self) -> None:
        """Take no more memory for the keys' rows than those that are there need."""
        self.values = packed(self.values)
        self.expires_ms = packed(self.expires_ms)
        self.used_s = self.touched = packed(self.used_s)

    def touch(self, key: bytes) -> None:
        """Mark the watchers of a changed key."""
        if self.watchers:
            for watcher in self.watchers.get(key, ()):
                watcher.touched = True

    def signal(self, key: bytes) -> None:
        """Say that a key may have something for those who wait for it."""
        if key in self.waiting:
            self.on_ready(self, key)

    def keys(self) -> Iterator[bytes]:
        """Iterate the live keys; the database must not change meanwhile."""
        now_ms, expires_ms = self.time.ms, self.expires_ms
        for key in self.values:
            if key not in expires_ms or expires_ms[key] > now_ms:
                yield key


def _ignore(db: Database, key: bytes) -> None:
    pass


class Keyspace:
    """All databases, and the time their keys are judged by."""

    def __init__(self, databases: int, time: TurnTime) -> None:
        self.time = time
        self.databases = [Database(index, time) for index in range(databases)]

    def __getitem__(self, index: int) -> Database:
        return self.databases[index]

    def __iter__(self) -> Iterator[Database]:
        return iter(self.databases)

    def swap(self, first: int, second: int) -> None:
        """Exchange the contents of two databases; clients stay with the numbers they selected."""
        one, two = self.databases[first], self.databases[second]
        for db in (one, two):
            for key in list(db.watchers):
                if key in one.values or key in two.values:
                    db.touch(key)
        one.values, two.values = two.values, one.values
        one.expires_ms, two.expires_ms = two.expires_ms, one.expires_ms
        one.expires_sum_ms, two.expires_sum_ms = two.expires_sum_ms, one.expires_sum_ms
        one.used_s, two.used_s = two.used_s, one.used_s
        one.touched, two.touched = one.used_s, two.used_s
        one.deadlines, two.deadlines = two.deadlines, one.deadlines
        one.scan_order, two.scan_order = two.scan_order, one.scan_order
        for db in (one, two):
            for key in list(db.waiting):
                # A key that went with its database matters, too: who waits in a group of it is to be told.
                if key in one.values or key in two.values:
                    db.on_ready(db, key)
