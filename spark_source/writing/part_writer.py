"""Writing rows by position, for servers without IDMP, with a note of the number written beside the stream."""

from hashlib import blake2b

from spark_source.connecting.connection import Session
from spark_source.errors import RowsChanged
from spark_source.naming.identity import digest_text
from spark_source.noting.attempts import note_presence
from spark_source.noting.markers import part_key
from spark_source.values.named_rows import refusal
from spark_source.writing.blocks import Chunk, Owner, StreamWriter


class PartWriter(StreamWriter):
    """Writes rows by position, each chunk together with a note: the part's number of rows so far, and their digest.

    Works on any server with transactions, and remembers without a time limit. A retry skips the noted rows. If they are
    not the same rows in the same order, their digest differs, and the task fails.
    """

    def __init__(self, owner: Owner, stream: str) -> None:
        super().__init__(owner, stream)
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
        # (Beside the rows: they have other numbers when the task runs again, and the same digest.)
        numbers = [b""] * len(payloads) if self.numbering is None else self.numbering.fields(payloads)
        self._hold(Chunk(payloads, len(payloads), sizes, numbers))

    def _deliver(self, block: list[Chunk]) -> None:
        before = self.position, self.digest, self.outcome.duplicates

        def deliver(session: Session) -> None:
            # A failover may have taken the newest of what this block wrote, and its note with it.
            self.position, digest, self.outcome.duplicates = before
            self.digest = digest.copy()
            self._look(session)
            if self.noted and self.noted == self.position and self.noted_digest != self.digest.hexdigest():
                raise self._changed("they are not the rows written before, or come in another order")
            for chunk in block:
                payloads, sizes, numbers = chunk.parts, chunk.words, chunk.numbers
                while payloads:
                    over = self.noted - self.position
                    if over > 0:
                        self._pass_over(payloads[:over])
                        payloads, sizes, numbers = payloads[over:], sizes[over:], numbers[over:]
                    elif self._append(session, payloads, sizes, numbers):
                        break
            self._wait(session)

        self.server.patiently(deliver, self.stream)

    def finish(self) -> None:
        super().finish()
        if not self.opening.done and self.position < self.noted:
            raise self._changed(f"{self.noted} rows were written, now there are only {self.position}")

    def _pass_over(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.digest.update(payload)
        self.position += len(payloads)
        self.outcome.duplicates += len(payloads)
        if self.position == self.noted and self.digest.hexdigest() != self.noted_digest:
            raise self._changed("they are not the rows written before, or come in another order")

    def _changed(self, what: str) -> RowsChanged:
        return RowsChanged(
            f"batch {self.task.name.batch}, partition {self.task.partition}, stream {self.stream}: {what}; "
            "exactlyOnce=marker needs the same rows in the same order: use a server with IDMP, or sort the rows"
        )

    def _append(self, session: Session, payloads: list[bytes], sizes: list[int], numbers: list[bytes]) -> bool:
        """Add rows and the note in one transaction. Return False when another attempt was faster; its note is then
        known. Raises:
        StreamdError.
        """
        digest = self.digest.copy()
        for payload in payloads:
            digest.update(payload)
        count = self.position + len(payloads)
        note = f"{self.batch}|{count}|{digest.hexdigest()}"
        head = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in self.head)
        words = len(self.head) + 1
        packed = b"".join(
            b"*%d\r\n%b$1\r\n*\r\n%b%b" % (words + size + 2 * bool(number), head, payload, number)
            for payload, size, number in zip(payloads, sizes, numbers, strict=True)
        )
        done = self._transact(session, packed, payloads, note)
        if done:
            self.position = self.noted = count
            self.digest = digest
        return done

    def _transact(self, session: Session, packed: bytes, payloads: list[bytes], note: str) -> bool:
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
            replies = session.exchange([b"".join(packed_all)], len(payloads) + 3)  # sent at once, it arrives whole
        finally:
            if not session.closed:
                session.call("UNWATCH")
        last = replies[-1]
        added = last if isinstance(last, list) else []
        for answers in (replies[1:-2], added[:-1]):  # the rows', without those of MULTI, SET and EXEC
            for payload, reply in zip(payloads, answers, strict=False):
                if isinstance(reply, Exception):
                    raise refusal(reply, payload, self.stream, self.server.options)
        for reply in (*replies, *added):
            if isinstance(reply, Exception):
                raise reply
        if last is None:
            self._look(session)
            return False
        self.noted_digest = note.rpartition("|")[2]
        return True

    def _look(self, session: Session) -> None:
        """Read the part's note on this batch."""
        note = session.call("GET", self.key)
        self.noted, self.noted_digest = 0, ""
        if isinstance(note, bytes):
            batch, count, digest = note.decode().split("|")
            if batch == self.batch:
                self.noted, self.noted_digest = int(count), digest
