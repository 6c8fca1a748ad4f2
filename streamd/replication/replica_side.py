"""The replica's side: what comes over the link is applied, loaded and acknowledged."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from streamd.base.errors import reason_of
from streamd.base.log import log
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.durability.incoming import Incoming
from streamd.durability.persistence import Persistence
from streamd.journal.loader import LoadError
from streamd.journal.recovery import DamagedError
from streamd.replication.applying import CannotFollow, FrameApplier
from streamd.replication.clock_skew import ClockSkew
from streamd.replication.feeding import Feeding
from streamd.replication.following import Link
from streamd.replication.frame import Frame
from streamd.replication.history import History
from streamd.replication.link_faults import LinkFault
from streamd.replication.standing import Standing
from streamd.replication.taking_over import TakingOver, TornState

# Idempotent IDs are freed so much later than they have ended by the primary's clock, which may be set back a little.
# (The clock here does not count: it may be ahead.)
_SWEPT_LATER_MS: Final = 60_000


class Network(Protocol):
    """The connections of a link; see streamd.net.replica_link."""

    def connect(self, link: Link, host: str, port: int) -> None:
        """Begin to connect."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def pause_reading(self, is_paused: bool) -> None:
        """Take no bytes, or take them again."""

    def close(self) -> None:
        """Close."""


class ReplicaSide:
    """What a replica does with its link, whose host it is.

    serve_ready: serves clients that wait for keys. connect_client: makes the client that stands for the primary.
    end_turn: ends the turn, soon. taken: notes that another state is there now. failover_ended: takes
    the reason why this server is still the primary, None if it is not.
    """

    def __init__(
        self,
        state: State,
        persistence: Persistence,
        standing: Standing,
        feeding: Feeding,
        network: Network,
        serve_ready: Callable[[], None],
        connect_client: Callable[[str], Client],
        end_turn: Callable[[], None],
        taken: Callable[[], None],
        failover_ended: Callable[[str | None], None],
    ) -> None:
        self._state, self._persistence, self._standing, self._feeding = state, persistence, standing, feeding
        self._network, self._serve_ready = network, serve_ready
        self._connect_client, self._end_turn, self._taken = connect_client, end_turn, taken
        self._failover_ended = failover_ended
        config = state.config
        self.link = Link(standing, self, state.clock.monotonic_ms, lambda: config.integer("repl-timeout") * 1_000)
        self.clock_skew = ClockSkew()
        self._told_ms = 0  # by the primary, of its clock
        self._applier: FrameApplier | None = None
        self.client: Client | None = None
        self._taking: TakingOver | None = None
        self._incoming: Incoming | None = None
        self._coming = History("")
        self._synced_at: deque[tuple[int, int]] = deque()  # writes of the journal, and the offsets that these reached
        self._synced = -1
        self._was_asked = False

    def start(self, may_replace: bool, promotes: bool = False) -> None:
        """Follow the primary of the standing. may_replace, promotes: see Link.start."""
        self._applier = None
        self.link.start(may_replace, promotes)
        self.link.tick()

    def stop(self) -> None:
        """Follow nobody."""
        self.link.stop()
        self._applier = None

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do what is due; return whether there is more to be done at once."""
        self.link.tick()
        if self._taking is not None:
            return self._load_slice(self._taking, stop)
        return self._state.sweeper.run(self._told_ms - _SWEPT_LATER_MS, stop)

    # -- the link's host ------------------------------------------------------------------------------------------

    def connect(self, host: str, port: int) -> None:
        """Begin to connect to the primary."""
        self._network.connect(self.link, host, port)

    def send(self, data: bytes) -> None:
        """Send bytes of the handshake."""
        self._network.send(data)

    def pause_reading(self, is_paused: bool) -> None:
        """Take no bytes from the primary, or take them again."""
        self._network.pause_reading(is_paused)

    def close(self) -> None:
        """Close the connection to the primary."""
        self._network.close()
        self.clock_skew.forget()
        self._told_ms = 0
        self._was_asked = False  # the next connection may be for another history, whose offsets mean something else
        if self._taking is not None:
            self._taking.abandon()
        self._taking = self._incoming = None
        client, self.client = self.client, None
        if client is not None:
            self._state.forget(client)

    def credentials(self) -> tuple[str, str]:
        """Return user and password for the primary."""
        return self._state.config.text("masteruser"), self._state.config.text("masterauth")

    def announced(self) -> tuple[str, int]:
        """Return the address and the port that the primary shows."""
        config = self._state.config
        own = config.integer("tls-port") if config["tls-replication"] else 0
        return config.text("replica-announce-ip"), config.integer("replica-announce-port") or own or self._state.port

    def apply(self, frame: Frame) -> None:
        """Apply a frame, and write it to the journal with this turn. Raises: LinkFault."""
        state = self._state
        state.time.read(state.clock)
        if self._applier is None:
            self._applier = FrameApplier(state)
        try:
            note = self._standing.note_at(self._standing.history.moved(frame.after, frame.hash))
            self._applier.apply(frame.body, note)
        except CannotFollow as error:
            self.link.copy_anew()
            raise LinkFault(f"{error}; the whole state is fetched again")
        except Exception as error:
            state.note_bug("a frame of the primary", error=error)
            self.link.copy_anew()
            raise LinkFault("a frame was applied in part; the whole state is fetched again")
        self._feeding.ship(frame)
        writes = self._persistence.journal.writes + 1
        if self._synced_at and self._synced_at[-1][0] == writes:
            self._synced_at.pop()
        self._synced_at.append((writes, frame.after))
        self._serve_ready()
        self._end_turn()

    def acknowledge(self) -> None:
        """Acknowledge what was applied, as soon as this turn is in the journal."""
        client = self.client or self._make_client()
        done = self._persistence.journal.synced_writes
        while self._synced_at and self._synced_at[0][0] <= done:
            self._synced = self._synced_at.popleft()[1]
        words = (b"REPLCONF", b"ACK", b"%d" % self._standing.history.offset, b"FACK", b"%d" % self._synced)
        client.out.append(b"*5\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
        self._state.wants_flush(client)
        self._end_turn()

    def asked(self) -> None:
        """Acknowledge because the primary asks, and again when the journal is on the disk."""
        self.acknowledge()
        self._was_asked = bool(self._synced_at)

    def told_time(self, unix_ms: int) -> None:
        """Compare the clock here with a time of the primary's."""
        self.clock_skew.note(unix_ms, self._state.clock.now_ms())
        self._told_ms = unix_ms

    def on_synced(self) -> None:
        """Say that the journal is on the disk, if the primary has asked and waits for that."""
        if self._was_asked and self._synced_at and self._synced_at[0][0] <= self._persistence.journal.synced_writes:
            self.asked()

    def _make_client(self) -> Client:
        """Return the client that stands for the primary: the barrier holds its output as that of any other."""
        host, port = self._standing.primary or ("", 0)
        client = self.client = self._connect_client(f"{host}:{port}")
        client.kind = "master"
        network, link, barrier = self._network, self.link, self._persistence.barrier

        def flush() -> None:
            if barrier.write_failed is None:  # else the journal lacks what would be acknowledged
                network.send(b"".join(client.out))
            client.out.clear()

        client.flush = flush
        client.kill = lambda: link.lost("CLIENT KILL has closed the connection")
        return client

    def renamed(self) -> None:
        """Have this server's own replicas connect again, and learn the new ID."""
        self._feeding.let_go()

    def promoted(self) -> None:
        """A failover has succeeded."""
        self._failover_ended(None)

    def not_promoted(self, why: str) -> None:
        """A failover has failed."""
        self.link.stop()
        self._failover_ended(why)

    def is_busy(self) -> bool:
        """Return whether a script was interrupted: nothing changes before its end."""
        return self._state.is_busy

    def keys(self) -> int:
        """Return how many keys there are here."""
        return sum(len(db.values) for db in self._state.keyspace)

    def receive(self, count: int, segments: int) -> Incoming:
        """Prepare to receive the files of a state, behind segment files. Raises: OSError."""
        cold = self._state.cold
        self._incoming = Incoming(self._persistence.journal, count, segments, None if cold is None else cold.files)
        return self._incoming

    def load(self, incoming: Incoming, history: History) -> None:
        """Load what was received, beside the present state."""
        self._coming = history

        def done(error: BaseException | None) -> None:
            if self._incoming is not incoming or self.link.state != "load":
                return
            if error is not None:
                self.link.fail(LinkFault(f"what was received cannot be written: {reason_of(error)}"))
                return
            self._taking = TakingOver(self._state, self._persistence.journal, incoming, self._persistence.cold)

        self._persistence.submit_beside(incoming.sync, done)

    def _load_slice(self, taking: TakingOver, stop: Callable[[], bool]) -> bool:
        try:
            if not taking.step(stop):
                return True
            if not self._persistence.may_change_files:
                return False  # the next tick tries again
            remove_old = taking.finish(self._standing.note_at(self._coming))
        except (DamagedError, LoadError, OSError, TornState) as error:
            taking.abandon()
            self._taking = None
            self.link.fail(LinkFault(f"the state that was sent cannot be taken: {reason_of(error)}"))
            return False
        self._taking = self._incoming = None
        self._standing.history = self._coming
        self._standing.was_noted = True  # also by the rewrites that follow
        self._applier = None
        self._synced_at.clear()
        self._synced = self._coming.offset
        self._persistence.barrier.note_rewritten()
        self._taken()
        self._persistence.submit_beside(remove_old, lambda error: None)
        self._serve_ready()
        log.info("replica-loaded", "the state of the primary was taken at offset %d", self._coming.offset)
        self.link.loaded()
        self._end_turn()
        return False
