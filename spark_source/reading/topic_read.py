"""Reading a topic log: entries that a topic filter lets through, as columns of topic, publisher and payload."""

import logging
from collections.abc import Generator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_source import ids
from spark_source.connecting.bounded import TooLarge, receive
from spark_source.connecting.connection import Server, Session, Tries
from spark_source.connecting.topic_log import trimmed_place
from spark_source.errors import DataLoss
from spark_source.reading.entry_pages import FIRST_PAGE, LIMIT_BYTES, SHRINK, _next_size, read_range
from spark_source.reading.offsets import Range
from spark_source.reading.planner import PartSizes, choose_splitter
from spark_source.settings.topic_filters import TopicFilter
from spark_source.values.arrow import Page, as_text, id_columns
from spark_source.values.schema import arrow_schema

PROPERTY = b"u:"
_FIELDS = {
    "topic": b"t",
    "publisher": b"c",
    "payload": b"p",
    "content_type": b"ct",
    "response_topic": b"rt",
    "correlation": b"cd",
}
_SMALL: dict[str, tuple[bytes, dict[bytes, int]]] = {
    "qos": (b"q", {b"1": 1, b"2": 2}),
    "retain": (b"r", {b"1": True}),
    "payload_format": (b"pf", {b"1": 1}),
}
_EXPIRY_DIGITS_MAX = 18  # of an expiry in ms; more is never
# The entry with the highest ID there is closes a generation: it is no message.
_END = f"{ids.SEQ_MAX}-{ids.SEQ_MAX}"

log = logging.getLogger("spark_source")


class TopicConverter:
    """Makes the columns of a log's schema from the entries whose topic a filter lets through."""

    def __init__(self, schema: StructType, pattern: TopicFilter) -> None:
        self.schema = arrow_schema(schema)
        self.matches = pattern.matches

    def convert(self, stream: str, page: Page) -> pa.RecordBatch:
        """Return the messages of a page as one record batch, which may have no row."""
        found = [(entry[0], dict(zip(entry[1][0::2], entry[1][1::2], strict=True))) for entry in page]
        kept = [(entry_id, fields) for entry_id, fields in found if b"t" in fields and self.matches(fields[b"t"])]
        columns = [self._column(one.name, one.type, stream, kept) for one in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(
        self, name: str, kind: pa.DataType, stream: str, kept: list[tuple[bytes, dict[bytes, bytes]]]
    ) -> pa.Array:
        if name in ("id", "ts", "seq"):
            entry_ids = pa.array([entry_id for entry_id, _ in kept], pa.binary()).cast(pa.string())
            return entry_ids if name == "id" else id_columns(entry_ids)[name == "seq"]
        if name == "stream":
            return pa.array([stream] * len(kept), pa.string())
        if name == "properties":
            pairs = [[(key[2:], value) for key, value in fields.items() if key[:2] == PROPERTY] for _, fields in kept]
            return pa.array([[(_text(key), _text(value)) for key, value in one] for one in pairs], kind)
        if name in _SMALL:
            field, meant = _SMALL[name]
            return pa.array([meant.get(fields.get(field, b""), 0) for _, fields in kept]).cast(kind)
        if name == "expiry_s":
            return pa.array([_expiry_s(fields.get(b"e", b"")) for _, fields in kept], kind)
        field = _FIELDS[name]
        values = pa.array([fields.get(field, b"" if field == b"p" else None) for _, fields in kept], pa.binary())
        return as_text(values) if pa.types.is_string(kind) else values


def _expiry_s(text: bytes) -> float | None:
    return int(text) / 1_000 if text.isdigit() and len(text) <= _EXPIRY_DIGITS_MAX else None


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def read_topics(
    server: Server, part: Range, pattern: TopicFilter, converter: TopicConverter, page_size: int, fail: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the messages of a range that a filter lets through, in order.

    A server with XFILTER sends only these messages; others send all entries, which are filtered here.

    Raises: as `read_range`.
    """
    if part.end == _END:
        part = replace(part, end=ids.before(_END), count=max(0, part.count - 1))
    if pattern.text == "#" or not server.has_command("XFILTER"):
        yield from read_range(server, part, converter, page_size, fail)
        return
    reading = _Reading(server, part, pattern, page_size, fail)
    while not reading.is_done:
        page = reading.next()
        if page:
            yield converter.convert(part.stream, page)


class _Reading:
    """A range that is read page by page with XFILTER.

    A filtered page does not show the other entries, so it does not come short when entries were trimmed. The log notes
    the last ID that retention removed. A page is whole if that ID is not behind its beginning after the read.
    """

    def __init__(self, server: Server, part: Range, pattern: TopicFilter, page_size: int, fail: bool) -> None:
        self.server, self.part, self.pattern = server, part, pattern
        self.page_size, self.fail = page_size, fail
        self.position, self.is_done = part.start, False
        self.asked = self.size = min(FIRST_PAGE, page_size)
        self.trimmed = trimmed_place(part.stream)
        self.tries = Tries(server)

    def next(self) -> Page:
        """Return the next messages, none if the server found none in its time. Raises: as `read_range`."""
        while True:
            try:
                with self.server.session(self.part.stream) as session:
                    page = self._read(session)
            except TooLarge:
                self.size = max(1, self.asked // SHRINK)
            except DataLoss:
                raise
            except Exception as error:
                self.tries.failed(error)
                log.warning("reading %s again behind %s: %s", self.part.stream, self.position, error)
            else:
                self.tries.worked()
                if page is not None:
                    return page

    def _read(self, session: Session) -> Page | None:
        """Return a page; None if entries were trimmed while it was read, so that it has to be read again."""
        part, self.asked = self.part, self.size
        session.send("HGET", *self.trimmed)
        words = ("COUNT", self.size, "FIELD", "t", "MQTT", self.pattern.text)
        session.send("XFILTER", part.stream, "(" + self.position, part.end, *words)
        session.send("HGET", *self.trimmed)
        before = session.receive()
        reply, size_bytes = receive(session, LIMIT_BYTES if self.asked > 1 else None)
        after = session.receive()
        if before != after:
            return None
        if after is not None and ids.parse(after) > ids.parse(self.position):  # type: ignore[arg-type]
            self._judge(session, after.decode())  # type: ignore[union-attr]
            return [] if self.is_done else None
        assert isinstance(reply, list)
        last, page = reply
        passed: str = last.decode()  # type: ignore[union-attr]
        self.is_done = ids.parse(passed) >= ids.parse(part.end)
        if not self.is_done and passed == self.position:
            self._lose(f"stream {part.stream} was deleted or made anew while it was read up to {part.end}")
            self.is_done = True
        self.position = passed
        if page:
            self.size = _next_size(page, size_bytes, self.page_size)  # type: ignore[arg-type]
        return page  # type: ignore[return-value]

    def _judge(self, session: Session, trimmed: str) -> None:
        """Decide whether removed entries behind the position are a loss, and pass over them."""
        if self.position == ids.SMALLEST:
            # From the beginning: what was trimmed before this was planned is no loss.
            cut = choose_splitter(self.server).cut
            left = sum(count for _, count in cut(self.part.stream, trimmed, self.part.end, None, self.part.count, _ONE))
            if left >= self.part.count:
                self.position = trimmed
                return
        where = f"stream {self.part.stream} from {self.position} to {self.part.end}"
        self._lose(f"{where}: entries up to {trimmed} are gone")
        self.position = min(trimmed, self.part.end, key=ids.parse)
        self.is_done = self.position == self.part.end

    def _lose(self, text: str) -> None:
        if self.fail:
            raise DataLoss(
                f"{text}: keep more of the log (retention_s), or set failOnDataLoss=false to go on without them"
            )
        log.warning("%s (failOnDataLoss=false)", text)


_ONE = PartSizes(1_000_000, 1)


def converted(
    server: Server, parts: Sequence[Range], schema: StructType, text: str, page_size: int, fail: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the record batches of planned ranges of a log."""
    pattern = TopicFilter(text)
    converter = TopicConverter(schema, pattern)
    for part in parts:
        yield from read_topics(server, part, pattern, converter, page_size, fail)
