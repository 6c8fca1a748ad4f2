"""Writes what changes in sessions to their records: before a packet of QoS 2 leaves, else a little later."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from streamd.clients.mqtt.gateway.packing import retries_of
from streamd.clients.mqtt.gateway.session import Session
from streamd.clients.mqtt.gateway.unwritten import Unwritten
from streamd.clients.mqtt.session.outgoing import State
from streamd.clients.mqtt.store.link import Link, Words, encode
from streamd.clients.mqtt.store.positions import Position
from streamd.clients.mqtt.store.records import Waiting, flying_text, retries_to_text, waiting_field, waiting_fields

# A record of QoS 1 is at most so old: after a kill a client gets what it got in this time again.
_LATER_S: Final = 1.0
_PACKS_LATER_S: Final = 0.1  # of applications
_UNKNOWN: Final = -1  # in the place of a number: nobody knows what the record has


class Noted(NamedTuple):
    """What a record has, before it is changed: the messages in flight, and the retained ones that wait."""

    in_flight: dict[int, tuple[int, State]]
    waiting: dict[str, tuple[Waiting, bytes | None] | None]


def noted_of(session: Session) -> Noted:
    """Return what the record of a session has."""
    return Noted(session.noted or {}, session.noted_waiting or {})


class Noting:
    """The sessions whose records have to be written.

    on_fenced: gets a session that another gateway has taken, which the look behind each request shows.
    """

    def __init__(self, link: Link, unwritten: Unwritten, on_fenced: Callable[[Session], None]) -> None:
        self._on_fenced = on_fenced
        self._link, self._unwritten = link, unwritten
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[Session, None] = {}
        self._dirty_packs: dict[Session, None] = {}  # those of applications
        self._soon: dict[Session, None] = {}
        self._is_planned = False
        self._timer: asyncio.TimerHandle | None = None
        self._packs_timer: asyncio.TimerHandle | None = None
        self.position_of: Any = None

    def note(self, session: Session) -> None:
        """Write a session's record: at the end of this turn if packets wait for it, else a little later."""
        session.is_dirty = True
        if session.held is not None:
            if session not in self._soon:
                self._soon[session] = None
                if not self._is_planned:
                    self._is_planned = True
                    self._loop.call_soon(self._write_soon)
        elif session.pack is not None:
            self._dirty_packs[session] = None
            if self._packs_timer is None:
                self._packs_timer = self._loop.call_later(_PACKS_LATER_S, self._write_packs)
        elif session not in self._dirty:
            self._dirty[session] = None
            if self._timer is None:
                self._timer = self._loop.call_later(_LATER_S, self._write_later)

    def _write_soon(self) -> None:
        self._is_planned = False
        sessions, self._soon = list(self._soon), {}
        for session in sessions:
            if session.held is None or session.is_ended or session.connection is None:
                continue
            self._dirty.pop(session, None)
            self._dirty_packs.pop(session, None)
            if session.flushing is None:
                session.flushing = deque()
            count = len(session.held) - sum(session.flushing)
            session.flushing.append(count)
            before = noted_of(session)
            commands = [*self.changes(session), session.look]
            packed = b"".join(encode(one) for one in commands)
            done = partial(self._written, session, session.connection, commands, before)
            self._link.send(packed, len(commands), done)

    def _written(
        self, session: Session, connection: object, commands: list[Words], before: Noted, replies: list[Any]
    ) -> None:
        if self.is_lost(session, replies[-1]):
            return
        is_refused = any(isinstance(one, Exception) for one in replies)
        if is_refused:
            self.refused(session, connection, commands, before)
        if session.connection is not connection or session.flushing is None or session.held is None:
            return  # another connection sends it again
        count = session.flushing.popleft()
        assert session.connection is not None
        if is_refused:
            # The store refuses to write: what is not noted must not leave. The client comes again later.
            fault = next(one for one in replies if isinstance(one, Exception))
            session.connection.abandon(f"the store did not write the session: {fault}")
            return
        out, session.held = session.held[:count], session.held[count:]
        for packet in out:
            session.connection.write_now(packet)
        if session.flushing or session in self._soon:
            return
        # What came behind them needs no record: it only had to wait for its turn.
        for packet in session.held:
            session.connection.write_now(packet)
        session.held = session.flushing = None

    def _write_later(self) -> None:
        self._timer = None
        sessions, self._dirty = list(self._dirty), {}
        self._write(sessions)

    def _write_packs(self) -> None:
        self._packs_timer = None
        sessions, self._dirty_packs = list(self._dirty_packs), {}
        self._write(sessions)

    def _write(self, sessions: list[Session]) -> None:
        packed, parts, count = [], [], 0
        for session in sessions:
            if session.is_ended or session.connection is None:
                continue
            before = noted_of(session)
            commands = self.changes(session)
            if not commands:
                continue
            commands.append(session.look)
            packed += [encode(one) for one in commands]
            parts.append((session, session.connection, commands, before))
            count += len(commands)
        if count:
            self._link.send(b"".join(packed), count, partial(self._written_later, parts))

    def _written_later(self, parts: Sequence[tuple[Session, object, list[Words], Noted]], replies: list[Any]) -> None:
        at = 0
        for session, connection, commands, before in parts:
            if self.is_lost(session, replies[at + len(commands) - 1]):
                pass
            elif any(isinstance(one, Exception) for one in replies[at : at + len(commands)]):
                self.refused(session, connection, commands, before)
                if session.connection is connection and not session.is_dirty:
                    self.note(session)
            at += len(commands)

    def refused(self, session: Session, connection: object, commands: list[Words], before: Noted) -> None:
        """Write all of a record anew, as the store has refused changes to it; before: what it had before them."""
        if session.is_ended:
            return
        if session.connection is not connection:  # what its end has changed builds on these
            if session.pointer is not None:
                kept = [one for one in commands if one != session.look]
                self._unwritten.keep(session.client_id, session.pointer, kept)
            return
        found = {**before.in_flight, **(session.noted or {})}
        session.noted = {packet_id: (_UNKNOWN, state) for packet_id, (_, state) in found.items()} or None
        session.noted_positions = session.noted_retries = None
        session.noted_waiting = dict.fromkeys([*before.waiting, *(session.noted_waiting or ())], None) or None

    def is_lost(self, session: Session, whose: Any) -> bool:
        """Return whether another gateway has taken a session; whose: the answer to its `look`."""
        if session.is_fenced or (
            session.pointer is not None and whose != session.mine and not isinstance(whose, Exception)
        ):
            if session.connection is None and not session.is_fenced:
                return False  # its client has left, and it rests
            self._on_fenced(session)
            return True
        return False

    def changes(self, session: Session, positions: dict[str, Position] | None = None) -> list[Words]:
        """Return the commands that bring a record up to date: positions, messages in flight, retained ones that wait.

        The positions move together with what was sent up to them, so that nothing is lost between them.
        """
        session.is_dirty = False
        outgoing = session.outgoing
        if outgoing is None or not session.is_recorded:
            return []
        key = session.key
        words: list[bytes | str | int] = ["HSET", key, "last", outgoing.last_packet_id]
        if positions is None:
            positions = self.position_of(session)
        noted_positions = session.noted_positions or {}
        for name, position in positions.items():
            if noted_positions.get(name) != position:
                words += [f"at {name}", position.to_text()]
        session.noted_positions = positions
        if session.pack is not None and (retries := retries_of(session)) != session.noted_retries:
            words += ["retries", retries_to_text(retries)]
            session.noted_retries = retries
        noted = session.noted or {}
        numbers = session.numbers or {}
        present: dict[int, tuple[int, State]] = {}
        for sent in outgoing.in_flight:
            number = numbers.get(sent.packet_id, 0)
            # With the number, as an identifier may have been given to another message meanwhile.
            present[sent.packet_id] = number, sent.state
            if noted.get(sent.packet_id) != (number, sent.state):
                words += [f"i {sent.packet_id}", flying_text(number, sent)]
        gone = [f"i {packet_id}" for packet_id in noted if packet_id not in present]
        session.noted = present or None
        if session.retained or session.noted_waiting:
            waiting, done = _waiting_changes(session)
            words += waiting
            gone += done
        if session.numbers is not None:
            session.numbers = {one: number for one, number in session.numbers.items() if one in present} or None
        commands: list[Words] = [words] if len(words) > 4 or gone else []
        if gone:
            commands.append(("HDEL", key, *gone))
        return commands


def _waiting_changes(session: Session) -> tuple[list[str], list[str]]:
    """Return the changed fields, each with its text, of retained messages that wait; and the fields to remove."""
    noted = session.noted_waiting or {}
    present: dict[str, tuple[Waiting, bytes | None] | None] = {}
    words: list[str] = []
    for waiting in session.retained or ():
        if not waiting.qos:  # they do not wait for a client that is away
            continue
        known = noted.get(waiting.filter)
        if known is not None and known[0] is waiting and known[1] == waiting.place:
            present[waiting.filter] = known
        else:
            present[waiting.filter] = waiting, waiting.place
            words += waiting_fields(waiting)
    gone = [waiting_field(filter) for filter in noted if filter not in present]
    for field in gone:  # together with what was sent; the field itself is removed by a command of its own
        words += [field, ""]
    session.noted_waiting = present or None
    return words, gone
