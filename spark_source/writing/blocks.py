"""A task's way to one stream: the batch is opened, and rows are held until a wait has covered them."""

from dataclasses import dataclass, field
from typing import Protocol

from spark_source.connecting.connection import Server, Session
from spark_source.naming.identity import BatchName
from spark_source.naming.tally import Short
from spark_source.noting.batches import Opening, open_batch
from spark_source.noting.loops import refuse_source
from spark_source.noting.window import ensure_window
from spark_source.settings.options import WriteOptions
from spark_source.writing.durable import Durability
from spark_source.writing.numbering import Numbering

BLOCK_BYTES_MAX = 64 << 20  # of rows that are held until a wait has covered them


@dataclass(frozen=True)
class Task:
    """One attempt at one part of a write, and its options."""

    name: BatchName
    partition: int
    attempt: int
    run: str
    mode: str
    durability: Durability
    prepared: frozenset[str]
    """Streams whose window the driver has set; others are seen to when the first row for them comes."""
    sources: frozenset[str] = frozenset()
    """Streams that the query reads, and must not write."""
    is_finished: bool = False
    """Whether the whole write is committed, so that its rows are only counted and compared."""


@dataclass
class Outcome:
    """The result of a task: rows given to each stream, their summary, and the time it took.

    left_out: rows that are not written, because the batch was committed before.
    """

    rows: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    shorts: dict[str, Short | None] = field(default_factory=dict)
    duplicates: int = 0
    changed: int = 0
    retries: int = 0
    waited_ms: int = 0


@dataclass(frozen=True)
class Chunk:
    """Rows that are sent at once. `parts` are the pieces of their commands, as many of each; or their payloads.

    `numbers` are the fields that payloads get besides, empty for most.
    """

    parts: list[bytes]
    count: int
    words: list[int] = field(default_factory=list)
    numbers: list[bytes] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts))

    def payload(self, number: int) -> bytes:
        """Return the fields and values of a row, the last piece of its command."""
        step = len(self.parts) // self.count
        return self.parts[number * step + step - 1]


class Owner(Protocol):
    """The writer of a task, whose rows are written."""

    server: Server
    options: WriteOptions
    task: Task
    outcome: Outcome
    numbering: Numbering | None


class StreamWriter:
    """Writes a task's rows to one stream; knows whether the batch is committed there already."""

    def __init__(self, owner: Owner, stream: str) -> None:
        self.server = owner.server
        self.options = owner.options
        self.task = owner.task
        self.outcome = owner.outcome
        self.numbering = owner.numbering
        self.stream = stream
        self.block: list[Chunk] = []
        self.held_rows = self.held_bytes = 0
        refuse_source(stream, self.task.sources)
        self.outcome.rows.setdefault(stream, 0)
        if self.task.mode == "idmp" and stream not in self.task.prepared:
            ensure_window(self.server, stream, self.options)
        self.opening = self._open()
        trimming: list[bytes] = []
        if self.options.max_len is not None:
            trimming = [b"MAXLEN", b"~", b"%d" % self.options.max_len]
        self.head = [b"XADD", stream.encode(), *trimming]

    def _open(self) -> Opening:
        task = self.task
        if task.is_finished:
            return Opening(True, True)
        if not task.name.named or task.mode == "none":
            return Opening(False, task.attempt > 0)

        def opened(session: Session) -> Opening:
            found = open_batch(session, self.stream, task.name, task.run, task.attempt, task.mode, self.options)
            self._wait(session)  # a mark that a failover may take does not count
            return found

        return self.server.patiently(opened, self.stream)

    def leave_out(self, rows: int) -> None:
        """Count rows of a batch that was committed before."""
        self.outcome.left_out[self.stream] = self.outcome.left_out.get(self.stream, 0) + rows

    def write(self, payloads: list[bytes], words: list[int] | int, digests: bytes) -> None:
        """Write rows, at most `pipeline` of them; not to be called when the batch is committed."""
        raise NotImplementedError

    def finish(self) -> None:
        """Write the remaining rows. Raises: StreamdError when they are not as durable as asked for within `timeout`."""
        if self.block:
            self._write_block()

    def _hold(self, chunk: Chunk) -> None:
        """Take a chunk of rows, and write the block when it is full.

        A block is sent again as a whole unless a wait on the connection that wrote it has covered it. Without
        durability it is one chunk.
        """
        self.block.append(chunk)
        self.held_rows += chunk.count
        self.held_bytes += chunk.size_bytes
        waits = bool(self.task.durability.command)
        if not waits or self.held_rows >= self.options.wait_rows or self.held_bytes >= BLOCK_BYTES_MAX:
            self._write_block()

    def _write_block(self) -> None:
        self._deliver(self.block)
        self.outcome.rows[self.stream] += self.held_rows
        self.block, self.held_rows, self.held_bytes = [], 0, 0

    def _deliver(self, block: list[Chunk]) -> None:
        """Write chunks, and wait until they are as durable as asked for."""
        raise NotImplementedError

    def _wait(self, session: Session) -> None:
        self.task.durability.wait(session, self.stream, self.server.options)
