"""Lets Spark find the source by name: it takes `DefaultSource` of every importable package called `pyspark_*`."""

from spark_source import StreamdSource as DefaultSource  # noqa: F401
