"""Schemas from a line of text, without the JVM that Spark's own parser needs."""

import re

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

SIMPLE: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "tinyint": ByteType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "long": LongType(),
    "double": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "decimal(10,2)": DecimalType(10, 2),
    "array<int>": ArrayType(IntegerType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,binary>": MapType(StringType(), BinaryType()),
    "pairs": ArrayType(StructType([StructField("field", StringType()), StructField("value", StringType())])),
}


def schema(ddl: str) -> StructType:
    """Return the schema of `name type, name type not null ...`; types are those of SIMPLE."""
    fields = []
    for column in re.split(r", ", ddl):
        name, kind, *rest = column.split(" ")
        fields.append(StructField(name, SIMPLE[kind], not rest))
    return StructType(fields)
