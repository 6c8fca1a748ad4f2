"""The databases: keys, their values, their expiry, and the clients that watch or wait for them."""

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamd.base.clock import TurnTime
from streamd.base.due_times import DueTimes
from streamd.base.errors import WrongType
from streamd.base.heap import packed
from streamd.data.deadlines import Deadlines
from streamd.data.followers import Followers
from streamd.data.timed_hash import TimedHash
from streamd.data.trash import Trash
from streamd.data.types import STREAM, KeyValue, T, ValueType, type_of

if TYPE_CHECKING:
    from streamd.stream.stream import Stream

# A client that waits may be served at the end of a run of entries, instead of behind the first of them.
AT_END: Final = -1

# So many fields whose time has passed are removed between two looks at the time that this takes.
_FIELDS_AT_ONCE: Final = 64


class Database:
    """One numbered database.

    A command looks a value up by `read` to return parts of it, by `get` to change it, by `inspect` to describe it;
    `peek` leaves no trace. So hits, misses and idle times are counted as in Redis.

    values: key -> value, also of expired keys that no access has removed yet.
    expires_ms: key -> Unix milliseconds, for the keys that have an expiry; written by set_expiry and clear_expiry.
    expires_sum_ms: the sum of expires_ms.
    deadlines: the same keys in about the order of time.
    field_times: the keys of hashes that have fields with a time to live, with the time of the first field, or earlier.
    newest: the key that was put last, so that its next user can share the bytes.
    used_s: key -> the monotonic second of its last access. touched: the dict to note accesses in, mostly used_s.
    hits, misses: how often a key to be read or inspected was present, and absent.
    set_aside: expired keys whose removal failed by a bug, until the monotonic time `set_aside_until_ms`.
    followers: the followers of keys, in any database. followed: the keys with followers, in which a write looks up its
        own key: followers.keys, or every key while there are events.
    waiting: each key that blocked clients wait for -> the least ID of an entry that may serve one of them; 0: any
        change may; AT_END: any entry may, also behind a run of entries. (Kept by the owner of the blocked clients.)
    keeps_expired: expired keys are hidden, but stay until the primary removes them.
    trash: large removed values, to be freed in slices.
    on_ready(db, key): a key that a client waits for may have become useful.
    on_expired(db, keys): keys were removed because they had expired.
    on_fields_expired(db, key, fields): fields of a hash were removed because they had expired, and the key too if the
        hash is empty now.
    on_new(db, key), on_miss(db, key): a key is added; a key to be read is absent. None while there is no listener.
    """

    __slots__ = (
        "deadlines",
        "expires_ms",
        "expires_sum_ms",
        "field_times",
        "followed",
        "followers",
        "hits",
        "index",
        "keeps_expired",
        "misses",
        "newest",
        "on_expired",
        "on_fields_expired",
        "on_miss",
        "on_new",
        "on_ready",
        "set_aside",
        "set_aside_until_ms",
        "time",
        "touched",
        "trash",
        "used_s",
        "values",
        "waiting",
    )

    def __init__(self, index: int, time: TurnTime) -> None:
        self.index = index
        self.time = time
        self.values: dict[bytes, KeyValue] = {}
        self.expires_ms: dict[bytes, int] = {}
        self.expires_sum_ms = 0
        self.deadlines = Deadlines()
        self.field_times = DueTimes()
        self.newest = b""
        self.used_s: dict[bytes, int] = {}
        self.touched = self.used_s
        self.hits = self.misses = 0
        self.set_aside: list[bytes] = []
        self.set_aside_until_ms = 0
        self.followers = Followers()
        self.followed: Container[bytes] = self.followers.keys
        self.waiting: dict[bytes, int] = {}
        self.trash = Trash()
        self.keeps_expired = False
        self.on_ready: Callable[[Database, bytes], None] = _ignore
        self.on_expired: Callable[[Database, list[bytes]], None] = _ignore
        self.on_fields_expired: Callable[[Database, bytes, list[bytes]], None] = _ignore_fields
        self.on_new: Callable[[Database, bytes], None] | None = None
        self.on_miss: Callable[[Database, bytes], None] | None = None

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self.values)

    def peek(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key, or None; an expired key is removed.

        Where expired keys are kept, a hash with expired fields comes as a copy without them.
        """
        value = self.values.get(key)
        if value is not None and self.expires_ms and key in self.expires_ms and self.expires_ms[key] <= self.time.ms:
            self.expire(key)
            return None
        if type(value) is TimedHash and self.field_times.due_ms.get(key, 0) <= self.time.ms:
            if self.keeps_expired and self.time.ms:  # (a journal's time is 0, and nothing has expired)
                return value.at(self.time.ms) or None
            self.expire_fields(key)
            return self.values.get(key)
        return value

    def get(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key for a command that may change it, or None."""
        value = self.peek(key)
        if value is not None:
            self.touched[key] = self.time.s
        return value

    def get_as(self, key: bytes, kind: ValueType[T, Any]) -> T | None:
        """Return the value of a live key for a command that may change it, or None. Raises: WrongType."""
        value = self.values.get(key)
        if type(value) is kind.holds and key not in self.expires_ms:
            # The hot path.
            self.touched[key] = self.time.s
            return value
        return self._as(key, self.get(key), kind)

    def inspect(self, key: bytes, *, says_miss: bool = True) -> KeyValue | None:
        """Return the value of a live key for a command that describes it, or None; this is no access to the key."""
        value = self.peek(key)
        if value is not None:
            self.hits += 1
        else:
            self.misses += 1
            if says_miss and self.on_miss is not None:
                self.on_miss(self, key)
        return value

    def count(self, keys: list[bytes]) -> int:
        """Return the number of live keys among these; each counts as inspected."""
        if self.expires_ms or self.field_times or self.on_miss is not None:
            return sum(self.inspect(key) is not None for key in keys)
        found = sum(map(self.values.__contains__, keys))
        self.hits += found
        self.misses += len(keys) - found
        return found

    def read(self, key: bytes) -> KeyValue | None:
        """Return the value of a live key for a command that reads it, or None."""
        value = self.inspect(key)
        if value is not None:
            self.touched[key] = self.time.s
        return value

    def read_as(self, key: bytes, kind: ValueType[T, Any]) -> T | None:
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
        return self.get_as(key, STREAM)

    def _as(self, key: bytes, value: KeyValue | None, kind: ValueType[T, Any]) -> T | None:
        if value is None or type(value) is kind.holds:
            return value
        if kind.plain is None or type(value) not in kind.also:
            raise WrongType()
        plain = kind.plain(value)
        if plain is not value:
            self.values[key] = plain  # type: ignore[assignment]
        return plain

    def put(self, key: bytes, value: KeyValue) -> None:
        """Store a value; the expiry of its key stays."""
        before = self.values.get(key)
        if before is None:
            if self.on_new is not None:
                self.on_new(self, key)
        elif type(before) is not bytes and before is not value:
            self.trash.add(before)
        self.values[key] = value
        self.newest = key
        self.used_s[key] = self.time.s
        if key in self.waiting:
            self.on_ready(self, key)

    def put_strings(self, keys: Sequence[bytes], texts: Sequence[bytes]) -> None:
        """Store strings at keys that hold strings or nothing, without waiters; their expiries stay."""
        values = self.values
        if self.on_new is not None:
            for key in dict.fromkeys(keys):
                if key not in values:
                    self.on_new(self, key)
        values.update(zip(keys, texts, strict=True))
        self.newest = keys[-1]
        self.used_s.update(dict.fromkeys(keys, self.time.s))

    def remove(self, key: bytes) -> KeyValue | None:
        """Remove a key with its expiry and return its value."""
        value = self.values.pop(key, None)
        if value is not None:
            if key in self.expires_ms:
                self.clear_expiry(key)
            self.used_s.pop(key, None)
            if self.field_times.due_ms:
                self.field_times.drop(key)
            if key in self.waiting:
                self.on_ready(self, key)
        return value

    def replace(self, key: bytes, value: KeyValue) -> None:
        """Store a value without an expiry, over any other. A key keeps its place in walks over the keys."""
        if key in self.values:
            self.clear_expiry(key)
            self.field_times.drop(key)
        self.put(key, value)

    def place(self, key: bytes, value: KeyValue, expires_ms: int | None) -> None:
        """Store a value that was made elsewhere, with the times of its fields. Its key counts as new in any case.

        expires_ms: when the key expires, Unix milliseconds, or None.
        """
        if key in self.values and self.on_new is not None:
            self.on_new(self, key)
        self.replace(key, value)
        if isinstance(value, TimedHash):
            self.note_times(key, value)
        if expires_ms is not None:
            self.set_expiry(key, expires_ms)

    def delete(self, key: bytes) -> bool:
        """Remove a live key; return whether there was one."""
        if self.peek(key) is None:
            return False
        value = self.remove(key)
        if type(value) is not bytes:
            self.trash.add(value)
        return True

    def drop_empty(self, key: bytes) -> None:
        """Remove a key that holds an empty collection, which only a command ended by a bug leaves."""
        value = self.values.get(key)
        if value is not None and type_of(value).commands is not None and not type_of(value).elements(value):
            self.remove(key)
            self.touch(key)

    def expire(self, key: bytes) -> None:
        """Remove an expired key, unless that is the primary's business."""
        if self.keeps_expired:
            return
        self.trash.add(self.remove(key))
        self.followers.change(self.index, key, is_by_time=True)
        self.on_expired(self, [key])

    def note_times(self, key: bytes, value: TimedHash) -> None:
        """Note the first time of a hash's fields, after the hash came to a key or a time was set."""
        first_ms = value.times.first_ms()
        known_ms = self.field_times.due_ms.get(key)
        if first_ms is not None and (known_ms is None or first_ms < known_ms):
            self.field_times.set(key, first_ms)

    def expire_fields(self, key: bytes, stop: Callable[[], bool] | None = None) -> bool:
        """Remove the expired fields of a hash, or until `stop` returns True; return whether there may be more.

        Without `stop` this is O(n) in the expired fields; the cron has mostly removed them before, slice by slice.
        """
        value = self.values.get(key)
        if self.keeps_expired:
            return False
        if type(value) is not TimedHash:
            self.field_times.drop(key)
            return False  # the hash with these times has gone, unnoticed
        now_ms, times = self.time.ms, value.times
        stopped = False
        while not stopped:
            fields: list[bytes] = []
            try:
                while len(fields) < _FIELDS_AT_ONCE and (field := times.first_due(now_ms)) is not None:
                    value.drop(field)  # with its last field that has a time it becomes a plain hash
                    fields.append(field)
            finally:
                self.field_times.drop(key)
                if type(value) is TimedHash:
                    self.note_times(key, value)
                if not value:
                    self.remove(key)
                if fields:
                    self.followers.change(self.index, key, is_by_time=True)
                    self.on_fields_expired(self, key, fields)
            if len(fields) < _FIELDS_AT_ONCE:
                return False
            stopped = stop is not None and stop()
        return True

    def set_expiry(self, key: bytes, expires_ms: int) -> None:
        """Let a present key expire at a Unix time in milliseconds."""
        before_ms = self.expires_ms.get(key)
        self.expires_ms[key] = expires_ms
        if before_ms is not None:
            self.deadlines.discard(key, before_ms, self.expires_ms)
            self.expires_sum_ms -= before_ms
        self.expires_sum_ms += expires_ms
        self.deadlines.add(key, expires_ms)

    def set_expiry_of_all(self, keys: Sequence[bytes], expires_ms: int) -> None:
        """Let present keys expire at one Unix time in milliseconds."""
        times = dict.fromkeys(keys, expires_ms)
        if len(times) == len(keys) and self.expires_ms.keys().isdisjoint(keys):
            self.expires_ms.update(times)
            self.expires_sum_ms += expires_ms * len(keys)
            self.deadlines.add_all(keys, expires_ms)
        else:
            for key in times:
                self.set_expiry(key, expires_ms)

    def clear_expiry(self, key: bytes) -> bool:
        """Remove a key's expiry; return whether it had one."""
        expires_ms = self.expires_ms.pop(key, None)
        if expires_ms is None:
            return False
        self.expires_sum_ms -= expires_ms
        self.deadlines.discard(key, expires_ms, self.expires_ms)
        return True

    def mean_left_ms(self) -> int:
        """Return the mean time to live of keys with an expiry in milliseconds, 0 without such keys."""
        return max(0, self.expires_sum_ms // len(self.expires_ms) - self.time.ms) if self.expires_ms else 0

    def clear(self) -> int:
        """Remove every key; return how many there were."""
        count = len(self.values)
        for key in self.followers.watched_in(self.index):
            if key in self.values:
                self.followers.mark(self.index, key)
        values, self.values = self.values, {}
        ready = [key for key in self.waiting if key in values]
        self.trash.add_rows(values)
        for part in (self.used_s, self.expires_ms, self.deadlines):
            self.trash.add(part)
        self.used_s = self.touched = {}
        self.expires_ms = {}
        self.expires_sum_ms = 0
        self.deadlines = Deadlines()
        self.field_times = DueTimes()
        self.set_aside = []
        for key in ready:
            self.on_ready(self, key)
        return count

    def packing(self) -> Iterator[None]:
        """Shrink the dicts of keys to their present rows; yield after each dict that shrinks."""
        values = self.values
        self.values = packed(values)
        if self.values is not values:
            del values
            yield
        times = self.expires_ms
        self.expires_ms = packed(times)
        if self.expires_ms is not times:
            del times
            yield
        used_s = self.used_s
        self.used_s = self.touched = packed(used_s)
        if self.used_s is not used_s:
            del used_s
            yield
        self.field_times.due_ms = packed(self.field_times.due_ms)

    def touch(self, key: bytes) -> None:
        """Tell the followers of a key that it changed."""
        if self.followers:
            self.followers.change(self.index, key)

    def signal(self, key: bytes) -> None:
        """Note that a key may serve the clients that wait for it."""
        if key in self.waiting:
            self.on_ready(self, key)

    def overdue(self) -> set[bytes]:
        """Return expired keys that are not removed yet; O(1) for each."""
        aside = [key for key in self.set_aside if key in self.expires_ms and self.expires_ms[key] <= self.time.ms]
        return self.deadlines.due(self.time.ms, self.expires_ms).union(aside)

    def keys(self) -> Iterator[bytes]:
        """Iterate the live keys; the database must not change meanwhile."""
        now_ms, expires_ms = self.time.ms, self.expires_ms
        for key in self.values:
            if key not in expires_ms or expires_ms[key] > now_ms:
                yield key


def _ignore(db: Database, keys: object) -> None:
    pass


def _ignore_fields(db: Database, key: bytes, fields: list[bytes]) -> None:
    pass


class Keyspace:
    """All databases, the clock for their keys' expiry, and removed values that are not freed yet."""

    def __init__(self, databases: int, time: TurnTime) -> None:
        self.time = time
        self.databases = [Database(index, time) for index in range(databases)]
        self.trash = Trash()
        self.followers = Followers()
        for db in self.databases:
            db.trash = self.trash
            db.followers, db.followed = self.followers, self.followers.keys

    def __getitem__(self, index: int) -> Database:
        return self.databases[index]

    def __iter__(self) -> Iterator[Database]:
        return iter(self.databases)

    def take(self, other: "Keyspace") -> None:
        """Replace all contents by those of another keyspace, which is of no more use then."""
        for db, new in zip(self.databases, other.databases, strict=True):
            db.clear()
            # What the other one still had would stay as long as the cycles of references around it, which a collection
            # finds late or never.
            db.values, new.values = new.values, {}
            db.expires_ms, new.expires_ms = new.expires_ms, {}
            db.expires_sum_ms, new.expires_sum_ms = new.expires_sum_ms, 0
            db.deadlines, new.deadlines = new.deadlines, Deadlines()
            db.used_s = db.touched = new.used_s
            new.used_s = new.touched = {}
            db.field_times, new.field_times = new.field_times, DueTimes()
            new.newest, new.set_aside = b"", []
            for key in db.followers.watched_in(db.index):
                if key in db.values:
                    db.followers.mark(db.index, key)
            for key in list(db.waiting):
                db.on_ready(db, key)

    def swap(self, first: int, second: int) -> None:
        """Exchange the contents of two databases; clients stay with the numbers they selected."""
        one, two = self.databases[first], self.databases[second]
        for db in (one, two):
            for key in self.followers.watched_in(db.index):
                # (An expired key counts as absent.)
                if one.peek(key) is not None or two.peek(key) is not None:
                    self.followers.mark(db.index, key)
        one.values, two.values = two.values, one.values
        one.expires_ms, two.expires_ms = two.expires_ms, one.expires_ms
        one.expires_sum_ms, two.expires_sum_ms = two.expires_sum_ms, one.expires_sum_ms
        one.used_s, two.used_s = two.used_s, one.used_s
        one.touched, two.touched = one.used_s, two.used_s
        one.deadlines, two.deadlines = two.deadlines, one.deadlines
        one.field_times, two.field_times = two.field_times, one.field_times
        one.set_aside, two.set_aside = two.set_aside, one.set_aside
        for db in (one, two):
            for key in list(db.waiting):
                # A key that was swapped away matters, too: clients that wait in a group of it must get their error.
                if key in one.values or key in two.values:
                    db.on_ready(db, key)
