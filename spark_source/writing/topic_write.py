"""Publishing rows to a topic log: each becomes a message, in the stream of its publisher, or of its topic."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from spark_source.connecting.topic_log import TopicLog
from spark_source.errors import BadRow
from spark_source.settings.topic_filters import LENGTH_BYTES_MAX, TopicFilter
from spark_source.values.encode import RowEncoder, Rows, _column, _spread
from spark_source.values.message_fields import NEWER_COLUMNS, NEWER_VERSION, rarer_fields
from spark_source.values.topic_schema import check_published

_FIELDS = {"topic": "t", "payload": "p", "publisher": "c"}
_PREFIX = pa.scalar("u:")
_NONE = b""
_PLACES_MAX = 100_000  # topics and publishers whose streams are remembered


class TopicEncoder(RowEncoder):
    """Encodes rows as messages of a log's current generation.

    version: of the entries that the log must allow before the rows are written.

    Raises: OptionError for columns that cannot be published, or a key column that is not there.
    """

    def __init__(self, schema: StructType, key_columns: tuple[str, ...], log: TopicLog) -> None:
        check_published(schema)
        super().__init__(StructType([one for one in schema.fields if one.name != "properties"]), key_columns, log.name)
        self.names = schema.fieldNames()
        self.key_at = [self.names.index(name) for name in key_columns]
        self.stream = None
        self.log = log
        self.version = NEWER_VERSION if NEWER_COLUMNS.intersection(self.names) else 1
        self.filters = [TopicFilter(text).matches for text in log.generations[-1].filters]
        self.places: dict[tuple[bytes, bytes | None], str] = {}

    def _encode(self, batch: pa.RecordBatch) -> Rows:
        columns = dict(zip(self.names, batch.columns, strict=True))
        for name in ("topic", "payload"):
            if columns[name].null_count:
                raise BadRow(f"column {name} is null in a row: a message has both, filter such rows out")
        pieces, fields = [], pa.array([0] * len(batch), pa.int32())
        usual = [(field, columns[name]) for name, field in _FIELDS.items() if name in columns]
        for field, values in usual + rarer_fields(columns):
            piece = _column(field, values)
            pieces.append(piece)
            fields = pc.add(fields, piece.is_valid().cast(pa.int32()))
        if "properties" in columns:
            piece, held = _spread(_prefixed(columns["properties"]))
            pieces.append(piece)
            fields = pc.add(fields, held)
        payloads = pc.binary_join_element_wise(*pieces, _NONE, null_handling="replace", null_replacement=_NONE)
        return Rows(payloads, pc.multiply(fields, 2).to_pylist(), self._streams_of(columns), self._keys(batch))

    def _streams_of(self, columns: dict[str, pa.Array]) -> list[str]:
        topics = columns["topic"].cast(pa.binary()).to_pylist()
        if "publisher" in columns:
            publishers = columns["publisher"].cast(pa.binary()).to_pylist()
        else:
            publishers = [None] * len(topics)
        return [self._place(*pair) for pair in zip(topics, publishers, strict=True)]

    def _place(self, topic: bytes, publisher: bytes | None) -> str:
        place = self.places.get((topic, publisher))
        if place is None:
            self._check(topic, publisher)
            generation = self.log.generations[-1]
            place = self.log.stream(generation, generation.shard_of(topic, publisher))
            if len(self.places) < _PLACES_MAX:
                self.places[topic, publisher] = place
        return place

    def _check(self, topic: bytes, publisher: bytes | None) -> None:
        shown = topic[:60].decode(errors="replace")
        if not 1 <= len(topic) <= LENGTH_BYTES_MAX or any(one in topic for one in (b"+", b"#", b"\0")):
            raise BadRow(f"topic {shown!r} in a row: a topic has 1 to {LENGTH_BYTES_MAX} bytes without +, # and NUL")
        if publisher is not None and not 1 <= len(publisher) <= LENGTH_BYTES_MAX:
            raise BadRow(f"a publisher of {len(publisher)} bytes in a row: give 1 to {LENGTH_BYTES_MAX}, or null")
        if not any(matches(topic) for matches in self.filters):
            raise BadRow(
                f"topic {shown!r} in a row is outside of log {self.log.name}, whose filters are "
                f"{', '.join(self.log.generations[-1].filters)}: write it to another log, or reconfigure this one"
            )


def _prefixed(properties: pa.MapArray) -> pa.MapArray:
    """Return properties by the names of their fields, `u:` and theirs."""
    named = pc.binary_join_element_wise(_PREFIX, properties.keys, "")
    made = pa.MapArray.from_arrays(properties.offsets, named, properties.items)
    if not properties.null_count:
        return made
    rows = properties.to_pylist()
    return pa.array([None if row is None else [(f"u:{key}", value) for key, value in row] for row in rows], made.type)
