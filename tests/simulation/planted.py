"""Bugs that the simulation must find: each replaces a method of a server by a wrong one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from streamd.connected.client import Client
from streamd.connected.durability_ports import Backups
from streamd.durability.replay import Replay
from streamd.engine.engine import Engine
from streamd.replication.feeding import Feeding
from streamd.replication.following import Link
from streamd.replication.frame_ring import FrameRing
from streamd.replication.history import History
from streamd.replication.replica_side import ReplicaSide
from streamd.replication.replication import Replication

Replaced = tuple[type, str, Callable[..., Any]]


def older_history() -> list[Replaced]:
    """WAIT counts a replica that comes with a greater offset of an older history, and is being sent a copy."""
    psync, copy = Feeding.continues, Feeding.copy_whole
    wanted: dict[Client, int] = {}

    def continues(self: Feeding, client: Client, replid: str, offset: int) -> bool:
        wanted[client] = offset
        return psync(self, client, replid, offset)

    def copy_whole(self: Feeding, client: Client, backups: Backups) -> bool:
        is_begun = copy(self, client, backups)
        if is_begun:
            self.followers[client].acked = wanted.get(client, -1)
        return is_begun

    def count(self: Feeding, client: Client, *, synced: bool) -> int:
        return sum(one.acked >= client.written for one in self.followers.values())

    return [(Feeding, "continues", continues), (Feeding, "copy_whole", copy_whole), (Feeding, "count", count)]


def partial_across_promotion() -> list[Replaced]:
    """A replica of the history before a promotion continues with the new one, whatever it has."""

    def shares(self: History, replid: str, wanted: int) -> bool:
        return replid in (self.replid, self.replid2)

    def has(self: FrameRing, offset: int, last: int) -> bool:
        return self.start <= offset <= self.end

    return [(History, "shares", shares), (FrameRing, "has", has)]


def name_in_a_note() -> list[Replaced]:
    """The names of deleted entries, which stand in notes, do not get to a replica that takes a copy."""
    apply = Replay.apply

    def apply_without(self: Replay, db_index: int, words: list[bytes]) -> Any:
        return None if words[0] == b"XIDMPIID" else apply(self, db_index, words)

    return [(Replay, "apply", apply_without)]


def early_acknowledgement() -> list[Replaced]:
    """A replica acknowledges what it has applied before that is in its journal."""

    def acknowledge(self: ReplicaSide) -> None:
        words = (b"REPLCONF", b"ACK", b"%d" % self._standing.history.offset)
        self._network.send(b"*3\r\n" + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))

    return [(ReplicaSide, "acknowledge", acknowledge)]


def acknowledgement_with_a_full_disk() -> list[Replaced]:
    """A replica acknowledges though its journal could not be written."""
    make = ReplicaSide._make_client

    def make_client(self: ReplicaSide) -> Client:
        client = make(self)
        network = self._network

        def flush() -> None:
            network.send(b"".join(client.out))
            client.out.clear()

        client.flush = flush
        return client

    return [(ReplicaSide, "_make_client", make_client)]


def duplicate_without_offset() -> list[Replaced]:
    """A duplicate is no write for its client: WAIT behind it asks for nothing."""
    end_unit, end_units = Engine._end_unit, Engine._end_units

    def is_duplicate(records: Sequence[Any] | None) -> bool:
        return bool(records) and all(
            isinstance(record, tuple) and record[1][0] == b"XIDMPDUPLICATE" for record in records or ()
        )

    def end_one(self: Engine, client: Client | None = None) -> None:
        end_unit(self, None if is_duplicate(self.state.records) else client)

    def end_several(self: Engine, clients: Any) -> None:
        end_units(self, () if is_duplicate(self.state.records) else clients)

    return [(Engine, "_end_unit", end_one), (Engine, "_end_units", end_several)]


def sent_is_acknowledged() -> list[Replaced]:
    """WAIT counts the replicas that were sent something."""

    def count(self: Feeding, client: Client, *, synced: bool) -> int:
        return sum(one.is_online for one in self.followers.values())

    return [(Feeding, "count", count)]


def offset_of_a_copy() -> list[Replaced]:
    """The offset of a copy lacks what the running turn has written: the replica gets that twice."""

    def settle(self: Replication) -> None:
        self._persistence.write_now()

    return [(Replication, "_settle", settle)]


def sentinel_is_an_operator() -> list[Replaced]:
    """A replica takes whatever data another server has because a Sentinel has sent it a REPLICAOF."""
    follow = Replication.follow

    def follow_always(self: Replication, host: str, port: int, is_automatic: bool = False) -> bool:
        return follow(self, host, port)

    return [(Replication, "follow", follow_always)]


def lacking_is_elected() -> list[Replaced]:
    """A replica shows its priority before it has had a copy, so it may be elected."""
    fields = Replication.fields

    def fields_with_priority(self: Replication) -> dict[str, object]:
        shown = fields(self)
        if "slave_priority" in shown:
            shown["slave_priority"] = self._state.config.integer("replica-priority")
        return shown

    return [(Replication, "fields", fields_with_priority)]


def stranger_is_followed() -> list[Replaced]:
    """A replica takes the state of a machine that has come back without its disk."""
    return [(Link, "_is_foreign", lambda self, *, is_empty: False)]


BUGS: dict[str, Callable[[], list[Replaced]]] = {
    bug.__name__: bug
    for bug in (
        older_history,
        partial_across_promotion,
        name_in_a_note,
        early_acknowledgement,
        acknowledgement_with_a_full_disk,
        duplicate_without_offset,
        sent_is_acknowledged,
        offset_of_a_copy,
        stranger_is_followed,
        sentinel_is_an_operator,
        lacking_is_elected,
    )
}


@contextmanager
def planted(bug: Callable[[], list[Replaced]]) -> Iterator[None]:
    """Have servers with a bug."""
    patches = [patch.object(owner, name, method) for owner, name, method in bug()]
    for one in patches:
        one.start()
    try:
        yield
    finally:
        for one in reversed(patches):
            one.stop()
