"""Followers of keys: clients that WATCH a key in a database, and clients that cache keys of any database."""

from collections.abc import Callable
from typing import Final

# No client caches the key: it is only watched.
_NOBODY: Final = 0

# Over the limit of keys so many more than needed are forgotten, if they are a small part: the oldest are found behind
# the places of those that went before them.
_FORGOTTEN_AT_ONCE: Final = 100
_FORGOTTEN_PART: Final = 64


class EveryKey:
    """A set that contains every key."""

    __slots__ = ()

    def __contains__(self, key: object) -> bool:
        return True


class Watcher:
    """A follower of a key's changes (a client in WATCH)."""

    __slots__ = ("touched",)

    def __init__(self) -> None:
        self.touched = False


class Followers:
    """The keys that clients follow, in all databases of a server.

    A write only looks up whether its key is in `keys`. So followers of other keys cost it nothing.

    keys: key -> the number of the client that caches it, or the set of their numbers; 0 if it is only watched. As in
    Redis, the database does not matter: a client that has read `k` is told of `k` in any database.
    follows_all: followers want every change, of any key.
    on_stale(key, clients): a key changed that these clients cached; they no longer count as caching it.
    on_change(key, is_by_time): called for each change while `follows_all`; is_by_time: whether the key or a field
    expired.
    kept_keys: the number of cached keys; kept_items: the number of pairs of key and client.
    """

    __slots__ = (
        "_watched",
        "_watchers",
        "follows_all",
        "keys",
        "kept_items",
        "kept_keys",
        "on_change",
        "on_stale",
    )

    def __init__(self) -> None:
        self.keys: dict[bytes, int | set[int]] = {}
        self.follows_all = False
        self.kept_keys = self.kept_items = 0
        self.on_stale: Callable[[bytes, list[int]], None] = _ignore_stale
        self.on_change: Callable[[bytes, bool], None] = _ignore_change
        self._watchers: dict[tuple[int, bytes], set[Watcher]] = {}
        self._watched: dict[bytes, int] = {}  # in how many databases a key is watched

    def __bool__(self) -> bool:
        return self.follows_all or bool(self.keys)

    # -- watching -----------------------------------------------------------------------------------------------------

    def watch(self, db_index: int, key: bytes, watcher: Watcher) -> None:
        """Add a watcher, to be marked when a key of a database changes."""
        place = (db_index, key)
        if place not in self._watchers:
            self._watchers[place] = set()
            self._watched[key] = self._watched.get(key, 0) + 1
            self.keys.setdefault(key, _NOBODY)
        self._watchers[place].add(watcher)

    def unwatch(self, db_index: int, key: bytes, watcher: Watcher) -> None:
        """Remove a watcher."""
        place = (db_index, key)
        watchers = self._watchers[place]
        watchers.discard(watcher)
        if watchers:
            return
        del self._watchers[place]
        self._watched[key] -= 1
        if not self._watched[key]:
            del self._watched[key]
            if self.keys[key] == _NOBODY:
                del self.keys[key]

    def watched_in(self, db_index: int) -> list[bytes]:
        """Return the watched keys of a database."""
        return [key for index, key in self._watchers if index == db_index]

    def mark(self, db_index: int, key: bytes) -> None:
        """Mark the watchers of a key."""
        for watcher in self._watchers.get((db_index, key), ()):
            watcher.touched = True

    # -- keeping ------------------------------------------------------------------------------------------------------

    def keep(self, client: int, keys: list[bytes]) -> None:
        """Note that a client caches some keys."""
        kept = self.keys
        for key in keys:
            before = kept.get(key, _NOBODY)
            if before == client:
                continue
            if before == _NOBODY:
                kept[key] = client
                self.kept_keys += 1
            elif isinstance(before, set):
                if client in before:
                    continue
                before.add(client)
            else:
                kept[key] = {before, client}
            self.kept_items += 1

    def limit(self, keys_max: int) -> None:
        """If more than `keys_max` keys are cached, forget the ones cached longest, as if they had changed."""
        if self.kept_keys <= keys_max:
            return
        count = self.kept_keys - keys_max + min(_FORGOTTEN_AT_ONCE, keys_max // _FORGOTTEN_PART)
        oldest: list[bytes] = []
        for key, clients in self.keys.items():
            if clients:
                oldest.append(key)
                if len(oldest) >= count:
                    break
        for key in oldest:
            self._invalidate(key)

    def forget_kept(self) -> dict[bytes, int | set[int]]:
        """Forget all cached keys without a message; the clients know that they are stale. `keys` becomes a new dict.

        Returns: the old dict, for the caller to free, which takes a fifth of a second for a million keys.
        """
        before, self.keys = self.keys, dict.fromkeys(self._watched, _NOBODY)
        self.kept_keys = self.kept_items = 0
        return before

    # -- changes ------------------------------------------------------------------------------------------------------

    def change(self, db_index: int, key: bytes, is_by_time: bool = False) -> None:
        """Tell all followers of a key that it changed."""
        if key in self.keys:
            self.mark(db_index, key)
            self._invalidate(key)
        if self.follows_all:
            self.on_change(key, is_by_time)

    def _invalidate(self, key: bytes) -> None:
        clients = self.keys[key]
        if clients == _NOBODY:
            return
        if key in self._watched:
            self.keys[key] = _NOBODY
        else:
            del self.keys[key]
        told = sorted(clients) if isinstance(clients, set) else [clients]
        self.kept_keys -= 1
        self.kept_items -= len(told)
        self.on_stale(key, told)


def _ignore_stale(key: bytes, clients: list[int]) -> None:
    pass


def _ignore_change(key: bytes, is_by_time: bool) -> None:
    pass
