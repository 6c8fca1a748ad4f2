"""A Spark data source for streams of the Redis protocol: reads every entry once, writes every row once.

Spark registers it by `spark.dataSource.register(StreamdSource)`; with `pyspark_streamd` on the path
`format("streamd")` needs no registration. Importing this package imports neither Spark nor a Redis client: Spark looks
through every `pyspark_*` package in each session, and an import error here would break every Python source there.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_source.source import StreamdSource

__all__ = ["StreamdSource"]


def __getattr__(name: str) -> object:
    if name == "StreamdSource":
        from spark_source.source import StreamdSource

        return StreamdSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
