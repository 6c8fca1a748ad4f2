"""Which columns a query gets: the raw form of entries, or the user's own columns."""

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_source.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED: dict[str, DataType] = {
    "_stream": StringType(),
    "_id": StringType(),
    "_ts": TimestampType(),
    "_seq": LongType(),
    "_corrupt": StringType(),
}
"""Columns of a user's schema that are not fields of the entry."""

CASTABLE = (
    StringType, BinaryType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType,
    DateType, TimestampType, TimestampNTZType,
)  # fmt: skip


def raw_schema(text: bool, fields: str) -> StructType:
    """Return the schema without a user's: stream, id, ts, seq, and the fields as a map or an array of pairs."""
    value: DataType = StringType() if text else BinaryType()
    pairs: DataType
    if fields == "array":
        pairs = ArrayType(
            StructType([StructField("field", StringType(), False), StructField("value", value, False)]), False
        )
    else:
        pairs = MapType(StringType(), value, False)
    return StructType(
        [
            StructField("stream", StringType(), False),
            StructField("id", StringType(), False),
            StructField("ts", TimestampType()),
            StructField("seq", LongType()),
            StructField("fields", pairs, False),
        ]
    )


def check_user_schema(schema: StructType) -> None:
    """Raise OptionError for a column that cannot be filled from an entry."""
    for column in schema.fields:
        wanted = RESERVED.get(column.name)
        if wanted is not None and column.dataType != wanted:
            raise OptionError(f"column {column.name} must be of type {wanted.simpleString()} in schema")
        if wanted is None and not isinstance(column.dataType, CASTABLE):
            raise OptionError(
                f"column {column.name} of type {column.dataType.simpleString()} cannot be read from a field: "
                "declare it as string in schema and use from_json"
            )


def arrow_schema(schema: StructType) -> "pa.Schema":
    """Return the Arrow schema that Spark wants record batches of `schema` to have, and itself hands out."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # Spark 4.0 and 4.1: always UTC
        return to_arrow_schema(schema)
