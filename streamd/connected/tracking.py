"""CLIENT TRACKING: the keys that clients cache, and their invalidation messages."""

import sys
from collections.abc import Callable, Iterator
from typing import Final

from streamd.base.prefixes import Prefixes
from streamd.connected.client import Client
from streamd.connected.tracker import Tracker
from streamd.data.followers import Followers
from streamd.resp.encoder import encode
from streamd.resp.types import Push, Raw, Reply

# The channel on which a client with RESP2 gets messages.
CHANNEL: Final = b"__redis__:invalidate"

# At most so many keys are in one message about prefixes, and so many clients get theirs between two looks at the time:
# a hundredth of a second's work is much.
KEYS_AT_ONCE: Final = 1_000
_CLIENTS_AT_ONCE: Final = 64


class _Message:
    """An invalidation for several clients, which is encoded once for each protocol."""

    __slots__ = ("_encoded", "keys")

    def __init__(self, keys: list[Reply] | None) -> None:
        self.keys = keys
        self._encoded: dict[int, Raw] = {}

    def raw(self, protocol: int) -> Raw:
        """Return the push encoded for a protocol. Raises: any error of the encoder."""
        made = self._encoded.get(protocol)
        if made is None:
            words: list[Reply] = [b"invalidate"] if protocol > 2 else [b"message", CHANNEL]
            made = self._encoded[protocol] = Raw(encode(Push([*words, self.keys]), protocol))
        return made


class Tracking:
    """CLIENT TRACKING of all clients.

    A client that runs a command gets its invalidations behind the reply, other clients get theirs at once. Clients with
    prefixes get several changes together, soon after. (If it were at the end of the turn, every turn would have to look
    for changes.)

    clients: number -> client. count: the number of tracking clients. prefixes: prefix -> the clients that get the
    changes of its keys.
    changed: the keys that changed since the last broadcast began, each with the client that changed it last.
    _broadcasting: the rest of a running broadcast.
    on_changed: called at the first change; `broadcast` must be called soon after.
    writer: the tracking client whose command runs, or None. in_script: a script runs for it.
    on_followed: called when writes must look up their keys in another set: after the first client got a prefix, the
    last prefix was removed, or all noted keys were forgotten. free: takes a value to free, soon.
    lose(client, where): closes a client that missed a message, so that it does not go on reading stale values.
    Source: https://redis.io/docs/latest/develop/reference/client-side-caching/
    """

    def __init__(
        self,
        clients: dict[int, Client],
        followers: Followers,
        wants_flush: Callable[[Client], None],
        on_followed: Callable[[], None],
        free: Callable[[object], None],
        lose: Callable[[Client, str], None],
    ) -> None:
        self._clients = clients
        self._followers = followers
        self._wants_flush = wants_flush
        self._on_followed = on_followed
        self._free = free
        self._lose = lose
        self._keys_max = sys.maxsize
        self.count = 0
        self.prefixes: Prefixes[dict[Client, None]] = Prefixes()
        self.changed: dict[bytes, Client | None] = {}
        self._broadcasting: Iterator[None] | None = None
        self.on_changed: Callable[[], None] = lambda: None
        self.writer: Client | None = None
        self.in_script = False
        followers.on_stale = self._tell
        followers.on_change = self._note_change

    # -- who tracks ---------------------------------------------------------------------------------------------------

    def start(self, client: Client) -> Tracker:
        """Return a client's tracker, to be filled with its options."""
        tracker = client.tracker
        if tracker is None:
            tracker = client.tracker = Tracker()
            self.count += 1
            if client.in_unit:
                self.begin(client, tracker)  # the running EXEC gets its reply at its end
        return tracker

    def add_prefix(self, client: Client, prefix: bytes) -> None:
        """Subscribe a client to the changes of all keys with a prefix."""
        assert client.tracker is not None
        client.tracker.prefixes.add(prefix)
        listeners = self.prefixes.values.get(prefix)
        if listeners is None:
            listeners = {}
            self.prefixes.put(prefix, listeners)
        listeners[client] = None
        self._follow_all()

    def stop(self, client: Client) -> None:
        """End a client's tracking."""
        tracker = client.tracker
        if tracker is None:
            return
        client.tracker = None
        self.count -= 1
        if self.writer is client:
            self.writer = None
        for prefix in tracker.prefixes:
            listeners = self.prefixes.values[prefix]
            del listeners[client]
            if not listeners:
                self.prefixes.remove(prefix)
        if len(self.prefixes) == 0:
            self.changed = {}
        self._follow_all()

    def leave(self, client: Client) -> None:
        """Forget a client that has gone, and all noted keys if it was the last tracking client."""
        self.stop(client)
        if not self.count and self._followers.kept_keys:
            self._forget_kept()

    def _follow_all(self) -> None:
        if self._followers.follows_all != (len(self.prefixes) > 0):
            self._followers.follows_all = len(self.prefixes) > 0
            self._on_followed()

    def _forget_kept(self) -> None:
        before = self._followers.forget_kept()
        self._on_followed()
        self._free(before)

    # -- a command of a client that tracks ----------------------------------------------------------------------------

    def begin(self, client: Client, tracker: Tracker) -> None:
        """Hold a client's invalidations until its command has its reply."""
        self.writer = client
        tracker.held = []

    def end(self, client: Client, tracker: Tracker) -> None:
        """Send a client the invalidations that were held while its command ran."""
        self.writer = None
        self.release(client, tracker)

    def hold(self, tracker: Tracker) -> None:
        """Hold invalidations of a blocked client until it has its reply."""
        tracker.held = []

    def release(self, client: Client, tracker: Tracker) -> None:
        """Send a client the held invalidations."""
        held, tracker.held = tracker.held, None
        for key in held or ():
            self._send(client, tracker, _Message(None if key is None else [key]))

    def keep(self, client: Client, keys: list[bytes]) -> None:
        """Note that a client caches the keys that it has read, unless CLIENT CACHING or its options exclude them."""
        tracker = client.tracker
        if tracker is None or tracker.is_broadcast or tracker.has_chosen != (tracker.choice == "optin"):
            return
        self._followers.keep(client.id, keys)
        if self._followers.kept_keys > self._keys_max:
            self._forget_oldest()

    def limit(self, keys_max: int) -> None:
        """Set the maximum number of noted keys; 0: any number."""
        self._keys_max = keys_max or sys.maxsize
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest keys beyond the limit, and send their clients invalidations as if they had changed."""
        writer, self.writer = self.writer, None
        self._followers.limit(self._keys_max)
        self.writer = writer

    # -- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, key: bytes, clients: list[int]) -> None:
        message = _Message([key])
        for number in clients:
            client = self._clients.get(number)
            tracker = None if client is None else client.tracker
            if client is None or tracker is None or tracker.is_broadcast:
                continue  # it has gone, or no longer tracks the keys that it reads
            if tracker.no_loop and client is self.writer:
                continue
            if tracker.held is not None:
                tracker.held.append(key)
            else:
                self._send(client, tracker, message)

    def flushed(self) -> None:
        """Tell all tracking clients that all keys are gone, in every database."""
        if self._followers.kept_keys:
            self._forget_kept()
        if not self.count:
            return
        message = _Message(None)
        for client in list(self._clients.values()):
            tracker = client.tracker
            if tracker is None:
                continue
            if tracker.held is not None:
                tracker.held.append(None)
            else:
                self._send(client, tracker, message)

    def _note_change(self, key: bytes, is_by_time: bool) -> None:
        # (As in Redis, the client counts as writer neither of a script's writes nor of keys that it finds expired.)
        writer = None if is_by_time or self.in_script else self.writer
        if not self.changed and self._broadcasting is None:
            self.on_changed()
        self.changed[key] = writer

    @property
    def has_news(self) -> bool:
        """Whether changes wait for clients with prefixes."""
        return bool(self.changed) or self._broadcasting is not None

    def broadcast(self, stop: Callable[[], bool]) -> bool:
        """Send changes to clients with prefixes until `stop` returns True; return whether there are more.

        If a bug ends the broadcast, its receivers are unknown, so all clients with prefixes are closed.
        """
        if self._broadcasting is None:
            self._broadcasting = self._steps()
        try:
            for _ in self._broadcasting:
                if stop():
                    return True
        except Exception:
            for client in list(self._clients.values()):
                if client.tracker is not None and client.tracker.prefixes:
                    self._lose(client, "telling clients what is stale")
        self._broadcasting = None
        return bool(self.changed)

    def _steps(self) -> Iterator[None]:
        """Tell clients of all changes; between two steps the caller may look at the time."""
        while self.changed:
            changed, self.changed = self.changed, {}
            keys = list(changed)
            for at in range(0, len(keys), KEYS_AT_ONCE):
                found: dict[bytes, list[bytes]] = {}
                for key in keys[at : at + KEYS_AT_ONCE]:
                    for prefix, _ in self.prefixes.of(key):
                        found.setdefault(prefix, []).append(key)
                yield
                for prefix in sorted(found):
                    yield from self._tell_of_prefix(prefix, sorted(found[prefix]), changed)

    def _tell_of_prefix(self, prefix: bytes, keys: list[bytes], changed: dict[bytes, Client | None]) -> Iterator[None]:
        """Send a message to the clients with a prefix. changed: the clients that changed the keys."""
        message = _Message([*keys])
        writers = {changed[key] for key in keys}
        clients = list(self.prefixes.values.get(prefix, ()))
        for number, client in enumerate(clients, 1):
            tracker = client.tracker
            # (None: the client was lost while another one got its message.)
            if tracker is not None and not (tracker.no_loop and client in writers):
                self._send(client, tracker, message)
            elif tracker is not None and (others := [key for key in keys if changed[key] is not client]):
                self._send(client, tracker, _Message([*others]))
            if number % _CLIENTS_AT_ONCE == 0 or number == len(clients):
                yield

    def _send(self, client: Client, tracker: Tracker, message: _Message) -> None:
        # (The key is on no list any more: an error with one client must not keep the message from the others.)
        try:
            self._deliver(client, tracker, message)
        except Exception:
            self._lose(client, "telling a client what is stale")

    def _deliver(self, client: Client, tracker: Tracker, message: _Message) -> None:
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
        if target.protocol > 2 or (tracker.redirect and target.subscription_count()):
            target.reply(message.raw(target.protocol))  # (RESP2 has pushes only in a subscription)
            self._wants_flush(target)
