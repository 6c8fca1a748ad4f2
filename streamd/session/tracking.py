"""Clients that keep what they read, and the messages that tell them what is stale."""

import sys
from collections.abc import Callable
from typing import Final

from streamd.data.followers import Followers
from streamd.resp.types import Push, Reply
from streamd.session.client import Client
from streamd.session.tracker import Tracker

# Where a client that speaks RESP2 gets messages.
CHANNEL: Final = b"__redis__:invalidate"


class Tracking:
    """CLIENT TRACKING of all clients.

    A client that runs a command is told behind its reply, all others at once; who has prefixes, of several changes
    together, soon. (At the end of each turn somebody would have to look whether there are any.)

    clients: by number. count: how many track. prefixes: prefix -> who is told of keys that begin with it.
    changed: prefix -> the keys that changed since the last broadcast, each with who did it last.
    on_changed: called when there is the first: somebody must then call `broadcast`, soon.
    writer: the tracking client whose command runs; None: another client, or nobody. in_script: a script runs for it.
    on_followed: called when writers have to ask something else whether their key is followed: the first client has a
    prefix, the last one has none, or all that was kept is forgotten. free: takes what is to be freed, soon.
    Source: https://redis.io/docs/latest/develop/reference/client-side-caching/
    """

    def __init__(
        self,
        clients: dict[int, Client],
        followers: Followers,
        wants_flush: Callable[[Client], None],
        on_followed: Callable[[], None],
        free: Callable[[object], None],
    ) -> None:
        self._clients = clients
        self._followers = followers
        self._wants_flush = wants_flush
        self._on_followed = on_followed
        self._free = free
        self._keys_max = sys.maxsize
        self.count = 0
        self.prefixes: dict[bytes, dict[Client, None]] = {}
        self._lengths: dict[int, int] = {}  # how many prefixes are so long
        self.changed: dict[bytes, dict[bytes, Client | None]] = {}
        self.on_changed: Callable[[], None] = _ignore
        self.writer: Client | None = None
        self.in_script = False
        followers.on_stale = self._tell
        followers.on_change = self._note_change

    # -- who tracks ---------------------------------------------------------------------------------------------------

    def start(self, client: Client) -> Tracker:
        """Return what says how a client tracks, to be filled."""
        tracker = client.tracker
        if tracker is None:
            tracker = client.tracker = Tracker()
            self.count += 1
            if client.in_unit:
                self.begin(client, tracker)  # EXEC began before, and has its reply at its end
        return tracker

    def add_prefix(self, client: Client, prefix: bytes) -> None:
        """Tell a client that tracks of all changes to keys that begin with a prefix."""
        assert client.tracker is not None
        client.tracker.prefixes.add(prefix)
        listeners = self.prefixes.get(prefix)
        if listeners is None:
            listeners = self.prefixes[prefix] = {}
            self._lengths[len(prefix)] = self._lengths.get(len(prefix), 0) + 1
        listeners[client] = None
        self._follow_all()

    def stop(self, client: Client) -> None:
        """Tell a client nothing any more."""
        tracker = client.tracker
        if tracker is None:
            return
        client.tracker = None
        self.count -= 1
        if self.writer is client:
            self.writer = None
        for prefix in tracker.prefixes:
            listeners = self.prefixes[prefix]
            del listeners[client]
            if not listeners:
                del self.prefixes[prefix]
                self.changed.pop(prefix, None)
                self._lengths[len(prefix)] -= 1
                if not self._lengths[len(prefix)]:
                    del self._lengths[len(prefix)]
        self._follow_all()

    def leave(self, client: Client) -> None:
        """Forget a client that goes, and all that was kept if nobody tracks any more."""
        self.stop(client)
        if not self.count and self._followers.kept_keys:
            self._forget_kept()

    def _follow_all(self) -> None:
        if self._followers.follows_all != bool(self.prefixes):
            self._followers.follows_all = bool(self.prefixes)
            self._on_followed()

    def _forget_kept(self) -> None:
        before = self._followers.forget_kept()
        self._on_followed()
        self._free(before)

    # -- a command of a client that tracks ----------------------------------------------------------------------------

    def begin(self, client: Client, tracker: Tracker) -> None:
        """Keep what a client is told until its command has its reply."""
        self.writer = client
        tracker.held = []

    def end(self, client: Client, tracker: Tracker) -> None:
        """Tell a client what came while its command ran."""
        self.writer = None
        self.release(client, tracker)

    def hold(self, tracker: Tracker) -> None:
        """Keep what a client is told that has waited until it has its reply."""
        tracker.held = []

    def release(self, client: Client, tracker: Tracker) -> None:
        """Tell a client what was held."""
        held, tracker.held = tracker.held, None
        for key in held or ():
            self._send(client, tracker, None if key is None else [key])

    def keep(self, client: Client, keys: list[bytes]) -> None:
        """Note that a client keeps what it has read of some keys, but for what it chose not to keep."""
        tracker = client.tracker
        if tracker is None or tracker.is_broadcast or tracker.has_chosen != (tracker.choice == "optin"):
            return
        self._followers.keep(client.id, keys)
        if self._followers.kept_keys > self._keys_max:
            self._forget_oldest()

    def limit(self, keys_max: int) -> None:
        """Keep so many keys in all at most, from now on; 0: any number."""
        self._keys_max = keys_max or sys.maxsize
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Have all told who keep the keys that are too many: nobody has changed them."""
        writer, self.writer = self.writer, None
        self._followers.limit(self._keys_max)
        self.writer = writer

    # -- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, key: bytes, clients: list[int]) -> None:
        for number in clients:
            client = self._clients.get(number)
            tracker = None if client is None else client.tracker
            if client is None or tracker is None or tracker.is_broadcast:
                continue  # gone, or tracks no more what it has read
            if tracker.no_loop and client is self.writer:
                continue
            if tracker.held is not None:
                tracker.held.append(key)
            else:
                self._send(client, tracker, [key])

    def flushed(self) -> None:
        """Tell all who track that all keys are gone, of whatever database."""
        if self._followers.kept_keys:
            self._forget_kept()
        if not self.count:
            return
        for client in list(self._clients.values()):
            tracker = client.tracker
            if tracker is None:
                continue
            if tracker.held is not None:
                tracker.held.append(None)
            else:
                self._send(client, tracker, None)

    def _note_change(self, key: bytes, is_by_time: bool) -> None:
        # (As in Redis, what a script writes is not written by who runs it, nor is it who finds that a time has passed.)
        writer = None if is_by_time or self.in_script else self.writer
        # (There may be any number of prefixes; of each length a key has one.)
        longest = len(key)
        for length in self._lengths if len(self._lengths) <= longest else range(longest + 1):
            prefix = key[:length]
            if length <= longest and prefix in self.prefixes:
                if not self.changed:
                    self.on_changed()
                self.changed.setdefault(prefix, {})[key] = writer

    def broadcast(self) -> None:
        """Tell those who have prefixes of all that changed: a message for each prefix."""
        changed, self.changed = self.changed, {}
        for prefix, keys in sorted(changed.items()):
            names: list[Reply] = [*sorted(keys)]
            for client in self.prefixes[prefix]:
                tracker = client.tracker
                assert tracker is not None
                if not tracker.no_loop:
                    self._send(client, tracker, names)
                elif others := [name for name in names if keys[name] is not client]:
                    self._send(client, tracker, others)

    def _send(self, client: Client, tracker: Tracker, keys: list[Reply] | None) -> None:
        target: Client | None = client
        if tracker.redirect:
            target = self._clients.get(tracker.redirect)
            if target is None or target.close_soon:
                tracker.is_broken = True
                if client.protocol > 2:
                    client.reply(Push([b"tracking-redir-broken", tracker.redirect]))
                    self._wants_flush(client)
                return
        assert target is not None
        if target.protocol > 2:
            target.reply(Push([b"invalidate", keys]))
        elif tracker.redirect and target.subscription_count():
            target.reply(Push([b"message", CHANNEL, keys]))
        else:
            return  # RESP2 has no place for it
        self._wants_flush(target)


def _ignore() -> None:
    pass
