"""The removal of expired keys, and of expired fields of hashes, that no client asks for."""

from collections.abc import Callable
from typing import Final

from streamd.data.keyspace import Database
from streamd.data.timed_hash import TimedHash

# A key whose removal met an exception is tried again so much later: the bug may fail each time.
_SET_ASIDE_MS: Final = 60_000


def expire_due(db: Database, stop: Callable[[], bool]) -> bool:
    """Remove expired keys and fields until `stop` returns True; return whether there may be more.

    Raises: the exception of a bug, after removing the other keys. The key that met it is set aside.
    """
    if db.set_aside and db.time.monotonic_ms >= db.set_aside_until_ms:
        _take_back(db)
    failures: list[Exception] = []
    more = _end_keys(db, stop, failures) or _end_fields(db, stop, failures)
    if failures:
        raise failures[0]
    return more


def _end_keys(db: Database, stop: Callable[[], bool], failures: list[Exception]) -> bool:
    for keys in db.deadlines.take_due(db.time.ms, db.expires_ms):
        try:
            if db.waiting or _follows_one_of(db, keys):
                for key in keys:
                    db.expire(key)
            else:
                _expire_unseen(db, keys)
        except Exception as error:
            failures.append(error)
            _set_aside(db, [key for key in keys if key in db.expires_ms])
        if stop():
            return True
    return False


def _end_fields(db: Database, stop: Callable[[], bool], failures: list[Exception]) -> bool:
    while (key := db.field_times.first_due(db.time.ms)) is not None:
        try:
            if db.expire_fields(key, stop):
                return True
        except Exception as error:
            failures.append(error)
            db.field_times.drop(key)  # a command that reads the hash looks at the times of its fields then
            _set_aside(db, [key])
        if stop():
            first_ms = db.field_times.first_ms()
            return first_ms is not None and first_ms <= db.time.ms
    return False


def _expire_unseen(db: Database, keys: list[bytes]) -> None:
    """Do the work of `Database.expire` for keys without followers and waiters. Hot path: a million keys may end in a
    second.
    """
    for key, value in zip(keys, map(db.values.pop, keys), strict=True):
        if type(value) is not bytes:
            db.trash.add(value)
            if type(value) is TimedHash:
                db.field_times.drop(key)
    db.expires_sum_ms -= sum(map(db.expires_ms.pop, keys))
    for key in keys:
        db.used_s.pop(key, None)
    db.on_expired(db, keys)


def _follows_one_of(db: Database, keys: list[bytes]) -> bool:
    followers = db.followers
    return bool(followers) and (followers.follows_all or not followers.keys.keys().isdisjoint(keys))


def _set_aside(db: Database, keys: list[bytes]) -> None:
    """Keep keys for another try; the first key, which failed, moves behind the others."""
    if not db.set_aside:
        db.set_aside_until_ms = db.time.monotonic_ms + _SET_ASIDE_MS
    db.set_aside += keys[1:] + keys[:1]


def _take_back(db: Database) -> None:
    """Let the keys that were set aside expire."""
    keys, db.set_aside = db.set_aside, []
    for key in dict.fromkeys(keys):
        value = db.values.get(key)
        if key in db.expires_ms:
            db.deadlines.add(key, db.expires_ms[key])
        if type(value) is TimedHash:
            db.note_times(key, value)
