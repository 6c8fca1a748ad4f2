"""Two servers with the same history, of which one has most entries of a stream in segment files."""

from collections.abc import Iterator, Sequence
from typing import Any

from streamd.base.filesystem import File, FileSystem
from streamd.cold.files import SegmentFile
from streamd.cold.store import ColdStore
from streamd.connected.blocking import BLOCKED
from streamd.data.records import ColumnsRecord
from streamd.engine.admission import find_command
from streamd.resp.encoder import encode
from streamd.resp.types import Sliced
from streamd.stream.log.absent import Absent
from streamd.stream.stream import Stream
from tests.cold.cold_world import evict, move, segment_files
from tests.session import Session

# The stream that most commands are about has an entry in each tenth millisecond; a node takes five.
LAST_MS = 600
STREAM = b"s"
# What has waited so often reads in place, as in the engine.
_WAITS_MAX = 2


class _NeverCached(File):
    def read_cached(self, offset: int, length: int) -> bytes | None:
        return None


class SlowDisk(FileSystem):
    """A file system whose files are never in the system's cache."""

    def wrap(self, descriptor: int, path: str) -> File:
        return _NeverCached(descriptor, path)


class Store(ColdStore):
    """A store that may have its blocks in memory for some accesses, and then not.

    left: so many accesses find their blocks, and the next one raises Absent; None: an access finds what is in memory.
    asked: how many accesses there were.
    """

    def __init__(self, directory: str, limit_bytes: int = 1 << 24) -> None:
        super().__init__(segment_files(SlowDisk(), directory), limit_bytes)
        self.left: int | None = None
        self.asked = 0

    def _ask(self, rows: Sequence[tuple[SegmentFile, int]]) -> None:
        self.asked += 1
        if self.left is not None and not self.in_place:
            if not self.left:
                raise Absent(self, rows)
            self.left -= 1

    def block(self, file: SegmentFile, row: int) -> Any:
        self._ask([(file, row)])
        if self.left is None:
            return super().block(file, row)
        with self.at_once():
            return super().block(file, row)

    def require(self, rows: Sequence[tuple[SegmentFile, int]]) -> None:
        if rows:
            self._ask(rows)
        if self.left is None:
            super().require(rows)


def cool(session: Session, store: ColdStore, key: bytes = STREAM, nodes: int = 1_000, per_block: int = 2) -> None:
    """Move the oldest nodes of a stream into a segment file."""
    move(store, session.state.keyspace[0].values[key].log, nodes, per_block)


def begin(session: Session, store: ColdStore | None) -> None:
    """Make the streams that commands are tried on: with deleted and trimmed entries, groups, pending and released
    entries; cold nodes in two files where there is a store.
    """
    session.state.cold = store
    if store is not None:
        store.in_place += 1
    do = session.do
    do("CONFIG SET stream-node-max-entries 5")
    do("CONFIG SET notify-keyspace-events KEA")
    for ms in range(10, LAST_MS - 30, 10):
        do(f"XADD s {ms}-0 n {ms} room {'abc'[ms // 10 % 3]}" + (" more x" if ms % 70 == 0 else ""))
    do("XGROUP CREATE s g 0")
    do("XGROUP CREATE s read $")
    do("XGROUP CREATE s picky 0 FILTER FIELD room EQ b")
    do("XREADGROUP GROUP g alice COUNT 20 STREAMS s >")
    do("XREADGROUP GROUP g bob COUNT 12 STREAMS s >")
    do("XREADGROUP GROUP picky carol COUNT 5 STREAMS s >")
    do("XACK s g 30-0 40-0 230-0")
    do("XDEL s 60-0 130-0 140-0 260-0 560-0")
    if store is not None:
        cool(session, store, nodes=6)
    session.clock.advance(5_000)
    do("XDEL s 70-0 110-0 120-0 150-0 210-0 220-0")
    do("XCLAIM s g bob 0 180-0 190-0")
    do("XNACK s g FAIL IDS 2 200-0 250-0")
    if store is not None:
        cool(session, store, nodes=3)
    do("XDEL s 330-0 340-0 350-0")
    for ms in range(LAST_MS - 30, LAST_MS + 1, 10):
        do(f"XADD s {ms}-0 n {ms} room {'abc'[ms // 10 % 3]}")
    if store is not None:
        cool(session, store, nodes=1)
    do("XTRIM s MAXLEN = 42")
    do("XADD s IDMP p i1 * n 1 room b")
    do("XADD other 5-0 n 5")
    do("XGROUP CREATE other g 0")
    session.clock.advance(1_000)
    session.connect().say("PSUBSCRIBE __key*")
    session.state.records = []
    if store is not None:
        store.in_place -= 1
        evict(store)


class Twins:
    """Two servers with the same history; `cold` has most entries in segment files."""

    def __init__(self, directory: str, limit_bytes: int = 1 << 24) -> None:
        self.store = Store(directory, limit_bytes)
        self.plain, self.cold = Session(), Session()
        begin(self.plain, None)
        begin(self.cold, self.store)

    def both(self, line: str | list[bytes], protocol: int = 2) -> tuple[bytes, bytes]:
        """Return the replies of both to a request; the cold one waits for blocks as often as it has to."""
        expected = call(self.plain, line, protocol)
        before = state_of(self.cold)
        evict(self.store)
        for _ in range(_WAITS_MAX):
            try:
                return expected, call(self.cold, line, protocol)
            except Absent as absent:
                assert state_of(self.cold) == before, "it has changed something before it needed blocks"
                evict(self.store)
                absent.fetch()
        with self.store.at_once():
            return expected, call(self.cold, line, protocol)

    def states(self) -> tuple[Any, Any]:
        """Return the states of both."""
        return state_of(self.plain), state_of(self.cold)


def call(session: Session, line: str | list[bytes], protocol: int = 2) -> bytes:
    """Return the reply of a handler as bytes. Raises: Absent."""
    request = [word.encode() for word in line.split()] if isinstance(line, str) else line
    session.state.time.ms = session.clock.now_ms()
    client = session.engine.connect()
    client.protocol = protocol
    command = find_command(session.engine.commands, request)
    client.last_command = command.name
    try:
        reply = command.handler(client, request)
    except Exception as error:
        if isinstance(error, Absent):
            raise
        return repr(error).encode()
    if reply is BLOCKED:
        session.engine.disconnect(client)
        return b"BLOCKED"
    return encode(reply.content if type(reply) is Sliced else reply, protocol)


def state_of(session: Session) -> dict[str, Any]:
    """Return all that a command may have changed, but for what counts reads."""
    state = session.state
    return {
        "streams": {key: _stream(value) for key, value in state.keyspace[0].values.items() if type(value) is Stream},
        "expires": dict(state.keyspace[0].expires_ms),
        "records": [one.records() if isinstance(one, ColumnsRecord) else one for one in state.records or ()],
        "dirty": state.dirty,
        "waiting": state.blocked.count,
        "ready": list(state.blocked.ready),
        "events": [bytes(piece) for client in state.clients.values() for piece in client.out],
    }


def _stream(stream: Stream) -> Any:
    groups = [_group(stream, name, group) for name, group in (stream.groups or {}).items()]
    log = stream.log.copy()
    with log.at_once():
        content = list(log.iterate())
        nodes = log.segments
        counters = stream.last_id, stream.max_deleted_id, stream.entries_added, stream.gaps_to, log.first_id
    names = [list(stream.idmp.iids(pid)) for pid in stream.idmp.pids()]
    return content, nodes, counters, groups, names, stream.idmp.iids_duplicates


def _group(stream: Stream, name: bytes, group: Any) -> Any:
    with stream.log.at_once():
        lag = stream.lag(group)
    return (
        name,
        group.last_id,
        group.entries_read,
        lag,
        list(_rows(group)),
        list(group.pending.nacked),
        _consumers(group),
    )


def _rows(group: Any) -> Iterator[Any]:
    for entry_id, owner, time_ms, count in group.pending.iterate():
        yield entry_id, None if owner is None else owner.name, time_ms, count


def _consumers(group: Any) -> list[Any]:
    return [(one.name, one.seen_ms, one.active_ms, one.pending) for one in group.consumers.values()]
