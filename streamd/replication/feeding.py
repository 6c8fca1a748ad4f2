"""The primary's side: the frames of each turn, the replicas that get them, and what these have acknowledged."""

from collections.abc import Callable, Iterator
from typing import Final

from xxhash import xxh3_64

from streamd.base.errors import CommandError
from streamd.base.limits import OUTPUT_PAUSE_BYTES, OUTPUT_REPLICAS_BYTES_MAX
from streamd.base.log import log
from streamd.base.version import VERSION
from streamd.cold.files import ENDING
from streamd.connected.blocking import Waiter
from streamd.connected.client import Client
from streamd.connected.durability_ports import Backups
from streamd.connected.replication_ports import Greeting
from streamd.connected.state import State
from streamd.durability.backups import READ_BYTES_MAX, TooManyBackups
from streamd.journal.journal import Journal
from streamd.replication.copy_lines import TAKES_SEGMENTS, make_line
from streamd.replication.frame import TAKES_TIME, Frame, make_ask, make_frame, make_time
from streamd.replication.frame_ring import FrameRing
from streamd.replication.history import History
from streamd.replication.standing import Standing

_SHOW_EVERY_MS: Final = 1_000


class Follower:
    """One replica.

    is_online: it has the whole state. is_behind: it does not read as fast as frames come, and gets them from the ring
    as it reads. sent: the offset up to which it was sent all, while it is not online or behind. acked, synced: what it
    has acknowledged, -1 before it has. acked_ms: when, on the monotonic clock.
    """

    def __init__(self, client: Client, greeting: Greeting, now_ms: int) -> None:
        self.client = client
        self.greeting = greeting
        self.is_online = self.is_behind = self.is_asked = False
        self.sent = 0
        self.acked = self.synced = -1
        self.acked_ms = now_ms

    @property
    def needs_ring(self) -> bool:
        """Whether it is still to get frames that only the ring has, as long as its connection is to stay."""
        return (self.is_behind or not self.is_online) and not self.client.close_soon

    @property
    def address(self) -> tuple[str, int]:
        """Where others reach it."""
        host = self.client.address.rpartition(":")[0].strip("[]")
        return self.greeting.address or host, self.greeting.port


class Feeding:
    """Makes frames while there is a replica, or was one not long ago.

    followers: by their clients. waiting: replicas that wait for a rewrite. ring: None while there are no frames.
    """

    def __init__(
        self, state: State, standing: Standing, serve: Callable[[list[Waiter[Client]]], None], journal: Journal
    ) -> None:
        self._state, self._standing, self._serve, self._journal = state, standing, serve, journal
        self.followers: dict[Client, Follower] = {}
        self.ring: FrameRing | None = None
        self._greetings: dict[Client, Greeting] = {}
        self._waiters: list[Waiter[Client]] = []
        self._is_asked = False
        self._shown_ms = 0
        self.waiting: dict[Client, None] = {}

    def begin(self) -> None:
        """Make frames from here on."""
        writer = self._journal.writer
        assert writer is not None
        history = self._standing.history
        if self.ring is None:
            size = self._state.config.integer("repl-backlog-size")
            self.ring = FrameRing(history.offset, history.last, size)
        if not self._standing.is_replica and writer.shipped is None:
            writer.shipped = []

    def end(self) -> None:
        """Make no more frames: let go of all replicas."""
        self.let_go()
        self.ring = None
        if self._journal.writer is not None:
            self._journal.writer.shipped = None

    def let_go(self) -> None:
        """Close the connections of all replicas, which come again."""
        for follower in list(self.followers.values()):
            follower.client.kill()
        self.followers.clear()

    # -- each turn ------------------------------------------------------------------------------------------------

    def end_turn(self, writers: list[Client]) -> None:
        """Ship what the turn has written."""
        writer = self._journal.writer
        assert writer is not None
        bodies = writer.shipped
        if bodies and self.ring is not None and not writer.has_units:
            history = self._standing.history
            after = history.offset + sum(map(len, bodies))
            frame = make_frame(history.replid, history.offset, after, *bodies)
            bodies.clear()
            self.ship(frame)
        elif self.followers:
            self._catch_up()
        for client in writers:
            client.written = self._standing.history.offset
        if self._is_asked:
            self._is_asked = False
            for follower in self.followers.values():
                if follower.is_online:
                    self._ask(follower)

    def tick(self) -> None:
        """Show replicas each second that this server is there, and let go of those that hold it up."""
        now_ms, config, ring = self._state.time.monotonic_ms, self._state.config, self.ring
        if ring is not None:
            ring.bytes_max = config.integer("repl-backlog-size")
            ring.trim(self._needed_from())
        if not self.followers and not self.waiting:
            return
        silent_ms = config.integer("repl-timeout") * 1_000
        behind_max = max(config.integer("repl-backlog-size"), OUTPUT_REPLICAS_BYTES_MAX)
        for follower in list(self.followers.values()):
            client = follower.client
            if client.close_soon:
                continue
            if follower.is_online and now_ms - follower.acked_ms > silent_ms:
                log.warning("replica-silent", "the replica at %s has acknowledged nothing for long", client.address)
                client.close_soon = True
                client.kill()
            elif follower.needs_ring and self._standing.history.offset - follower.sent > behind_max:
                log.warning("replica-slow", "the replica at %s does not keep up: too much was written", client.address)
                client.close_soon = True
                client.kill()
        self._catch_up()
        if now_ms - self._shown_ms >= _SHOW_EVERY_MS:
            self._shown_ms = now_ms
            time = make_time(self._state.clock.now_ms())
            for follower in self.followers.values():
                if follower.is_online and not follower.is_behind:
                    self._send(follower, time if TAKES_TIME in follower.greeting.can else b"\n")
            for client in self.waiting:
                if client.waiter is not None:
                    client.out.append(b"\n")
                    self._state.wants_flush(client)

    def ship(self, frame: Frame) -> None:
        """Move the history by a frame, and send it to the replicas: one of this server's own, or of its primary."""
        ring = self.ring
        assert ring is not None
        reading: list[Follower] = []
        for follower in self.followers.values():
            if follower.is_behind and follower.needs_ring:
                self._send_more(follower)
            if follower.is_behind or not follower.is_online:
                continue
            if follower.client.unsent() > OUTPUT_PAUSE_BYTES:
                follower.is_behind, follower.sent = True, frame.before
            else:
                reading.append(follower)
        self._standing.history = self._standing.history.moved(frame.after, frame.hash)
        ring.append(frame, None if len(reading) == len(self.followers) else self._needed_from())
        for follower in reading:
            self._send(follower, frame.data)

    def _needed_from(self) -> int | None:
        """Return the offset from which replicas are still to get frames of the ring; None if they have all."""
        return min((one.sent for one in self.followers.values() if one.needs_ring), default=None)

    def _catch_up(self) -> None:
        """Send replicas that are behind more of the ring, as far as they have read what they were sent.

        (What waits in a connection is copied as it grows, and is there once for each replica.)
        """
        for follower in self.followers.values():
            if follower.is_behind and follower.needs_ring:
                self._send_more(follower)

    def _send_more(self, follower: Follower) -> None:
        ring, unsent = self.ring, follower.client.unsent()
        assert ring is not None
        while unsent <= OUTPUT_PAUSE_BYTES:
            frame = ring.next(follower.sent)
            if frame is None:
                follower.is_behind = False
                if follower.is_asked:
                    self._ask(follower)
                return
            self._send(follower, frame.data)
            unsent += len(frame.data)
            follower.sent = frame.after

    def _ask(self, follower: Follower) -> None:
        """Ask for an acknowledgement, of a replica that is behind when it is not any more."""
        follower.is_asked = follower.is_behind
        if not follower.is_behind:
            self._send(follower, make_ask(self._standing.history.offset))

    def _send(self, follower: Follower, data: bytes) -> None:
        follower.client.out.append(data)
        self._state.wants_flush(follower.client)

    # -- replicas that come and go --------------------------------------------------------------------------------

    def greet(self, client: Client) -> Greeting:
        """Return what a client has said of itself."""
        return self._greetings.setdefault(client, Greeting())

    def leave(self, client: Client) -> None:
        """Forget a client that has gone."""
        self._greetings.pop(client, None)
        self.waiting.pop(client, None)
        if self.followers.pop(client, None) is not None:
            log.warning("replica-lost", "the replica at %s has gone", client.address)

    def continues(self, client: Client, replid: str, offset: int) -> bool:
        """Let a replica go on from an offset; return False if what it lacks is not known, or it has another history."""
        history, greeting = self._standing.history, self.greet(client)
        if self.ring is None or not history.shares(replid, offset + 1) or not self.ring.has(offset, greeting.last):
            return False
        follower = self._join(client, offset)
        client.out.append(b"+CONTINUE %b streamd\r\n" % history.replid.encode())
        while (frame := self.ring.next(follower.sent)) is not None:
            client.out.append(frame.data)
            client.out_bytes += len(frame.data)
            follower.sent = frame.after
        follower.is_online = True
        self._state.wants_flush(client)
        log.info("replica-continues", "the replica at %s goes on from offset %d", client.address, offset)
        return True

    def copy_whole(self, client: Client, backups: Backups) -> bool:
        """Begin to send the whole state, once the journal was rewritten for that. Raises: CommandError."""
        self.begin()
        try:
            begun = backups.begin(client, shares=True)
        except TooManyBackups:
            raise CommandError("NOMASTERLINK Can't SYNC: too many copies are under way")
        if begun is None:
            self.waiting[client] = None
            return False
        self.waiting.pop(client, None)
        segments = sum(name.endswith(ENDING) for name, _ in begun)
        if segments and TAKES_SEGMENTS not in self.greet(client).can:
            backups.end(client)
            raise CommandError(
                f"ERR this state has segment files, which the replica does not know: install streamd {VERSION} there"
            )
        follower = self._join(client, self._standing.history.offset)
        sizes = [size for _, size in begun]
        client.begin_pieces(self._pieces(follower, self._standing.history, sizes, segments, backups))
        log.info("replica-copy", "sending %d bytes to the replica at %s", sum(sizes), client.address)
        return True

    def _join(self, client: Client, offset: int) -> Follower:
        follower = Follower(client, self.greet(client), self._state.time.monotonic_ms)
        follower.sent = offset
        client.kind = "replica"
        self.followers[client] = follower
        return follower

    def _pieces(
        self, follower: Follower, history: History, sizes: list[int], segments: int, backups: Backups
    ) -> Iterator[bytes]:
        """Yield the files up to their sizes, the segment files first, where the history stood then, and the frames that
        have come since.
        """
        replid, offset = history.replid, history.offset
        yield b"+FULLRESYNC %b %d streamd\r\n" % (replid.encode(), offset)
        keys = sum(len(db.values) for db in self._state.keyspace)
        words = (len(sizes) - segments, keys, b"%016x" % history.last, history.origin.encode())
        yield make_line(replid, offset, b"files", *words, *((segments,) if segments else ()))
        digest = xxh3_64()
        for number, size in enumerate(sizes):
            yield make_line(replid, offset, b"segment" if number < segments else b"file", size)
            at = 0
            while at < size:
                try:
                    piece = backups.read(follower.client, number, at, min(READ_BYTES_MAX, size - at))
                    if not piece:
                        raise CommandError("ERR a file of the journal is shorter than it was")
                except CommandError as error:
                    log.warning("replica-unread", "the copy for %s ends: %s", follower.client.address, error)
                    follower.client.close_soon = True
                    return
                digest.update(piece)
                at += len(piece)
                yield piece
        yield make_line(replid, offset, b"whole", b"%016x" % digest.intdigest())
        backups.end(follower.client)
        ring = self.ring
        assert ring is not None
        while (frame := ring.next(follower.sent)) is not None:
            yield frame.data
            follower.sent = frame.after
        follower.is_online = True
        follower.acked_ms = self._state.time.monotonic_ms

    # -- acknowledgements -----------------------------------------------------------------------------------------

    def acknowledge(self, client: Client, offset: int, synced: int | None) -> bool:
        """Note how far a replica is, and serve clients that wait for that; return whether it has the whole state."""
        follower = self.followers.get(client)
        if follower is None:
            return False
        follower.acked_ms = self._state.time.monotonic_ms
        follower.acked = offset
        if synced is not None:
            follower.synced = synced
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            self._serve(waiters)
            self._waiters += [one for one in waiters if one.client.waiter is one]
        return follower.is_online and offset >= 0

    def count(self, client: Client, *, synced: bool) -> int:
        """Return how many replicas have a client's last write."""
        journal = self._state.journal
        if journal is not None and client in journal.writers:
            return 0  # this turn's write has no offset yet
        return sum(
            (one.synced if synced else one.acked) >= client.written for one in self.followers.values() if one.is_online
        )

    def ask_all(self) -> None:
        """Ask for acknowledgements at the end of the turn."""
        self._is_asked = True
        for follower in self.followers.values():
            self._state.wants_flush(follower.client)

    def good(self) -> int:
        """Return how many replicas have acknowledged something within `min-replicas-max-lag`."""
        now_ms, lag_ms = self._state.time.monotonic_ms, 1_000 * self._state.config.integer("min-replicas-max-lag")
        return sum(one.is_online and now_ms - one.acked_ms <= lag_ms for one in self.followers.values())

    def ask(self, waiter: Waiter[Client]) -> None:
        """Ask for acknowledgements at the end of the turn, and try a waiter again when they come."""
        self._waiters.append(waiter)
        self._is_asked = True
