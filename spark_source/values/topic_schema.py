"""The columns of a topic log, for queries that read it or publish to it."""

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    IntegralType,
    LongType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_source.errors import OptionError

# What a query without a schema reads.
_USUAL: dict[str, tuple[type[DataType], ...]] = {
    "stream": (StringType,),
    "id": (StringType,),
    "ts": (TimestampType,),
    "seq": (LongType,),
    "topic": (StringType,),
    "publisher": (StringType,),
    "payload": (BinaryType, StringType),
    "properties": (MapType,),
}
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    **_USUAL,
    "qos": (IntegerType,),
    "retain": (BooleanType,),
    "expiry_s": (DoubleType,),
    "payload_format": (IntegerType,),
    "content_type": (StringType,),
    "response_topic": (StringType,),
    "correlation": (BinaryType, StringType),
}
PUBLISHED = tuple(name for name in COLUMNS if name not in ("stream", "id", "ts", "seq"))
# Of rows that are published more types will do.
_WIDER: dict[str, tuple[type[DataType], ...]] = {
    "qos": (IntegralType,),
    "expiry_s": (NumericType,),
    "payload_format": (IntegralType,),
}
_SAID: dict[type[DataType], str] = {IntegralType: "an integer", NumericType: "a number"}


def topic_schema(text: bool) -> StructType:
    """Return the schema of a log for queries without one."""
    kinds = {name: kinds[0]() for name, kinds in _USUAL.items() if name != "properties"}
    if text:
        kinds["payload"] = StringType()
    always = ("stream", "id", "topic", "payload")
    fields = [StructField(name, kind, name not in always) for name, kind in kinds.items()]
    return StructType([*fields, StructField("properties", MapType(StringType(), StringType(), False), False)])


def check_topic_schema(schema: StructType) -> None:
    """Raise OptionError for a column that a log does not have."""
    for column in schema.fields:
        if column.name not in COLUMNS:
            raise OptionError(f"column {column.name} is not in a log, which has {', '.join(COLUMNS)}: cast the payload")
        _check(column, COLUMNS[column.name])


def check_published(schema: StructType) -> None:
    """Raise OptionError for columns that cannot be published as messages."""
    names = schema.fieldNames()
    for name in ("topic", "payload"):
        if name not in names:
            raise OptionError(f"column {name} is missing: a message has topic and payload, and may have publisher")
    for column in schema.fields:
        if column.name not in PUBLISHED:
            raise OptionError(f"column {column.name} cannot be published: select {', '.join(PUBLISHED)}")
        _check(column, _WIDER.get(column.name, COLUMNS[column.name]))


def _check(column: StructField, kinds: tuple[type[DataType], ...]) -> None:
    kind = column.dataType
    wanted = " or ".join(_SAID.get(one) or one().simpleString() for one in kinds if one is not MapType)
    fits = isinstance(kind, kinds)
    if column.name == "properties":
        wanted = "map<string,string>"
        fits = kind.simpleString() == wanted
    if not fits:
        raise OptionError(f"column {column.name} of type {kind.simpleString()} must be {wanted} in a log: cast it")
