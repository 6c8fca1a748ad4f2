"""The columns of a query: the raw form of entries, or the user's own."""

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
    VariantType,
)

from spark_source.errors import OptionError

try:
    from pyspark.sql.types import TimeType
except ImportError:  # before Spark 4.1
    TIMES: tuple[type[DataType], ...] = ()
else:
    TIMES = (TimeType,)

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED: dict[str, DataType] = {
    "_stream": StringType(),
    "_id": StringType(),
    "_ts": TimestampType(),
    "_seq": LongType(),
    "_corrupt": StringType(),
}
"""Columns of a user's schema that are not fields of the entry, unless the option fieldColumns names them."""

NESTED: tuple[type[DataType], ...] = (StructType, ArrayType, MapType, VariantType)
"""Types that a field holds as JSON, with valueFormat=json."""

LEVELS_MAX = 63
"""Structs, arrays and maps within each other: Arrow hands over no more."""

CASTABLE = (
    StringType, BinaryType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, DecimalType,
    DateType, TimestampType, TimestampNTZType, *TIMES,
)  # fmt: skip


def raw_schema(text: bool, fields: str, value_format: str = "text") -> StructType:
    """Return the schema for queries without one: stream, id, ts, seq, and the fields as a map, an array of pairs, or
    (json) a `value` that holds them as a JSON object.
    """
    value: DataType = StringType() if text else BinaryType()
    pairs: DataType
    if value_format == "json":
        pairs = StringType()
    elif fields == "array":
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
            StructField("value" if value_format == "json" else "fields", pairs, False),
        ]
    )


def check_user_schema(schema: StructType, value_format: str = "text", field_columns: tuple[str, ...] = ()) -> None:
    """Raise OptionError for a column that cannot be filled from an entry, or one of `field_columns` that is missing."""
    for name in field_columns:
        if name not in schema.fieldNames():
            raise OptionError(f"fieldColumns names column {name}, the schema only has {', '.join(schema.fieldNames())}")
    for column in schema.fields:
        wanted = None if column.name in field_columns else RESERVED.get(column.name)
        if wanted is not None and column.dataType != wanted:
            raise OptionError(f"column {column.name} must be of type {wanted.simpleString()} in schema")
        if wanted is None:
            doubt = unusable(column.dataType, value_format)
            if doubt:
                raise OptionError(f"column {column.name} of type {doubt}")


def unusable(kind: DataType, value_format: str) -> str | None:
    """Return the reason why a column of a type cannot be a field, or None."""
    if _is_too_deep(kind):
        return f"{kind.typeName()} has parts within parts of more than {LEVELS_MAX} levels, as many as Arrow takes"
    return _doubt(kind, value_format)


def _is_too_deep(kind: DataType) -> bool:
    parts = [kind]
    for _ in range(LEVELS_MAX):
        parts = [one for part in parts for one in _parts(part)]
        if not parts:
            return False
    return any(isinstance(one, NESTED) for one in parts)


def _doubt(kind: DataType, value_format: str) -> str | None:
    shown = kind.simpleString()
    if isinstance(kind, NESTED):
        if value_format != "json":
            return f"{shown} is JSON in its field: set valueFormat=json, or use a string with from_json or to_json"
        for part in _parts(kind):
            doubt = _doubt(part, value_format)
            if doubt:
                return f"{shown} has a part of type {doubt}"
        return None
    return None if isinstance(kind, CASTABLE) else f"{shown} cannot be a field: use a string and cast"


def _parts(kind: DataType) -> list[DataType]:
    if isinstance(kind, StructType):
        return [field.dataType for field in kind.fields]
    if isinstance(kind, MapType):
        return [kind.keyType, kind.valueType]
    return [kind.elementType] if isinstance(kind, ArrayType) else []


def arrow_schema(schema: StructType) -> "pa.Schema":
    """Return the Arrow schema of `schema` that Spark requires of record batches, and uses for its own."""
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # Spark 4.0 and 4.1: always UTC
        return to_arrow_schema(schema)
