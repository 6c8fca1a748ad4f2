"""The entry point that Spark sees: `format("streamd")`."""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from spark_source.errors import OptionError
from spark_source.settings.options import parse_options

if TYPE_CHECKING:
    from spark_source.reading.batch_reader import StreamdReader
    from spark_source.reading.stream_reader import StreamdStreamReader
    from spark_source.writing.writer import StreamdBatchWriter, StreamdStreamWriter


NO_TABLE = (
    "Spark does not hand the options of a catalog's table to a Python data source when the table is used: make a view, "
    "CREATE TEMPORARY VIEW name USING streamd OPTIONS (stream '...'), which takes INSERT INTO, too"
)


class StreamdSource(DataSource):
    """Streams of a Redis-protocol server as a Spark source and sink, batch and streaming.

    Raises (everywhere): OptionError, one line that names the option, its value and the allowed ones.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if "provider" in options:  # CREATE TABLE without columns asks for the schema
            raise OptionError(NO_TABLE)
        self.is_bare = not options
        self.parsed = parse_options(options)
        self.options = {}  # they may hold a password, and this object is shown in plans

    @classmethod
    def name(cls) -> str:
        return "streamd"

    def schema(self) -> StructType:
        if self.parsed.read.log is not None:
            from spark_source.values.topic_schema import topic_schema

            return topic_schema(self.parsed.read.text)
        from spark_source.values.schema import raw_schema

        return raw_schema(self.parsed.read.text, self.parsed.read.fields, self.parsed.read.value_format)

    def _check_not_bare(self) -> None:
        """Raise OptionError when no option has arrived at all, as from a table of Spark's catalog."""
        if self.is_bare:
            raise OptionError(f"stream is missing, and so are all options: {NO_TABLE}")

    def reader(self, schema: StructType) -> "StreamdReader":
        self._check_not_bare()
        from spark_source.reading.batch_reader import StreamdReader

        return StreamdReader(self.parsed, schema)

    def streamReader(self, schema: StructType) -> "StreamdStreamReader":
        self._check_not_bare()
        from spark_source.reading.stream_reader import StreamdStreamReader

        return StreamdStreamReader(self.parsed, schema)

    def writer(self, schema: StructType, overwrite: bool) -> "StreamdBatchWriter":
        self._check_not_bare()
        from spark_source.writing.writer import StreamdBatchWriter

        return StreamdBatchWriter(self.parsed, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamdStreamWriter":
        self._check_not_bare()
        from spark_source.writing.writer import StreamdStreamWriter

        return StreamdStreamWriter(self.parsed, schema, overwrite)
