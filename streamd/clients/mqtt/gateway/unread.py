"""How long the retention leaves to applications: by the oldest message that they have to get or to acknowledge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamd.clients.mqtt.gateway.survey import lag_ms_of
from streamd.clients.mqtt.session.outgoing import Sent
from streamd.clients.mqtt.store.positions import Place, Position
from streamd.clients.mqtt.store.records import Flying, Record, Shared
from streamd.clients.topics import layout
from streamd.clients.topics.entry_ids import BEGIN, END, Id, following, format_id, parse_id
from streamd.clients.topics.filters import names_for

if TYPE_CHECKING:
    from streamd.clients.mqtt.gateway.gateway import Gateway
    from streamd.clients.mqtt.gateway.session import Session


def read_by(gateway: Gateway, filters: Iterable[str]) -> set[str]:
    """Return the names of the logs that a session with these filters reads by itself; its shared ones do not count."""
    logs = {one.name: one.filters for one in gateway.logs.all}
    found: set[str] = set()
    for filter in filters:
        if not filter.startswith("$share/"):
            found.update(names_for(filter, logs))
            if len(found) == len(logs):
                break
    return found


def unacknowledged(in_flight: Iterable[Sent[Flying]]) -> Iterable[Place]:
    """Yield the places of the messages in flight that would be sent again, so that the log has to have them."""
    for sent in in_flight:
        if sent.needs_entry:
            yield sent.place.place if isinstance(sent.place, Shared) else sent.place


def left_s_of(gateway: Gateway, session: Session) -> float | None:
    """Return how long at least the logs keep all that a connected session has to get; None if it reads no log."""
    now_ms = gateway.now_ms()
    ages_ms = dict.fromkeys(read_by(gateway, session.subscriptions), 0)
    for name, cursor in (session.cursors or {}).items():
        if name in ages_ms:
            ages_ms[name] = lag_ms_of(gateway, cursor)
    for place in unacknowledged(() if session.outgoing is None else session.outgoing.in_flight):
        ages_ms[place.log] = max(ages_ms.get(place.log, 0), now_ms - place.entry_id[0])
    left = [
        max(0.0, log.handle.meta.retention_s - ages_ms[log.name] / 1_000)
        for log in gateway.logs.all
        if log.name in ages_ms
    ]
    return round(min(left), 1) if left else None


class Unread:
    """Where, in each stream of the logs, the first of some applications is.

    Of many applications only the one that is furthest behind in a stream counts: so `left_s` asks for one entry of each
    stream, whatever their number. read: the logs that one of them reads.
    """

    __slots__ = ("_first", "_gateway", "read")

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._first: dict[tuple[str, int, int], Id] = {}  # log, generation and shard; the ID from which on it counts
        self.read: set[str] = set()

    def note_session(self, session: Session) -> None:
        """Note an application that is connected."""
        read = read_by(self._gateway, session.subscriptions)
        positions = {name: cursor.reached for name, cursor in (session.cursors or {}).items()}
        self._note(read, positions, () if session.outgoing is None else session.outgoing.in_flight)

    def note_record(self, record: Record) -> None:
        """Note an application that is away."""
        self._note(read_by(self._gateway, record.subscriptions), record.positions, record.in_flight)

    def _note(self, read: set[str], positions: dict[str, Position], in_flight: Iterable[Sent[Flying]]) -> None:
        self.read |= read
        for name in read & positions.keys():
            self._note_position(name, positions[name])
        for place in unacknowledged(in_flight):
            if place.log in self._gateway.logs.by_name:
                self.read.add(place.log)
                self._note_id(place.log, place.generation, place.shard, place.entry_id)

    def _note_position(self, name: str, position: Position) -> None:
        for generation in self._gateway.logs.by_name[name].handle.meta.generations:
            if generation.number > position.generation:
                for shard in range(generation.shards):
                    self._note_id(name, generation.number, shard, BEGIN)
            elif generation.number == position.generation:
                for shard, at in enumerate(position.at):
                    if at != END:
                        self._note_id(name, generation.number, shard, following(at))

    def _note_id(self, name: str, generation: int, shard: int, entry_id: Id) -> None:
        key = name, generation, shard
        self._first[key] = min(entry_id, self._first.get(key, END))

    async def left_s(self) -> dict[str, float]:
        """Return for each log that is read how long it keeps all that follows; its whole retention if nothing does.

        Raises: StoreFault.
        """
        gateway = self._gateway
        wanted = list(self._first.items())
        oldest_ms: dict[str, int] = {}
        replies = (
            await gateway.history.demand(
                *[
                    ("XRANGE", layout.stream_key(name, shard, generation), format_id(entry_id), "+", "COUNT", 1)
                    for (name, generation, shard), entry_id in wanted
                ]
            )
            if wanted
            else []
        )
        for ((name, _, _), _), reply in zip(wanted, replies, strict=True):
            found = parse_id(reply[0][0]) if reply else END
            if found != END:  # the end entry of a closed generation
                oldest_ms[name] = min(found[0], oldest_ms.get(name, found[0]))
        now_ms = gateway.now_ms()
        left = {}
        for name in self.read:
            age_s = max(0, now_ms - oldest_ms.get(name, now_ms)) / 1_000
            left[name] = max(0.0, gateway.logs.by_name[name].handle.meta.retention_s - age_s)
        return left
