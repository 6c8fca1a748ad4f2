"""Writing the rows of one task to the server, so that writing them again adds nothing."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import repeat

import pyarrow as pa

from spark_source import ids
from spark_source.attempts import Verdict, note_presence, note_rows
from spark_source.connection import FIRST_PAUSE_S, Server, Session, explained, is_passing
from spark_source.encode import RowEncoder, Rows
from spark_source.errors import RowsChanged, StreamdError, WindowTooSmall
from spark_source.held import Held, Part
from spark_source.identity import DIGEST_BYTES, BatchName, Identity, digest_text, digests_of, rows_max
from spark_source.loops import refuse_source
from spark_source.markers import Opening, marker_key, open_batch, part_key
from spark_source.options import WriteOptions
from spark_source.planner import as_dict
from spark_source.tally import Short, Tally
from spark_source.window import ensure_window

log = logging.getLogger("spark_source")

HEADS_MAX = 20  # kinds of commands, by their length, whose bytes are kept: with 4,096 buckets some 8 MB


@dataclass(frozen=True)
class Task:
    """Which attempt of which part of a write this is, and how it is to be done."""

    name: BatchName
    partition: int
    attempt: int
    run: str
    mode: str
    wait_for: str
    prepared: frozenset[str]
    """Streams whose window the driver has set; others are seen to when the first row for them comes."""
    sources: frozenset[str] = frozenset()
    """Streams that the query reads, and must not write."""


@dataclass
class Outcome:
    """What a task did: rows given to each stream, what they were in short, and what it took."""

    rows: dict[str, int] = field(default_factory=dict)
    shorts: dict[str, Short | None] = field(default_factory=dict)
    duplicates: int = 0
    changed: int = 0
    retries: int = 0
    waited_ms: int = 0


class TaskWriter:
    """Writes the rows of one task. The modes differ in how a row is recognised; see `Identity` and `_PartWriter`."""

    def __init__(self, server: Server, options: WriteOptions, encoder: RowEncoder, task: Task) -> None:
        self.server = server
        self.options = options
        self.encoder = encoder
        self.task = task
        self.outcome = Outcome()
        self.streams: dict[str, _StreamWriter] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> Outcome:
        """Write all rows and return what was done, once the server holds them as durably as asked for.

        Raises: StreamdError; the task is then tried again by Spark.
        """
        parts = (part for batch in batches for rows in self.encoder.encode(batch) for part in self._parts(rows))
        if self.task.mode == "idmp":
            self._write_held(parts)
        else:
            for part in parts:
                self._write_part(self._stream(part.stream), part)
        for writer in self.streams.values():
            writer.finish()
        self.outcome.retries += self.server.patience.retries
        self.outcome.waited_ms += round(self.server.patience.waited_s * 1000)
        return self.outcome

    def _write_held(self, parts: Iterator[Part]) -> None:
        """Hold the rows until all are known, and write them when it is clear that no attempt before had others.

        Their number also decides over how many producers they are spread. It goes by the rows themselves, not by how
        Spark packs them, so that every attempt decides alike. A failure further up in the query comes to light before
        the first row is written.
        """
        held, tallies = Held(), dict[str, Tally]()
        try:
            for part in parts:
                tally = tallies.get(part.stream)
                if tally is None:
                    tally = tallies[part.stream] = Tally(self.options.identity)
                tally.add(part.payloads, part.digests)
                held.append(part)
                pa.default_memory_pool().release_unused()  # 30 us, and a task of raw entries takes 27 MB less
            for stream, tally in tallies.items():
                self.streams[stream] = _NamingWriter(self, stream, tally)
            for part in held.take():
                self._write_part(self.streams[part.stream], part)
        finally:
            held.close()

    def _parts(self, rows: Rows) -> Iterator[Part]:
        """Yield the rows for each stream, with the digests of what names them."""
        digests = b""
        if self.task.mode == "idmp" and self.options.identity != "position":
            named = rows.payloads if rows.keys is None else rows.keys
            digests = digests_of(named.to_pylist())
        if rows.targets is None:
            assert self.encoder.stream is not None
            yield Part(self.encoder.stream, rows.payloads, rows.words, digests)
            return
        places: dict[str, list[int]] = {}
        for i, target in enumerate(rows.targets):
            places.setdefault(target, []).append(i)
        for target, mine in places.items():
            words = [rows.words[i] for i in mine] if isinstance(rows.words, list) else rows.words
            named = b"".join([digests[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES] for i in mine])
            yield Part(target, rows.payloads.take(pa.array(mine, pa.int32())), words, named)

    def _write_part(self, writer: "_StreamWriter", part: Part) -> None:
        if writer.opening.done:
            return
        step = self.options.pipeline
        for start in range(0, len(part.payloads), step):
            writer.write(
                part.payloads.slice(start, step).to_pylist(),
                part.words[start : start + step] if isinstance(part.words, list) else part.words,
                part.digests[start * DIGEST_BYTES : (start + step) * DIGEST_BYTES],
            )

    def _stream(self, stream: str) -> "_StreamWriter":
        writer = self.streams.get(stream)
        if writer is None:
            kind = _PartWriter if self.task.mode == "marker" else _NamingWriter
            writer = self.streams[stream] = kind(self, stream)
        return writer


class _StreamWriter:
    """Writes a task's rows to one stream; knows whether the batch is committed there already."""

    def __init__(self, task_writer: TaskWriter, stream: str) -> None:
        self.server = task_writer.server
        self.options = task_writer.options
        self.task = task_writer.task
        self.outcome = task_writer.outcome
        self.stream = stream
        self.wrote = False
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
        if not self.task.name.named or self.task.mode == "none":
            return Opening(False, self.task.attempt > 0)
        task = self.task
        return self.server.patiently(
            lambda session: open_batch(
                session, self.stream, task.name, task.run, task.attempt, task.mode, self.options
            ),
            self.stream,
        )

    def write(self, payloads: list[bytes], words: list[int] | int, digests: bytes) -> None:
        """Write rows, at most `pipeline` of them; not to be called when the batch is committed."""
        raise NotImplementedError

    def finish(self) -> None:
        """Wait until what was written is as durable as asked for.

        Raises: StreamdError when it is not within `timeout`.
        """
        if not self.wrote or not self.task.wait_for:
            return
        limit_ms = max(1, round(self.server.options.timeout_s * 800))

        def wait(session: Session) -> None:
            # WAIT and WAITAOF speak of this connection's last write, so it makes one: it may be a new connection.
            session.call("HSET", marker_key(self.stream), "waited", self.task.partition)
            if self.task.wait_for == "WAITAOF":
                reply = session.call("WAITAOF", 1, 0, limit_ms)
                enough = isinstance(reply, list) and isinstance(reply[0], int) and reply[0] >= 1
            else:
                wanted = int(self.options.durability.partition(":")[2])
                count = session.call("WAIT", wanted, limit_ms)
                enough = isinstance(count, int) and count >= wanted
            if not enough:
                raise StreamdError(
                    f"durability={self.options.durability} was not reached for stream {self.stream} within "
                    f"{limit_ms / 1000:.0f} s: check the server's disk and replicas, or raise timeout"
                )

        self.server.patiently(wait, self.stream)


class _NamingWriter(_StreamWriter):
    """Writes with IDMP, each row under its own name; or, in mode none, without any."""

    def __init__(self, task_writer: TaskWriter, stream: str, tally: Tally | None = None) -> None:
        super().__init__(task_writer, stream)
        task = self.task
        self.identity: Identity | None = None
        if tally is not None:
            options = self.options
            verdict = self._noted(tally.short())
            self.identity = Identity(
                options.identity, task.name, task.partition, options.scope, options.window_size, verdict.buckets
            )
            if options.identity == "content":
                self.identity.repeated = tally.repeats.repeated()
        self.heads: dict[tuple[int, int], _Heads] = {}
        self.suspect = self.opening.seen_before and task.mode == "idmp"
        self.newest: tuple[int, int] | None = None

    def _noted(self, short: Short) -> Verdict:
        """Note what this attempt brings. Raises: RowsChanged, WindowTooSmall."""
        task = self.task
        self.outcome.shorts[self.stream] = short
        if self.opening.done:
            return Verdict(1)
        self._check_room(short.rows)
        verdict = self.server.patiently(
            lambda session: note_rows(
                session, self.stream, task.name, task.partition, short, self.opening.seen_before, self.options
            ),
            self.stream,
        )
        if verdict.changed:
            self.outcome.changed += short.rows
        return verdict

    def write(self, payloads: list[bytes], words: list[int] | int, digests: bytes) -> None:
        count = len(payloads)
        # The bytes of all commands are joined at once, from a list that is filled by slices: 0.1 us a row, not 0.3.
        if self.identity is None:
            parts = [b"$1\r\n*\r\n"] * (3 * count)
            parts[0::3] = self._heads_of(words, [0] * count, None)
            parts[2::3] = payloads
        else:
            buckets, iids = self.identity.name_rows(count, digests)
            parts = [b"\r\n$1\r\n*\r\n"] * (4 * count)
            parts[0::4] = self._heads_of(words, buckets, iids)
            parts[1::4] = iids
            parts[3::4] = payloads
        self._deliver(parts, count)
        self.outcome.rows[self.stream] += count

    def _check_room(self, rows: int) -> None:
        """Raise WindowTooSmall when a task has more rows than the server could recognise again."""
        options = self.options
        if options.identity == "position" or options.on_window_expired == "continue":
            return
        most = rows_max(options.window_size)
        if rows > most:
            raise WindowTooSmall(
                f"a partition has more than {most} rows for stream {self.stream}, the windows of its producers "
                f"(windowMaxSize={options.window_size}) do not hold them: use more partitions, a larger windowMaxSize, "
                "identity=position, or onWindowExpired=continue to accept duplicates"
            )

    def _heads_of(self, words: list[int] | int, buckets: list[int], iids: list[bytes] | None) -> list[bytes]:
        """Return the bytes of each command up to its iid."""
        lengths = [0] if iids is None else set(map(len, iids))
        if isinstance(words, int) and len(lengths) == 1:
            return list(map(self._heads(words, next(iter(lengths))).__getitem__, buckets))
        sizes = repeat(words) if isinstance(words, int) else words
        each = repeat(0) if iids is None else map(len, iids)
        return [self._heads(size, length)[bucket] for bucket, size, length in zip(buckets, sizes, each, strict=False)]

    def _heads(self, size: int, length: int) -> "_Heads":
        """Return the heads of commands whose rows have so many words, and whose iids so many bytes."""
        heads = self.heads.get((size, length))
        if heads is None:
            if len(self.heads) > HEADS_MAX:
                self.heads.clear()
            heads = self.heads[size, length] = _Heads(self.head, self.identity, size, length)
        return heads

    def _deliver(self, parts: list[bytes], count: int) -> None:
        """Send commands, each of as many `parts`, until they are answered.

        With names, sending them all again is safe; without, only those that the server has refused are sent again.
        """
        failures, pause_s, step = 0, FIRST_PAUSE_S, len(parts) // count
        while True:
            refused: list[int] = []
            try:
                with self.server.session(self.stream) as session:
                    if self.suspect and self.newest is None:
                        self.newest = self._last_id(session)
                    replies = session.exchange([b"".join(parts)], count)
                    refused = [i for i, reply in enumerate(replies) if isinstance(reply, Exception)]
                    if refused:
                        raise replies[refused[0]]  # type: ignore[misc]  # here, so that the session learns of a new map
                break
            except Exception as error:
                unsure = self.identity is None and not refused
                if not is_passing(error) or unsure or failures >= self.server.options.retries:
                    raise explained(error, self.server.options) from None
                if self.identity is None:
                    parts, count = [part for i in refused for part in parts[i * step : (i + 1) * step]], len(refused)
                failures += 1
                self.outcome.retries += 1
                self.suspect, self.newest = self.identity is not None, None
                log.warning("writing to %s again: %s", self.stream, error)
                pause_s = self.server.pause(pause_s)
        self.wrote = True
        if self.suspect:
            self._count_duplicates(replies)

    def _last_id(self, session: Session) -> tuple[int, int]:
        """Return the greatest ID given so far: a reply that is not greater is that of a row written before."""
        return ids.parse(as_dict(session.call("XINFO", "STREAM", self.stream))["last-generated-id"])  # type: ignore[arg-type]

    def _count_duplicates(self, replies: list) -> None:
        newest = self.newest or (0, 0)
        for reply in replies:
            given = ids.parse(reply)
            if given > newest:
                newest = given
            else:
                self.outcome.duplicates += 1
        self.newest = newest


class _Heads(dict[int, bytes]):
    """The bytes of a command before its iid, for each bucket; of one without an iid, before its `*`."""

    def __init__(self, head: list[bytes], identity: Identity | None, size: int, length: int) -> None:
        super().__init__()
        self.head, self.identity, self.size, self.length = head, identity, size, length

    def __missing__(self, bucket: int) -> bytes:
        given, more, last = list(self.head), 1, b""
        if self.identity is not None:
            given += [b"IDMP", self.identity.producer_id(bucket)]
            more, last = 2, b"$%d\r\n" % self.length
        made = b"*%d\r\n" % (len(given) + more + self.size)
        made += b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in given) + last
        self[bucket] = made
        return made


class _PartWriter(_StreamWriter):
    """Writes rows by position, each chunk together with a note of how many rows the part has and their digest.

    Works on any server with transactions, and remembers without a limit of time. A retry passes over the rows that are
    noted; if they are not the same rows in the same order, their digest tells, and the task fails loudly.
    """

    def __init__(self, task_writer: TaskWriter, stream: str) -> None:
        super().__init__(task_writer, stream)
        self.key = part_key(stream, self.task.name, self.task.partition)
        name = self.task.name
        self.batch = name.batch if name.number is not None else digest_text(name.whole.encode())
        self.position = 0
        self.digest = blake2b(digest_size=15)
        self.noted = 0
        self.noted_digest = ""
        self.outcome.shorts[stream] = None
        if not self.opening.done:
            self.server.patiently(self._look, stream)
            partition = self.task.partition
            self.server.patiently(lambda session: note_presence(session, stream, name, partition), stream)

    def write(self, payloads: list[bytes], words: list[int] | int, digests: bytes) -> None:
        sizes = [words] * len(payloads) if isinstance(words, int) else words
        while payloads:
            over = self.noted - self.position
            if over > 0:
                self._pass_over(payloads[:over])
                payloads, sizes = payloads[over:], sizes[over:]
            elif self._append(payloads, sizes):
                return

    def finish(self) -> None:
        if not self.opening.done and self.position < self.noted:
            raise self._changed(f"{self.noted} rows were written, now there are only {self.position}")
        super().finish()

    def _pass_over(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.digest.update(payload)
        self.position += len(payloads)
        self.outcome.duplicates += len(payloads)
        self.outcome.rows[self.stream] += len(payloads)
        if self.position == self.noted and self.digest.hexdigest() != self.noted_digest:
            raise self._changed("they are not the rows written before, or come in another order")

    def _changed(self, what: str) -> RowsChanged:
        return RowsChanged(
            f"batch {self.task.name.batch}, partition {self.task.partition}, stream {self.stream}: {what}; "
            "exactlyOnce=marker needs the same rows in the same order: use a server with IDMP, or sort the rows"
        )

    def _append(self, payloads: list[bytes], sizes: list[int]) -> bool:
        """Add rows and the note in one transaction. Return False when another attempt was faster; what it noted is
        then known. Raises: StreamdError."""
        digest = self.digest.copy()
        for payload in payloads:
            digest.update(payload)
        count = self.position + len(payloads)
        note = f"{self.batch}|{count}|{digest.hexdigest()}"
        head = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in self.head)
        words = len(self.head) + 1
        packed = b"".join(
            b"*%d\r\n%b$1\r\n*\r\n%b" % (words + size, head, payload)
            for payload, size in zip(payloads, sizes, strict=True)
        )
        done = self.server.patiently(lambda session: self._transact(session, packed, len(payloads), note), self.stream)
        if done:
            self.position = self.noted = count
            self.digest = digest
            self.wrote = True
            self.outcome.rows[self.stream] += len(payloads)
        return done

    def _transact(self, session: Session, packed: bytes, count: int, note: str) -> bool:
        session.call("WATCH", self.key)
        try:
            before = self.noted, self.noted_digest
            self._look(session)
            if self.noted != self.position or (self.noted and (self.noted, self.noted_digest) != before):
                if self.noted < self.position:
                    raise self._changed("the note of what was written is gone")
                return False  # also after a lost reply: then the note is ours, and its rows are passed over
            connection = session.connection
            packed_all = [
                *connection.pack_command("MULTI"),
                packed,
                *connection.pack_command("SET", self.key, note),
                *connection.pack_command("EXEC"),
            ]
            replies = session.exchange([b"".join(packed_all)], count + 3)  # sent at once, it arrives whole
        finally:
            if not session.closed:
                session.call("UNWATCH")
        for reply in replies[:-1]:
            if isinstance(reply, Exception):
                raise reply
        last = replies[-1]
        if isinstance(last, Exception):
            raise last
        if last is None:
            self._look(session)
            return False
        for reply in last if isinstance(last, list) else []:
            if isinstance(reply, Exception):
                raise reply
        self.noted_digest = note.rpartition("|")[2]
        return True

    def _look(self, session: Session) -> None:
        """Read what the part's note says of this batch."""
        note = session.call("GET", self.key)
        self.noted, self.noted_digest = 0, ""
        if isinstance(note, bytes):
            batch, count, digest = note.decode().split("|")
            if batch == self.batch:
                self.noted, self.noted_digest = int(count), digest
