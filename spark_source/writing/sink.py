"""Writing the rows of one task to the server, so that writing them again adds nothing."""

import logging
from collections.abc import Iterator
from itertools import repeat

import pyarrow as pa

from spark_source import ids
from spark_source.connecting.connection import Server, Session, Tries
from spark_source.connecting.failures import explained
from spark_source.connecting.stream_info import as_dict
from spark_source.errors import WindowTooSmall
from spark_source.naming.held import Held, Part
from spark_source.naming.identity import DIGEST_BYTES, Identity, digests_of, rows_max
from spark_source.naming.tally import Short, Tally
from spark_source.noting.attempts import Verdict, note_rows
from spark_source.settings.options import WriteOptions
from spark_source.values.encode import RowEncoder, Rows
from spark_source.values.named_rows import refusal
from spark_source.writing.blocks import Chunk, Outcome, StreamWriter, Task
from spark_source.writing.numbering import Numbering
from spark_source.writing.part_writer import PartWriter

log = logging.getLogger("spark_source")

HEADS_MAX = 20  # kinds of commands, by their length, whose bytes are kept: with 4,096 buckets some 8 MB


class TaskWriter:
    """Writes the rows of one task. The modes differ in how a row is recognised; see `Identity` and `PartWriter`."""

    def __init__(
        self,
        server: Server,
        options: WriteOptions,
        encoder: RowEncoder,
        task: Task,
        numbering: Numbering | None = None,
    ) -> None:
        self.numbering = numbering
        self.server = server
        self.options = options
        self.encoder = encoder
        self.task = task
        self.outcome = Outcome()
        self.streams: dict[str, StreamWriter] = {}

    def write(self, batches: Iterator[pa.RecordBatch]) -> Outcome:
        """Write all rows and return the outcome, once the server holds them as durably as asked for.

        Raises: StreamdError; Spark then tries the task again.
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
        """Hold the rows until all are known, and write them once it is clear that no earlier attempt had others.

        The number of rows also decides the number of producers. Rows are counted, not Spark's batches, so that every
        attempt decides alike. A failure further up in the query shows before the first row is written.
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
        """Yield the rows for each stream, with the digests that name them."""
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

    def _write_part(self, writer: StreamWriter, part: Part) -> None:
        if writer.opening.done:
            writer.leave_out(len(part.payloads))
            return
        step = self.options.pipeline
        for start in range(0, len(part.payloads), step):
            writer.write(
                part.payloads.slice(start, step).to_pylist(),
                part.words[start : start + step] if isinstance(part.words, list) else part.words,
                part.digests[start * DIGEST_BYTES : (start + step) * DIGEST_BYTES],
            )

    def _stream(self, stream: str) -> StreamWriter:
        writer = self.streams.get(stream)
        if writer is None:
            kind = PartWriter if self.task.mode == "marker" else _NamingWriter
            writer = self.streams[stream] = kind(self, stream)
        return writer


class _NamingWriter(StreamWriter):
    """Writes with IDMP, each row under its name; or, in mode none, without names."""

    def __init__(self, owner: "TaskWriter", stream: str, tally: Tally | None = None) -> None:
        super().__init__(owner, stream)
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
        """Note this attempt's rows. Raises: RowsChanged, WindowTooSmall."""
        task = self.task
        self.outcome.shorts[self.stream] = short
        if self.opening.done:
            return Verdict(1)
        self._check_room(short.rows)

        def noted(session: Session) -> Verdict:
            seen = self.opening.seen_before
            found = note_rows(session, self.stream, task.name, task.partition, short, seen, self.options)
            self._wait(session)
            return found

        verdict = self.server.patiently(noted, self.stream)
        if verdict.changed:
            self.outcome.changed += short.rows
        return verdict

    def write(self, payloads: list[bytes], words: list[int] | int, digests: bytes) -> None:
        count = len(payloads)
        if self.numbering is not None:
            payloads, words = _numbered(payloads, words, self.numbering.fields(payloads))
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
        self._hold(Chunk(parts, count))

    def _check_room(self, rows: int) -> None:
        """Raise WindowTooSmall when a task has more rows than the server can recognise."""
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
        """Return the heads of commands with this many words in a row, and this many bytes in an iid."""
        heads = self.heads.get((size, length))
        if heads is None:
            if len(self.heads) > HEADS_MAX:
                self.heads.clear()
            heads = self.heads[size, length] = _Heads(self.head, self.identity, size, length)
        return heads

    def _deliver(self, block: list[Chunk]) -> None:
        """Send a block until it is answered and covered.

        With names, sending it all again is safe; without, only refused commands are sent again.
        """
        tries, unanswered = Tries(self.server), block
        while True:
            replies: list = []
            refused: list[Chunk] = []
            try:
                with self.server.session(self.stream) as session:
                    if self.suspect and self.newest is None:
                        self.newest = self._last_id(session)
                    for chunk in unanswered:
                        answers = session.exchange([b"".join(chunk.parts)], chunk.count)
                        replies += answers
                        refused += _refused(chunk, answers)
                    if refused:
                        first = next(reply for reply in replies if isinstance(reply, Exception))
                        raise refusal(first, refused[0].payload(0), self.stream, self.server.options)
                    self._wait(session)
                break
            except Exception as error:
                if self.identity is None:
                    if not refused or self.task.durability.command:
                        raise explained(error, self.server.options) from None
                    unanswered = refused
                tries.failed(error)
                self.suspect, self.newest = self.identity is not None, None
                log.warning("writing to %s again: %s", self.stream, error)
        if self.suspect:
            self._count_duplicates(replies)

    def _last_id(self, session: Session) -> tuple[int, int]:
        """Return the greatest ID so far; a reply that is not greater belongs to a row that was written before."""
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


def _numbered(payloads: list[bytes], words: list[int] | int, fields: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Return encoded rows with a further field, where it is not empty, and their numbers of words."""
    sizes = [words] * len(payloads) if isinstance(words, int) else words
    return (
        [payload + one for payload, one in zip(payloads, fields, strict=True)],
        [size + 2 * bool(one) for size, one in zip(sizes, fields, strict=True)],
    )


def _refused(chunk: Chunk, answers: list) -> list[Chunk]:
    """Return the commands of a chunk that were answered by an error, as one chunk in a list; [] for none."""
    refused = [i for i, answer in enumerate(answers) if isinstance(answer, Exception)]
    step = len(chunk.parts) // chunk.count
    parts = [part for i in refused for part in chunk.parts[i * step : (i + 1) * step]]
    return [Chunk(parts, len(refused))] if refused else []


class _Heads(dict[int, bytes]):
    """The bytes of a command before its iid, for each bucket; of a command without an iid, before its `*`."""

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
