"""The demo: retrying producers, a stream, a killed Spark job, and a count of what was lost or duplicated."""
