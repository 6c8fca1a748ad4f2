"""A server's part in replication: primary or replica, and the change from one to the other."""

from collections.abc import Callable
from typing import Final

from streamd.base.errors import CommandError, reason_of
from streamd.base.log import log
from streamd.connected.blocking import Waiter
from streamd.connected.client import Client
from streamd.connected.replication_ports import Greeting, ReplicaFacts, backlog_fields
from streamd.connected.state import State
from streamd.durability.persistence import Persistence
from streamd.replication.failover import NONE, UNDER_WAY, Failover
from streamd.replication.feeding import Feeding
from streamd.replication.history import NO_OFFSET
from streamd.replication.link_faults import IS_PRIMARY, NOT_LINKED
from streamd.replication.replica_side import Network, ReplicaSide
from streamd.replication.standing import ENDED, Standing, noted

# As ROLE shows a link's states.
_SHOWN: Final = {"handshake": "connecting", "load": "sync"}
STALE: Final = CommandError("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")
FEW_REPLICAS: Final = CommandError("NOREPLICAS Not enough good replicas to write.")
READ_ONLY: Final = CommandError("READONLY You can't write against a read only replica.")
_NOTE_EVERY_MS: Final = 1_000
_ROLE_NOT_NOTED: Final = "ERR a new primary must note its role in the journal: "
_NOT_WRITTEN: Final = "NOMASTERLINK Can't SYNC: the journal of this server cannot be written"


class Replication:
    """One server's replication, while it has a journal: the object behind the commands, see the port."""

    def __init__(
        self,
        state: State,
        persistence: Persistence,
        network: Network,
        serve: Callable[[list[Waiter[Client]]], None],
        serve_ready: Callable[[], None],
        end_waits: Callable[[], None],
        end_pause: Callable[[], None],
        connect_client: Callable[[str], Client],
        end_turn: Callable[[], None],
    ) -> None:
        """serve: tries waiters again. serve_ready, connect_client, end_turn: see ReplicaSide. end_waits: ends what
        clients wait for, because the role changes. end_pause: lets paused clients go on.
        """
        self._state, self._persistence, self._end_waits = state, persistence, end_waits
        self.standing = Standing(lambda: f"{state.random.getrandbits(160):040x}")
        self.feeding = Feeding(state, self.standing, serve, persistence.journal)
        self.side = ReplicaSide(
            state,
            persistence,
            self.standing,
            self.feeding,
            network,
            serve_ready,
            connect_client,
            end_turn,
            self._taken,
            self._failover_ended,
        )
        self.failover = Failover(state, self.standing, self.feeding, self._settle, self._hand_over, end_pause)
        self.link = self.side.link
        for name in ("min-replicas-to-write", "min-replicas-max-lag"):
            state.config.on_change(name, self.look_for_replicas)
        state.config.on_change("replica-serve-stale-data", self.look_at_link)
        persistence.barrier.ship = self.feeding.end_turn
        persistence.on_synced = self.side.on_synced
        self._noted_ms = 0
        self._noted_offset = NO_OFFSET
        self._is_noted_as_told = False
        self._expected: tuple[str, int] | None = None

    # -- start and end --------------------------------------------------------------------------------------------

    def expect_role(self, given: tuple[str, int] | None) -> None:
        """Show the role that is to be taken, while the journal is loaded. given: see take_role."""
        self._expected = given

    def _look_ahead(self) -> None:
        """While the journal is loaded, show the role of its last note so far: a Sentinel must not take a replica for a
        primary meanwhile.
        """
        if self._state.is_loading:
            words = self._persistence.history
            self.standing.primary = self._expected if words is None else noted(words).primary

    def take_role(self, given: tuple[str, int] | None) -> None:
        """Take the role that the loaded journal notes, or else the one that the configuration gives.

        given: the primary that the configuration names.
        """
        standing = self.standing
        words = self._persistence.history
        standing.take(None if words is None else noted(words))
        if not standing.was_noted:
            standing.primary = given
        elif given is not None and given != standing.primary:
            what = "a primary" if standing.primary is None else "a replica of {}:{}".format(*standing.primary)
            text = "the journal says that this server is %s, so replicaof %s %d does not count; REPLICAOF changes it"
            log.warning("replicaof-passed-over", text, what, *given)
        self._state.set_replica(READ_ONLY if standing.is_replica else None)

    def begin(self) -> None:
        """Begin, with the journal ready for writing."""
        if self.standing.is_replica:
            if not self.standing.was_noted and self.side.keys():
                self.standing.name_origin()  # what an option says does not make these data those of its primary
            self._become_replica()
        elif self.standing.was_noted:
            self.feeding.begin()
        if self.standing.was_noted:
            # The note of an end in order counts no more once anything is written: a power loss must not bring it back.
            self._note()
            self._persistence.note_new_defaults()
            self._settle()
            self._persistence.journal.sync()

    def close(self) -> None:
        """End the links, and note where the state stands: nothing follows in the journal."""
        self.side.stop()
        persistence = self._persistence
        if self.standing.was_noted and persistence.journal.writer is not None and not persistence.barrier.is_dead:
            try:
                self._settle()
            except OSError:
                return  # without a note this history is not continued
            persistence.journal.append_own(self.standing.note(ENDED, may_replace=self.may_replace))

    @property
    def may_replace(self) -> bool:
        """Whether a REPLICAOF allows another data set in place of the one here, because the link was not up since."""
        return self.standing.is_replica and (self.link.may_replace or self.standing.was_told)

    def _note(self) -> None:
        """Note in the journal where the state stands."""
        self.standing.was_noted = True
        self._noted_ms = self._state.time.monotonic_ms
        self._noted_offset = self.standing.history.offset
        self._is_noted_as_told = self.may_replace
        self._persistence.journal.append_own(self.standing.note(may_replace=self._is_noted_as_told))

    def _settle(self) -> None:
        """Write and ship what the turn has so far: journal and history are at one point then. Raises: OSError."""
        self._persistence.write_now()
        self.feeding.end_turn([])

    def doubt(self) -> None:
        """Have replicas take the whole state anew, of this server or of its primary: it may differ from theirs."""
        if self.standing.is_replica:
            self.link.copy_anew()
        elif self.feeding.ring is not None:
            self.standing.begin_anew()
            self.feeding.end()
            self.feeding.begin()
            self._note()

    @property
    def is_needed(self) -> bool:
        """Whether this server is a replica, or has replicas, or needs them for writes."""
        wanted = self._state.config.integer("min-replicas-to-write")
        return self.standing.is_replica or bool(self.feeding.followers) or wanted > 0

    def note_of_rewrite(self) -> list[bytes] | None:
        """Return the note for a rewrite that begins: the frames that come meanwhile bring their own."""
        return self.standing.note(may_replace=self.may_replace) if self.standing.was_noted else None

    def tick(self, stop: Callable[[], bool]) -> bool:
        """Do what is due; return whether there is more to be done at once."""
        self.feeding.tick()
        if self.standing.is_replica:
            more = self.side.tick(stop)
            self.look_at_link()
            if self._is_noted_as_told and not self.may_replace:
                self._note()  # the link is up, so a start must not take the REPLICAOF for a new one
            return more
        self.look_for_replicas()
        self.failover.tick()
        is_due = self._state.time.monotonic_ms - self._noted_ms >= _NOTE_EVERY_MS
        if self.feeding.ring is not None and is_due and self._noted_offset != self.standing.history.offset:
            self._note()
        return False

    def look_at_link(self) -> None:
        """Show nothing, if that is wanted, while the link of a replica is down."""
        hides = not self._state.config["replica-serve-stale-data"]
        is_down = self.standing.is_replica and self.link.state != "connected"
        self._state.set_stale(STALE if hides and is_down else None)

    def look_for_replicas(self) -> None:
        """Refuse writes while there are fewer good replicas than wanted, or take them again."""
        wanted = self._state.config.integer("min-replicas-to-write")
        self._state.need_replicas(FEW_REPLICAS if wanted and self.feeding.good() < wanted else None)

    # -- roles ----------------------------------------------------------------------------------------------------

    def follow(self, host: str, port: int, is_automatic: bool = False) -> bool:
        """Become a replica of a server; return False if it is that already. Raises: CommandError.

        is_automatic: no operator has said so, but a Sentinel. It may be wrong about which server has the data, when a
        failover was given up halfway. So a data set that another server has, too, makes no room for another one.
        """
        self._refuse_amid_failover()
        may_replace = not (is_automatic and self.standing.history.is_shared)
        if self.standing.primary == (host, port):
            if self.link.state != "connected":
                self.side.start(may_replace or self.link.may_replace)
            return False
        if self._state.records:
            raise CommandError("ERR REPLICAOF behind writes of its own transaction would drop them")
        was_replica = self.standing.is_replica
        self.side.stop()
        if not was_replica:
            self._leave_history()
        self.standing.primary = (host, port)
        self.standing.was_told = False
        if not was_replica:
            self._persistence.barrier.drop_unanswered()
            self._end_waits()
        self._become_replica(may_replace)
        self._note()
        log.warning("replica-begins", "a replica of %s:%d from now on", host, port)
        return True

    def lead(self) -> None:
        """Become a primary that continues the history of the one before. Raises: CommandError; then it has not."""
        standing = self.standing
        self._refuse_amid_failover()
        if not standing.is_replica:
            return
        try:
            # What this turn has applied is of the history before, and is not shipped as this server's own.
            self._persistence.write_now()
        except OSError as error:
            raise CommandError(_ROLE_NOT_NOTED + reason_of(error))
        before = standing.primary, standing.history
        self.side.stop()
        standing.primary = None
        standing.branch()
        self._state.set_replica(None)
        self.look_at_link()
        self.feeding.begin()
        self._note()
        try:
            self._persistence.lead()
        except OSError as error:
            standing.primary, standing.history = before
            self._note()
            self._become_replica()
            raise CommandError(_ROLE_NOT_NOTED + reason_of(error))
        standing.was_told = False
        self.feeding.let_go()  # they come again, and learn the new ID
        log.warning("primary-begins", "a primary from now on, with the history %s", self.standing.history.replid)

    def _refuse_amid_failover(self) -> None:
        """Raise a CommandError during a failover: it gives this server a role itself, or is aborted first."""
        if self.failover.state != NONE:
            raise CommandError("ERR REPLICAOF not allowed while failing over.")

    def _leave_history(self) -> None:
        """Ship what this primary has written as the last of its history; if that cannot be, the history ends before."""
        try:
            self._settle()
        except OSError:
            self.standing.branch()
            self.link.copy_anew()

    def _hand_over(self, host: str, port: int) -> None:
        """Follow a replica, which becomes the primary; until it says so this server only takes no writes."""
        self.standing.primary = (host, port)
        writer = self._persistence.journal.writer
        assert writer is not None
        writer.shipped = None
        self._state.set_replica(READ_ONLY)
        self.side.start(may_replace=False, promotes=True)
        self.link.tick()

    def _failover_ended(self, why: str | None) -> None:
        if why is None:
            self._end_waits()
            self._note()
            host, port = self.standing.primary or ("", 0)
            self.failover.end(f"{host}:{port} is the primary now, and this server its replica")
            return
        self.standing.primary = None
        self._state.set_replica(None)
        self.look_at_link()
        self.feeding.begin()
        self.failover.end(f"this server is the primary again: {why}")

    def _become_replica(self, may_replace: bool = False) -> None:
        writer = self._persistence.journal.writer
        assert writer is not None
        writer.shipped = None
        self._state.set_replica(READ_ONLY)
        self._state.need_replicas(None)
        self.feeding.begin()
        self.side.start(may_replace)
        self.look_at_link()

    def _taken(self) -> None:
        """Begin with another state, whose journal has the note already."""
        self.feeding.end()
        self.feeding.begin()

    # -- what commands ask ----------------------------------------------------------------------------------------

    def leave(self, client: Client) -> None:
        """Forget a client that has gone."""
        self.feeding.leave(client)

    def greet(self, client: Client) -> Greeting:
        """Return what a client has said of itself."""
        return self.feeding.greet(client)

    def promote(self, replid: str) -> None:
        """Become a primary because the present one says so. Raises: CommandError."""
        if not self.standing.is_replica:
            raise CommandError(IS_PRIMARY)
        if replid.lower() != self.standing.history.replid:
            raise CommandError("ERR PSYNC FAILOVER replid must match my replid.")
        self.lead()

    def continues(self, client: Client, replid: str, offset: int) -> bool:
        """Let a replica go on, if that can be."""
        self._check_linked()
        return self.feeding.continues(client, replid, offset)

    def copy_whole(self, client: Client) -> bool:
        """Begin to send the whole state. Raises: CommandError."""
        self._check_linked()
        try:
            self._settle()
        except OSError:
            raise CommandError(_NOT_WRITTEN)
        is_new = self.standing.name_origin()
        is_begun = self.feeding.copy_whole(client, self._persistence.backups)
        if is_new or not self.standing.was_noted:
            self._note()
        return is_begun

    def _check_linked(self) -> None:
        if self.standing.is_replica and self.link.state != "connected":
            raise CommandError(NOT_LINKED)

    def acknowledge(self, client: Client, offset: int, synced: int | None) -> None:
        """Note how far a replica is."""
        if self.feeding.acknowledge(client, offset, synced) and self.standing.share():
            self._note()

    def count(self, client: Client, *, synced: bool = False) -> int:
        """Return how many replicas have a client's last write."""
        return self.feeding.count(client, synced=synced)

    def ask(self, waiter: Waiter[Client]) -> None:
        """Have replicas acknowledge, and try a waiter again when they do."""
        self.feeding.ask(waiter)

    def start_failover(self, target: tuple[str, int] | None, is_forced: bool, timeout_ms: int | None) -> None:
        """Hand the role to a replica. Raises: CommandError."""
        self.failover.start(target, is_forced, timeout_ms)

    def abort_failover(self) -> None:
        """Give that up. Raises: CommandError."""
        if self.failover.state == UNDER_WAY:
            self.side.not_promoted("it was aborted")
        else:
            self.failover.abort()

    def role(self) -> list[object]:
        """Return the reply of ROLE."""
        self._look_ahead()
        standing = self.standing
        if standing.primary is not None:
            state = _SHOWN.get(self.link.state, self.link.state)
            offset = standing.history.offset if state == "connected" else -1
            return [b"slave", standing.primary[0].encode(), standing.primary[1], state.encode(), offset]
        replicas = []
        for one in self.feeding.followers.values():
            if one.is_online:
                host, port = one.address
                replicas.append([host.encode(), b"%d" % port, b"%d" % max(0, one.acked)])
        return [b"master", standing.history.offset, replicas]

    def fields(self) -> dict[str, object]:
        """Return the fields of INFO's section Replication."""
        self._look_ahead()
        standing, feeding, config = self.standing, self.feeding, self._state.config
        history, ring = standing.history, feeding.ring
        fields: dict[str, object] = {"role": "master" if standing.primary is None else "slave"}
        if standing.primary is not None:
            fields |= self._link_fields(*standing.primary)
            fields |= {
                # (Sentinel never elects 0. What only this server has is no copy of its primary's data.)
                "slave_priority": config.integer("replica-priority") if history.is_shared else 0,
                "slave_read_only": 1,
                "replica_announced": 1,
            }
        fields["connected_slaves"] = len(feeding.followers)
        if config.integer("min-replicas-to-write"):
            fields["min_slaves_good_slaves"] = feeding.good()
        for number, one in enumerate(self.replicas()):
            place = f"ip={one.host},port={one.port},state={one.state}"
            fields[f"slave{number}"] = f"{place},offset={one.offset},lag={one.lag_s},io-thread=0"
        fields |= {
            "master_failover_state": self.failover.state,
            "master_replid": history.replid,
            "master_replid2": history.replid2,
            "master_repl_offset": max(0, history.offset),
            "second_repl_offset": history.second,
        }
        size = config.integer("repl-backlog-size")
        if ring is None:
            fields |= backlog_fields(False, size, 0, 0)
        else:
            fields |= backlog_fields(True, size, ring.start + 1, ring.end - ring.start)
        if self.clock_skew_ms is not None:
            fields["streamd_clock_skew_ms"] = self.clock_skew_ms  # behind all that Redis has, too
        return fields

    @property
    def clock_skew_ms(self) -> int | None:
        """By how much the clock here is ahead of the primary's; None if that is not known, and of a primary."""
        return self.side.clock_skew.ms

    def replicas(self) -> list[ReplicaFacts]:
        """Return the replicas of this server."""
        now_ms = self._state.clock.monotonic_ms()
        found = []
        for one in self.feeding.followers.values():
            state, lag_s = ("online", (now_ms - one.acked_ms) // 1_000) if one.is_online else ("send_bulk", 0)
            found.append(ReplicaFacts(*one.address, state, max(0, one.acked), lag_s))
        return found

    def _link_fields(self, host: str, port: int) -> dict[str, object]:
        link, offset = self.link, max(0, self.standing.history.offset)
        is_up = link.state == "connected"
        now_ms = self._state.clock.monotonic_ms()
        is_syncing = link.state in ("sync", "load")
        fields: dict[str, object] = {
            "master_host": host,
            "master_port": port,
            "master_link_status": "up" if is_up else "down",
            "master_last_io_seconds_ago": (now_ms - link.last_ms) // 1_000 if is_up else -1,
            "master_sync_in_progress": int(is_syncing),
            "slave_read_repl_offset": offset,
            "slave_repl_offset": offset,
        }
        if is_syncing:
            fields |= {"master_sync_read_bytes": link.copied, "master_sync_last_io_seconds_ago": 0}
        down_ms = 0 if is_up else max(0, now_ms - link.down_ms)
        fields |= {
            "replica_full_sync_buffer_size": 0,
            "replica_full_sync_buffer_peak": 0,
            "master_current_sync_attempts": link.attempts,
            "master_total_sync_attempts": link.attempts,
        }
        if is_up:
            fields |= {"master_link_up_since_seconds": (now_ms - link.up_ms) // 1_000, "master_client_io_thread": 0}
        else:
            fields["master_link_down_since_seconds"] = down_ms // 1_000
        return fields | {"total_disconnect_time_sec": (link.was_down_ms + down_ms) // 1_000}
